// Compares llama.cpp's draws (SamplerOptions::llama_draws) with those that llama.cpp has made,
// which are in tests/data/sampling, and resumes them anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/sampling/kept_sampler.h"
#include "engine/sampling/llama_candidates.h"
#include "engine/sampling/sampler.h"
#include "tests/engine/sampling/recorded_samplers.h"
#include "tests/support/test_scale.h"

namespace kvd::llama_draws_test {
namespace {

using test::GeneratedRow;
using test::LinesOf;
using test::ParamsNamed;
using test::RandomHistory;
using ::testing::HasSubstr;

constexpr std::uint32_t kVocabulary = 1000;
constexpr std::uint64_t kSeedZero = std::uint64_t{1} << 32;

// One line of llama_draws.txt.
struct Recorded {
  std::string name;
  std::uint64_t seed;
  TokenId divisor;  // tokens that it does not divide are refused; 1: none is
  std::vector<TokenId> drawn;
};

std::vector<Recorded> AllRecorded() {
  std::vector<Recorded> all;
  for (const std::vector<std::string>& line : LinesOf("llama_draws.txt")) {
    Recorded recorded{.name = line[0],
                      .seed = kSeedZero | std::stoull(line[1]),
                      .divisor = std::stoi(line[2]),
                      .drawn = {}};
    for (std::size_t i = 3; i < line.size(); ++i) recorded.drawn.push_back(std::stoi(line[i]));
    all.push_back(std::move(recorded));
  }
  return all;
}

std::vector<TokenId> Multiples(TokenId divisor) {
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(kVocabulary); token += divisor)
    tokens.push_back(token);
  return tokens;
}

class LlamaDrawsTest : public testing::Test {
 protected:
  static Sampler Make(const Recorded& recorded) {
    auto sampler = Sampler::Create({.sampling = ParamsNamed(recorded.name),
                                    .seed = recorded.seed,
                                    .biases = {},
                                    .llama_draws = true},
                                   kVocabulary, {});
    EXPECT_TRUE(sampler) << sampler.error().message;
    for (const TokenId token : RandomHistory()) sampler->Accept(token);
    return std::move(*sampler);
  }
  // The token of row `i` after a grammar like the recorded one.
  static TokenId Draw(Sampler& sampler, const Recorded& recorded, std::uint32_t i) {
    const std::vector<TokenId> list = Multiples(recorded.divisor);
    const AllowedTokens allowed{.list = list, .bits = {}};
    const auto drawn =
        sampler.Sample(GeneratedRow(i, kVocabulary), recorded.divisor == 1 ? nullptr : &allowed);
    EXPECT_TRUE(drawn) << drawn.error().message;
    sampler.Accept(drawn->token);
    return drawn->token;
  }
};

TEST_F(LlamaDrawsTest, DrawnTokensEqualThoseOfLlamaCpp) {
  for (const Recorded& recorded : AllRecorded()) {
    SCOPED_TRACE(recorded.name + " " + std::to_string(recorded.seed) + " " +
                 std::to_string(recorded.divisor));
    Sampler sampler = Make(recorded);
    for (std::uint32_t i = 0; i < recorded.drawn.size(); ++i)
      EXPECT_EQ(Draw(sampler, recorded, i), recorded.drawn[i]) << i;
  }
}

TEST_F(LlamaDrawsTest, BitsAndListsAllowTheSameTokens) {
  for (const Recorded& recorded : AllRecorded()) {
    if (recorded.divisor == 1) continue;
    std::vector<std::uint64_t> bits((kVocabulary + 63) / 64);
    for (const TokenId token : Multiples(recorded.divisor))
      bits[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << token % 64;
    const AllowedTokens allowed{.list = {}, .bits = bits};
    Sampler sampler = Make(recorded);
    for (std::uint32_t i = 0; i < recorded.drawn.size(); ++i) {
      const auto drawn = sampler.Sample(GeneratedRow(i, kVocabulary), &allowed);
      ASSERT_TRUE(drawn);
      sampler.Accept(drawn->token);
      EXPECT_EQ(drawn->token, recorded.drawn[i]) << recorded.name << " " << i;
    }
  }
}

TEST_F(LlamaDrawsTest, AStateFromTheRecordResumesAtAnyToken) {
  for (const Recorded& recorded : AllRecorded()) {
    Sampler first = Make(recorded);
    for (std::uint32_t i = 0; i < recorded.drawn.size(); ++i) {
      if (test::IsScaledDown() && i % 4 != 1) {
        (void)Draw(first, recorded, i);
        continue;
      }
      const auto kept = SamplerOf(RecordOf(first.options(), first.state()), kVocabulary);
      ASSERT_TRUE(kept) << kept.error().message;
      EXPECT_TRUE(kept->options.llama_draws);
      Sampler second = Make(recorded);
      for (std::uint32_t earlier = 0; earlier < i; ++earlier)
        second.Accept(recorded.drawn[earlier]);
      second.SetProgress(kept->progress);
      for (std::uint32_t next = i; next < std::min<std::uint32_t>(i + 3, 40); ++next)
        ASSERT_EQ(Draw(second, recorded, next), recorded.drawn[next]) << recorded.name << " " << i;
      (void)Draw(first, recorded, i);
    }
  }
}

// The numbers of the record lead back to the draws before the last token.
TEST_F(LlamaDrawsTest, TheDrawsOfTheLastTokenAreKnown) {
  for (const Recorded& recorded : AllRecorded()) {
    Sampler sampler = Make(recorded);
    SamplerProgress before;
    for (std::uint32_t i = 0; i < recorded.drawn.size(); ++i) {
      before = sampler.state();
      (void)Draw(sampler, recorded, i);
      const SamplerProgress back = ProgressOf(RecordOf(sampler.options(), sampler.state()));
      EXPECT_EQ(back.draw_count - back.draw_last, before.draw_count);
      EXPECT_EQ(back.xtc_draw_count - back.xtc_draw_last, before.xtc_draw_count);
      EXPECT_EQ(back.adaptation_before, before.adaptation);
    }
  }
}

TEST_F(LlamaDrawsTest, AdoptingATokenConsumesItsDraws) {
  for (const Recorded& recorded : AllRecorded()) {
    if (recorded.divisor == 1) continue;
    const std::vector<TokenId> list = Multiples(recorded.divisor);
    const AllowedTokens allowed{.list = list, .bits = {}};
    Sampler sampler = Make(recorded);
    for (std::uint32_t i = 0; i < recorded.drawn.size(); ++i) {
      if (i % 3 != 0) {
        EXPECT_EQ(Draw(sampler, recorded, i), recorded.drawn[i]) << recorded.name << " " << i;
        continue;
      }
      ASSERT_TRUE(sampler.Adopt(GeneratedRow(i, kVocabulary), recorded.drawn[i], &allowed));
      sampler.Accept(recorded.drawn[i]);
    }
  }
}

TEST_F(LlamaDrawsTest, ChainsKeepTheCandidatesOfLlamaCpp) {
  for (const std::vector<std::string>& line : LinesOf("candidates.txt")) {
    if (line[0].find('=') == std::string::npos) continue;
    const auto row = static_cast<std::uint32_t>(std::stoul(line[1]));
    const std::uint32_t vocab_size = row >= 100 ? 24 : 1000;
    Sampler sampler = *Sampler::Create(
        {.sampling = ParamsNamed(line[0]), .biases = {}, .llama_draws = true}, vocab_size, {});
    for (const TokenId token : RandomHistory()) sampler.Accept(token);
    const auto shares = sampler.NextShares(GeneratedRow(row, vocab_size));
    ASSERT_TRUE(shares) << shares.error().message;
    EXPECT_EQ(std::to_string(shares->size()), line[2]) << line[0] << " " << row;
  }
}

TEST_F(LlamaDrawsTest, WithoutATokenThatMayBeDrawnNothingIsCounted) {
  const Recorded recorded = AllRecorded().front();
  Sampler sampler = Make(recorded);
  std::vector<float> logits = GeneratedRow(0, kVocabulary);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  logits[6] = -kInfinity;
  const std::vector<TokenId> list = {6};
  const AllowedTokens allowed{.list = list, .bits = {}};
  EXPECT_EQ(sampler.Sample(logits, &allowed).error().code, Code::kNotFound);
  EXPECT_EQ(sampler.state().draw_count, 0u);
  logits[7] = kInfinity;
  EXPECT_EQ(sampler.Sample(logits, &allowed).error().code, Code::kNumerical);
  EXPECT_EQ(sampler.Sample(std::vector<float>(kVocabulary, -kInfinity)).error().code,
            Code::kNumerical);
}

TEST(LlamaDrawsRecordTest, ImpossibleCountsAreRefused) {
  const SamplerOptions options{.seed = 5, .biases = {}, .llama_draws = true};
  const SamplerAdaptation start = InitialAdaptation(options.sampling);
  const SamplerProgress good{.draw_count = 9,
                             .adaptation = start,
                             .adaptation_before = start,
                             .xtc_draw_count = 3,
                             .draw_last = 2,
                             .xtc_draw_last = 1};
  const auto refusal = [&](auto change) -> std::string {
    SamplerProgress progress = good;
    change(progress);
    const auto kept = DecodeSampler(EncodeSampler({.options = options, .progress = progress}), 100);
    return kept ? "" : kept.error().message;
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& p) { p.draw_count = kLlamaDrawsMax + 1; }), HasSubstr("draw_count"));
  EXPECT_THAT(refusal([](auto& p) { p.xtc_draw_count = kLlamaDrawsMax + 1; }),
              HasSubstr("xtc_draw_count"));
  EXPECT_THAT(refusal([](auto& p) { p.draw_last = 3; }), HasSubstr("draw_last"));
  EXPECT_THAT(refusal([](auto& p) { p.draw_count = 1; }), HasSubstr("draw_last"));
  EXPECT_THAT(refusal([](auto& p) { p.xtc_draw_last = 3; }), HasSubstr("xtc_draw_last"));
}

TEST(MersenneStreamTest, NumbersEqualTheStandardLibraryInAnyOrder) {
  for (const std::uint32_t seed : {0u, 42u, 0xffffffffu}) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> distribution(0, 1);
    std::vector<double> numbers(2000);
    for (double& number : numbers) number = distribution(generator);
    MersenneStream stream(seed);
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(stream.Uniform(i), numbers[i]) << i;
    for (const std::size_t i : {1999u, 0u, 1u, 700u, 311u, 312u, 313u})
      EXPECT_EQ(stream.Uniform(i), numbers[i]) << i;
    generator.seed(seed);
    std::uniform_real_distribution<float> floats(0, 1);
    for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(stream.UniformFloat(i), floats(generator));
  }
}

}  // namespace
}  // namespace kvd::llama_draws_test
