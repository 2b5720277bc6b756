// A sink that writes a state file of llama.cpp to disk. The state file appears under its path when
// LlamaFileSink::Commit is called.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/whole_file.h"
#include "llama_files/llama_state_writer.h"

namespace kvd {

class LlamaFileSink final : public LlamaSink {
 public:
  explicit LlamaFileSink(std::string path) : path_(std::move(path)) {}

  // Errors: those of WholeFileWriter::Create; the other functions: kIo, kNoSpace.
  Status Begin(std::uint64_t) override {
    writer_.reset();  // the reset discards the bytes that an earlier attempt has written
    KVD_TRY(WholeFileWriter writer, WholeFileWriter::Create(path_));
    writer_.emplace(std::move(writer));
    return {};
  }
  Status Write(std::span<const std::byte> bytes) override { return writer_->Write(bytes); }
  // Errors: those of WholeFileWriter::Commit. REQUIRES: WriteLlamaState has written the whole file.
  Status Commit(ExistingFile existing = ExistingFile::kReplace) {
    return writer_->Commit(existing);
  }

 private:
  const std::string path_;
  std::optional<WholeFileWriter> writer_;
};

}  // namespace kvd
