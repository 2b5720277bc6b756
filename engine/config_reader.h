// Reads the keys "ARCHITECTURE.suffix" of one GGUF file, each with its range, so that every refusal
// names the key, the number found and the limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf_file.h"
#include "shm/error.h"

namespace kvd {

// kCorrupt: "KEY: FOUND, must be MIN to MAX".
std::unexpected<Error> FailRange(const std::string& key, std::uint64_t found, std::uint64_t min,
                                 std::uint64_t max);

// A view of the file, which must outlive it. Errors of all: kNotFound (a required key is missing),
// kCorrupt (another type, or out of range).
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, std::string_view architecture);

  std::string Key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Key(suffix)); }
  const GgufFile& file() const { return file_; }

  // 1 to `max`.
  Result<std::uint32_t> Count(std::string_view suffix, std::uint32_t max) const;
  Result<std::uint32_t> CountOr(std::string_view suffix, std::uint32_t fallback,
                                std::uint32_t max) const;
  // One number for all layers, or an array with one for each: `min` to `max`.
  Result<std::vector<std::uint32_t>> PerLayer(std::string_view suffix, std::uint32_t layer_count,
                                              std::uint32_t max, std::uint32_t min = 1) const;
  // Finite and above 0.
  Result<float> Positive(std::string_view suffix, float fallback) const;
  // The same, or 0 where the key is missing or 0.
  Result<float> PositiveOrNone(std::string_view suffix) const;
  // The same without a fallback.
  Result<float> RequiredPositive(std::string_view suffix) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace kvd
