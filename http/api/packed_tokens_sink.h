// PackedTokensSink: rewrites a sequence file of llama.cpp while it is written, so that its tokens
// are packed as llama-server's slot files have them (llama_files/llama_state_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "llama_files/llama_state_writer.h"

namespace kvd::http {

// The bytes that packing adds to a file.
inline constexpr std::uint64_t kPackedTokensBytes = 16;

class PackedTokensSink final : public LlamaSink {
 public:
  // The inner sink must outlive this one. REQUIRES: the file is a sequence file.
  explicit PackedTokensSink(LlamaSink& inner) : inner_(inner) {}

  Status Begin(std::uint64_t file_bytes) override;
  Status Write(std::span<const std::byte> bytes) override;

 private:
  Status WriteHead();

  LlamaSink& inner_;
  std::vector<std::byte> head_;    // the file's head, until it is whole
  std::uint64_t token_bytes_ = 0;  // still to come
  bool is_behind_tokens_ = false;  // the end of the packed list is written
};

}  // namespace kvd::http
