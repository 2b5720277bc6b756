// Writes GGUF v3: first metadata and tensor table, then the bytes of each tensor as a producer
// supplies them.
//
// Tools and tests use the writer, each from one thread. Call Add... for all metadata, then
// AddTensor for all tensors, then WriteFile or ToBytes. The writer does not validate keys, names
// and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"
#include "kernels/data_type.h"

namespace kvd {

// Receives the bytes of one tensor, in any number of parts.
class GgufSink {
 public:
  virtual ~GgufSink() = default;
  virtual Status Append(std::span<const std::byte> bytes) = 0;
  // Appends zeros. In a file they are a hole, which takes no room on the disk.
  virtual Status AppendHole(std::uint64_t bytes) = 0;
};

class GgufWriter {
 public:
  // Appends exactly tensor_bytes(index) bytes to the sink.
  using Producer = std::function<Status(std::size_t index, GgufSink& sink)>;

  // `alignment`: a power of two, at least 8. The alignment is written as general.alignment unless
  // it is the default 32.
  explicit GgufWriter(std::uint32_t alignment = kGgufAlignment);

  void AddU16(std::string_view key, std::uint16_t value);
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
  // Copies an entry of another file unchanged.
  void AddEntry(const GgufEntry& entry);

  // `dims`: 1 to 4 numbers in GGUF's order, fastest first. Returns the tensor's index. REQUIRES:
  // dims[0] is a multiple of the type's block.
  std::size_t AddTensor(std::string_view name, kernels::DataType type,
                        std::span<const std::uint64_t> dims);

  std::size_t tensor_count() const { return tensors_.size(); }
  std::uint64_t tensor_bytes(std::size_t index) const { return tensors_[index].bytes; }

  // Writes PATH.tmp and renames it to PATH. Errors: kIo or kNoSpace from the system; the producer's
  // errors; kInternal (the producer appends another number of bytes than tensor_bytes(index)).
  Status WriteFile(const std::string& path, const Producer& producer) const;
  // Writes the tensors to `part_count` files of similar size, the parts of one model
  // (gguf_parts.h): PATH-00001-of-0000N.gguf and so on, without the ".gguf" at the end of `path`.
  // Returns their paths. The producer is called in the same order as for one file. Errors: those of
  // WriteFile; parts that were written stay. REQUIRES: part_count is 1 to kPartCountMax.
  Result<std::vector<std::string>> WriteParts(const std::string& path, std::uint32_t part_count,
                                              const Producer& producer) const;
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
  // Adds the keys of a part.
  void AddPartKeys(std::uint32_t number, std::uint32_t count, std::size_t all_tensors);
  Status Stream(GgufSink& sink, const Producer& producer) const;

  std::uint32_t alignment_;
  std::uint64_t entry_count_ = 0;
  std::vector<std::byte> metadata_;
  std::vector<Tensor> tensors_;
};

}  // namespace kvd
