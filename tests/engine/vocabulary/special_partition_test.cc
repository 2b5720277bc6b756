// Compares SpecialPartition with a naive search, which searches one special token after the other
// in the text fragments that the earlier searches have left.
#include "engine/vocabulary/special_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "tests/engine/vocabulary/vocabulary_case.h"
#include "tests/support/counting_work.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::CountingWork;

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// Searches one token in all text fragments from left to right, and cuts the fragments at its
// occurrences.
void CutNaivelyAt(const TokenTable& tokens, TokenId token, std::vector<TextFragment>& fragments) {
  const std::string_view text = tokens.text(token);
  const std::uint8_t attributes = tokens.attributes(token);
  std::vector<TextFragment> cut;
  for (const TextFragment& fragment : fragments) {
    if (fragment.token != kNoToken) {
      cut.push_back(fragment);
      continue;
    }
    std::string_view rest = fragment.text;
    for (std::size_t at = rest.find(text); at != rest.npos; at = rest.find(text)) {
      std::string_view left = rest.substr(0, at);
      if ((attributes & token_attribute::kStripLeft) != 0) {
        left = left.substr(0, left.find_last_not_of(kWhiteSpace) + 1);
      }
      if (!left.empty()) cut.push_back({kNoToken, left});
      cut.push_back({token, {}});
      rest.remove_prefix(at + text.size());
      if ((attributes & token_attribute::kStripRight) != 0) {
        rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
      }
    }
    if (!rest.empty()) cut.push_back({kNoToken, rest});
  }
  fragments.swap(cut);
}

std::vector<TextFragment> CutNaively(const TokenTable& tokens, std::string_view text,
                                     bool parse_special) {
  std::vector<TokenId> searched;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    const bool is_hidden = (attributes & token_attribute::kHidden) != 0;
    const bool is_special = is_hidden || (attributes & token_attribute::kUserDefined) != 0;
    if (is_special && (parse_special || !is_hidden)) searched.push_back(token);
  }
  // Longer tokens are searched first; tokens of equal length are searched in the order of their
  // ids.
  std::ranges::sort(searched, {}, [&](TokenId token) {
    return std::pair(-static_cast<std::ptrdiff_t>(tokens.text(token).size()), token);
  });
  std::vector<TextFragment> fragments;
  if (!text.empty()) fragments.push_back({kNoToken, text});
  for (const TokenId token : searched) CutNaivelyAt(tokens, token, fragments);
  return fragments;
}

std::string TextOf(const std::vector<TextFragment>& fragments) {
  std::string text;
  for (const TextFragment& fragment : fragments) {
    text += fragment.token == kNoToken ? "[" + std::string(fragment.text) + "]"
                                       : "<" + std::to_string(fragment.token) + ">";
  }
  return text;
}

// Returns a random string of few different letters, so that tokens overlap and contain one another.
std::string RandomText(std::mt19937_64& random, std::size_t bytes, std::string_view letters) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += letters[random() % letters.size()];
  return text;
}

TokenTable RandomTokens(std::mt19937_64& random, std::string_view letters) {
  VocabularyData data;
  const std::size_t count = 1 + random() % 12;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = RandomText(random, 1 + random() % 6, letters);
    if (std::ranges::find(data.tokens, text) != data.tokens.end()) continue;
    data.tokens.push_back(std::move(text));
  }
  data.token_types.resize(data.tokens.size(), 1);
  auto tokens = TokenTable::Create(data);
  EXPECT_TRUE(tokens) << tokens.error().message;
  constexpr std::uint8_t kKinds[] = {token_attribute::kNormal, token_attribute::kControl,
                                     token_attribute::kUserDefined, token_attribute::kUnknown,
                                     token_attribute::kUserDefined | token_attribute::kControl};
  constexpr std::uint8_t kStrips[] = {0, 0, token_attribute::kStripLeft,
                                      token_attribute::kStripRight,
                                      token_attribute::kStripLeft | token_attribute::kStripRight};
  for (TokenId token = 0; tokens->Contains(token); ++token) {
    tokens->SetAttributes(token, static_cast<std::uint8_t>(kKinds[random() % std::size(kKinds)] |
                                                           kStrips[random() % std::size(kStrips)]));
  }
  return std::move(*tokens);
}

TEST(SpecialPartitionModelTest, FindsTheTokensOfANaiveSearch) {
  std::mt19937_64 random(11);
  for (int round = 0; round < test::Scaled(20'000, 20'000); ++round) {
    const std::string_view letters = round % 3 == 0 ? "a" : round % 3 == 1 ? "ab " : "abc \n";
    const TokenTable tokens = RandomTokens(random, letters);
    const auto partition = SpecialPartition::Create(tokens);
    ASSERT_TRUE(partition) << partition.error().message;
    const std::string text = RandomText(random, random() % 60, letters);
    for (const bool parse_special : {false, true}) {
      const auto cut = (*partition)->Cut(text, parse_special, Uncontrolled());
      ASSERT_TRUE(cut) << cut.error().message;
      ASSERT_EQ(TextOf(*cut), TextOf(CutNaively(tokens, text, parse_special)))
          << "round " << round << ", text '" << text << "'";
    }
  }
}

TEST(SpecialPartitionModelTest, LongTextsSortedInPiecesAreSplitTheSame) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 20; ++round) {
    const TokenTable tokens = RandomTokens(random, "ab ");
    const auto partition = SpecialPartition::Create(tokens);
    ASSERT_TRUE(partition);
    const std::string text = RandomText(random, 50'000, "ab ");
    const auto cut = (*partition)->Cut(text, true, Uncontrolled());
    ASSERT_TRUE(cut);
    ASSERT_EQ(*cut, CutNaively(tokens, text, true)) << "round " << round;
  }
}

// Returns the number of steps to cut a text in which each of `token_count` special tokens occurs
// once.
std::uint64_t StepsOf(std::size_t token_count) {
  VocabularyData data;
  std::string text;
  for (std::size_t i = 0; i < token_count; ++i) {
    data.tokens.push_back("<unused" + std::to_string(i) + ">");
    text += data.tokens.back() + std::string(40, '.');
  }
  auto tokens = TokenTable::Create(data);
  for (TokenId token = 0; tokens->Contains(token); ++token) {
    tokens->SetAttributes(token, token_attribute::kControl);
  }
  const auto partition = SpecialPartition::Create(*tokens);
  CountingWork work;
  const auto cut = (*partition)->Cut(text, true, work);
  EXPECT_EQ(cut->size(), 2 * token_count);
  return work.steps();
}

TEST(SpecialPartitionTest, StepsAreLinearInTheTextWhateverTheNumberOfTokens) {
  const std::uint64_t steps = StepsOf(10'000);
  EXPECT_GT(steps, 10u);
  EXPECT_LT(StepsOf(40'000), 5 * steps);
}

TEST(SpecialPartitionTest, RunsOfTokensThatContainOneAnotherTakeLinearSteps) {
  VocabularyData data;
  for (std::size_t bytes = 1; bytes <= 31; ++bytes) data.tokens.emplace_back(bytes, '\n');
  auto tokens = TokenTable::Create(data);
  for (TokenId token = 0; tokens->Contains(token); ++token) {
    tokens->SetAttributes(token, token_attribute::kUserDefined);
  }
  const auto partition = SpecialPartition::Create(*tokens);
  const auto steps_of = [&](std::size_t bytes) {
    CountingWork work;
    EXPECT_EQ((*partition)->Cut(std::string(bytes, '\n'), false, work)->size(), (bytes + 30) / 31);
    return work.steps();
  };
  const std::uint64_t steps = steps_of(1 << 19);
  EXPECT_LT(steps_of(1 << 21), 5 * steps);
}

TEST(SpecialPartitionTest, ACancelledSplitReportsIt) {
  VocabularyData data;
  data.tokens = {"<x>"};
  auto tokens = TokenTable::Create(data);
  tokens->SetAttributes(0, token_attribute::kControl);
  const auto partition = SpecialPartition::Create(*tokens);
  CountingWork work(3);
  const auto cut = (*partition)->Cut(std::string(1 << 20, 'x'), true, work);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Code::kCancelled);
  EXPECT_EQ(work.steps(), 3u);
}

}  // namespace
}  // namespace kvd
