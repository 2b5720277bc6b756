#include "shm/sampler_chain.h"

#include <gtest/gtest.h>

#include <string>

namespace kvd {
namespace {

std::string NamesOf(const Result<SamplerChain>& chain) {
  return chain ? SamplerNames(*chain) : chain.error().message;
}

TEST(SamplerChainTest, TheDefaultOrderIsThatOfLlamaCpp) {
  EXPECT_EQ(SamplerNames(kDefaultChain),
            "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
  EXPECT_EQ(*ParseSamplerNames(SamplerNames(kDefaultChain)), kDefaultChain);
  EXPECT_EQ(*ParseSamplerLetters("edskypmxt"), kDefaultChain);
}

TEST(SamplerChainTest, NamesHaveAliases) {
  EXPECT_EQ(NamesOf(ParseSamplerNames("Top-K;minp;temp;typ;nucleus;TOPNSIGMA;adaptive-p")),
            "top_k;min_p;temperature;typ_p;top_p;top_n_sigma;adaptive_p");
  EXPECT_EQ(NamesOf(ParseSamplerNames("xtc;penalties;dry;")), "xtc;penalties;dry");
  EXPECT_EQ(NamesOf(ParseSamplerNames("")), "");
  EXPECT_EQ(NamesOf(ParseSamplerLetters("a")), "adaptive_p");
}

TEST(SamplerChainTest, WrongNamesAndLettersAreNamed) {
  EXPECT_EQ(NamesOf(ParseSamplerNames("top_k;infill")), "samplers: \"infill\" is not a sampler");
  EXPECT_EQ(NamesOf(ParseSamplerNames("top_k;;dry")), "samplers: \"\" is not a sampler");
  EXPECT_EQ(NamesOf(ParseSamplerNames("dry;DRY")), "samplers: dry occurs twice");
  EXPECT_EQ(NamesOf(ParseSamplerLetters("ki")), "samplers: 'i' is not the letter of a sampler");
  EXPECT_EQ(NamesOf(ParseSamplerLetters("kpk")), "samplers: top_k occurs twice");
  EXPECT_LT(NamesOf(ParseSamplerNames(std::string(1000, 'x'))).size(), 100u);
}

TEST(SamplerChainTest, BytesThatAreNotAChainAreNamed) {
  const auto refusal = [](std::initializer_list<unsigned> numbers) {
    SamplerChain chain{};
    std::size_t count = 0;
    for (const unsigned number : numbers) chain.kinds[count++] = static_cast<SamplerKind>(number);
    const Status status = ValidateChain(chain, "f");
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}), "");
  EXPECT_EQ(refusal({1, 255}), "f: number 1 is 255, must be at most 10");
  EXPECT_EQ(refusal({4, 6, 4}), "f: top_k occurs twice");
  EXPECT_EQ(refusal({4, 0, 6}), "f: top_p behind the chain's end");
  EXPECT_EQ(refusal({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}), "f: dry behind the chain's end");
}

}  // namespace
}  // namespace kvd
