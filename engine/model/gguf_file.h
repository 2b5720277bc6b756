// A GGUF model file, validated completely before its weights are mapped.
//
// A `GgufFile` is immutable after creation; any thread may read it. A `GgufFile` owns a private
// copy of the file's header (metadata and tensor table) and a read-only mapping of the file. Every
// `GgufTensor` and `string_view` that a `GgufFile` returns points into the copy or the mapping and
// is valid as long as the object lives; moving the object keeps the pointers valid.
//
// Before the file is mapped, the following is checked: magic, version, counts, every length against
// the bytes that the file really has (no allocation is sized by a declared number alone), value and
// array types, that keys and tensor names are unique, alignment, dimensions and their product, row
// lengths against the block of the type, and that all tensors lie inside the file without overlap.
// The header is read once into private memory, so a process that rewrites the file later cannot
// change validated data. The weights are neither copied nor read at the start: the kernel reads a
// page when it is first used. Therefore:
//   * If a mapped file shrinks, the next access to a lost page raises SIGBUS. Replace model files
//     by rename, never in place.
//   * If a mapped file is rewritten in place, the weights change for the reader. Any bit pattern is
//     a valid weight.
//
// A model may be divided into several files, its parts (gguf_parts.h). The joined parts are one
// GgufFile with the metadata of the first part and the tensors of all parts.
//
// Format: ggml/docs/gguf.md of ggml. Tensor types are the numbers of ggml.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model/weight_reader.h"
#include "kernels/data_type.h"

namespace kvd {

struct GgufHeader;

// The alignment of tensors in a file without the key general.alignment.
inline constexpr std::uint32_t kGgufAlignment = 32;

// The value types of GGUF metadata. The numbers are those of the file.
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

// "u32", "string", ...; "unknown" for any other number.
std::string_view GgufTypeName(GgufType type);

// Text from a file, for a message: at most 80 bytes; bytes that are not printable ASCII become
// \xNN.
std::string PrintableText(std::string_view text);

// One metadata entry, as the file stores it.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kU8;          // kArray for an array
  GgufType element_type = GgufType::kU8;  // type of an array's elements; else `type`
  std::uint64_t count = 1;                // number of elements of an array; otherwise 1
  std::span<const std::byte> value;  // bytes of the value; for an array without its type and count
};

struct GgufTensor {
  std::string_view name;
  kernels::DataType type = kernels::DataType::kF32;
  std::uint32_t rank = 0;                            // 1 to 4
  std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};  // elements, fastest first; 1 beyond the rank
  std::uint64_t byte_offset = 0;                     // from the start of the file (of its part)
  std::uint64_t bytes = 0;
  const std::byte* data = nullptr;  // aligned to the file's alignment, which is at least 8
};

// Releases the storage of a file's bytes: a mapping, a heap copy, or borrowed bytes, which it does
// not free.
struct ReleaseGgufBytes {
  enum class Kind { kBorrowed, kMapped, kHeap } kind = Kind::kBorrowed;
  std::size_t bytes = 0;

  void operator()(const std::byte* storage) const;
};

class GgufFile {
 public:
  // Limits on the numbers that a file may declare; real files are far below them.
  static constexpr std::uint64_t kEntryCountMax = 1u << 16;
  static constexpr std::uint64_t kTensorCountMax = 1u << 16;
  static constexpr std::uint64_t kKeyBytesMax = 65535;
  static constexpr std::uint64_t kTensorNameBytesMax = 64;
  static constexpr std::uint64_t kHeaderBytesMax = 1u << 28;
  static constexpr std::uint64_t kAlignmentMax = 1u << 20;

  // Opens a regular file. Errors: kNotFound, kPermission or kIo from the system; kInvalidArgument
  // (not a regular file); kUnsupported (version, byte order, tensor type); kCorrupt (anything else;
  // the message names the key or tensor, the number found and the limit).
  static Result<GgufFile> Open(const std::string& path);

  // Reads a file from bytes that outlive the result, such as a model linked into the binary. The
  // bytes are not copied. Errors: as Open; kInvalidArgument (the address is not a multiple of 32).
  static Result<GgufFile> FromStaticBytes(std::span<const std::byte> bytes);

  // Reads a file from a private copy of `bytes`. Errors: as Open; kNoSpace (no memory for the
  // copy).
  static Result<GgufFile> FromBytes(std::span<const std::byte> bytes);

  // Joins the parts of one model, in their order: the metadata, version and alignment of the first
  // part, the tensors of all. Errors: kCorrupt (two parts have a tensor of the same name).
  // REQUIRES: at least one part.
  static Result<GgufFile> Join(std::vector<GgufFile> parts);

  GgufFile(GgufFile&&) noexcept = default;
  GgufFile& operator=(GgufFile&&) noexcept = default;
  ~GgufFile();

  // Metadata. A missing key is kNotFound. A value that has another type or does not fit is
  // kCorrupt; the message names the key, the wanted type and the type found. Integer getters accept
  // any integer type whose value fits. GetF32 accepts f32 and f64. GetBool accepts bool only.
  // `...Or` returns the fallback only if the key is missing.
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
  // The views point into the header and are valid as long as this object lives.
  Result<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  Result<std::vector<std::uint32_t>> GetU32Array(std::string_view key) const;
  Result<std::vector<std::int32_t>> GetI32Array(std::string_view key) const;
  Result<std::vector<float>> GetF32Array(std::string_view key) const;
  Result<std::vector<bool>> GetBoolArray(std::string_view key) const;
  Result<std::uint64_t> GetArrayCount(std::string_view key) const;

  // All entries and tensors, in the file's order.
  std::span<const GgufEntry> entries() const { return entries_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }
  // Returns the entry with this key; null if the file has no such entry.
  const GgufEntry* FindEntry(std::string_view key) const;
  const GgufTensor* FindTensor(std::string_view name) const;
  // The tensors sorted by name. REQUIRES: rank < tensors().size().
  const GgufTensor& tensor_by_name(std::size_t rank) const {
    return tensors_[tensors_by_name_[rank]];
  }

  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  // The bytes of all parts together.
  std::uint64_t file_bytes() const;

  // The following functions have no effect on bytes that are not mapped. Any thread may call them.

  // Declares which pages the kernel reads when a page is used that is not in memory: kNormal: also
  // those that follow; kRandom: that page alone.
  enum class Access { kNormal, kRandom };
  void Advise(Access access) const;
  // Starts reading the pages of a range into memory and does not wait for them. REQUIRES: the range
  // belongs to one tensor.
  void StartReading(std::span<const std::byte> range) const;
  // A reader of the mapped bytes of all parts.
  WeightReader weight_reader() const;
  // Keeps every page that is in memory or that is read later in memory until the object is
  // destroyed. Reads nothing. Errors: kNoSpace (the system refuses, usually because of
  // RLIMIT_MEMLOCK; no page is locked).
  Status Lock() const;

 private:
  using Storage = std::shared_ptr<const std::byte>;  // its deleter is a ReleaseGgufBytes

  // The bytes of a file.
  struct Part {
    std::vector<std::byte> header;  // empty if the bytes are borrowed or on the heap
    Storage storage;
    std::uint64_t file_bytes = 0;
  };

  GgufFile() = default;
  // Parses `bytes`, a whole file that `storage` holds.
  static Result<GgufFile> FromBorrowedOrHeap(Storage storage, std::span<const std::byte> bytes);
  // Takes a validated header and sets each tensor's data pointer into the part's storage.
  void Adopt(GgufHeader header, Part part);

  std::vector<Part> parts_;  // one, or after Join several
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<GgufTensor> tensors_;
  std::vector<std::uint32_t> entries_by_key_;   // indices into entries_, sorted by key
  std::vector<std::uint32_t> tensors_by_name_;  // indices into tensors_, sorted by name
};

}  // namespace kvd
