// The inputs and recorded results of tests/data/sampling: generated rows of logits, the history,
// and the parameters of a line's name.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "shm/sampling_params.h"

namespace kvd::test {

inline float GeneratedLogit(std::uint32_t row, std::uint32_t token) {
  std::uint32_t hash = row * 2654435761u + token * 2246822519u + 374761393u;
  hash ^= hash >> 15;
  hash *= 2246822519u;
  hash ^= hash >> 13;
  hash *= 3266489917u;
  hash ^= hash >> 16;
  const std::uint32_t product = (hash & 0x3fffu) * ((hash >> 14) & 0x3fffu);
  return static_cast<float>(product >> 4) * (1.0f / 1048576.0f) - 4.0f;
}

inline std::vector<float> GeneratedRow(std::uint32_t row, std::uint32_t vocab_size) {
  std::vector<float> logits(vocab_size);
  for (std::uint32_t i = 0; i < vocab_size; ++i) logits[i] = GeneratedLogit(row, i);
  return logits;
}

inline std::vector<TokenId> RandomHistory() {
  std::vector<TokenId> history;
  std::uint32_t x = 12345;
  for (int i = 0; i < 300; ++i) {
    x = x * 1664525u + 1013904223u;
    history.push_back(static_cast<TokenId>((x >> 24) % 12));
  }
  return history;
}

// The lines of a file of recorded results as words.
inline std::vector<std::vector<std::string>> LinesOf(const std::string& name) {
  std::ifstream file("tests/data/sampling/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<std::vector<std::string>> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with('#')) continue;
    std::istringstream words(text);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  EXPECT_FALSE(lines.empty());
  return lines;
}

// Sets "name=value;name=value" in the parameters, and a chain of the named samplers in this order.
inline void SetFields(const std::string& text, SamplingParams& params) {
  const std::map<std::string, float SamplingParams::*> floats = {
      {"top_p", &SamplingParams::top_p},
      {"min_p", &SamplingParams::min_p},
      {"typ_p", &SamplingParams::typical_p},
      {"top_n_sigma", &SamplingParams::top_n_sigma},
      {"xtc_probability", &SamplingParams::xtc_probability},
      {"xtc_threshold", &SamplingParams::xtc_threshold},
      {"temperature", &SamplingParams::temperature},
      {"dynatemp_range", &SamplingParams::dynatemp_range},
      {"dynatemp_exponent", &SamplingParams::dynatemp_exponent},
      {"repeat_penalty", &SamplingParams::repeat_penalty},
      {"presence_penalty", &SamplingParams::presence_penalty},
      {"frequency_penalty", &SamplingParams::frequency_penalty},
      {"mirostat_tau", &SamplingParams::mirostat_tau},
      {"mirostat_eta", &SamplingParams::mirostat_eta},
      {"adaptive_target", &SamplingParams::adaptive_target},
      {"adaptive_decay", &SamplingParams::adaptive_decay}};
  const std::map<std::string, std::int32_t SamplingParams::*> integers = {
      {"top_k", &SamplingParams::top_k},
      {"repeat_last", &SamplingParams::repeat_last},
      {"mirostat", &SamplingParams::mirostat}};
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ';');) {
    const std::size_t equals = field.find('=');
    const std::string name = field.substr(0, equals);
    const std::string value = field.substr(equals + 1);
    if (floats.contains(name)) {
      params.*floats.at(name) = std::stof(value);
    } else {
      ASSERT_TRUE(integers.contains(name)) << name;
      params.*integers.at(name) = std::stoi(value);
    }
  }
}

// The parameters of the chains that use more samplers than their names say.
inline void SetNamed(const std::string& name, SamplingParams& params) {
  params.dry_multiplier = 0.8f;
  params.presence_penalty = 0.2f;
  params.frequency_penalty = 0.1f;
  params.xtc_probability = 1;
  if (name == "all") {
    SetFields(
        "repeat_penalty=1.1;repeat_last=64;top_n_sigma=2;top_k=50;typ_p=0.95;top_p=0.97;"
        "min_p=0.02;xtc_threshold=0.06;temperature=0.9;dynatemp_range=0.3;"
        "dynatemp_exponent=1.2",
        params);
  } else if (name == "order_t_k_p_e_d") {
    SetFields("temperature=1.4;top_k=60;top_p=0.9;repeat_penalty=1.5;repeat_last=200", params);
    params.dry_multiplier = params.dry_base = 1.5f;
    params.dry_allowed_length = 1;
    params.dry_penalty_last = 200;
    params.chain = *ParseSamplerLetters("tkped");
  } else {
    ASSERT_EQ(name, "order_m_x_t_s");
    SetFields("min_p=0.01;xtc_threshold=0.03;temperature=0.5;top_n_sigma=1.5", params);
    params.chain = *ParseSamplerLetters("mxts");
  }
}

inline SamplingParams ParamsNamed(const std::string& name) {
  SamplingParams params = kPlainSampling;
  if (name == "none") return params;
  if (name.find('=') == std::string::npos) {
    SetNamed(name, params);
  } else {
    SetFields(name, params);
  }
  if (params.adaptive_target >= 0)
    params.chain = *ParseSamplerNames("temperature;top_k;adaptive_p");
  return params;
}

}  // namespace kvd::test
