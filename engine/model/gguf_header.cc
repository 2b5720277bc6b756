// Every read uses Cursor::Take, which compares the requested bytes with the bytes that the file
// really has before memory is allocated or bytes are skipped. A count is accepted only if count *
// (least bytes per item) fits into the rest of the file.
#include "engine/model/gguf_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>

namespace kvd {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read without byte swapping");

constexpr std::uint32_t kMagic = 0x46554747;             // "GGUF" as a little-endian number
constexpr std::uint64_t kEntryBytesMin = 8 + 1 + 4 + 1;  // key length, key, type, value
constexpr std::uint64_t kTensorBytesMin =
    8 + 1 + 4 + 8 + 4 + 8;  // name, rank, one dimension, type, offset

class Cursor {
 public:
  Cursor(std::span<const std::byte> window, std::uint64_t file_bytes)
      : window_(window), file_bytes_(file_bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return file_bytes_ - position_; }
  // Whether the last failure only means that the window is shorter than the header.
  bool window_ended() const { return window_ended_; }

  // Takes the next bytes of `what`, or of its part `part`. The name is joined only for a message,
  // because a header has hundreds of thousands of strings.
  Result<std::span<const std::byte>> Take(std::uint64_t bytes, std::string_view what,
                                          std::string_view part = "") {
    if (bytes > remaining()) {
      return Fail(Code::kCorrupt, what, part, ": ", bytes, " bytes needed at offset ", position_,
                  ", the file has ", remaining(), " left");
    }
    if (bytes > GgufFile::kHeaderBytesMax - position_) {
      return Fail(Code::kCorrupt, what, part, ": the header is longer than ",
                  GgufFile::kHeaderBytesMax, " bytes");
    }
    if (bytes > window_.size() - position_) {
      window_ended_ = true;
      return Fail(Code::kInternal, what, part, ": beyond the window");
    }
    auto taken = window_.subspan(position_, bytes);
    position_ += bytes;
    return taken;
  }

  template <class T>
  Result<T> Read(std::string_view what, std::string_view part = "") {
    KVD_TRY(auto bytes, Take(sizeof(T), what, part));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  Result<std::string_view> ReadString(std::uint64_t bytes_max, std::string_view what) {
    KVD_TRY(auto bytes, Read<std::uint64_t>(what, ", length"));
    if (bytes > bytes_max) {
      return Fail(Code::kCorrupt, what, ": ", bytes, " bytes long, at most ", bytes_max);
    }
    KVD_TRY(auto text, Take(bytes, what));
    return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
  }

 private:
  std::span<const std::byte> window_;
  std::uint64_t file_bytes_;
  std::uint64_t position_ = 0;  // at most min(window_.size(), kHeaderBytesMax)
  bool window_ended_ = false;
};

std::string Number(std::uint64_t number) { return std::to_string(number); }

// Checks a name. Names are used in messages and for look-ups, so they must be printable ASCII and
// not empty.
Status ValidateName(std::string_view name, const std::string& what) {
  if (name.empty()) return Fail(Code::kCorrupt, what, ": empty");
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] < 0x21 || name[i] > 0x7e) {
      return Fail(Code::kCorrupt, what, ": byte ", Number(static_cast<unsigned char>(name[i])),
                  " at ", Number(i), " is not printable ASCII");
    }
  }
  return {};
}

Status ValidateBools(std::span<const std::byte> bytes, const std::string& what) {
  for (std::byte value : bytes) {
    if (value > std::byte{1}) {
      return Fail(Code::kCorrupt, what, ": a bool is ", Number(std::to_integer<unsigned>(value)),
                  ", not 0 or 1");
    }
  }
  return {};
}

// Reads `entry.count` values of `entry.element_type` and sets `entry.value` to their bytes.
Status ReadValues(Cursor& cursor, std::span<const std::byte> window, GgufEntry& entry,
                  const std::string& what) {
  std::uint64_t begin = cursor.position();
  if (entry.element_type == GgufType::kString) {
    if (entry.count > cursor.remaining() / sizeof(std::uint64_t)) {
      return Fail(Code::kCorrupt, what, ": ", Number(entry.count), " strings, the file has ",
                  Number(cursor.remaining()), " bytes left");
    }
    for (std::uint64_t i = 0; i < entry.count; ++i) {
      KVD_CHECK_OK(cursor.ReadString(std::numeric_limits<std::uint64_t>::max(), what));
    }
    entry.value = window.subspan(begin, cursor.position() - begin);
    return {};
  }
  std::size_t element_bytes = GgufTypeBytes(entry.element_type);
  if (element_bytes == 0) {
    if (entry.element_type == GgufType::kArray) {
      return Fail(Code::kUnsupported, what, ": arrays of arrays are not supported");
    }
    return Fail(Code::kCorrupt, what, ": value type ",
                Number(static_cast<std::uint32_t>(entry.element_type)), " is unknown");
  }
  if (entry.count > cursor.remaining() / element_bytes) {
    return Fail(Code::kCorrupt, what, ": ", Number(entry.count), " elements, the file has ",
                Number(cursor.remaining()), " bytes left");
  }
  KVD_TRY(entry.value, cursor.Take(entry.count * element_bytes, what));
  if (entry.element_type == GgufType::kBool) return ValidateBools(entry.value, what);
  return {};
}

Result<GgufEntry> ReadEntry(Cursor& cursor, std::span<const std::byte> window,
                            std::uint64_t index) {
  GgufEntry entry;
  std::string what = "metadata key " + Number(index);
  KVD_TRY(entry.key, cursor.ReadString(GgufFile::kKeyBytesMax, what));
  KVD_CHECK_OK(ValidateName(entry.key, what));
  what = PrintableText(entry.key);
  KVD_TRY(auto type, cursor.Read<std::uint32_t>(what, ", type"));
  entry.type = static_cast<GgufType>(type);
  entry.element_type = entry.type;
  if (entry.type == GgufType::kArray) {
    KVD_TRY(auto element_type, cursor.Read<std::uint32_t>(what, ", element type"));
    entry.element_type = static_cast<GgufType>(element_type);
    KVD_TRY(entry.count, cursor.Read<std::uint64_t>(what, ", count"));
  }
  KVD_CHECK_OK(ReadValues(cursor, window, entry, what));
  return entry;
}

// Computes the bytes of a tensor; every product is checked for overflow.
Status ComputeBytes(GgufTensor& tensor, const std::string& what) {
  std::uint64_t elements = 1;
  for (std::uint32_t d = 0; d < tensor.rank; ++d) {
    if (tensor.dims[d] == 0) return Fail(Code::kCorrupt, what, ": dimension ", Number(d), " is 0");
    if (__builtin_mul_overflow(elements, tensor.dims[d], &elements) ||
        elements > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return Fail(Code::kCorrupt, what, ": the product of its dimensions overflows");
    }
  }
  std::uint64_t block = kernels::ElementsPerBlock(tensor.type);
  if (tensor.dims[0] % block != 0) {
    return Fail(Code::kCorrupt, what, ": rows of ", Number(tensor.dims[0]),
                " elements are not a multiple of ", Number(block), ", the block of ",
                kernels::DataTypeName(tensor.type));
  }
  if (__builtin_mul_overflow(elements / block, std::uint64_t{kernels::BytesPerBlock(tensor.type)},
                             &tensor.bytes)) {
    return Fail(Code::kCorrupt, what, ": its size in bytes overflows");
  }
  return {};
}

// Reads one tensor. The `byte_offset` of the returned tensor is relative to the data section, whose
// place is not known yet.
Result<GgufTensor> ReadTensor(Cursor& cursor, std::uint64_t index) {
  GgufTensor tensor;
  std::string what = "tensor " + Number(index);
  KVD_TRY(tensor.name, cursor.ReadString(GgufFile::kTensorNameBytesMax, what + ", name"));
  KVD_CHECK_OK(ValidateName(tensor.name, what + ", name"));
  what = "tensor " + std::string(tensor.name);
  KVD_TRY(tensor.rank, cursor.Read<std::uint32_t>(what, ", rank"));
  if (tensor.rank < 1 || tensor.rank > 4) {
    return Fail(Code::kCorrupt, what, ": ", Number(tensor.rank), " dimensions, must be 1 to 4");
  }
  for (std::uint32_t d = 0; d < tensor.rank; ++d) {
    KVD_TRY(tensor.dims[d], cursor.Read<std::uint64_t>(what, ", dimensions"));
  }
  KVD_TRY(auto type, cursor.Read<std::uint32_t>(what, ", type"));
  if (!kernels::IsDataType(type)) {
    std::string names;
    for (const kernels::DataType known : kernels::kDataTypes) {
      names += std::string(" ") + kernels::DataTypeName(known);
    }
    return Fail(Code::kUnsupported, what, ": ggml type ", Number(type),
                " is not supported; supported:", names);
  }
  tensor.type = static_cast<kernels::DataType>(type);
  KVD_TRY(tensor.byte_offset, cursor.Read<std::uint64_t>(what, ", offset"));
  KVD_CHECK_OK(ComputeBytes(tensor, what));
  return tensor;
}

// Indices of `items` sorted by `name`. Errors: kCorrupt (two names are equal).
template <class Item, class Name>
Result<std::vector<std::uint32_t>> SortUnique(const std::vector<Item>& items, Name name,
                                              const char* what) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return name(items[i]); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (name(items[order[i - 1]]) == name(items[order[i]])) {
      return Fail(Code::kCorrupt, what, " ", PrintableText(name(items[order[i]])),
                  " appears twice");
    }
  }
  return order;
}

Result<std::uint64_t> ReadAlignment(const GgufHeader& header) {
  for (const GgufEntry& entry : header.entries) {
    if (entry.key != "general.alignment") continue;
    if (entry.type != GgufType::kU32) {
      return Fail(Code::kCorrupt, "general.alignment: must be u32, is ", GgufTypeName(entry.type));
    }
    std::uint32_t alignment = 0;
    std::memcpy(&alignment, entry.value.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment < 8 || alignment > GgufFile::kAlignmentMax) {
      return Fail(Code::kCorrupt, "general.alignment: ", Number(alignment),
                  ", must be a power of two from 8 to ", Number(GgufFile::kAlignmentMax));
    }
    return alignment;
  }
  return kGgufAlignment;
}

// Converts the offsets of tensors from offsets within the data section to offsets in the file, and
// checks that the tensors lie inside the file without overlap.
Status PlaceTensors(GgufHeader& header, std::uint64_t file_bytes) {
  // The sum cannot overflow, because header_bytes is at most kHeaderBytesMax.
  std::uint64_t data_begin =
      (header.header_bytes + header.alignment - 1) / header.alignment * header.alignment;
  for (GgufTensor& tensor : header.tensors) {
    std::string what = "tensor " + std::string(tensor.name);
    if (tensor.byte_offset % header.alignment != 0) {
      return Fail(Code::kCorrupt, what, ": offset ", Number(tensor.byte_offset),
                  " is not a multiple of the alignment ", Number(header.alignment));
    }
    std::uint64_t data_bytes = file_bytes > data_begin ? file_bytes - data_begin : 0;
    if (tensor.byte_offset > data_bytes || tensor.bytes > data_bytes - tensor.byte_offset) {
      return Fail(Code::kCorrupt, what, ": ", Number(tensor.bytes), " bytes at offset ",
                  Number(tensor.byte_offset), ", the data section has ", Number(data_bytes));
    }
    tensor.byte_offset += data_begin;
  }
  std::vector<std::uint32_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return header.tensors[i].byte_offset; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = header.tensors[order[i - 1]];
    const GgufTensor& after = header.tensors[order[i]];
    if (before.byte_offset + before.bytes > after.byte_offset) {
      return Fail(Code::kCorrupt, "tensor ", after.name, ": overlaps tensor ", before.name);
    }
  }
  return {};
}

Status ValidateVersion(std::uint32_t version) {
  if (version == 2 || version == 3) return {};
  if ((version & 0xffff) == 0 && version != 0) {
    return Fail(Code::kUnsupported, "version: the file is big-endian, which is not supported");
  }
  return Fail(Code::kUnsupported, "version: ", Number(version), ", must be 2 or 3");
}

Status ValidateCount(std::uint64_t count, std::uint64_t count_max, std::uint64_t item_bytes_min,
                     std::uint64_t remaining, const char* what) {
  if (count > count_max) {
    return Fail(Code::kCorrupt, what, ": ", Number(count), ", at most ", Number(count_max));
  }
  if (count > remaining / item_bytes_min) {
    return Fail(Code::kCorrupt, what, ": ", Number(count), ", the file has ", Number(remaining),
                " bytes left");
  }
  return {};
}

Result<GgufHeader> ParseWith(Cursor& cursor, std::span<const std::byte> window,
                             std::uint64_t file_bytes) {
  GgufHeader header;
  KVD_TRY(auto magic, cursor.Read<std::uint32_t>("magic"));
  if (magic != kMagic) return Fail(Code::kCorrupt, "magic: this is not a GGUF file");
  KVD_TRY(header.version, cursor.Read<std::uint32_t>("version"));
  KVD_CHECK_OK(ValidateVersion(header.version));
  KVD_TRY(auto tensor_count, cursor.Read<std::uint64_t>("tensor count"));
  KVD_TRY(auto entry_count, cursor.Read<std::uint64_t>("metadata count"));
  KVD_CHECK_OK(ValidateCount(tensor_count, GgufFile::kTensorCountMax, kTensorBytesMin,
                             cursor.remaining(), "tensor count"));
  KVD_CHECK_OK(ValidateCount(entry_count, GgufFile::kEntryCountMax, kEntryBytesMin,
                             cursor.remaining(), "metadata count"));
  header.entries.reserve(entry_count);
  for (std::uint64_t i = 0; i < entry_count; ++i) {
    KVD_TRY(auto entry, ReadEntry(cursor, window, i));
    header.entries.push_back(entry);
  }
  KVD_TRY(header.entries_by_key,
          SortUnique(header.entries, [](const GgufEntry& e) { return e.key; }, "metadata key"));
  KVD_TRY(header.alignment, ReadAlignment(header));
  header.tensors.reserve(tensor_count);
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    KVD_TRY(auto tensor, ReadTensor(cursor, i));
    header.tensors.push_back(tensor);
  }
  KVD_TRY(header.tensors_by_name, SortTensors(header.tensors));
  header.header_bytes = cursor.position();
  KVD_CHECK_OK(PlaceTensors(header, file_bytes));
  return header;
}

}  // namespace

Result<std::optional<GgufHeader>> ParseGgufHeader(std::span<const std::byte> window,
                                                  std::uint64_t file_bytes) {
  Cursor cursor(window, file_bytes);
  auto header = ParseWith(cursor, window, file_bytes);
  if (header) return std::optional<GgufHeader>(std::move(*header));
  if (cursor.window_ended()) return std::optional<GgufHeader>();
  return std::unexpected(std::move(header).error());
}

Result<std::vector<std::uint32_t>> SortTensors(const std::vector<GgufTensor>& tensors) {
  return SortUnique(tensors, [](const GgufTensor& t) { return t.name; }, "tensor");
}

std::size_t GgufTypeBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    case GgufType::kString:
    case GgufType::kArray: return 0;
  }
  return 0;
}

std::string_view GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kU8: return "u8";
    case GgufType::kI8: return "i8";
    case GgufType::kU16: return "u16";
    case GgufType::kI16: return "i16";
    case GgufType::kU32: return "u32";
    case GgufType::kI32: return "i32";
    case GgufType::kF32: return "f32";
    case GgufType::kBool: return "bool";
    case GgufType::kString: return "string";
    case GgufType::kArray: return "array";
    case GgufType::kU64: return "u64";
    case GgufType::kI64: return "i64";
    case GgufType::kF64: return "f64";
  }
  return "unknown";
}

}  // namespace kvd
