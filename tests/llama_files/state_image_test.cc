// StateImage reads an exported state exactly, and refuses a state of another model or an incomplete
// one. The client validates the bytes that the daemon sends as the daemon validates a file.
#include "llama_files/state_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using ::testing::HasSubstr;

class StateImageTest : public testing::Test {
 protected:
  // The model is a hybrid: its sequences have rows of K and V, recurrent states and logits.
  StateImageTest() {
    ModelShape shape = test::TinyLlama();
    shape.architecture = Architecture::kLfm2;
    engine_ = MakeEngine(shape, {.cells = 512, .checkpoint_every = 16, .threads = 1});
    sequence_ = *engine_->memory().sequences().Create({});
    (void)Feed(*engine_, sequence_, RandomTokens(3, 39, engine_->config().vocab_size), 40);
    // The last step keeps its state and row of logits, like the step that computes the last token
    // of a prompt.
    const TokenId last = 7;
    std::vector<float> row(engine_->config().vocab_size);
    StepItem item{.sequence = sequence_,
                  .pos = Pos{39},
                  .tokens = std::span(&last, 1),
                  .first_logits_row = 0,
                  .logits = row.data(),
                  .keeps_state = true};
    engine_->Step({&item, 1});
    EXPECT_TRUE(item.status);
    model_ = test::SentModel(*engine_);
    bytes_ = Sent(StateContent::kAll);
  }

  std::vector<std::byte> Sent(StateContent parts, const SaveProfile& profile = {.packed = false}) {
    auto sent = test::SentState(*engine_, {&sequence_, 1}, profile, parts);
    EXPECT_TRUE(sent) << sent.error().message;
    return std::move(*sent);
  }

  // A copy of an exported state that a test changes. header() and section() refer to its bytes.
  struct Changed {
    std::vector<std::byte> bytes;
    state_file::FileHeader& header() {
      return *reinterpret_cast<state_file::FileHeader*>(bytes.data());
    }
    SectionEntry& section(std::size_t number) {
      return reinterpret_cast<SectionEntry*>(bytes.data() + sizeof header())[number];
    }
    std::size_t Find(SectionKind kind) {
      for (std::size_t at = 0; at < header().section_count; ++at) {
        if (section(at).kind == kind) return at;
      }
      return header().section_count;
    }
    state_file::SequenceHeader& sequence() {
      return *reinterpret_cast<state_file::SequenceHeader*>(bytes.data() + section(0).offset);
    }
    void SumUp() {
      const auto all = std::span<const std::byte>(bytes);
      for (std::size_t at = 0; at < header().section_count; ++at) {
        section(at).crc = Crc32c(0, all.subspan(section(at).offset, section(at).stored_bytes));
      }
      header().table_crc =
          Crc32c(0, all.subspan(sizeof header(), header().section_count * sizeof(SectionEntry)));
      header().header_crc = Crc32c(0, all.first(offsetof(state_file::FileHeader, header_crc)));
    }
  };
  std::string Refusal(const std::function<void(Changed&)>& change, bool sums_up = true) {
    Changed changed{bytes_};
    change(changed);
    if (sums_up) changed.SumUp();
    const auto opened = StateImage::Open(model_, changed.bytes, StateContent::kAll);
    EXPECT_FALSE(opened);
    return opened ? std::string() : opened.error().message;
  }

  std::unique_ptr<Engine> engine_;
  SequenceHandle sequence_{};
  StateModel model_;
  std::vector<std::byte> bytes_;
};

TEST_F(StateImageTest, RowsStatesAndLogitsEqualThoseOfTheSequence) {
  const auto opened = StateImage::Open(model_, bytes_, StateContent::kAll);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(opened->sequences().size(), 1u);
  const StateImage::Sequence& read = opened->sequences()[0];
  const auto from = SequenceExport::Open(*engine_, sequence_);
  ASSERT_TRUE(from);
  EXPECT_EQ(read.cell_count, 40u);
  EXPECT_TRUE(std::ranges::equal(read.tokens, from->tokens()));
  EXPECT_TRUE(std::ranges::equal(read.positions, from->positions()));
  EXPECT_FALSE(read.has_encoded_text);
  for (std::size_t plane = 0; plane < model_.planes.size(); ++plane) {
    const CachePlane& at = model_.planes[plane];
    for (const auto& [begin, end] : {std::pair{0u, 40u}, {3u, 37u}, {39u, 40u}, {5u, 5u}}) {
      std::vector<std::byte> rows((end - begin) * at.cell_bytes(at.type));
      std::vector<std::byte> expected(rows.size());
      opened->ReadRows(read, plane, begin, end, rows.data());
      ASSERT_TRUE(from->ReadRows(from->planes()[plane], begin, end, at.type, CellMajor(at, at.type),
                                 expected.data()));
      EXPECT_EQ(rows, expected) << plane;
    }
  }
  std::vector<float> state(model_.state_floats - 3);
  opened->ReadFloats(read.state, 3, state);
  EXPECT_TRUE(std::ranges::equal(state, from->state().subspan(3)));
  ASSERT_EQ(read.logits_floats, model_.vocab_size);
  std::vector<float> logits(model_.vocab_size);
  opened->ReadFloats(read.logits, 0, logits);
  EXPECT_TRUE(std::ranges::equal(logits, from->logits()));
}

TEST_F(StateImageTest, AnOutlineDescribesTheCompleteState) {
  const auto outline = Sent(StateContent::kOutline);
  EXPECT_LT(outline.size(), bytes_.size() / 4);
  const auto opened = StateImage::Open(model_, outline, StateContent::kOutline);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto whole = StateImage::Open(model_, bytes_, StateContent::kAll);
  const StateImage::Sequence& sketch = opened->sequences().at(0);
  const StateImage::Sequence& all = whole->sequences().at(0);
  EXPECT_EQ(sketch.cell_count, all.cell_count);
  EXPECT_EQ(sketch.tokens, all.tokens);
  EXPECT_EQ(sketch.logits_floats, all.logits_floats);
  ASSERT_EQ(sketch.rows.size(), all.rows.size());
  for (std::size_t plane = 0; plane < all.rows.size(); ++plane) {
    EXPECT_EQ(sketch.rows[plane].begin, all.rows[plane].begin);
  }
  // Open refuses an outline (a state without rows of cells) where a complete state is expected, and
  // a complete state where an outline is expected.
  EXPECT_FALSE(StateImage::Open(model_, outline, StateContent::kAll));
  const auto longer = StateImage::Open(model_, bytes_, StateContent::kOutline);
  ASSERT_FALSE(longer);
}

TEST_F(StateImageTest, WithoutCheckpointsAndLogitsOnlyTheLastStateIsSent) {
  const auto few =
      Sent(StateContent::kAll, {.with_logits = false, .packed = false, .with_checkpoints = false});
  EXPECT_LT(few.size(), bytes_.size());
  const auto opened = StateImage::Open(model_, few, StateContent::kAll);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->sequences().at(0).logits_floats, 0u);
  EXPECT_FALSE(opened->sequences().at(0).state.sections.empty());
}

TEST_F(StateImageTest, AStateThatDoesNotFitTheModelIsRefused) {
  EXPECT_THAT(Refusal([](Changed& c) { c.header().fingerprint[1] += 1; }),
              HasSubstr("another model"));
  EXPECT_THAT(Refusal([](Changed& c) { c.section(c.Find(SectionKind::kRows)).layer = 0; }),
              HasSubstr("layer: 0"));
  EXPECT_THAT(Refusal([](Changed& c) { c.section(c.Find(SectionKind::kRows)).type = 0; }),
              HasSubstr("type: 0"));
  EXPECT_THAT(Refusal([](Changed& c) { c.sequence().k_type = 3; }), HasSubstr("type: 3"));
  EXPECT_THAT(Refusal([](Changed& c) { c.sequence().v_type = 999; }), HasSubstr("type: 999"));
  EXPECT_THAT(Refusal([](Changed& c) {
                c.sequence().k_type = 0;
                SectionEntry& rows = c.section(c.Find(SectionKind::kRows));
                rows.type = 0;
              }),
              HasSubstr("raw_bytes"));
  StateModel larger = model_;
  larger.state_floats += 1;
  const auto opened = StateImage::Open(larger, bytes_, StateContent::kAll);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("state_floats"));
}

TEST_F(StateImageTest, DamagedOrMissingBytesAreRefused) {
  EXPECT_THAT(Refusal([](Changed& c) { c.bytes.resize(100); }, false), HasSubstr("length: 100"));
  EXPECT_THAT(Refusal([](Changed& c) { c.bytes.pop_back(); }, false), HasSubstr("file_bytes"));
  EXPECT_THAT(Refusal([](Changed& c) { c.bytes.back() ^= std::byte{1}; }, false),
              HasSubstr("crc: the bytes are damaged"));
  EXPECT_THAT(Refusal([](Changed& c) { c.header().version = 9; }, false),
              HasSubstr("version 9, this build reads 1"));
  EXPECT_THAT(Refusal([](Changed& c) {
                SectionEntry& rows = c.section(c.Find(SectionKind::kRows));
                rows.packing = state_file::Packing::kPlanesLz4;
                rows.element_bytes = 2;
                rows.raw_bytes += 1;
                c.header().raw_bytes += 1;
              }),
              HasSubstr("packing: was not asked for"));
  // The section claims one cell less than its bytes hold.
  EXPECT_THAT(Refusal([](Changed& c) {
                SectionEntry& rows = c.section(c.Find(SectionKind::kRows));
                rows.end -= 1;
                rows.begin = 1;
                rows.begin -= 1;
              }),
              HasSubstr("raw_bytes"));
  auto outline = Sent(StateContent::kOutline);
  outline.pop_back();
  const auto opened = StateImage::Open(model_, outline, StateContent::kOutline);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("raw_bytes"));
  const auto head = StateImage::Open(model_, std::span(outline).first(300), StateContent::kOutline);
  ASSERT_FALSE(head);
  EXPECT_THAT(head.error().message, HasSubstr("section_count"));
}

}  // namespace
}  // namespace kvd
