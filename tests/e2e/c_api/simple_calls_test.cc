// The calls of the C interface for a first program: text in, text out; options that are zero; the
// version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/e2e/c_api/c_api_test.h"

namespace kvd {
namespace {

using testing::HasSubstr;

class SimpleCallsTest : public test::CApiTest {
 protected:
  static int Append(void* user, const kvd_piece* piece) {
    static_cast<std::string*>(user)->append(piece->text, piece->text_bytes);
    return 0;
  }
  static kvd_generate_params Greedy(std::int32_t predict_max) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.temperature = 0;
    params.predict_max = predict_max;
    return params;
  }
  std::string TextOf(kvd_sequence sequence) const {
    char* text = nullptr;
    std::size_t bytes = 0;
    EXPECT_EQ(kvd_read_text(client_, sequence, KVD_SPECIAL, &text, &bytes, nullptr), KVD_OK);
    std::string taken = text == nullptr ? "" : std::string(text, bytes);
    kvd_free(text);
    return taken;
  }
};

TEST_F(SimpleCallsTest, ATextIsAppendedAndContinued) {
  const kvd_sequence sequence = Create();
  kvd_generate_result result;
  ASSERT_EQ(kvd_prompt(client_, sequence, "<|system|>The drum is red.<|end|>", KVD_PARSE_SPECIAL,
                       &result),
            KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(result.predicted, 0u);
  EXPECT_EQ(TextOf(sequence), "<|system|>The drum is red.<|end|>");
  std::string answer;
  const kvd_generate_params params = Greedy(8);
  ASSERT_EQ(
      kvd_generate_text(client_, sequence, "<|user|>What colour is the drum?<|end|><|assistant|>",
                        KVD_PARSE_SPECIAL, &params, Append, &answer, &result),
      KVD_OK)
      << kvd_error_message();
  EXPECT_GT(result.predicted, 0u);
  EXPECT_FALSE(answer.empty());
  EXPECT_THAT(TextOf(sequence), HasSubstr(answer));
  // Without parameters: the defaults. The answer may end before it is cancelled.
  const int code = kvd_generate_text(
      client_, Create(), "The", KVD_ADD_SPECIAL, nullptr, [](void*, const kvd_piece*) { return 1; },
      nullptr, nullptr);
  EXPECT_TRUE(code == KVD_CANCELLED || code == KVD_OK) << kvd_error_message();
}

TEST_F(SimpleCallsTest, WhatATextLacksIsNamed) {
  const kvd_sequence sequence = Create();
  EXPECT_EQ(kvd_prompt(client_, sequence, "", 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("text: it has no tokens"));
  EXPECT_EQ(kvd_prompt(client_, sequence, nullptr, 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(nullptr, sequence, "x", 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(client_, sequence, "x", KVD_FORCE, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(client_, sequence + 1, "x", 0, nullptr), KVD_NOT_FOUND);
}

TEST_F(SimpleCallsTest, ZeroInConnectOptionsMeansTheDefault) {
  kvd_connect_options options;
  std::memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.socket_path = socket_path().c_str();
  kvd_client* client = nullptr;
  ASSERT_EQ(kvd_connect(&options, &client), KVD_OK) << kvd_error_message();
  EXPECT_EQ(kvd_ping(client, 0, nullptr, nullptr), KVD_OK) << kvd_error_message();
  kvd_close(client);
}

TEST_F(SimpleCallsTest, ParametersThatWereNotInitialisedAreRefused) {
  const kvd_token token = 10;
  kvd_generate_params params;
  std::memset(&params, 0, sizeof params);
  params.size = sizeof params;
  params.tokens = &token;
  params.token_count = 1;
  EXPECT_EQ(kvd_generate(client_, Create(), &params, nullptr, nullptr, nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("kvd_generate_params_init has not filled it"));
}

TEST_F(SimpleCallsTest, ADecodeTakesTheNextPosition) {
  const kvd_sequence sequence = Create();
  const kvd_token tokens[] = {10, 20, 30};
  kvd_logits logits;
  for (int i = 1; i <= 2; ++i) {
    ASSERT_EQ(kvd_decode(client_, sequence, tokens, 3, -1, KVD_LOGITS_NONE, &logits, nullptr),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(Query(sequence).next_pos, 3 * i);
  }
  kvd_request later = 0;
  ASSERT_EQ(kvd_decode(client_, sequence, tokens, 3, -1, KVD_LOGITS_NONE, nullptr, &later), KVD_OK);
  EXPECT_EQ(kvd_decode_next(client_, later, test::kPatienceMs, &logits), KVD_OK);
  EXPECT_EQ(Query(sequence).next_pos, 9);
  EXPECT_EQ(kvd_decode(client_, sequence, tokens, 3, -2, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_INVALID_ARGUMENT);
}

TEST_F(SimpleCallsTest, LibraryAndHeaderHaveOneVersion) {
  EXPECT_STREQ(kvd_version(), KVD_VERSION_TEXT);
  EXPECT_EQ(KVD_VERSION_NUMBER,
            KVD_VERSION_MAJOR * 10000 + KVD_VERSION_MINOR * 100 + KVD_VERSION_PATCH);
}

}  // namespace
}  // namespace kvd
