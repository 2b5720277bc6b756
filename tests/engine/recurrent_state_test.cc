// Tests that a step whose recurrent state is not finite fails and commits nothing, even if no
// logits are requested.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"
#include "tests/support/parameter_name.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

constexpr TokenId kBroken = 5;

class RecurrentStateTest : public ::testing::TestWithParam<Architecture> {
 protected:
  // Makes a model in which the embedding of token kBroken contains a NaN.
  void SetUp() override {
    ModelShape shape = test::TinyLlama();
    shape.name = "broken";
    shape.architecture = GetParam();
    shape.type = kernels::DataType::kF32;
    const std::string path = test::TinyModelPath(shape);
    std::uint64_t at = 0;
    {
      const auto file = GgufFile::Open(path);
      ASSERT_TRUE(file.has_value()) << file.error().message;
      at = file->FindTensor("token_embd.weight")->byte_offset;
    }
    at += (std::uint64_t{kBroken} * shape.embedding + 3) * sizeof(float);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.write(reinterpret_cast<const char*>(&nan), sizeof nan);
    bytes.close();
    ASSERT_FALSE(bytes.fail());
    engine_ = test::MakeEngine(shape, {.cells = 128, .threads = 2});
    ASSERT_NE(engine_, nullptr);
  }

  // Runs a step without logits.
  Status Step(SequenceHandle sequence, std::int32_t pos, std::vector<TokenId> tokens) {
    StepItem item{
        .sequence = sequence, .pos = Pos{pos}, .tokens = tokens, .first_logits_row = tokens.size()};
    engine_->Step({&item, 1});
    return item.status;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_P(RecurrentStateTest, AStateThatIsNotFiniteFailsItsStepAndIsNotKept) {
  Memory& memory = engine_->memory();
  const SequenceHandle sequence = *memory.sequences().Create({}),
                       untouched = *memory.sequences().Create({});
  ASSERT_TRUE(Step(sequence, 0, {1, 2}).has_value());
  ASSERT_TRUE(Step(untouched, 0, {1, 2}).has_value());
  const Status status = Step(sequence, 2, {3, kBroken, 4});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kNumerical) << status.error().message;
  EXPECT_EQ(memory.sequences().Query(sequence)->cell_count, 2u);
  // The sequence has kept its state from before the failed step.
  std::vector<float> logits[2];
  for (const SequenceHandle handle : {sequence, untouched}) {
    logits[handle == sequence] = test::Feed(*engine_, handle, {3, 4}, 2);
  }
  ASSERT_FALSE(logits[0].empty());
  EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(Architectures, RecurrentStateTest,
                         ::testing::Values(Architecture::kLfm2, Architecture::kRwkv6,
                                           Architecture::kRwkv7, Architecture::kQwen35,
                                           Architecture::kKimiLinear),
                         [](const auto& named) {
                           return test::ParameterName(DefinitionOf(named.param).format.name);
                         });

}  // namespace
}  // namespace kvd
