// Compares the samplers with those of llama.cpp, whose results are in tests/data/sampling: the
// candidates and probabilities after each chain, DRY's penalties, and the draws of mirostat and
// adaptive-p. The logits are generated, as the README of that folder describes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/sampling/dry.h"
#include "engine/sampling/sampler.h"
#include "tests/engine/sampling/recorded_samplers.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::GeneratedRow;
using test::LinesOf;
using test::ParamsNamed;
using test::RandomHistory;

constexpr double kTolerance = 1e-5;

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

std::pair<TokenId, double> Entry(const std::string& word) {
  const std::size_t colon = word.find(':');
  return {std::stoi(word.substr(0, colon)), std::stod(word.substr(colon + 1))};
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

TEST(LlamaSamplersTest, EveryChainKeepsTheTokensAndProbabilitiesOfLlamaCpp) {
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

TEST(LlamaSamplersTest, DryGivesThePenaltiesOfLlamaCpp) {
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

TEST(LlamaSamplersTest, AdaptingSamplersKeepTheCandidatesOfLlamaCpp) {
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

// Of two samples of draws with the same distribution, the shares of each token differ by less than
// 5.5 standard deviations of the difference.
TEST(LlamaSamplersTest, TokensAreDrawnAsOftenAsByLlamaCpp) {
  constexpr int kTheirDraws = 20'000;
  const int draws = test::Scaled(kTheirDraws, 2'000);
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
    for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(draws); ++seed) {
      Sampler sampler = *Sampler::Create(
          {.sampling = params, .seed = seed * 0x9e3779b97f4a7c15u + 1, .biases = {}}, 100, {});
      const auto drawn = sampler.Sample(logits);
      ASSERT_TRUE(drawn);
      ++counts[drawn->token].second;
    }
    for (const auto& [token, count] : counts) {
      const double theirs = count.first / double{kTheirDraws};
      const double ours = count.second / static_cast<double>(draws);
      const double share = (count.first + count.second) / static_cast<double>(kTheirDraws + draws);
      const double deviation = std::sqrt(share * (1 - share) * (1.0 / kTheirDraws + 1.0 / draws));
      EXPECT_NEAR(theirs, ours, 5.5 * deviation + 2.0 / draws) << token;
    }
  }
}

}  // namespace
}  // namespace kvd
