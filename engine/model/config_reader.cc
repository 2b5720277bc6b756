#include "engine/model/config_reader.h"

#include <cmath>

namespace kvd {

std::unexpected<Error> FailRange(const std::string& key, std::uint64_t found, std::uint64_t min,
                                 std::uint64_t max) {
  return Fail(Code::kCorrupt, key, ": ", found, ", must be ", min, " to ", max);
}

ConfigReader::ConfigReader(const GgufFile& file, std::string_view architecture)
    : file_(file), prefix_(std::string(architecture) + ".") {}

Result<std::uint32_t> ConfigReader::Count(std::string_view suffix, std::uint32_t max) const {
  std::string key = Key(suffix);
  KVD_TRY(auto count, file_.GetU64(key));
  if (count < 1 || count > max) return FailRange(key, count, 1, max);
  return static_cast<std::uint32_t>(count);
}

Result<std::uint32_t> ConfigReader::CountOr(std::string_view suffix, std::uint32_t fallback,
                                            std::uint32_t max) const {
  if (!Has(suffix)) return fallback;
  return Count(suffix, max);
}

Result<std::vector<std::uint32_t>> ConfigReader::PerLayer(std::string_view suffix,
                                                          std::uint32_t layer_count,
                                                          std::uint32_t max,
                                                          std::uint32_t min) const {
  std::string key = Key(suffix);
  const GgufEntry* entry = file_.FindEntry(key);
  if (entry == nullptr || entry->type != GgufType::kArray) {
    KVD_TRY(auto count, file_.GetU64(key));
    if (count < min || count > max) return FailRange(key, count, min, max);
    return std::vector<std::uint32_t>(layer_count, static_cast<std::uint32_t>(count));
  }
  if (entry->count != layer_count) {
    return Fail(Code::kCorrupt, key, ": ", entry->count, " elements, there are ", layer_count,
                " layers");
  }
  KVD_TRY(auto counts, file_.GetU32Array(key));
  for (std::uint32_t count : counts) {
    if (count < min || count > max) return FailRange(key, count, min, max);
  }
  return counts;
}

Result<float> ConfigReader::Positive(std::string_view suffix, float fallback) const {
  std::string key = Key(suffix);
  KVD_TRY(auto number, file_.GetF32Or(key, fallback));
  if (!std::isfinite(number) || number <= 0.0f) {
    return Fail(Code::kCorrupt, key, ": ", number, ", must be finite and above 0");
  }
  return number;
}

Result<float> ConfigReader::PositiveOrNone(std::string_view suffix) const {
  KVD_TRY(const auto number, file_.GetF32Or(Key(suffix), 0.0f));
  if (number == 0.0f) return 0.0f;
  return Positive(suffix, 0.0f);
}

Result<float> ConfigReader::RequiredPositive(std::string_view suffix) const {
  if (!Has(suffix)) return Fail(Code::kNotFound, Key(suffix), ": missing from the metadata");
  return Positive(suffix, 0.0f);
}

}  // namespace kvd
