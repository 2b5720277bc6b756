// ConfigReader: reads the keys "ARCHITECTURE.suffix" of one GGUF file and checks each number's
// range, so that every error names the key, the number found and the limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/model/gguf_file.h"

namespace kvd {

// kCorrupt: "KEY: FOUND, must be MIN to MAX".
std::unexpected<Error> FailRange(const std::string& key, std::uint64_t found, std::uint64_t min,
                                 std::uint64_t max);

// A ConfigReader refers to the GGUF file, which must outlive the reader. Errors of all getters:
// kNotFound (a required key is missing), kCorrupt (the value has another type or is out of range).
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, std::string_view architecture);

  std::string Key(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Key(suffix)); }
  const GgufFile& file() const { return file_; }

  // A number from 1 to `max`.
  Result<std::uint32_t> Count(std::string_view suffix, std::uint32_t max) const;
  Result<std::uint32_t> CountOr(std::string_view suffix, std::uint32_t fallback,
                                std::uint32_t max) const;
  // One number per layer, `min` to `max`. The file has either an array with one number per layer or
  // one number for all layers.
  Result<std::vector<std::uint32_t>> PerLayer(std::string_view suffix, std::uint32_t layer_count,
                                              std::uint32_t max, std::uint32_t min = 1) const;
  // Finite and above 0.
  Result<float> Positive(std::string_view suffix, float fallback) const;
  // A number that is finite and above 0, or 0 if the key is missing or its value is 0.
  Result<float> PositiveOrNone(std::string_view suffix) const;
  // A number that is finite and above 0; the key is required.
  Result<float> RequiredPositive(std::string_view suffix) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace kvd
