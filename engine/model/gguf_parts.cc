// The first part is opened first: its keys say how many parts exist, and its name says where they
// are. Each other part is then opened and compared with the first before the parts are joined.
#include "engine/model/gguf_parts.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace kvd {
namespace {

constexpr std::string_view kNumberKey = "split.no";
constexpr std::string_view kCountKey = "split.count";
constexpr std::string_view kTensorsKey = "split.tensors.count";
constexpr std::size_t kDigits = 5;

// The three keys of a part.
struct PartKeys {
  std::uint32_t number = 0;  // from 0
  std::uint32_t count = 0;
  std::uint64_t tensors = 0;  // of all parts together
};

std::string FiveDigits(std::uint32_t number) {
  std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

// The number that the five digits at the end of `text` show. Removes them. 0: there are none.
std::uint32_t TakeNumber(std::string_view& text) {
  if (text.size() < kDigits) return 0;
  const std::string_view digits = text.substr(text.size() - kDigits);
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + kDigits, number);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + kDigits) return 0;
  text.remove_suffix(kDigits);
  return number;
}

bool TakeEnd(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

Result<PartKeys> ReadKeysOf(const GgufFile& file) {
  PartKeys keys;
  KVD_TRY(keys.count, file.GetU32(kCountKey));
  KVD_TRY(keys.number, file.GetU32(kNumberKey));
  KVD_TRY(keys.tensors, file.GetU64(kTensorsKey));
  if (keys.count == 0 || keys.count > kPartCountMax) {
    return Fail(Code::kCorrupt, kCountKey, ": ", keys.count, ", must be 1 to ", kPartCountMax);
  }
  if (keys.number >= keys.count) {
    return Fail(Code::kCorrupt, kNumberKey, ": ", keys.number, ", must be less than ", kCountKey,
                ", ", keys.count);
  }
  return keys;
}

Result<PartKeys> ReadKeys(const GgufFile& file, const std::string& path) {
  auto keys = ReadKeysOf(file);
  if (!keys) return FailWithin(path, keys.error());
  return keys;
}

// Checks that `path` names the first part and that its name agrees with its keys.
Result<PartName> CheckFirst(const std::string& path, const PartKeys& keys) {
  const std::optional<PartName> name = ParsePartName(path);
  if (!name) {
    return Fail(Code::kInvalidArgument, path, ": part ", keys.number + 1, " of ", keys.count,
                " of a model; name its first part, whose name ends with -00001-of-",
                FiveDigits(keys.count), ".gguf");
  }
  if (name->number != keys.number + 1 || name->count != keys.count) {
    return Fail(Code::kCorrupt, path, ": the name says part ", name->number, " of ", name->count,
                ", ", kNumberKey, " and ", kCountKey, " say part ", keys.number + 1, " of ",
                keys.count);
  }
  if (name->number != 1) {
    return Fail(Code::kInvalidArgument, path, ": part ", name->number, " of ", name->count,
                " of a model; name its first part, ", name->PathOf(1));
  }
  return *name;
}

// Checks the keys of part `number` (from 1) against its name and the keys of the first part.
Status CheckKeys(const std::string& path, std::uint32_t number, const PartKeys& keys,
                 const PartKeys& first) {
  if (keys.number + 1 != number) {
    return Fail(Code::kCorrupt, path, ": the name says part ", number, ", ", kNumberKey,
                " says part ", keys.number + 1);
  }
  if (keys.count != first.count) {
    return Fail(Code::kCorrupt, path, ": part of another model: ", kCountKey, " is ", keys.count,
                ", in the first part ", first.count);
  }
  if (keys.tensors != first.tensors) {
    return Fail(Code::kCorrupt, path, ": part of another model: ", kTensorsKey, " is ",
                keys.tensors, ", in the first part ", first.tensors);
  }
  return {};
}

// Checks that the part has no metadata that contradict those of the first part. Most parts after
// the first have only the three keys. A part may have an alignment of its own.
Status CheckMetadata(const std::string& path, const GgufFile& part, const GgufFile& first) {
  for (const GgufEntry& entry : part.entries()) {
    if (entry.key == kNumberKey || entry.key == "general.alignment") continue;
    if (entry.key == kCountKey || entry.key == kTensorsKey) continue;  // see CheckKeys
    const GgufEntry* const ours = first.FindEntry(entry.key);
    if (ours == nullptr || (ours->type == entry.type && ours->element_type == entry.element_type &&
                            std::ranges::equal(ours->value, entry.value))) {
      continue;
    }
    return Fail(Code::kCorrupt, path, ": part of another model: ", entry.key,
                " differs from the first part's");
  }
  return {};
}

// Checks that no tensor of the part is in one of the parts before it.
Status CheckTensors(const std::string& path, const GgufFile& part, const PartName& name,
                    const std::vector<GgufFile>& before) {
  for (const GgufTensor& tensor : part.tensors()) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i].FindTensor(tensor.name) == nullptr) continue;
      return Fail(Code::kCorrupt, path, ": tensor ", tensor.name, " is also in ",
                  name.PathOf(static_cast<std::uint32_t>(i + 1)));
    }
  }
  return {};
}

// Opens the parts after the first. `parts` contains the first.
Status OpenOthers(const PartName& name, const PartKeys& first, std::vector<GgufFile>& parts) {
  std::string missing;
  for (std::uint32_t number = 2; number <= name.count; ++number) {
    const std::string path = name.PathOf(number);
    auto part = GgufFile::Open(path);
    if (!part && part.error().code == Code::kNotFound) {
      missing += (missing.empty() ? "" : ", ") + path;
      continue;
    }
    if (!part) return std::unexpected(part.error());
    // All missing parts are named, so the search continues after the first.
    if (!missing.empty()) continue;
    KVD_TRY(const PartKeys keys, ReadKeys(*part, path));
    KVD_CHECK_OK(CheckKeys(path, number, keys, first));
    KVD_CHECK_OK(CheckMetadata(path, *part, parts.front()));
    KVD_CHECK_OK(CheckTensors(path, *part, name, parts));
    parts.push_back(std::move(*part));
  }
  if (missing.empty()) return {};
  return Fail(Code::kNotFound, "the model in ", name.count, " parts lacks ", missing,
              ": no such file");
}

}  // namespace

std::string PartName::PathOf(std::uint32_t other) const {
  return base + "-" + FiveDigits(other) + "-of-" + FiveDigits(count) + ".gguf";
}

std::optional<PartName> ParsePartName(const std::string& path) {
  std::string_view rest = path;
  PartName name;
  if (!TakeEnd(rest, ".gguf")) return std::nullopt;
  name.count = TakeNumber(rest);
  if (!TakeEnd(rest, "-of-")) return std::nullopt;
  name.number = TakeNumber(rest);
  if (!TakeEnd(rest, "-")) return std::nullopt;
  if (name.number == 0 || name.number > name.count || name.count > kPartCountMax) {
    return std::nullopt;
  }
  name.base = rest;
  return name;
}

std::vector<std::string> ModelPaths(const std::string& path) {
  const std::optional<PartName> name = ParsePartName(path);
  if (!name) return {path};
  std::vector<std::string> paths;
  for (std::uint32_t number = 1; number <= name->count; ++number) {
    paths.push_back(name->PathOf(number));
  }
  return paths;
}

Result<GgufFile> OpenModelFile(const std::string& path) {
  std::vector<GgufFile> parts;
  {
    KVD_TRY(GgufFile first, GgufFile::Open(path));
    if (!first.Has(kCountKey)) return first;
    parts.push_back(std::move(first));
  }
  KVD_TRY(const PartKeys keys, ReadKeys(parts.front(), path));
  if (keys.count > 1) {
    KVD_TRY(const PartName name, CheckFirst(path, keys));
    KVD_CHECK_OK(OpenOthers(name, keys, parts));
  }
  auto model = GgufFile::Join(std::move(parts));
  if (!model) return FailWithin(path, model.error());
  if (model->tensors().size() != keys.tensors) {
    return Fail(Code::kCorrupt, path, ": ", kTensorsKey, " is ", keys.tensors, ", the ", keys.count,
                (keys.count == 1 ? " part has " : " parts have "), model->tensors().size());
  }
  return model;
}

}  // namespace kvd
