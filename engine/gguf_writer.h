// Writes GGUF v3: metadata and tensor table first, then each tensor's bytes as its producer streams
// them.
//
// For tools and tests; single-threaded. The order is: Add... all metadata, AddTensor for all
// tensors, then WriteFile or ToBytes. Keys and names are the caller's own: nothing is validated
// here but what would make the file unreadable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf_file.h"
#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

// Takes the bytes of one tensor, in any number of pieces.
class GgufSink {
 public:
  virtual ~GgufSink() = default;
  virtual Status Append(std::span<const std::byte> bytes) = 0;
};

class GgufWriter {
 public:
  // Appends exactly tensor_bytes(index) bytes to the sink.
  using Producer = std::function<Status(std::size_t index, GgufSink& sink)>;

  // `alignment`: a power of two from 8; written as general.alignment unless it is the default 32.
  explicit GgufWriter(std::uint32_t alignment = 32);

  void AddU32(std::string_view key, std::uint32_t value);
  void AddI32(std::string_view key, std::int32_t value);
  void AddU64(std::string_view key, std::uint64_t value);
  void AddF32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddU32Array(std::string_view key, std::span<const std::uint32_t> values);
  void AddI32Array(std::string_view key, std::span<const std::int32_t> values);
  void AddF32Array(std::string_view key, std::span<const float> values);
  void AddBoolArray(std::string_view key, const std::vector<bool>& values);
  void AddStringArray(std::string_view key, std::span<const std::string_view> values);
  // An entry of another file, as it is.
  void AddEntry(const GgufEntry& entry);

  // `dims` as GGUF orders them, fastest first; 1 to 4 of them. Returns the tensor's index.
  // REQUIRES: dims[0] is a multiple of the type's block.
  std::size_t AddTensor(std::string_view name, kernels::DataType type,
                        std::span<const std::uint64_t> dims);

  std::size_t tensor_count() const { return tensors_.size(); }
  std::uint64_t tensor_bytes(std::size_t index) const { return tensors_[index].bytes; }

  // Writes PATH.tmp and renames it to PATH. Errors: kIo or kNoSpace from the system, those of the
  // producer, kInternal when it appends another number of bytes than the tensor has.
  Status WriteFile(const std::string& path, const Producer& producer) const;
  Result<std::vector<std::byte>> ToBytes(const Producer& producer) const;

 private:
  struct Tensor {
    std::string name;
    kernels::DataType type;
    std::vector<std::uint64_t> dims;
    std::uint64_t bytes;
  };

  void Begin(std::string_view key, GgufType type);
  void BeginArray(std::string_view key, GgufType element_type, std::uint64_t count);
  void AppendString(std::string_view text);
  void AppendRaw(const void* data, std::size_t bytes);
  std::vector<std::byte> Header() const;
  Status Stream(GgufSink& sink, const Producer& producer) const;

  std::uint32_t alignment_;
  std::uint64_t entry_count_ = 0;
  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvd
