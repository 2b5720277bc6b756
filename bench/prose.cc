#include "bench/prose.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>
#include <vector>

namespace kvd::bench {
namespace {

constexpr const char* kFrequentWords[] = {
    "the",    "of",   "and",   "to",    "a",     "in",     "that",   "was",  "he",     "it",
    "his",    "is",   "with",  "as",    "for",   "had",    "you",    "not",  "be",     "her",
    "on",     "at",   "by",    "which", "have",  "or",     "from",   "this", "him",    "but",
    "all",    "she",  "they",  "were",  "my",    "are",    "me",     "one",  "their",  "so",
    "an",     "said", "them",  "we",    "who",   "would",  "been",   "will", "no",     "when",
    "there",  "if",   "more",  "out",   "up",    "into",   "do",     "any",  "your",   "what",
    "has",    "man",  "could", "other", "than",  "our",    "some",   "very", "time",   "upon",
    "about",  "may",  "its",   "only",  "now",   "like",   "little", "then", "can",    "made",
    "should", "did",  "us",    "such",  "great", "before", "must",   "two",  "these",  "see",
    "know",   "over", "much",  "down",  "after", "first",  "good",   "men",  "people", "where"};
constexpr const char* kOnsets[] = {"b",  "c",  "d",  "f",  "g", "h",  "l",  "m",  "n",
                                   "p",  "r",  "s",  "t",  "w", "br", "cl", "pr", "st",
                                   "tr", "sh", "th", "qu", "v", "sp", "gr", "ch"};
constexpr const char* kVowels[] = {"a", "e", "i", "o", "u", "ea", "ou", "ai", "ee", "io"};
constexpr const char* kCodas[] = {"",   "n",  "r",  "s",    "t",   "l",    "nd", "st",
                                  "ng", "ck", "ll", "tion", "ing", "ment", "ed", "ly"};
constexpr std::size_t kWordCount = 20'000;

template <std::size_t kCount>
const char* Any(const char* const (&choices)[kCount], std::mt19937& random) {
  return choices[random() % kCount];
}

std::vector<std::string> MakeWords(std::mt19937& random) {
  std::vector<std::string> words(std::begin(kFrequentWords), std::end(kFrequentWords));
  while (words.size() < kWordCount) {
    std::string& word = words.emplace_back();
    for (auto syllables = 1 + random() % 3; syllables > 0; --syllables) {
      word += Any(kOnsets, random);
      word += Any(kVowels, random);
      if (syllables == 1) word += Any(kCodas, random);
    }
  }
  return words;
}

std::string Capitalized(std::string word) {
  if (word[0] >= 'a' && word[0] <= 'z') word[0] = static_cast<char>(word[0] - 'a' + 'A');
  return word;
}

// A part of a sentence that is not a plain word.
std::string Oddity(std::mt19937& random) {
  switch (random() % 5) {
    case 0: return std::to_string(random() % 100'000);
    case 1: return "\"don't\"";
    case 2: return "it's";
    case 3: return "Andr\u00e9";
    default: return "1,250.75";
  }
}

}  // namespace

std::string MakeProse(std::size_t byte_count, std::uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<std::string> words = MakeWords(random);
  // The rank r is drawn with a probability of about 1 / r.
  const auto draw = [&]() -> const std::string& {
    const double uniform = static_cast<double>(random()) / static_cast<double>(random.max());
    const auto rank = static_cast<std::size_t>(std::pow(static_cast<double>(kWordCount), uniform));
    return words[std::min(rank, kWordCount) - 1];
  };
  std::string text;
  while (text.size() < byte_count) {
    text += Capitalized(draw());
    const bool is_odd = random() % 8 == 0;
    for (auto count = 4 + random() % 16; count > 0; --count) {
      text += random() % 12 == 0 ? ", " : " ";
      text += draw();
    }
    if (is_odd) text.append(" ").append(Oddity(random));
    text += random() % 10 == 0 ? "?" : ".";
    text += random() % 6 == 0 ? "\n\n" : " ";
  }
  text.resize(byte_count);
  return text;
}

}  // namespace kvd::bench
