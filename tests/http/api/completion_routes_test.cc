// POST /completion and POST /v1/completions with a real daemon over the bundled model.
#include <gmock/gmock.h>

#include "http/api/llama_completion.h"
#include "http/api/routes.h"
#include "tests/http/api/support/event_list.h"
#include "tests/http/api/support/route_fixture.h"
#include "tests/support/tiny_model.h"

namespace kvd::http {
namespace {

using test::At;
using test::EventsOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CompletionRoutesTest : public test::RouteTest {
 protected:
  void SetUp() override {
    settings_.defaults.seed = 42;
    settings_.slot_count = 2;
    AddLlamaCompletionRoutes(gateway_, router_);
    AddOpenAiCompletionRoutes(gateway_, router_);
    AddTokenizeRoutes(gateway_, router_);
  }
  Value Complete(std::string members) {
    return ValueOf(Post("/completion", "{" + std::move(members) + "}"));
  }
  std::string ContentOf(const Value& reply) { return std::string(At(reply, "content").view()); }
};

TEST_F(CompletionRoutesTest, AReplyDescribesItsGeneration) {
  Start();
  const Value reply = Complete(R"("prompt":"Once upon a time","n_predict":5,"return_tokens":true)");
  EXPECT_EQ(At(reply, "index").integer(), 0);
  EXPECT_EQ(At(reply, "tokens_predicted").integer(), 5);
  EXPECT_EQ(At(reply, "tokens").items().size(), 5u);
  EXPECT_EQ(At(reply, "stop_type").view(), "limit");
  EXPECT_EQ(At(reply, "timings.predicted_n").integer(), 5);
  EXPECT_EQ(At(reply, "generation_settings.n_predict").integer(), 5);
  EXPECT_EQ(At(reply, "generation_settings.seed").integer(), 42);
  EXPECT_THAT(At(reply, "prompt").view(), HasSubstr("Once upon a time"));
  EXPECT_EQ(At(reply, "cache.reused").integer(), 0);
  const Value again = Complete(R"("prompt":"Once upon a time","n_predict":5)");
  EXPECT_EQ(ContentOf(again), ContentOf(reply));
  EXPECT_TRUE(At(again, "tokens").items().empty());
  EXPECT_EQ(At(again, "timings.prompt_n").integer(), 1);
  EXPECT_EQ(At(again, "cache.reused").integer(), At(again, "timings.cache_n").integer());
}

TEST_F(CompletionRoutesTest, ASequenceThatCannotBeRewoundIsComputedAgain) {
  using kvd::test::Tokenizer;
  Start(kvd::test::TinyModelPath(kvd::test::TinyOf(Architecture::kGemma2), Tokenizer::kBundled));
  const auto request = [](int changed_from, const std::string& more) {
    std::string ids = "\"prompt\":[";
    for (int i = 0; i < 120; ++i) {
      ids += (i == 0 ? "" : ",") + std::to_string(300 + i + (i < changed_from ? 0 : 7));
    }
    return ids + "],\"n_predict\":5,\"return_tokens\":true," + more;
  };
  (void)Complete(request(120, R"("id_slot":0)"));
  const Value slot = Complete(request(50, R"("id_slot":0)"));
  const Value alone = Complete(request(50, R"("id_slot":1,"cache_prompt":false)"));
  EXPECT_EQ(At(slot, "tokens").items().size(), 5u);
  EXPECT_TRUE(Equal(At(slot, "tokens"), At(alone, "tokens")));
  EXPECT_EQ(At(slot, "cache.source").view(), "none");
}

TEST_F(CompletionRoutesTest, AStreamHasTheTextOfTheWholeReply) {
  Start();
  const Value whole = Complete(R"("prompt":"Once","n_predict":12)");
  const GatewayReply stream =
      Post("/completion", R"({"prompt":"Once","n_predict":12,"stream":true})");
  EXPECT_EQ(stream.content_type, kEventStreamType);
  const std::vector<Value> events = EventsOf(stream.body);
  std::string text;
  for (const Value& event : events) {
    text += At(event, "content").view();
    const bool is_last = &event == &events.back();
    EXPECT_EQ(At(event, "stop").truth(), is_last);
    EXPECT_EQ(At(event, "tokens").items().empty(), is_last);
  }
  EXPECT_EQ(text, ContentOf(whole));
  EXPECT_EQ(At(events.back(), "tokens_predicted").integer(), 12);
  EXPECT_THAT(stream.body, ::testing::Not(HasSubstr("[DONE]")));
}

TEST_F(CompletionRoutesTest, PromptsAreTextsTokensMixesAndLists) {
  Start();
  const Value tokenized =
      ValueOf(Post("/tokenize", R"({"content":"Once upon","add_special":true})"));
  std::string ids;
  for (const Value& id : At(tokenized, "tokens").items()) {
    ids += (ids.empty() ? "" : ",") + std::to_string(id.integer());
  }
  const std::string rest = R"(,"n_predict":4,"temperature":0)";
  const std::string text = ContentOf(Complete(R"("prompt":"Once upon")" + rest));
  EXPECT_EQ(ContentOf(Complete("\"prompt\":[" + ids + "]" + rest)), text);
  EXPECT_EQ(ContentOf(Complete(R"("prompt":{"prompt_string":"Once upon"})" + rest)), text);
  const Value list =
      Complete(R"("prompt":["Once upon",[)" + ids + R"(],{"prompt_string":"Once upon"}])" + rest);
  ASSERT_EQ(list.items().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(ContentOf(list.items()[i]), text);
    EXPECT_EQ(At(list.items()[i], "index").integer(), static_cast<std::int64_t>(i));
  }
  EXPECT_GT(
      At(Complete("\"prompt\":[" + ids + ",\" a time\"]" + rest), "tokens_evaluated").integer(),
      At(Complete(R"("prompt":"Once upon")" + rest), "tokens_evaluated").integer());
}

TEST_F(CompletionRoutesTest, MorePromptsThanSlotsAreAnsweredInOrderOfTheirIndex) {
  Start();
  const Value list = Complete(R"("prompt":["a","b","c","d","e"],"n":2,"n_predict":2)");
  ASSERT_EQ(list.items().size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(At(list.items()[i], "index").integer(), static_cast<std::int64_t>(i));
  }
}

TEST_F(CompletionRoutesTest, ReplyFieldsAreAFilterOfPaths) {
  Start();
  const Value reply = Complete(
      R"("prompt":"a","n_predict":1,"response_fields":["content","timings/prompt_n","nothing"])");
  ASSERT_EQ(reply.dict().size(), 2u);
  EXPECT_TRUE(reply.dict().Contains("timings/prompt_n"));
}

TEST_F(CompletionRoutesTest, ProbabilitiesComeWithEachToken) {
  Start();
  const Value reply = Complete(R"("prompt":"Once","n_predict":3,"n_probs":4,"temperature":0)");
  const auto& probs = At(reply, "completion_probabilities").items();
  ASSERT_EQ(probs.size(), 3u);
  std::string text;
  for (const Value& prob : probs) {
    text += At(prob, "token").view();
    EXPECT_LE(At(prob, "logprob").number(), 0);
    EXPECT_EQ(At(prob, "top_logprobs").items().size(), 4u);
    // At temperature 0 the token is the most likely one.
    EXPECT_EQ(At(prob, "id").integer(), At(At(prob, "top_logprobs").items()[0], "id").integer());
  }
  EXPECT_EQ(text, ContentOf(reply));
  const Value sampled =
      Complete(R"("prompt":"Once","n_predict":3,"n_probs":4,"post_sampling_probs":true)");
  for (const Value& prob : At(sampled, "completion_probabilities").items()) {
    EXPECT_GT(At(prob, "prob").number(), 0);
    EXPECT_LE(At(prob, "top_probs").items().size(), 4u);
  }
}

TEST_F(CompletionRoutesTest, AGrammarRestrictsTheText) {
  Start();
  EXPECT_EQ(ContentOf(Complete(R"("prompt":"a","grammar":"root ::= \"a\"{5,5}")")), "aaaaa");
  EXPECT_EQ(ContentOf(Complete(R"("prompt":"a","json_schema":{"const":"42"})")), "\"42\"");
  const Value indented =
      Complete(R"("prompt":"a","n_indent":2,"grammar":"root ::= \"x\\n  y\\nz w\"")");
  EXPECT_EQ(ContentOf(indented), "x\n  y\n");
  EXPECT_EQ(At(indented, "stop_type").view(), "limit");
}

TEST_F(CompletionRoutesTest, AStopTextEndsTheText) {
  Start();
  const Value reply = Complete(R"("prompt":"a","stop":["cd"],"grammar":"root ::= \"abcdef\"")");
  EXPECT_EQ(ContentOf(reply), "ab");
  EXPECT_EQ(At(reply, "stop_type").view(), "word");
  EXPECT_EQ(At(reply, "stopping_word").view(), "cd");
}

TEST_F(CompletionRoutesTest, ErrorsBeforeAStreamNameTheField) {
  Start();
  const auto error = [&](std::string members) {
    return ErrorOf(Post("/completion", "{" + std::move(members) + "}"));
  };
  EXPECT_THAT(error(""), StartsWith("400 \"prompt\""));
  EXPECT_THAT(error(R"("prompt":5)"), StartsWith("400 prompt: "));
  EXPECT_THAT(error(R"("prompt":[])"), StartsWith("400 prompt: "));
  EXPECT_THAT(error(R"("prompt":"a","id_slot":2)"), StartsWith("400 id_slot: "));
  EXPECT_THAT(error(R"("prompt":"a","grammar":"root ::= (","stream":true)"),
              StartsWith("400 grammar: "));
  EXPECT_THAT(error(R"("fork_from":"nothing","prompts":["a"])"),
              StartsWith("404 fork_from: \"nothing\" is no stored response"));
  EXPECT_THAT(ErrorOf(Post("/completion", "{\"prompt\":")), StartsWith("400 body: "));
  EXPECT_THAT(ErrorOf(Post("/completion", "{\"prompt\":\"\xff\"}")), StartsWith("400 body: "));
  const std::string deep(200, '[');
  EXPECT_THAT(ErrorOf(Post("/completion", "{\"prompt\":" + deep)), StartsWith("400 body: "));
  std::string words;
  for (int i = 0; i < 9000; ++i) words += "word ";
  const GatewayReply too_long =
      Post("/completion", "{\"stream\":true,\"prompt\":\"" + words + "\"}");
  EXPECT_EQ(too_long.status, 400);
  EXPECT_THAT(too_long.body, HasSubstr("exceed_context_size_error"));
}

TEST_F(CompletionRoutesTest, SuffixesOfASnapshotAreAnsweredTogether) {
  Start();
  const auto session = *tenant().session();
  const SequenceHandle sequence = *Run(session->Create());
  const std::vector<TokenId> prefix =
      *Run(session->Tokenize("Once upon a time there was", std::uint16_t{wire::kFlagAddSpecial}));
  auto stream = session->Generate(sequence, {.tokens = prefix, .predict_max = 0});
  ASSERT_TRUE(stream) << stream.error().message;
  while (*Run((*stream)->Next())) {
  }
  ASSERT_TRUE(Run(session->Publish(sequence, "tale", 0, {})));
  const Value list =
      Complete(R"("fork_from":"tale","prompts":[" a girl"," a dog"," a house"],"n_predict":3)");
  ASSERT_EQ(list.items().size(), 3u);
  for (const Value& reply : list.items()) {
    EXPECT_EQ(At(reply, "cache.source").view(), "snapshot");
    EXPECT_EQ(At(reply, "cache.reused").integer(), static_cast<std::int64_t>(prefix.size()));
    EXPECT_EQ(At(reply, "timings.cache_n").integer(), static_cast<std::int64_t>(prefix.size()));
    EXPECT_EQ(At(reply, "tokens_predicted").integer(), 3);
  }
}

TEST_F(CompletionRoutesTest, OpenAiRepliesHaveChoicesUsageAndAnEcho) {
  Start();
  const Value reply =
      ValueOf(Post("/v1/completions",
                   R"({"prompt":["Once","The"],"n":2,"max_tokens":3,"logprobs":1,"echo":true})"));
  ASSERT_EQ(At(reply, "choices").items().size(), 4u);
  const Value& first = At(reply, "choices").items()[0];
  EXPECT_THAT(At(first, "text").view(), StartsWith("Once"));
  EXPECT_EQ(At(first, "logprobs.tokens").items().size(), 3u);
  EXPECT_EQ(At(first, "logprobs.text_offset").items()[0].integer(), 4);
  EXPECT_EQ(At(first, "finish_reason").view(), "length");
  EXPECT_EQ(At(reply, "usage.completion_tokens").integer(), 12);
  EXPECT_EQ(At(reply, "object").view(), "text_completion");
  EXPECT_THAT(At(reply, "system_fingerprint").view(), StartsWith("b"));
}

TEST_F(CompletionRoutesTest, AnOpenAiStreamEndsWithUsageAndDone) {
  Start();
  const GatewayReply reply = Post(
      "/v1/completions",
      R"({"prompt":"Once","max_tokens":4,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_THAT(reply.body, HasSubstr("data: [DONE]\n\n"));
  const std::vector<Value> events = EventsOf(reply.body);
  ASSERT_GE(events.size(), 3u);
  EXPECT_TRUE(At(events.back(), "choices").items().empty());
  EXPECT_EQ(At(events.back(), "usage.completion_tokens").integer(), 4);
  const Value& end = events[events.size() - 2];
  EXPECT_EQ(At(At(end, "choices").items()[0], "finish_reason").view(), "length");
}

}  // namespace
}  // namespace kvd::http
