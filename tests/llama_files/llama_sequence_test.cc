// Tests the selection of one sequence of a session file of llama.cpp.
#include "llama_files/llama_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/counting_work.h"

namespace kvd::llama_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes a session file of the given cells, also of cells that llama.cpp writes and kvd does not.
LlamaStateFile Session(std::vector<std::vector<LlamaCells>> caches, std::size_t tokens) {
  LlamaStateFile file;
  file.kind = LlamaFileKind::kSession;
  file.tokens.resize(tokens);
  for (std::vector<LlamaCells>& parts : caches) {
    for (LlamaCells& part : parts) {
      part.cache = file.cache_count;
      file.parts.push_back(std::move(part));
    }
    ++file.cache_count;
  }
  return file;
}

LlamaCells CellsAt(std::uint32_t stream,
                   const std::vector<std::pair<int, std::vector<int>>>& cells) {
  LlamaCells part;
  part.stream = stream;
  for (const auto& [pos, ids] : cells) {
    part.cells.push_back({pos, static_cast<std::uint32_t>(part.sequence_ids.size()),
                          static_cast<std::uint32_t>(ids.size())});
    part.sequence_ids.insert(part.sequence_ids.end(), ids.begin(), ids.end());
  }
  return part;
}

TEST(LlamaSequenceTest, CellsAreSortedByPosition) {
  const LlamaCacheKinds attention{.has_attention = true};
  const LlamaStateFile file =
      Session({{CellsAt(0, {{2, {4}}, {0, {4, 9}}, {1, {4}}, {1, {9}}})}}, 3);
  const auto index = LlamaSequenceIndex::Create(file);
  ASSERT_TRUE(index);
  const auto first = SelectLlamaSequence(*index, 4, attention);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_THAT(first->caches[0].indices, ElementsAre(1, 2, 0));
  EXPECT_EQ(first->tokens.size(), 3u);
  const auto second = SelectLlamaSequence(*index, 9, attention);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kUnsupported);
  EXPECT_THAT(second.error().message, HasSubstr("the file has only the tokens of sequence 4"));
}

TEST(LlamaSequenceTest, ContradictingFieldsAreRefused) {
  const auto message = [](const LlamaStateFile& file, const LlamaCacheKinds& kinds) {
    if (const Status caches = CheckLlamaCaches(file, kinds); !caches) return caches.error().message;
    const auto selected = SelectLlamaSequence(*LlamaSequenceIndex::Create(file), -1, kinds);
    EXPECT_FALSE(selected);
    return selected ? std::string() : selected.error().message;
  };
  const LlamaCacheKinds attention{.has_attention = true};
  const LlamaCacheKinds windows{.has_attention = true, .has_windows = true};
  const LlamaCacheKinds hybrid{.has_attention = true, .has_states = true};
  const LlamaCacheKinds states{.has_states = true};
  EXPECT_THAT(message(Session({{}}, 3), attention), HasSubstr("no cells"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{1, {0}}, {1, {0}}})}}, 2), attention),
              HasSubstr("cache 0 has two cells at position 1"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{0, {0}}}), CellsAt(1, {{1, {0}}})}}, 2), attention),
              HasSubstr("sequence 0 has cells in streams 0 and 1"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{0, {0}}})}, {CellsAt(0, {{0, {0}}})}}, 1), attention),
              HasSubstr("2 caches in the file, the model has 1 cache"));
  EXPECT_THAT(message(Session({{}, {}, {}}, 1), windows),
              HasSubstr("3 caches in the file, the model has 1 or 2 caches"));
  const LlamaCells two = CellsAt(0, {{0, {0}}, {1, {0}}});
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{0, {0}}})}}, 2), windows),
              HasSubstr("the cells of cache 1 are not the last ones of cache 0"));
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{3, {1}}})}}, 2), windows),
              HasSubstr("name one"));
  EXPECT_THAT(message(Session({{two}, {}}, 2), windows), HasSubstr("no cells of sequence 0"));
  EXPECT_THAT(message(Session({{two}, {CellsAt(0, {{0, {0}}})}}, 2), hybrid),
              HasSubstr("the recurrent state is at position 0, the last cell at 1"));
  EXPECT_THAT(message(Session({{two}, {}}, 2), hybrid), HasSubstr("no recurrent state"));
  EXPECT_THAT(message(Session({{two}, {two}}, 2), hybrid), HasSubstr("2 recurrent states"));
  EXPECT_THAT(message(Session({{CellsAt(0, {{7, {0}}})}}, 2), states),
              HasSubstr("2 tokens, but the recurrent state depends on 8"));
}

// Makes a file of 256 sequences. If `shares`, each cell belongs to all 256 sequences, otherwise to
// one sequence.
LlamaStateFile Crowd(std::size_t cells, bool shares) {
  LlamaCells part;
  for (std::size_t number = 0; number < cells; ++number) {
    LlamaCell cell{.pos = static_cast<std::int32_t>(number),
                   .first_id = static_cast<std::uint32_t>(part.sequence_ids.size())};
    for (std::size_t id = 0; id < kLlamaSequencesMax; ++id) {
      if (!shares && number % kLlamaSequencesMax != id) continue;
      part.sequence_ids.push_back(static_cast<std::int32_t>(id));
      ++cell.id_count;
    }
    part.cells.push_back(cell);
  }
  return Session({{part}}, part.sequence_ids.size());
}

TEST(LlamaSequenceTest, SelectingEverySequenceTakesStepsLinearInTheFileSize) {
  for (const bool shares : {false, true}) {
    const auto steps_of = [&](std::size_t cells) {
      const LlamaStateFile file = Crowd(cells, shares);
      test::CountingWork work;
      const auto index = LlamaSequenceIndex::Create(file, work);
      EXPECT_EQ(index->ids().size(), kLlamaSequencesMax);
      for (const std::int32_t id : index->ids()) {
        const auto selected = SelectLlamaSequence(*index, id, {.has_attention = true}, work);
        EXPECT_TRUE(selected || selected.error().code == Code::kInvalidArgument)
            << selected.error().message;
      }
      return work.steps();
    };
    const std::size_t cells = shares ? 1024 : 65'536;
    const std::uint64_t steps = steps_of(cells);
    EXPECT_GT(steps, 10u);
    EXPECT_LT(steps_of(4 * cells), 5 * steps);
  }
}

TEST(LlamaSequenceTest, ACellThatNamesASequenceTwiceCountsOnce) {
  const LlamaStateFile file = Session({{CellsAt(0, {{0, {4, 4}}, {1, {4}}})}}, 2);
  const auto index = LlamaSequenceIndex::Create(file);
  ASSERT_TRUE(index);
  EXPECT_THAT(index->CellsOf(0, 4), ElementsAre(0, 1));
  EXPECT_TRUE(SelectLlamaSequence(*index, 4, {.has_attention = true}));
  test::CountingWork work(1);
  const LlamaStateFile crowd = Crowd(65'536, false);
  EXPECT_EQ(LlamaSequenceIndex::Create(crowd, work).error().code, Code::kCancelled);
}

}  // namespace
}  // namespace kvd::llama_import
