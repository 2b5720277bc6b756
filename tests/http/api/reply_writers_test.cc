// The forms of replies: numbers, probabilities, deltas and messages.
#include <gmock/gmock.h>

#include <cmath>
#include <utility>

#include "http/api/answer_report.h"
#include "http/api/error_of.h"
#include "http/api/json_text.h"
#include "http/api/llama_writer.h"
#include "http/api/openai_chat_writer.h"
#include "http/api/token_probs.h"
#include "text/json.h"

namespace kvd::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

double NumberOf(const Value& object, std::string_view name) {
  const Value& member = object.dict().Find(name);
  EXPECT_FALSE(member.is_missing()) << name;
  return member.is_missing() ? NAN : member.number();
}

TEST(JsonTextTest, ANumberThatWasAFloatKeepsItsText) {
  EXPECT_EQ(JsonText(FloatValue(0.8f)), "0.8");
}

TEST(AnswerReportTest, RatesCountTheTokensAfterTheFirst) {
  AnswerEnd end;
  end.prompt_tokens = 12;
  end.cached_tokens = 2;
  end.predicted_tokens = 5;
  end.prompt_time = std::chrono::milliseconds(20);
  end.predict_time = std::chrono::milliseconds(8);
  const Value timings = TimingsOf(end);
  EXPECT_EQ(NumberOf(timings, "cache_n"), 2);
  EXPECT_EQ(NumberOf(timings, "prompt_n"), 10);
  EXPECT_EQ(NumberOf(timings, "prompt_per_token_ms"), 2);
  EXPECT_EQ(NumberOf(timings, "prompt_per_second"), 500);
  EXPECT_EQ(NumberOf(timings, "predicted_per_token_ms"), 2);
  EXPECT_EQ(NumberOf(timings, "predicted_per_second"), 500);
}

TEST(AnswerReportTest, RatesOfOneTokenAndOfNoTimeAreZero) {
  AnswerEnd end;
  end.predicted_tokens = 1;
  end.predict_time = std::chrono::milliseconds(8);
  for (const std::string_view name : {"predicted_per_second", "predicted_per_token_ms",
                                      "prompt_per_second", "prompt_per_token_ms"}) {
    EXPECT_EQ(NumberOf(TimingsOf(end), name), 0) << name;
  }
}

TEST(AnswerReportTest, UsageCountsAPromptOfSeveralAnswersOnce) {
  AnswerEnd end;
  end.prompt_tokens = 10;
  end.cached_tokens = 4;
  end.predicted_tokens = 3;
  Usage usage;
  usage.Add(end, false);
  usage.Add(end, true);
  EXPECT_EQ(JsonText(usage.ToValue()),
            R"({"completion_tokens":6,"prompt_tokens":10,"total_tokens":16,)"
            R"("prompt_tokens_details":{"cached_tokens":4}})");
}

TEST(ErrorOfTest, EveryCodeHasAStatus) {
  EXPECT_EQ(StatusOf({Code::kInvalidArgument, ""}), 400);
  EXPECT_EQ(StatusOf({Code::kNotFound, ""}), 404);
  EXPECT_EQ(StatusOf({Code::kUnsupported, ""}), 501);
  EXPECT_EQ(StatusOf({Code::kNoSpace, ""}), 503);
  EXPECT_EQ(StatusOf({Code::kTooLarge, ""}), 400);
  EXPECT_EQ(StatusOf({Code::kSessionLost, ""}), 503);
  EXPECT_EQ(StatusOf({Code::kInternal, ""}), 500);
  EXPECT_EQ(ErrorBody({Code::kInvalidArgument, "seed: odd"}),
            R"({"error":{"code":400,"message":"seed: odd","type":"invalid_request_error"}})");
  const std::string too_long = TooLongBody({.prompt_tokens = 9, .context_tokens = 8});
  EXPECT_THAT(too_long, HasSubstr("exceeds the available context size"));
  EXPECT_THAT(too_long, HasSubstr(R"("type":"exceed_context_size_error")"));
  EXPECT_THAT(too_long, HasSubstr(R"("n_prompt_tokens":9,"n_ctx":8)"));
}

TEST(ErrorOfTest, ErrorsForClientsNameNoPathAndNoProcess) {
  const auto text = [](Code code, std::string message) {
    return PublicText({code, std::move(message)});
  };
  EXPECT_EQ(text(Code::kIo, "/state/responses: No space left on device"),
            "the server cannot read or write a file: No space left on device");
  EXPECT_EQ(text(Code::kIo, "/state/responses"), "the server cannot read or write a file");
  EXPECT_EQ(text(Code::kIo, "x: /a/b"), "the server cannot read or write a file");
  EXPECT_EQ(text(Code::kDisconnected, "no daemon at /run/kvd/default, pid 7"),
            "the daemon of this model does not answer");
  for (const Code code : {Code::kTimeout, Code::kVersionMismatch, Code::kInternal}) {
    EXPECT_THAT(text(code, "/run/kvd pid 7"), Not(HasSubstr("/run"))) << CodeName(code);
  }
  EXPECT_EQ(text(Code::kInvalidArgument, "seed: odd"), "seed: odd");
  EXPECT_EQ(text(Code::kNoSpace, "/slots/a: No space left on device"),
            "the server has no room for this request");
  EXPECT_EQ(text(Code::kNoSpace, "responses: 9, at most 8"), "responses: 9, at most 8");
}

TEST(ErrorOfTest, AnErrorOfAPromptWithoutRoomShowsNoNumbersOfThePoolAndSaysWhatHelps) {
  EXPECT_EQ(PublicText({Code::kNoSpace,
                        "no room for 40 tokens after 2000 ms: the pool has 128 cells (--cells), 0 "
                        "free; 7 of other owners 96; kvctl ps lists them"}),
            "no room for 40 tokens after 2000 ms: the server's memory is in use. Try again later, "
            "shorten the prompt, lower max_tokens, or wait longer (room_wait_ms)");
}

TEST(LineIndentTest, ALessIndentedLineEndsTheText) {
  LineIndent indent(4);
  EXPECT_EQ(indent.Take("a\n    b\n"), 8u);
  EXPECT_EQ(indent.Take("  "), 2u);
  EXPECT_EQ(indent.Take("  c\n  d"), 6u);
  EXPECT_TRUE(indent.is_over());
  EXPECT_EQ(indent.Take("e"), 0u);
  LineIndent none;
  EXPECT_EQ(none.Take("a\nb"), 3u);
}

std::vector<DrawnToken::Choice> ThreeCandidates() {
  return {{1, std::log(0.6)}, {2, std::log(0.3)}, {3, std::log(0.1)}};
}

TEST(TokenProbsTest, ProbabilitiesAfterTheSamplersHaveTheSumOne) {
  SamplingParams sampling = kPlainSampling;
  auto all = SampledProbs(ThreeCandidates(), sampling);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NEAR(all[0].number, 0.6, 1e-9);
  sampling.top_k = 2;
  const auto two = SampledProbs(ThreeCandidates(), sampling);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_NEAR(two[0].number + two[1].number, 1, 1e-9);
  EXPECT_NEAR(two[0].number, 2.0 / 3, 1e-9);
  sampling.top_k = 0;
  sampling.top_p = 0.5f;
  EXPECT_EQ(SampledProbs(ThreeCandidates(), sampling).size(), 1u);
  sampling.top_p = 1;
  sampling.min_p = 0.4f;
  EXPECT_EQ(SampledProbs(ThreeCandidates(), sampling).size(), 2u);
  sampling.min_p = 0;
  sampling.temperature = 0.5f;
  EXPECT_NEAR(SampledProbs(ThreeCandidates(), sampling)[0].number, 0.36 / 0.46, 1e-6);
  sampling.temperature = 0;
  EXPECT_EQ(SampledProbs(ThreeCandidates(), sampling).size(), 1u);
}

TEST(TokenProbsTest, RecordsAreReadTokenByToken) {
  AnswerRequest request;
  request.logprob_count = 2;
  const std::vector<wire::TokenLogprob> records = {{7, -1}, {7, -1}, {8, -2},
                                                   {9, -3}, {5, -1}, {6, -2}};
  const auto tokens = ReadDrawnTokens(records, request, false, 2);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].drawn.token, 7);
  EXPECT_EQ(tokens[1].drawn.token, 9);
  EXPECT_EQ(tokens[1].top[1].token, 6);
  const auto sampled = ReadDrawnTokens(records, request, true, 1);
  EXPECT_EQ(sampled[0].top.size(), 1u);
}

TEST(OpenAiChatWriterTest, EventsBecomeDeltas) {
  using Kind = AnswerEvent::Kind;
  const auto json = [](const AnswerEvent& event) { return JsonText(DeltaOf(event)); };
  EXPECT_EQ(json({.kind = Kind::kContent, .text = "Hi", .id = {}}), R"({"content":"Hi"})");
  EXPECT_EQ(json({.kind = Kind::kReasoning, .text = "Hm", .id = {}}),
            R"({"reasoning_content":"Hm"})");
  EXPECT_EQ(json({.kind = Kind::kCallBegin, .call = 1, .text = "f", .id = "abc"}),
            R"({"tool_calls":[{"index":1,"id":"abc","type":"function",)"
            R"("function":{"name":"f","arguments":""}}]})");
  EXPECT_EQ(json({.kind = Kind::kArguments, .call = 1, .text = "{}", .id = {}}),
            R"({"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]})");
  EXPECT_TRUE(DeltaOf({.kind = Kind::kCallEnd, .text = {}, .id = {}}).is_missing());
}

TEST(OpenAiChatWriterTest, AMessageWithCallsHasNoContent) {
  ParsedAnswer parsed;
  parsed.content = "Hi";
  parsed.reasoning = "Hm";
  EXPECT_EQ(JsonText(ChatMessageOf(parsed)),
            R"({"role":"assistant","content":"Hi","reasoning_content":"Hm"})");
  parsed = {};
  parsed.calls = {{.id = "abc", .name = "f", .arguments = "{}", .is_complete = true}};
  EXPECT_EQ(JsonText(ChatMessageOf(parsed)),
            R"({"role":"assistant","content":null,"tool_calls":[{"type":"function",)"
            R"("function":{"name":"f","arguments":"{}"},"id":"abc"}]})");
}

}  // namespace
}  // namespace kvd::http
