// The calls of the C interface for a first program: text in, text out; options that are zero; the
// version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"

namespace kvd {
namespace {

using testing::HasSubstr;

class SimpleCallsTest : public test::CApiTest {
 protected:
  explicit SimpleCallsTest(std::vector<std::string> arguments = {})
      : CApiTest(std::move(arguments)) {}
  // A text of more than 1,000 tokens.
  static std::string Long() {
    std::string text;
    for (int i = 0; i < 250; ++i) text += "The kite is green. ";
    return text;
  }
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
  // Without parameters: the defaults.
  const kvd_sequence other = Create();
  ASSERT_EQ(
      kvd_generate_text(client_, other, "The", KVD_ADD_SPECIAL, nullptr, nullptr, nullptr, &result),
      KVD_OK)
      << kvd_error_message();
  EXPECT_GT(result.predicted, 0u);
  EXPECT_NE(result.seed, 0u);
}

TEST_F(SimpleCallsTest, WhatATextLacksIsNamed) {
  const kvd_sequence sequence = Create();
  EXPECT_EQ(kvd_prompt(client_, sequence, "", 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("text: it has no tokens"));
  EXPECT_EQ(kvd_prompt(client_, sequence, nullptr, 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(nullptr, sequence, "x", 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(client_, sequence, "x", KVD_FORCE, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_prompt(client_, sequence + 1, "x", 0, nullptr), KVD_NOT_FOUND);
  const auto generate = [&](kvd_sequence wanted, const char* text, std::uint32_t flags,
                            const kvd_generate_params* params = nullptr) {
    return kvd_generate_text(client_, wanted, text, flags, params, nullptr, nullptr, nullptr);
  };
  EXPECT_EQ(generate(sequence, "", 0), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("text: it has no tokens"));
  EXPECT_EQ(generate(sequence, nullptr, 0), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(generate(sequence, "x", KVD_FORCE), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(generate(sequence + 1, "x", 0), KVD_NOT_FOUND);
  kvd_generate_params params = Greedy(4);
  params.temperature = -1;
  EXPECT_EQ(generate(sequence, "x", 0, &params), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("temperature"));
  params = Greedy(4);
  params.size = 0;
  EXPECT_EQ(generate(sequence, "x", 0, &params), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("size: 0 bytes"));
  EXPECT_EQ(kvd_generate_text(nullptr, sequence, "x", 0, nullptr, nullptr, nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  const std::string large(8 << 20, 'a');
  EXPECT_EQ(kvd_prompt(client_, sequence, large.c_str(), 0, nullptr), KVD_TOO_LARGE);
  EXPECT_EQ(generate(sequence, large.c_str(), 0), KVD_TOO_LARGE);
  EXPECT_EQ(Query(sequence).cell_count, 0u);
}

TEST_F(SimpleCallsTest, TextsAreRefusedForSequencesThatAreNotFree) {
  kvd_client* other = Open();
  kvd_sequence theirs = 0;
  ASSERT_EQ(kvd_sequence_create(other, nullptr, &theirs, nullptr), KVD_OK);
  const kvd_sequence computed = Create();
  const kvd_request computing = Compute(computed);
  const kvd_generate_params params = Greedy(4);
  for (const auto& [sequence, code] :
       {std::pair{theirs, KVD_PERMISSION}, std::pair{computed, KVD_BUSY}}) {
    EXPECT_EQ(kvd_prompt(client_, sequence, "x", 0, nullptr), code) << kvd_error_message();
    EXPECT_EQ(kvd_generate_text(client_, sequence, "x", 0, &params, nullptr, nullptr, nullptr),
              code)
        << kvd_error_message();
  }
  Cancel(computing);
  kvd_close(other);
  // An answer without an end: cancelled by its function, and without room for another prompt.
  kvd_generate_params endless = Greedy(-1);
  endless.flags = KVD_IGNORE_EOS;
  const kvd_sequence cancelled = Create();
  kvd_generate_result result{};
  result.seed = 99;
  EXPECT_EQ(kvd_generate_text(
                client_, cancelled, "The", KVD_ADD_SPECIAL, &endless,
                [](void*, const kvd_piece*) { return 1; }, nullptr, &result),
            KVD_CANCELLED);
  EXPECT_EQ(result.seed, 99u) << "written on an error";
  EXPECT_GT(Query(cancelled).cell_count, 0u) << "the computed tokens stay";
}

TEST_F(SimpleCallsTest, ATextThatTimesOutIsCancelled) {
  kvd_client* hasty = Open([](kvd_connect_options& options) { options.timeout_ms = 20; });
  for (const bool draws : {false, true}) {
    kvd_sequence sequence = 0;
    int code = KVD_TIMEOUT;
    while (code == KVD_TIMEOUT) code = kvd_sequence_create(hasty, nullptr, &sequence, nullptr);
    ASSERT_EQ(code, KVD_OK) << kvd_error_message();
    code = draws ? kvd_generate_text(hasty, sequence, Long().c_str(), 0, nullptr, nullptr, nullptr,
                                     nullptr)
                 : kvd_prompt(hasty, sequence, Long().c_str(), 0, nullptr);
    EXPECT_EQ(code, KVD_TIMEOUT) << kvd_error_message();
    // The sequence is free again when the cancelled request has ended.
    do {
      kvd_request clear = 0;
      ASSERT_EQ(kvd_sequence_clear(hasty, sequence, &clear), KVD_OK);
      code = kvd_finish(hasty, clear, test::kPatienceMs);
    } while (code == KVD_BUSY);
    EXPECT_EQ(code, KVD_OK) << kvd_error_message();
  }
  kvd_close(hasty);
}

// A daemon in which no request waits for room.
class WithoutWaitingTest : public SimpleCallsTest {
 protected:
  WithoutWaitingTest() : SimpleCallsTest({"--room-wait-ms", "1"}) {}
};

TEST_F(WithoutWaitingTest, ATextWithoutRoomInThePoolIsRefused) {
  (void)Filled(3900);
  const kvd_sequence sequence = Create();
  kvd_generate_result result{};
  result.seed = 99;
  EXPECT_EQ(kvd_prompt(client_, sequence, Long().c_str(), 0, &result), KVD_NO_SPACE);
  EXPECT_EQ(
      kvd_generate_text(client_, sequence, Long().c_str(), 0, nullptr, nullptr, nullptr, &result),
      KVD_NO_SPACE);
  EXPECT_EQ(result.seed, 99u) << "written on an error";
  EXPECT_EQ(Query(sequence).cell_count, 0u);
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
