// The typed getters of GgufFile. The entries were validated when the file was opened, so all bytes
// of a value exist. The getters check only that the value has the type and the range that the
// caller wants.
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/model/gguf_file.h"
#include "engine/model/gguf_header.h"

namespace kvd {
namespace {

template <class T>
T Load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::string TypeText(const GgufEntry& entry) {
  if (entry.type != GgufType::kArray) return std::string(GgufTypeName(entry.type));
  return "array of " + std::string(GgufTypeName(entry.element_type));
}

std::unexpected<Error> FailType(const GgufEntry& entry, std::string_view wanted) {
  return Fail(Code::kCorrupt, entry.key, ": must be ", wanted, ", is ", TypeText(entry));
}

Result<const GgufEntry*> Require(const GgufFile& file, std::string_view key) {
  const GgufEntry* entry = file.FindEntry(key);
  if (entry == nullptr) {
    return Fail(Code::kNotFound, key, ": missing from the metadata");
  }
  return entry;
}

// Reads the integer at `bytes`. Errors: kCorrupt (it does not fit T).
template <class T, class Stored>
Result<T> Narrow(const GgufEntry& entry, const std::byte* bytes, std::string_view wanted) {
  Stored stored = Load<Stored>(bytes);
  if (!std::in_range<T>(stored)) {
    return Fail(Code::kCorrupt, entry.key, ": ", stored, " does not fit ", wanted);
  }
  return static_cast<T>(stored);
}

template <class T>
Result<T> Element(const GgufEntry& entry, std::uint64_t index, std::string_view wanted) {
  const std::byte* bytes = entry.value.data() + index * GgufTypeBytes(entry.element_type);
  if constexpr (std::is_same_v<T, bool>) {
    if (entry.element_type == GgufType::kBool) return *bytes != std::byte{0};
  } else if constexpr (std::is_floating_point_v<T>) {
    if (entry.element_type == GgufType::kF32) return Load<float>(bytes);
    if (entry.element_type == GgufType::kF64) {
      double wide = Load<double>(bytes);
      // A conversion of a value beyond float's range is undefined; infinities and NaNs convert
      // unchanged.
      if (wide > std::numeric_limits<float>::max() || wide < std::numeric_limits<float>::lowest()) {
        return wide > 0 ? std::numeric_limits<float>::infinity()
                        : -std::numeric_limits<float>::infinity();
      }
      return static_cast<float>(wide);
    }
  } else {
    switch (entry.element_type) {
      case GgufType::kU8: return Narrow<T, std::uint8_t>(entry, bytes, wanted);
      case GgufType::kI8: return Narrow<T, std::int8_t>(entry, bytes, wanted);
      case GgufType::kU16: return Narrow<T, std::uint16_t>(entry, bytes, wanted);
      case GgufType::kI16: return Narrow<T, std::int16_t>(entry, bytes, wanted);
      case GgufType::kU32: return Narrow<T, std::uint32_t>(entry, bytes, wanted);
      case GgufType::kI32: return Narrow<T, std::int32_t>(entry, bytes, wanted);
      case GgufType::kU64: return Narrow<T, std::uint64_t>(entry, bytes, wanted);
      case GgufType::kI64: return Narrow<T, std::int64_t>(entry, bytes, wanted);
      default: break;
    }
  }
  return FailType(entry, wanted);
}

template <class T>
Result<T> Scalar(const GgufFile& file, std::string_view key, std::string_view wanted) {
  KVD_TRY(const GgufEntry* entry, Require(file, key));
  if (entry->type == GgufType::kArray) return FailType(*entry, wanted);
  return Element<T>(*entry, 0, wanted);
}

template <class T>
Result<std::vector<T>> Array(const GgufFile& file, std::string_view key, std::string_view wanted) {
  KVD_TRY(const GgufEntry* entry, Require(file, key));
  std::string wanted_array = "array of " + std::string(wanted);
  if (entry->type != GgufType::kArray || entry->element_type == GgufType::kString) {
    return FailType(*entry, wanted_array);
  }
  std::vector<T> values;
  values.reserve(entry->count);
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    KVD_TRY(T value, Element<T>(*entry, i, wanted_array));
    values.push_back(value);
  }
  return values;
}

// The string whose length is at `bytes`. The length was validated when the file was opened.
std::string_view StringAt(const std::byte* bytes) {
  return {reinterpret_cast<const char*>(bytes + sizeof(std::uint64_t)), Load<std::uint64_t>(bytes)};
}

template <class T>
Result<T> Or(const GgufFile& file, std::string_view key, T fallback, Result<T> found) {
  return file.Has(key) ? std::move(found) : Result<T>(fallback);
}

}  // namespace

Result<std::uint32_t> GgufFile::GetU32(std::string_view key) const {
  return Scalar<std::uint32_t>(*this, key, "u32");
}
Result<std::uint64_t> GgufFile::GetU64(std::string_view key) const {
  return Scalar<std::uint64_t>(*this, key, "u64");
}
Result<std::int32_t> GgufFile::GetI32(std::string_view key) const {
  return Scalar<std::int32_t>(*this, key, "i32");
}
Result<float> GgufFile::GetF32(std::string_view key) const {
  return Scalar<float>(*this, key, "f32");
}
Result<bool> GgufFile::GetBool(std::string_view key) const {
  return Scalar<bool>(*this, key, "bool");
}
Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  KVD_TRY(const GgufEntry* entry, Require(*this, key));
  if (entry->type != GgufType::kString) return FailType(*entry, "string");
  return StringAt(entry->value.data());
}

Result<std::uint32_t> GgufFile::GetU32Or(std::string_view key, std::uint32_t fallback) const {
  return Or(*this, key, fallback, GetU32(key));
}
Result<std::uint64_t> GgufFile::GetU64Or(std::string_view key, std::uint64_t fallback) const {
  return Or(*this, key, fallback, GetU64(key));
}
Result<std::int32_t> GgufFile::GetI32Or(std::string_view key, std::int32_t fallback) const {
  return Or(*this, key, fallback, GetI32(key));
}
Result<float> GgufFile::GetF32Or(std::string_view key, float fallback) const {
  return Or(*this, key, fallback, GetF32(key));
}
Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  return Or(*this, key, fallback, GetBool(key));
}
Result<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                               std::string_view fallback) const {
  return Or(*this, key, fallback, GetString(key));
}

Result<std::vector<std::string_view>> GgufFile::GetStringArray(std::string_view key) const {
  KVD_TRY(const GgufEntry* entry, Require(*this, key));
  if (entry->type != GgufType::kArray || entry->element_type != GgufType::kString) {
    return FailType(*entry, "array of string");
  }
  std::vector<std::string_view> strings;
  strings.reserve(entry->count);
  const std::byte* bytes = entry->value.data();
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    strings.push_back(StringAt(bytes));
    bytes += sizeof(std::uint64_t) + strings.back().size();
  }
  return strings;
}
Result<std::vector<std::uint32_t>> GgufFile::GetU32Array(std::string_view key) const {
  return Array<std::uint32_t>(*this, key, "u32");
}
Result<std::vector<std::int32_t>> GgufFile::GetI32Array(std::string_view key) const {
  return Array<std::int32_t>(*this, key, "i32");
}
Result<std::vector<float>> GgufFile::GetF32Array(std::string_view key) const {
  return Array<float>(*this, key, "f32");
}
Result<std::vector<bool>> GgufFile::GetBoolArray(std::string_view key) const {
  return Array<bool>(*this, key, "bool");
}
Result<std::uint64_t> GgufFile::GetArrayCount(std::string_view key) const {
  KVD_TRY(const GgufEntry* entry, Require(*this, key));
  if (entry->type != GgufType::kArray) return FailType(*entry, "array");
  return entry->count;
}

}  // namespace kvd
