// Tests that sequences are saved to files and loaded again: for every kind of memory, with every
// profile, and into pools of other cell types. The bytes of a file depend only on the sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/model_config.h"
#include "engine/saved_state/state_file.h"
#include "tests/engine/saved_state/state_folder.h"
#include "tests/support/parameter_name.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using kernels::DataType;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::SameBits;
using test::StateFolder;
using test::TinyLlama;
using test::TinyOf;
using testing::HasSubstr;

// The model has heads of 64 elements, because q8_0 cells need a multiple of 32 elements.
ModelShape WideHeads() {
  ModelShape shape = TinyLlama();
  shape.name = "tiny-heads-64";
  shape.embedding = 128;
  shape.head_dim = 64;
  return shape;
}

// Feeds the tokens. The step of the last token keeps the state and the row of logits, as at the end
// of a prompt.
void FeedPrompt(Engine& engine, SequenceHandle sequence, std::vector<TokenId> tokens) {
  const TokenId last = tokens.back();
  tokens.pop_back();
  (void)Feed(engine, sequence, tokens, 50);
  std::vector<float> row(engine.config().vocab_size);
  StepItem item{.sequence = sequence,
                .pos = engine.memory().sequences().Query(sequence)->next_pos,
                .tokens = {&last, 1},
                .first_logits_row = 0,
                .logits = row.data(),
                .keeps_state = true};
  engine.Step({&item, 1});
  ASSERT_TRUE(item.status) << item.status.error().message;
}

class StateFileKindsTest : public testing::TestWithParam<Architecture> {
 protected:
  static EngineOptions Options() {
    return {.cells = 1024, .checkpoint_every = 32, .threads = 2, .deterministic = true};
  }
  StateFolder folder_;
};

TEST_P(StateFileKindsTest, ALoadedSequenceContinuesWithTheSameBits) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const auto other = MakeEngine(shape, Options());
  ASSERT_TRUE(engine != nullptr && other != nullptr);
  const SequenceHandle sequence = *engine->memory().sequences().Create({});
  FeedPrompt(*engine, sequence, RandomTokens(3, 150, shape.vocab));
  ASSERT_TRUE(folder_.Save(*engine, sequence, "packed"));
  ASSERT_TRUE(folder_.Save(*engine, sequence, "plain", {.packed = false}));
  ASSERT_TRUE(folder_.Save(*engine, sequence, "no-logits", {.with_logits = false}));
  std::vector<SequenceHandle> loaded;
  for (const char* name : {"packed", "plain", "no-logits"}) {
    LoadReport report;
    const auto handle = folder_.Load(*other, name, 0, &report);
    ASSERT_TRUE(handle) << handle.error().message;
    EXPECT_EQ(report.cell_count, 150u);
    EXPECT_FALSE(report.is_converted);
    const SequenceInfo info = *other->memory().sequences().Query(*handle);
    EXPECT_EQ(info.pristine_cells, 150u);
    EXPECT_EQ(info.checkpoint_count,
              engine->memory().sequences().Query(sequence)->checkpoint_count);
    std::vector<float> row(shape.vocab), expected(shape.vocab);
    const bool has_row = *other->memory().states().ReadLogits(*handle, row.data());
    EXPECT_EQ(has_row, engine->state_bytes() != 0 && std::string(name) != "no-logits");
    if (has_row) {
      ASSERT_TRUE(*engine->memory().states().ReadLogits(sequence, expected.data()));
      EXPECT_TRUE(SameBits(row, expected));
    }
    loaded.push_back(*handle);
  }
  const std::vector<TokenId> next = RandomTokens(4, 40, shape.vocab);
  const std::vector<float> expected = Feed(*engine, sequence, next, 9);
  for (const SequenceHandle handle : loaded) {
    EXPECT_TRUE(SameBits(Feed(*other, handle, next, 13), expected));
  }
}

TEST_P(StateFileKindsTest, TheBytesDependOnlyOnTheSequence) {
  const ModelShape shape = TinyOf(GetParam());
  std::vector<std::vector<char>> files;
  for (const bool differs : {false, true}) {
    EngineOptions options = Options();
    if (differs) {
      options.cells = 4096;
      options.threads = 1;
    }
    const auto engine = MakeEngine(shape, options);
    Memory& memory = engine->memory();
    if (differs) {  // the sequence gets other blocks
      const SequenceHandle first = *memory.sequences().Create({});
      (void)Feed(*engine, first, RandomTokens(9, 77, shape.vocab), 77);
    }
    const SequenceHandle sequence = *memory.sequences().Create({});
    (void)Feed(*engine, sequence, RandomTokens(3, 64, shape.vocab), differs ? 64 : 7);
    SequenceHandle fork{};
    ASSERT_TRUE(memory.sequences().Fork(sequence, {}, {&fork, 1}));
    (void)Feed(*engine, differs ? fork : sequence, RandomTokens(5, 30, shape.vocab), 3);
    ASSERT_TRUE(folder_.Save(*engine, differs ? fork : sequence, "state", {}, differs ? 3u : 1u));
    test::StateBytes bytes(folder_.Bytes("state"));
    bytes.header().saved_unix_ms = 0;
    reinterpret_cast<state_file::SequenceHeader*>(bytes.content(0))->handle = 0;
    bytes.SumUp();
    files.push_back(bytes.bytes);
  }
  // In models with recurrent states the fork has a checkpoint at its fork point and `sequence` has
  // none, so the files differ.
  if (GetParam() == Architecture::kLlama || GetParam() == Architecture::kGemma2) {
    EXPECT_EQ(files[0], files[1]);
  }
}

TEST_P(StateFileKindsTest, ThePredictedSizeIsExactWithoutPacking) {
  const ModelShape shape = TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  for (const std::size_t count : {0, 1, 150}) {
    const SequenceHandle sequence = *engine->memory().sequences().Create({});
    if (count > 0) FeedPrompt(*engine, sequence, RandomTokens(3, count, shape.vocab));
    const auto from = SequenceExport::Open(*engine, sequence);
    const SaveItem item{.sequence = &*from};
    for (const bool with_logits : {false, true}) {
      const SaveProfile profile{.with_logits = with_logits, .packed = false};
      const std::uint64_t told = UnpackedFileBytes(*PlanSections({&item, 1}, profile));
      const auto report = folder_.Save(*engine, sequence, "plain", profile);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->file_bytes, told);
      EXPECT_EQ(folder_.Bytes("plain").size(), told);
    }
    const auto packed = folder_.Save(*engine, sequence, "packed");
    EXPECT_EQ(folder_.Bytes("packed").size(), packed->file_bytes);
    EXPECT_LE(packed->file_bytes, folder_.Bytes("plain").size());
    ASSERT_TRUE(folder_.Load(*engine, "packed"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StateFileKindsTest,
    testing::Values(Architecture::kLlama, Architecture::kGemma2, Architecture::kMamba2,
                    Architecture::kLfm2, Architecture::kQwen35, Architecture::kDeepseek2,
                    Architecture::kGemma4, Architecture::kGemma3n, Architecture::kGptOss,
                    Architecture::kNemotronHMoe, Architecture::kKimiLinear),
    [](const auto& named) { return test::ParameterName(DefinitionOf(named.param).format.name); });

class StateFileTest : public testing::Test {
 protected:
  StateFileTest() : engine_(MakeEngine(WideHeads(), {.cells = 1024, .deterministic = true})) {
    sequence_ = *engine_->memory().sequences().Create({});
    (void)Feed(*engine_, sequence_, RandomTokens(3, 90, 96), 50);
  }

  StateFolder folder_;
  std::unique_ptr<Engine> engine_;
  SequenceHandle sequence_{};
};

TEST_F(StateFileTest, AnotherCellTypeIsConvertedAndReported) {
  const std::vector<TokenId> next = RandomTokens(4, 20, 96);
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "f16"));
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "q8_0",
                           {.k_type = DataType::kQ8_0, .v_type = DataType::kQ8_0}));
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "q4_0",
                           {.k_type = DataType::kQ4_0, .v_type = DataType::kQ4_0}));
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::pair<double, std::vector<float>>> results;  // the limit of the error, the logits
  for (const DataType pool : {DataType::kF32, DataType::kF16, DataType::kQ8_0, DataType::kQ4_0}) {
    engines.push_back(MakeEngine(WideHeads(), {.cells = 512, .k_type = pool, .v_type = pool}));
    for (const DataType saved : {DataType::kF16, DataType::kQ8_0, DataType::kQ4_0}) {
      LoadReport report;
      const auto loaded = folder_.Load(*engines.back(), kernels::DataTypeName(saved), 0, &report);
      ASSERT_TRUE(loaded) << loaded.error().message;
      EXPECT_EQ(report.k_type, saved);
      EXPECT_EQ(report.is_converted, pool != saved);
      const bool is_as_computed = pool == DataType::kF16 && saved == DataType::kF16;
      EXPECT_EQ(engines.back()->memory().sequences().Query(*loaded)->pristine_cells,
                is_as_computed ? 90u : 0u);
      const bool is_coarse = pool == DataType::kQ4_0 || saved == DataType::kQ4_0;
      results.emplace_back(is_coarse ? 2e-1 : 1e-3, Feed(*engines.back(), *loaded, next, 20));
    }
  }
  const std::vector<float> expected = Feed(*engine_, sequence_, next, 20);
  for (const auto& [limit, got] : results) {
    double difference = 0, square = 0;
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(double{got[i]} - expected[i], 2);
      square += std::pow(double{expected[i]}, 2);
    }
    EXPECT_LT(difference / square, limit);
  }
}

TEST_F(StateFileTest, AnEncodedTextIsLoadedWithItsSequence) {
  ModelShape shape = TinyLlama();
  shape.architecture = Architecture::kT5;
  const auto t5 = MakeEngine(shape, {.cells = 512, .deterministic = true});
  ASSERT_NE(t5, nullptr);
  const SequenceHandle sequence = *t5->memory().sequences().Create({});
  const Status encoded = t5->Encode(sequence, RandomTokens(8, 37, shape.vocab));
  ASSERT_TRUE(encoded) << encoded.error().message;
  for (const std::size_t count : {0, 20}) {
    if (count > 0) (void)Feed(*t5, sequence, RandomTokens(3, count, shape.vocab), 7);
    ASSERT_TRUE(folder_.Save(*t5, sequence, "text"));
    const auto loaded = folder_.Load(*t5, "text");
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(t5->memory().sequences().Query(*loaded)->cross_cells, 37u);
    SequenceHandle twin{};
    ASSERT_TRUE(t5->memory().sequences().Fork(sequence, {}, {&twin, 1}));
    const std::vector<TokenId> next = RandomTokens(4, 10, shape.vocab);
    EXPECT_TRUE(SameBits(Feed(*t5, *loaded, next, 3), Feed(*t5, twin, next, 10)));
  }
}

TEST_F(StateFileTest, AFileOfTokensIsReadButNotLoaded) {
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "tokens", {.tokens_only = true}));
  const auto refused = folder_.Load(*engine_, "tokens");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  const auto file = folder_.Open("tokens");
  const auto read = ReadSavedTokens(*engine_, *file, 0);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tokens, RandomTokens(3, 90, 96));
  EXPECT_EQ(read->positions.back().value, 89);
  EXPECT_LT(folder_.Bytes("tokens").size(), 1500u);
}

TEST_F(StateFileTest, SeveralSequencesAreLoadedWithTheirSamplers) {
  const SequenceHandle second = *engine_->memory().sequences().Create({});
  (void)Feed(*engine_, second, RandomTokens(7, 33, 96), 50);
  const SequenceHandle empty = *engine_->memory().sequences().Create({});
  std::vector<SequenceExport> exports;
  for (const SequenceHandle handle : {sequence_, second, empty}) {
    exports.push_back(*SequenceExport::Open(*engine_, handle));
  }
  const std::vector<std::byte> sampler = {std::byte{1}, std::byte{2}, std::byte{3}};
  const SaveItem items[] = {{.sequence = &exports[0]},
                            {.sequence = &exports[1], .sampler = sampler},
                            {.sequence = &exports[2]}};
  const auto saved = SaveSequences(*engine_, items, {}, *PlanSections(items, {}),
                                   {.directory = folder_.descriptor(), .name = "all"}, 2);
  ASSERT_TRUE(saved) << saved.error().message;
  const std::vector<TokenId> next = RandomTokens(4, 20, 96);
  for (std::size_t number = 0; number < 3; ++number) {
    LoadReport report;
    const auto loaded = folder_.Load(*engine_, "all", number, &report);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(report.sampler, number == 1 ? sampler : std::vector<std::byte>{});
    const SequenceHandle original = exports[number].info().handle;
    EXPECT_TRUE(SameBits(Feed(*engine_, *loaded, next, 20), Feed(*engine_, original, next, 7)));
  }
}

TEST_F(StateFileTest, TheErrorForAnotherModelNamesTheDifference) {
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "state"));
  ModelShape shape = WideHeads();
  shape.seed = 2;
  const auto seeded = MakeEngine(shape, {.cells = 512});
  auto refused = folder_.Load(*seeded, "state");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("what differs: tensor data"));
  const auto other = MakeEngine(TinyOf(Architecture::kMamba2), {.cells = 512});
  refused = folder_.Load(*other, "state");
  EXPECT_THAT(refused.error().message,
              HasSubstr("saved with another model, a llama, this one is a mamba2"));
}

TEST_F(StateFileTest, AFileWithMoreCellsThanThePoolIsRefusedBeforeReading) {
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "state"));
  const auto small = MakeEngine(WideHeads(), {.cells = 64});
  const auto refused = folder_.Load(*small, "state");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_THAT(refused.error().message, HasSubstr("90 needed, the pool has 64"));
}

TEST_F(StateFileTest, AnExistingNameIsKeptUnlessItIsToBeReplaced) {
  ASSERT_TRUE(folder_.Save(*engine_, sequence_, "state"));
  const auto before = folder_.Bytes("state");
  const auto from = SequenceExport::Open(*engine_, sequence_);
  const SaveItem item{.sequence = &*from};
  const auto refused = SaveSequences(*engine_, {&item, 1}, {}, *PlanSections({&item, 1}, {}),
                                     {.directory = folder_.descriptor(), .name = "state"}, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExists);
  EXPECT_EQ(folder_.Bytes("state"), before);
  EXPECT_EQ(folder_.FileCount(), 1u) << "no temporary is left";
  const std::atomic<bool> flag{true};
  FlaggedWork cancelled(&flag);
  const auto given_up =
      SaveSequences(*engine_, {&item, 1}, {}, *PlanSections({&item, 1}, {}),
                    {.directory = folder_.descriptor(), .name = "other"}, 2, cancelled);
  EXPECT_EQ(given_up.error().code, Code::kCancelled);
  EXPECT_EQ(folder_.FileCount(), 1u);
  const auto file = folder_.Open("state");
  const SequenceHandle target = *engine_->memory().sequences().Create({});
  EXPECT_EQ(LoadSequence(*engine_, *file, 0, target, 2, cancelled).error().code, Code::kCancelled);
  EXPECT_EQ(engine_->memory().sequences().Query(target)->cell_count, 0u);
}

TEST_F(StateFileTest, TemporaryFilesOfEndedProcessesAreRemoved) {
  const std::string own = ".kvd-" + std::to_string(::getpid()) + "-77";
  for (const std::string& name :
       {own, std::string(".kvd-2147483646-1"), std::string("mine"), std::string(".kvd-x-1")}) {
    folder_.Write(name, {'x'});
  }
  ASSERT_TRUE(RemoveStaleTemporaries(folder_.descriptor()));
  EXPECT_EQ(folder_.FileCount(), 3u);
  EXPECT_FALSE(std::filesystem::exists(folder_.PathOf(".kvd-2147483646-1")));
}

TEST_F(StateFileTest, ASequenceThatContinuesDuringASaveIsSavedUnchanged) {
  const auto from = SequenceExport::Open(*engine_, sequence_);
  SequenceHandle twin{};
  ASSERT_TRUE(engine_->memory().sequences().Fork(sequence_, {}, {&twin, 1}));
  {
    std::jthread busy([&] { (void)Feed(*engine_, sequence_, RandomTokens(5, 200, 96), 3); });
    const SaveItem item{.sequence = &*from};
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(
          SaveSequences(*engine_, {&item, 1}, {}, *PlanSections({&item, 1}, {}),
                        {.directory = folder_.descriptor(), .name = "state", .replace = true}, 2));
    }
  }
  const std::vector<TokenId> next = RandomTokens(4, 20, 96);
  const auto loaded = folder_.Load(*engine_, "state");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(SameBits(Feed(*engine_, *loaded, next, 20), Feed(*engine_, twin, next, 7)));
}

}  // namespace
}  // namespace kvd
