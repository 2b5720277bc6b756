// A GGUF model file, validated completely before its weights are mapped.
//
// `GgufFile` is immutable after it was made and may be read from any thread. It owns a private copy
// of the file's header (metadata and tensor table) and a read-only mapping of the file;
// `GgufTensor` and every `string_view` it hands out point into these two and live as long as it
// does (moving the object keeps them valid).
//
// What is checked before mapping: magic, version, counts, every length against the bytes that the
// file really has (nothing is allocated from a declared number alone), value and array types,
// unique keys and tensor names, alignment, dimensions and their product, row lengths against the
// block of the type, and that all tensors lie inside the file without overlapping. The header is
// read once into private memory, so a process that rewrites the file later cannot change what was
// validated; the weights are not copied, so:
//   * a file that shrinks while it is mapped makes the next access to a lost page a SIGBUS. Replace
//   model files by
//     rename, never in place.
//   * a file that is rewritten in place changes the weights under the reader (any bit pattern is a
//   valid weight).
//
// Format: ggml/docs/gguf.md of ggml; types by their ggml numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data_type.h"
#include "shm/error.h"

namespace kvd {

struct GgufHeader;

// The value types of GGUF metadata, by their numbers in the file.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u32", "string", ...; "unknown" for a number that is none of them.
std::string_view GgufTypeName(GgufType type);

// Text of a file for a message: at most 80 bytes, everything but printable ASCII as \xNN.
std::string PrintableText(std::string_view text);

// One metadata entry as it lies in the file.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;          // kArray for an array
  GgufType element_type = GgufType::kU8;  // of an array's elements, else equal to `type`
  std::uint64_t count = 1;                // elements of an array, else 1
  std::span<const std::byte> value;  // the value's bytes; of an array without its type and count
};

struct GgufTensor {
  std::string_view name;
  kernels::DataType type = kernels::DataType::kF32;
  std::uint32_t rank = 0;                            // 1 to 4
  std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};  // elements, fastest first; 1 beyond the rank
  std::uint64_t byte_offset = 0;                     // from the start of the file
  std::uint64_t bytes = 0;
  const std::byte* data = nullptr;  // aligned to the file's alignment, at least 8
};

// Frees what holds a file's bytes: a mapping, a heap copy, or nothing (bytes that someone else
// owns).
struct ReleaseGgufBytes {
  enum class Kind { kBorrowed, kMapped, kHeap } kind = Kind::kBorrowed;
  std::size_t bytes = 0;

  void operator()(const std::byte* storage) const;
};

class GgufFile {
 public:
  // Limits on what a file may declare; real files stay far below.
  static constexpr std::uint64_t kEntryCountMax = 1u << 16;
  static constexpr std::uint64_t kTensorCountMax = 1u << 16;
  static constexpr std::uint64_t kKeyBytesMax = 65535;
  static constexpr std::uint64_t kTensorNameBytesMax = 64;
  static constexpr std::uint64_t kHeaderBytesMax = 1u << 28;
  static constexpr std::uint64_t kAlignmentMax = 1u << 20;

  // Opens a regular file. Errors: kNotFound/kPermission/kIo from the system, kUnsupported (version,
  // byte order, tensor type), kCorrupt (anything else; the message names the key or tensor, the
  // number found and the limit).
  static Result<GgufFile> Open(const std::string& path);

  // The same over bytes that outlive the result, such as a model linked into the binary: nothing is
  // copied. kInvalidArgument unless the address is a multiple of 32.
  static Result<GgufFile> FromStaticBytes(std::span<const std::byte> bytes);

  // The same over a private copy of `bytes`.
  static Result<GgufFile> FromBytes(std::span<const std::byte> bytes);

  GgufFile(GgufFile&&) noexcept = default;
  GgufFile& operator=(GgufFile&&) noexcept = default;
  ~GgufFile();

  // Metadata. A missing key is kNotFound; a value of another type, or one that does not fit, is
  // kCorrupt and the message names the key, the type wanted and the type found. Integer getters
  // take any integer type whose value fits; GetF32 takes f32 and f64; GetBool takes bool only.
  // `...Or` returns the fallback for a missing key, and only then.
  bool Has(std::string_view key) const { return FindEntry(key) != nullptr; }
  Result<std::uint32_t> GetU32(std::string_view key) const;
  Result<std::uint64_t> GetU64(std::string_view key) const;
  Result<std::int32_t> GetI32(std::string_view key) const;
  Result<float> GetF32(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  Result<std::uint32_t> GetU32Or(std::string_view key, std::uint32_t fallback) const;
  Result<std::uint64_t> GetU64Or(std::string_view key, std::uint64_t fallback) const;
  Result<std::int32_t> GetI32Or(std::string_view key, std::int32_t fallback) const;
  Result<float> GetF32Or(std::string_view key, float fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;
  // The strings' bytes stay in the header: the views live as long as this object.
  Result<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  Result<std::vector<std::uint32_t>> GetU32Array(std::string_view key) const;
  Result<std::vector<std::int32_t>> GetI32Array(std::string_view key) const;
  Result<std::vector<float>> GetF32Array(std::string_view key) const;
  Result<std::vector<bool>> GetBoolArray(std::string_view key) const;
  Result<std::uint64_t> GetArrayCount(std::string_view key) const;

  // All entries and tensors in the file's order.
  std::span<const GgufEntry> entries() const { return entries_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // Null when there is none.
  const GgufEntry* FindEntry(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;
  // The tensors in the order of their names. REQUIRES: rank < tensors().size().
  const GgufTensor& tensor_by_name(std::size_t rank) const {
    return tensors_[tensors_by_name_[rank]];
  }

  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

  // Brings a mapped file into memory and into this process's page tables, piece by piece until told
  // to stop, so that no step waits for its pages one by one. Does nothing to other files, to one
  // that is larger than three quarters of the machine's memory, and before Linux 5.14.
  void BringIn(const std::stop_token& stop) const;

 private:
  using Storage = std::unique_ptr<const std::byte, ReleaseGgufBytes>;

  GgufFile() = default;
  // Parses `bytes`, the whole file, which `storage` holds.
  static Result<GgufFile> FromBorrowedOrHeap(Storage storage, std::span<const std::byte> bytes);
  // Takes over a validated header and finds the tensors' data in `storage`.
  void Adopt(GgufHeader header, Storage storage, std::uint64_t file_bytes);

  std::vector<std::byte> header_;  // empty when the bytes are borrowed or on the heap
  Storage storage_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> entries_by_key_;   // indices into entries_, sorted by key
  std::vector<std::uint32_t> tensors_by_name_;  // indices into tensors_, sorted by name
};

}  // namespace kvd
