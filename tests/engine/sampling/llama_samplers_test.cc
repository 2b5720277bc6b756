// Compares the samplers with those of llama.cpp, whose results are in tests/data/sampling: the
// candidates and probabilities after each chain, DRY's penalties, and the draws of mirostat and
// adaptive-p. The logits are generated, as the README of that folder describes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "engine/sampling/dry.h"
#include "engine/sampling/sampler.h"

namespace kvd {
namespace {

constexpr double kTolerance = 1e-5;

float GeneratedLogit(std::uint32_t row, std::uint32_t token) {
  std::uint32_t hash = row * 2654435761u + token * 2246822519u + 374761393u;
  hash ^= hash >> 15;
  hash *= 2246822519u;
  hash ^= hash >> 13;
  hash *= 3266489917u;
  hash ^= hash >> 16;
  const std::uint32_t product = (hash & 0x3fffu) * ((hash >> 14) & 0x3fffu);
  return static_cast<float>(product >> 4) * (1.0f / 1048576.0f) - 4.0f;
}

std::vector<float> GeneratedRow(std::uint32_t row, std::uint32_t vocab_size) {
  std::vector<float> logits(vocab_size);
  for (std::uint32_t i = 0; i < vocab_size; ++i) logits[i] = GeneratedLogit(row, i);
  return logits;
}

std::vector<TokenId> RandomHistory() {
  std::vector<TokenId> history;
  std::uint32_t x = 12345;
  for (int i = 0; i < 300; ++i) {
    x = x * 1664525u + 1013904223u;
    history.push_back(static_cast<TokenId>((x >> 24) % 12));
  }
  return history;
}

// "random", or "p10n35": 35 tokens, the token i % 10 at place i.
std::vector<TokenId> HistoryNamed(const std::string& name) {
  if (name == "random") return RandomHistory();
  const int period = std::stoi(name.substr(1));
  std::vector<TokenId> history;
  for (int i = 0; i < std::stoi(name.substr(name.find('n') + 1)); ++i) {
    history.push_back(i % period);
  }
  return history;
}

std::shared_ptr<const DryBreakers> BreakersNumbered(int number) {
  std::vector<bool> whole(24);
  std::vector<DryBreakers::Head> heads;
  if (number >= 1) whole[7] = true;
  if (number == 2) heads = {{.token = 8, .tail = 0}, {.token = 3, .tail = 1}};
  return std::make_shared<const DryBreakers>(std::move(whole), std::move(heads),
                                             std::vector<std::vector<TokenId>>{{9}, {4, 5}});
}

// The lines of a file of recorded results as words.
std::vector<std::vector<std::string>> LinesOf(const std::string& name) {
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

std::pair<TokenId, double> Entry(const std::string& word) {
  const std::size_t colon = word.find(':');
  return {std::stoi(word.substr(0, colon)), std::stod(word.substr(colon + 1))};
}

// Sets "name=value;name=value" in the parameters, and a chain of the named samplers in this order.
void SetFields(const std::string& text, SamplingParams& params) {
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
void SetNamed(const std::string& name, SamplingParams& params) {
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

SamplingParams ParamsNamed(const std::string& name) {
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

Sampler Make(const SamplingParams& params, std::uint32_t vocab_size) {
  auto sampler = Sampler::Create({.sampling = params, .biases = {}}, vocab_size, {});
  EXPECT_TRUE(sampler) << sampler.error().message;
  return std::move(*sampler);
}

std::map<TokenId, double> SharesOf(const Sampler& sampler, const std::vector<float>& logits) {
  const auto shares = sampler.NextShares(logits);
  EXPECT_TRUE(shares) << shares.error().message;
  std::map<TokenId, double> by_token;
  for (const TokenShare& share : *shares) by_token[share.token] = share.share;
  return by_token;
}

// Compares with a recorded number of candidates, the sum of (token + 1)^2 of all candidates, and
// the probabilities of the most likely ones.
void ExpectCandidates(const std::map<TokenId, double>& shares, const std::vector<std::string>& line,
                      std::size_t count_at, std::size_t entries_at) {
  std::uint64_t id_sum = 0;
  for (const auto& [token, share] : shares) {
    const auto number = static_cast<std::uint64_t>(token) + 1;
    id_sum += number * number;
  }
  EXPECT_EQ(std::to_string(shares.size()), line[count_at]);
  EXPECT_EQ(std::to_string(id_sum), line[count_at + 1]);
  for (std::size_t i = entries_at; i < line.size(); ++i) {
    const auto [token, share] = Entry(line[i]);
    ASSERT_TRUE(shares.contains(token)) << token;
    EXPECT_NEAR(shares.at(token), share, kTolerance) << token;
  }
}

TEST(LlamaSamplersTest, EveryChainKeepsTheSameTokensWithTheSameProbabilities) {
  for (const std::vector<std::string>& line : LinesOf("candidates.txt")) {
    SCOPED_TRACE(line[0] + " " + line[1]);
    const auto row = static_cast<std::uint32_t>(std::stoul(line[1]));
    const std::uint32_t vocab_size = row >= 100 ? 24 : 1000;
    SamplingParams params = ParamsNamed(line[0]);
    // Recorded without typical, which is NaN in llama.cpp if top-n-sigma has masked a candidate.
    if (row >= 100 && line[0] == "all") params.typical_p = 1;
    Sampler sampler = Make(params, vocab_size);
    // The breakers of "all" are 7 and 8 9. BreakersNumbered(2) also has 3 4 5, behind which the
    // history has a 7.
    sampler.SetBreakers(BreakersNumbered(line[0] == "all" ? 2 : 1));
    for (const TokenId token : RandomHistory()) sampler.Accept(token);
    ExpectCandidates(SharesOf(sampler, GeneratedRow(row, vocab_size)), line, 2, 4);
  }
}

TEST(LlamaSamplersTest, DryGivesTheSamePenalties) {
  for (const std::vector<std::string>& line : LinesOf("dry.txt")) {
    std::string name;
    for (std::size_t i = 0; i < 6; ++i) name += line[i] + " ";
    SCOPED_TRACE(name);
    SamplingParams params = kPlainSampling;
    params.dry_penalty_last = std::stoi(line[0]);
    params.dry_allowed_length = std::stoi(line[1]);
    params.dry_multiplier = std::stof(line[3]);
    params.dry_base = std::stof(line[4]);
    std::vector<TokenId> recent = HistoryNamed(line[5]);
    std::ranges::reverse(recent);
    SamplerScratch scratch;
    scratch.recent.assign(
        recent.begin(),
        recent.begin() + std::min<std::ptrdiff_t>(std::ssize(recent), params.dry_penalty_last));
    scratch.numbers.Reserve(24);
    FindContinuations(params, *BreakersNumbered(std::stoi(line[2])), scratch);
    std::map<TokenId, double> expected;
    for (std::size_t i = 6; i < line.size(); ++i) expected.insert(Entry(line[i]));
    EXPECT_EQ(scratch.numbers.touched().size(), expected.size());
    for (const TokenId token : scratch.numbers.touched()) {
      ASSERT_TRUE(expected.contains(token)) << token;
      const double penalty = DryPenalty(params, scratch.numbers[token]);
      if (std::isinf(expected[token])) {
        // llama.cpp's float has overflowed.
        EXPECT_GE(penalty, std::numeric_limits<float>::max());
      } else {
        EXPECT_NEAR(penalty / expected[token], 1, 1e-5) << token;
      }
    }
  }
}

TEST(LlamaSamplersTest, AdaptingSamplersFollowTheSameTokensToTheSameCandidates) {
  std::string last;
  std::optional<Sampler> sampler;
  for (const std::vector<std::string>& line : LinesOf("draws.txt")) {
    SCOPED_TRACE(line[0] + " " + line[1]);
    if (line[0] != last) sampler = Make(ParamsNamed(line[0]), 1000);
    last = line[0];
    const std::vector<float> logits =
        GeneratedRow(static_cast<std::uint32_t>(std::stoul(line[1])), 1000);
    ExpectCandidates(SharesOf(*sampler, logits), line, 2, 5);
    if (HasFailure()) return;
    const TokenId drawn = std::stoi(line[4]);
    ASSERT_TRUE(sampler->Adopt(logits, drawn));
    sampler->Accept(drawn);
  }
}

// Of two samples of 20,000 draws with the same distribution, each count differs by less than 5.5
// standard deviations of the difference.
TEST(LlamaSamplersTest, DrawsAreAsFrequent) {
  constexpr int kDraws = 20'000;
  for (const std::vector<std::string>& line : LinesOf("histograms.txt")) {
    SCOPED_TRACE(line[0] + " " + line[1]);
    const std::vector<float> logits =
        GeneratedRow(static_cast<std::uint32_t>(std::stoul(line[1])), 100);
    const SamplingParams params = ParamsNamed(line[0]);
    std::map<TokenId, std::pair<int, int>> counts;  // llama.cpp's, ours
    for (std::size_t i = 2; i < line.size(); ++i) {
      const auto [token, count] = Entry(line[i]);
      counts[token].first = static_cast<int>(count);
    }
    for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
      Sampler sampler = *Sampler::Create(
          {.sampling = params, .seed = seed * 0x9e3779b97f4a7c15u + 1, .biases = {}}, 100, {});
      const auto drawn = sampler.Sample(logits);
      ASSERT_TRUE(drawn);
      ++counts[drawn->token].second;
    }
    for (const auto& [token, count] : counts) {
      const double share = (count.first + count.second) / (2.0 * kDraws);
      const double deviation = std::sqrt(2 * share * (1 - share) * kDraws);
      EXPECT_NEAR(count.first, count.second, 5.5 * deviation + 2) << token;
    }
  }
}

}  // namespace
}  // namespace kvd
