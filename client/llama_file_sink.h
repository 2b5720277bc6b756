// A file of llama.cpp on disk, as a sink of its bytes. The file has its name once it is committed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/llama_state/llama_state_writer.h"
#include "client/whole_file.h"
#include "shm/error.h"

namespace kvd {

class LlamaFileSink final : public LlamaSink {
 public:
  explicit LlamaFileSink(std::string path) : path_(std::move(path)) {}

  // Errors: WholeFileWriter::Create's; of the others kIo.
  Status Begin(std::uint64_t) override {
    writer_.reset();  // what an earlier attempt has written goes
    KVD_TRY(WholeFileWriter writer, WholeFileWriter::Create(path_));
    writer_.emplace(std::move(writer));
    return {};
  }
  Status Write(std::span<const std::byte> bytes) override { return writer_->Write(bytes); }
  // REQUIRES: the file was written.
  Status Commit() { return writer_->Commit(); }

 private:
  const std::string path_;
  std::optional<WholeFileWriter> writer_;
};

}  // namespace kvd
