// Compares the breakers that a search finds with those of llama.cpp, in two vocabularies
// (tests/data/sampling/breakers.txt).
#include "daemon/requests/breaker_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/sampling/dry.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {
namespace {

std::unique_ptr<Vocabulary> VocabularyOf(const std::string& name) {
  const std::string folder = name.starts_with("notebook") ? "models/" : "tests/data/vocabulary/";
  auto file = GgufFile::Open(folder + name);
  EXPECT_TRUE(file) << file.error().message;
  auto data = ReadVocabulary(*file);
  EXPECT_TRUE(data) << data.error().message;
  auto vocabulary = Vocabulary::Create(std::move(*data));
  EXPECT_TRUE(vocabulary) << vocabulary.error().message;
  return std::move(*vocabulary);
}

std::vector<std::string> SetNumbered(std::size_t number) {
  const std::vector<std::vector<std::string>> sets = {
      DefaultBreakers(), {" the"}, {"er", "\n\n"}, {"ing of", "th"}};
  return sets.at(number);
}

std::string TextNamed(const std::string& name) {
  const std::map<std::string, std::string> texts = {
      {"text0", "one two the three. one two the three. one two"},
      {"text1", "He: \"a b c\"\nHe: \"a b c\"\nHe:"},
      {"text2", "sing of the sea, sing of the sea, sing of"},
      {"text3", "over and\n\nover and\n\nover and"}};
  return texts.at(name);
}

std::shared_ptr<const DryBreakers> Found(const Vocabulary& vocabulary, std::size_t set,
                                         std::size_t tokens_max = 1000) {
  BreakerSearch search(vocabulary, SetNumbered(set));
  while (!search.is_done()) search.Advance(tokens_max);
  return search.Take();
}

std::vector<std::vector<std::string>> Recorded() {
  std::ifstream file("tests/data/sampling/breakers.txt");
  EXPECT_TRUE(file.good());
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

// The recorder counts the tokens y that end the repetition in "p y p y": those that contain a whole
// breaker.
void ExpectWholeBreakers(const std::vector<std::string>& line) {
  const auto vocabulary = VocabularyOf(line[0]);
  const auto found = Found(*vocabulary, std::stoul(line[1]));
  const TokenId p = 40 % static_cast<TokenId>(vocabulary->vocab_size());
  int count = 0;
  std::uint64_t id_sum = 0;
  for (TokenId y = 0; static_cast<std::uint32_t>(y) < vocabulary->vocab_size(); ++y) {
    if (y == p || found->TokensSince(std::vector<TokenId>{y, p, y, p}) > 0) continue;
    ++count;
    const auto number = static_cast<std::uint64_t>(y) + 1;
    id_sum += number * number;
  }
  EXPECT_EQ(std::to_string(count), line[2]);
  EXPECT_EQ(std::to_string(id_sum), line[3]);
}

void ExpectPenalties(const std::vector<std::string>& line) {
  const auto vocabulary = VocabularyOf(line[0]);
  auto tokens = vocabulary->Tokenize(TextNamed(line[1]), {});
  ASSERT_TRUE(tokens) << tokens.error().message;
  SamplingParams params = kPlainSampling;
  params.dry_multiplier = 1;
  params.dry_base = 1.5f;
  params.dry_allowed_length = 1;
  SamplerScratch scratch;
  scratch.numbers.Reserve(vocabulary->vocab_size());
  scratch.recent.assign(tokens->rbegin(), tokens->rend());
  ASSERT_LE(scratch.recent.size(), 64u);
  FindContinuations(params, *Found(*vocabulary, std::stoul(line[2])), scratch);
  std::map<TokenId, double> expected;
  for (std::size_t i = 3; i < line.size(); ++i) {
    const std::size_t colon = line[i].find(':');
    expected[std::stoi(line[i].substr(0, colon))] = std::stod(line[i].substr(colon + 1));
  }
  EXPECT_EQ(scratch.numbers.touched().size(), expected.size());
  for (const TokenId token : scratch.numbers.touched()) {
    ASSERT_TRUE(expected.contains(token)) << token;
    EXPECT_NEAR(DryPenalty(params, scratch.numbers[token]) / expected[token], 1, 1e-5);
  }
}

TEST(BreakerSearchTest, FindsTheBreakersThatLlamaCppFinds) {
  const auto lines = Recorded();
  ASSERT_EQ(lines.size(), 40u);
  for (const std::vector<std::string>& line : lines) {
    SCOPED_TRACE(line[0] + " " + line[1] + " " + line[2]);
    if (line[1].starts_with("text")) {
      ExpectPenalties(line);
    } else {
      ExpectWholeBreakers(line);
    }
  }
}

TEST(BreakerSearchTest, TheResultDoesNotDependOnTheSlices) {
  const auto vocabulary = VocabularyOf("byte-pair.gguf");
  const auto whole = Found(*vocabulary, 3, 1'000'000);
  const auto parts = Found(*vocabulary, 3, 1);
  const auto tokens = *vocabulary->Tokenize(TextNamed("text2"), {});
  for (std::size_t begin = 0; begin < tokens.size(); ++begin) {
    const auto recent = std::span(tokens).subspan(begin);
    EXPECT_EQ(whole->TokensSince(recent), parts->TokensSince(recent));
  }
}

TEST(BreakerSearchTest, WithoutBreakersOrTokenizerTheSearchIsEmpty) {
  const auto vocabulary = VocabularyOf("byte-pair.gguf");
  BreakerSearch none(*vocabulary, {});
  EXPECT_TRUE(none.is_done());
  EXPECT_TRUE(none.Take()->empty());
  const auto without = Vocabulary::Create({});
  if (!without) return;
  BreakerSearch search(**without, DefaultBreakers());
  EXPECT_TRUE(search.is_done());
}

TEST(BreakerCacheTest, KeepsTheEightMostRecentResults) {
  BreakerCache cache;
  const auto name = [](int i) { return std::vector<std::string>{std::to_string(i)}; };
  for (int i = 0; i < 8; ++i) cache.Put(name(i), std::make_shared<const DryBreakers>());
  const auto first = cache.Find(name(0));
  EXPECT_TRUE(first);
  cache.Put(name(8), std::make_shared<const DryBreakers>());
  EXPECT_EQ(cache.Find(name(0)), first);
  EXPECT_FALSE(cache.Find(name(1))) << "not used for the longest time";
  EXPECT_TRUE(cache.Find(name(2)));
  cache.Put(name(0), std::make_shared<const DryBreakers>());
  EXPECT_NE(cache.Find(name(0)), first) << "replaced";
}

}  // namespace
}  // namespace kvd
