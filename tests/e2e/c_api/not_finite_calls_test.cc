// The calls of the C interface that compute, with models in which the embeddings of two tokens are
// not finite: KVD_NUMERICAL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/edited_model.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::kPatienceMs;
using testing::HasSubstr;

// The tokens of the texts "<|user|>" and "." in the bundled tokenizer.
constexpr kvd_token kNotFinite = 4;
constexpr kvd_token kNotFiniteStop = 990;
constexpr const char* kNotFiniteText = "<|user|>";

// Returns the path of a model of the shape in which both tokens have NaN as their embeddings.
std::string PathWithNaN(ModelShape shape, test::Tokenizer tokenizer) {
  shape.type = kernels::DataType::kF32;
  return test::EditedModelPath(
      test::TinyModelPath(shape, tokenizer), [](test::EditedTensors& tensors) {
        test::EditedTensor& table = test::TensorOf(tensors, "token_embd.weight");
        const std::size_t row_bytes = table.dims[0] * sizeof(float);
        for (const kvd_token token : {kNotFinite, kNotFiniteStop}) {
          std::fill_n(table.bytes.data() + static_cast<std::size_t>(token) * row_bytes, row_bytes,
                      std::byte{0xff});
        }
      });
}

class NotFiniteTest : public test::CApiTest {
 protected:
  explicit NotFiniteTest(ModelShape shape = test::TinyLlama())
      : CApiTest({"-m", PathWithNaN(std::move(shape), test::Tokenizer::kBundled)}) {}
  // An answer could draw the token.
  std::vector<TokenId> Answer() override { return std::vector<TokenId>(8); }

  static kvd_generate_params ParamsOf(const std::vector<kvd_token>& tokens) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = tokens.data();
    params.token_count = tokens.size();
    params.predict_max = 4;
    return params;
  }
  void ExpectNumerical(int code, const char* message = "not finite") const {
    EXPECT_EQ(code, KVD_NUMERICAL) << kvd_error_message();
    EXPECT_EQ(kvd_error_code(), KVD_NUMERICAL);
    EXPECT_THAT(kvd_error_message(), HasSubstr(message));
  }
};

TEST_F(NotFiniteTest, ADecodeFailsAndLeavesTheSequenceAsItWas) {
  const kvd_sequence sequence = Filled(10);
  const std::string before = Cells(sequence);
  // The tokens of several steps precede the last token, and are taken back.
  std::vector<kvd_token> tokens(1500, 9);
  tokens.push_back(kNotFinite);
  for (const std::size_t count : {std::size_t{1}, tokens.size()}) {
    const kvd_token* first = tokens.data() + tokens.size() - count;
    kvd_logits logits;
    ExpectNumerical(
        kvd_decode(client_, sequence, first, count, 10, KVD_LOGITS_LAST, &logits, nullptr));
    EXPECT_EQ(Cells(sequence), before);
    kvd_request request = 0;
    ASSERT_EQ(kvd_decode(client_, sequence, first, count, 10, KVD_LOGITS_LAST, nullptr, &request),
              KVD_OK);
    ExpectNumerical(kvd_decode_next(client_, request, kPatienceMs, &logits));
    EXPECT_EQ(kvd_decode_next(client_, request, 0, &logits), KVD_NOT_FOUND) << "it has ended";
    EXPECT_EQ(Cells(sequence), before);
  }
  kvd_logits logits;
  EXPECT_EQ(kvd_decode(client_, sequence, tokens.data(), 3, 10, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_OK)
      << kvd_error_message();
}

TEST_F(NotFiniteTest, AGenerationFailsAtItsPromptAndLeavesTheSequenceAsItWas) {
  const kvd_sequence sequence = Filled(10);
  const std::string before = Cells(sequence);
  const std::vector<kvd_token> prompt = {10, 20, kNotFinite};
  const kvd_generate_params params = ParamsOf(prompt);
  kvd_generate_result result{};
  result.seed = 99;
  ExpectNumerical(kvd_generate(client_, sequence, &params, nullptr, nullptr, &result, nullptr));
  EXPECT_EQ(result.seed, 99u) << "written on an error";
  EXPECT_EQ(Cells(sequence), before);
  kvd_request request = 0;
  kvd_piece piece;
  ASSERT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  ExpectNumerical(kvd_generate_next(client_, request, kPatienceMs, &piece, &result));
  EXPECT_EQ(kvd_generate_next(client_, request, 0, &piece, &result), KVD_NOT_FOUND);
  EXPECT_EQ(result.seed, 99u) << "written on an error";
  EXPECT_EQ(Cells(sequence), before);
}

TEST_F(NotFiniteTest, AGenerationFailsAtATokenThatItHasDrawn) {
  const std::vector<kvd_token> prompt = {10, 20, 30};
  const kvd_logit_bias bias = {.token = kNotFinite, .bias = 1000};
  kvd_generate_params params = ParamsOf(prompt);
  params.biases = &bias;
  params.bias_count = 1;
  params.flags = KVD_IGNORE_EOS;
  const kvd_sequence sequence = Create();
  ExpectNumerical(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(Query(sequence).cell_count, 3u) << "the prompt, which was computed";
}

TEST_F(NotFiniteTest, APromptAndATextThatIsContinuedFail) {
  const kvd_sequence sequence = Filled(10);
  const std::string before = Cells(sequence);
  ExpectNumerical(kvd_prompt(client_, sequence, kNotFiniteText, KVD_PARSE_SPECIAL, nullptr));
  ExpectNumerical(kvd_generate_text(client_, sequence, kNotFiniteText, KVD_PARSE_SPECIAL, nullptr,
                                    nullptr, nullptr, nullptr));
  EXPECT_EQ(Cells(sequence), before);
  EXPECT_EQ(kvd_prompt(client_, sequence, "The kite", 0, nullptr), KVD_OK) << kvd_error_message();
}

// A model whose keys are close to the largest f16, so that a rotation exceeds it.
class LargeKeysTest : public test::CApiTest {
 protected:
  explicit LargeKeysTest(float bias = 60'000, std::vector<std::string> further = {})
      : CApiTest([&] {
          std::vector<std::string> arguments = {"-m", PathWithBias(bias)};
          arguments.insert(arguments.end(), further.begin(), further.end());
          return arguments;
        }()) {}
  std::vector<TokenId> Answer() override { return std::vector<TokenId>(8); }

 private:
  static std::string PathWithBias(float bias) {
    ModelShape shape = test::TinyLlama();
    shape.architecture = Architecture::kQwen2;
    shape.heads = 2;  // of 32 elements, which a q8_0 row can hold
    shape.kv_heads = 1;
    return test::EditedModelPath(test::TinyModelPath(shape), [bias](test::EditedTensors& tensors) {
      test::EditedTensor& biases = test::TensorOf(tensors, "blk.0.attn_k.bias");
      const std::vector<float> numbers(biases.dims[0], bias);
      std::memcpy(biases.bytes.data(), numbers.data(), biases.bytes.size());
    });
  }
};

TEST_F(LargeKeysTest, DivideFailsIfARewrittenKeyIsNotFinite) {
  InBothForms([&] {
    const kvd_sequence sequence = Filled(1);
    ASSERT_EQ(kvd_sequence_add(client_, sequence, 0, -1, 8, nullptr), KVD_OK);
    std::uint64_t cells = 7;
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_sequence_divide(client_, sequence, 0, -1, 2, &cells, later);
              }),
              KVD_NUMERICAL);
    EXPECT_THAT(kvd_error_message(), HasSubstr("a key is not finite"));
    EXPECT_EQ(cells, 7u);
    EXPECT_EQ(Query(sequence).next_pos, 9) << "nothing changed";
  });
}

// Cells of f32 hold what a q8_0 row does not.
class HugeKeysTest : public LargeKeysTest {
 protected:
  HugeKeysTest() : HugeKeysTest(std::make_shared<test::TemporaryFolder>()) {}

 private:
  explicit HugeKeysTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : LargeKeysTest(
            1e9F, {"-ctk", "f32", "-ctv", "f32", "--store", (folder->path() / "store").string()}),
        folder_(folder) {}

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(HugeKeysTest, SaveFailsIfAValueDoesNotFitIntoAQ8Row) {
  const kvd_sequence sequence = Filled(1);
  ExpectRefused({
      {KVD_NUMERICAL, "does not fit",
       [&](auto* later) {
         return kvd_save(client_, sequence, "x", KVD_SAVE_Q8_ROWS, nullptr, later);
       }},
      {KVD_NUMERICAL, "does not fit",
       [&](auto* later) { return kvd_save_all(client_, "x", KVD_SAVE_Q8_ROWS, nullptr, later); }},
  });
  kvd_saved_info* saved = nullptr;
  std::size_t count = 7;
  EXPECT_EQ(kvd_saved(client_, &saved, &count, nullptr), KVD_OK);
  EXPECT_EQ(count, 0u) << "no file is left";
  kvd_free(saved);
  EXPECT_EQ(kvd_save(client_, sequence, "x", 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
}

class NotFiniteEncoderTest : public NotFiniteTest {
 protected:
  NotFiniteEncoderTest() : NotFiniteTest(Shape()) {}
  static ModelShape Shape() {
    ModelShape shape = test::TinyLlama();
    shape.architecture = Architecture::kT5;
    shape.kv_heads = shape.heads;
    return shape;
  }
};

TEST_F(NotFiniteEncoderTest, EncodeFailsAndTheSequenceHasNoText) {
  const kvd_token text[] = {10, 20, kNotFinite};
  InBothForms([&] {
    const kvd_sequence sequence = Create();
    kvd_token start_token = 99;
    ExpectNumerical(Call(
        [&](auto* later) { return kvd_encode(client_, sequence, text, 3, &start_token, later); }));
    EXPECT_EQ(start_token, 99);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_encode(client_, sequence, text, 2, &start_token, later);
              }),
              KVD_OK)
        << kvd_error_message();
  });
}

class NotFiniteRankerTest : public NotFiniteTest {
 protected:
  NotFiniteRankerTest() : NotFiniteTest(Shape()) {}
  static ModelShape Shape() {
    ModelShape shape = test::TinyLlama();
    shape.architecture = Architecture::kBert;
    shape.kv_heads = shape.heads;
    shape.context = 80;
    shape.pooling = Pooling::kRank;
    return shape;
  }
};

TEST_F(NotFiniteRankerTest, EmbedFailsAndGivesNoRows) {
  const kvd_token tokens[] = {10, 20, kNotFinite};
  const kvd_token_list texts[] = {{.tokens = tokens, .token_count = 2},
                                  {.tokens = tokens, .token_count = 3}};
  InBothForms([&] {
    float* values = nullptr;
    std::size_t rows = 7;
    std::size_t floats = 7;
    ExpectNumerical(Call([&](auto* later) {
      return kvd_embed(client_, texts, 2, KVD_POOLING_MEAN, 0, &values, &rows, &floats, later);
    }));
    EXPECT_EQ(values, nullptr);
    EXPECT_EQ(rows, 7u);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_embed(client_, texts, 1, KVD_POOLING_MEAN, 0, &values, &rows, &floats,
                                 later);
              }),
              KVD_OK)
        << kvd_error_message();
    kvd_free(values);
  });
}

TEST_F(NotFiniteRankerTest, RankFailsAndGivesNoScores) {
  const char* documents[] = {"The kite is green", "The kite is green."};
  InBothForms([&] {
    float scores[2] = {7, 7};
    ExpectNumerical(
        Call([&](auto* later) { return kvd_rank(client_, "kite", documents, 2, scores, later); }));
    EXPECT_EQ(scores[0], 7);
    EXPECT_EQ(
        Call([&](auto* later) { return kvd_rank(client_, "kite", documents, 1, scores, later); }),
        KVD_OK)
        << kvd_error_message();
  });
}

}  // namespace
}  // namespace kvd
