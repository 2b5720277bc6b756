#include "engine/vocabulary/text_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace kvd {
namespace {

TEST(TextIndexTest, AnEmptyIndexFindsNothing) {
  const auto no_text = [](std::int32_t) -> std::string_view { std::abort(); };
  EXPECT_EQ(TextIndex().Find("a", no_text), TextIndex::kNone);
  EXPECT_EQ(TextIndex().Find("", no_text), TextIndex::kNone);
}

TEST(TextIndexTest, AgreesWithAMap) {
  constexpr std::size_t kTexts = 3000;
  std::mt19937 random(5);
  std::vector<std::string> texts;
  const auto text_of = [&](std::int32_t number) -> std::string_view {
    return texts[static_cast<std::size_t>(number)];
  };
  const auto random_text = [&] {
    std::string text(random() % 4, ' ');
    for (char& c : text) c = static_cast<char>(random() % 16);
    return text;
  };
  TextIndex index(kTexts);
  std::map<std::string, std::int32_t> expected;
  for (std::size_t i = 0; i < kTexts; ++i) {
    const auto number = static_cast<std::int32_t>(i);
    texts.push_back(random_text());
    const auto [entry, is_new] = expected.emplace(texts.back(), number);
    EXPECT_EQ(index.Add(texts.back(), number, text_of), is_new ? TextIndex::kNone : entry->second);
  }
  for (std::size_t i = 0; i < kTexts; ++i) {
    const std::string text = random_text();
    const auto found = expected.find(text);
    EXPECT_EQ(index.Find(text, text_of),
              found == expected.end() ? TextIndex::kNone : found->second);
  }
  // Texts keep their numbers when their addresses change.
  texts.reserve(2 * texts.capacity());
  for (const auto& [text, number] : expected) EXPECT_EQ(index.Find(text, text_of), number);

  // Many searches at once find the same, also of texts that were never added.
  std::vector<std::string> searched;
  for (const auto& [text, number] : expected) {
    searched.push_back(text);
    searched.push_back(text + "~");
  }
  for (std::size_t begin = 0, count = 0; begin < searched.size(); begin += count) {
    count = std::min<std::size_t>(1 + begin % TextIndex::kFindManyMax, searched.size() - begin);
    const std::vector<std::string_view> part(
        searched.begin() + static_cast<std::ptrdiff_t>(begin),
        searched.begin() + static_cast<std::ptrdiff_t>(begin + count));
    std::vector<std::int32_t> numbers(count);
    index.FindMany(part, text_of, numbers);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(numbers[i], index.Find(part[i], text_of)) << part[i];
    }
  }
}

}  // namespace
}  // namespace kvd
