// Reading the fields of answers: names, aliases, ranges, and what is refused by name.
#include "http/api/sampling_fields.h"

#include <gmock/gmock.h>

#include <cmath>

#include "http/api/reply_fields.h"
#include "http/api/route_kinds.h"
#include "text/json.h"

namespace kvd::http {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Value Body(std::string_view json) {
  const auto value = ParseJson(json);
  EXPECT_TRUE(value.has_value()) << json;
  return value ? *value : Value::Of(Dict());
}

struct Read {
  AnswerRequest request;
  UnreadTexts texts;
  std::string error;
};

Read ReadOf(std::string_view json) {
  Read read;
  read.request = DefaultRequest(Settings());
  const Value body = Body(json);
  auto texts = ReadSamplingFields(Fields(body), read.request);
  if (texts) {
    read.texts = std::move(*texts);
  } else {
    read.error = texts.error().message;
    EXPECT_EQ(texts.error().code, Code::kInvalidArgument) << read.error;
  }
  return read;
}

std::string ReplyErrorOf(std::string_view json) {
  const Value body = Body(json);
  const auto reply = ReadReplyFields(Fields(body), Settings());
  return reply ? std::string() : reply.error().message;
}

TEST(SamplingFieldsTest, AnEmptyBodyHasTheDefaults) {
  const Read read = ReadOf("{}");
  EXPECT_THAT(read.error, IsEmpty());
  EXPECT_EQ(read.request.sampling, kDefaultSampling);
  EXPECT_EQ(read.request.seed, kRandomSeed);
  EXPECT_EQ(read.request.predict_max, -1);
  EXPECT_TRUE(read.request.caches_prompt);
  EXPECT_FALSE(read.request.slot.has_value());
}

TEST(SamplingFieldsTest, ThePingIntervalOfTheCommandLineAppliesToRequestsWithoutOne) {
  Settings settings;
  settings.ping_interval = std::chrono::seconds(7);
  const auto seconds_of = [&](std::string_view json) {
    const Value body = Body(json);
    return ReadReplyFields(Fields(body), settings)->ping_time.count();
  };
  EXPECT_EQ(seconds_of("{}"), 7);
  EXPECT_EQ(seconds_of(R"({"sse_ping_interval":3})"), 3);
  EXPECT_EQ(seconds_of(R"({"sse_ping_interval":-1})"), 0);
  settings.ping_interval = std::chrono::seconds(-1);
  EXPECT_EQ(seconds_of("{}"), 0);
}

TEST(SamplingFieldsTest, EveryNumberIsRead) {
  const Read read = ReadOf(R"({"temperature":0.5,"dynatemp_range":0.25,"dynatemp_exponent":2,
      "top_k":7,"top_p":0.5,"min_p":0.25,"typical_p":0.75,"top_n_sigma":1.5,
      "xtc_probability":0.5,"xtc_threshold":0.25,"repeat_last_n":9,"repeat_penalty":1.25,
      "presence_penalty":0.5,"frequency_penalty":-0.5,"dry_multiplier":0.5,"dry_base":2,
      "dry_allowed_length":3,"dry_penalty_last_n":11,"mirostat":2,"mirostat_tau":4,
      "mirostat_eta":0.25,"adaptive_target":0.5,"adaptive_decay":0.5,"seed":17,"n_keep":5,
      "ignore_eos":true,"cache_prompt":false,"id_slot":1,"t_max_predict_ms":30,
      "room_wait_ms":2000})");
  EXPECT_THAT(read.error, IsEmpty());
  const SamplingParams& s = read.request.sampling;
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.dynatemp_range, 0.25f);
  EXPECT_EQ(s.dynatemp_exponent, 2);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.top_p, 0.5f);
  EXPECT_EQ(s.min_p, 0.25f);
  EXPECT_EQ(s.typical_p, 0.75f);
  EXPECT_EQ(s.top_n_sigma, 1.5f);
  EXPECT_EQ(s.xtc_probability, 0.5f);
  EXPECT_EQ(s.xtc_threshold, 0.25f);
  EXPECT_EQ(s.repeat_last, 9);
  EXPECT_EQ(s.repeat_penalty, 1.25f);
  EXPECT_EQ(s.presence_penalty, 0.5f);
  EXPECT_EQ(s.frequency_penalty, -0.5f);
  EXPECT_EQ(s.dry_multiplier, 0.5f);
  EXPECT_EQ(s.dry_base, 2);
  EXPECT_EQ(s.dry_allowed_length, 3);
  EXPECT_EQ(s.dry_penalty_last, 11);
  EXPECT_EQ(s.mirostat, 2);
  EXPECT_EQ(s.mirostat_tau, 4);
  EXPECT_EQ(s.mirostat_eta, 0.25f);
  EXPECT_EQ(s.adaptive_target, 0.5f);
  EXPECT_EQ(s.adaptive_decay, 0.5f);
  EXPECT_EQ(read.request.seed, 17u);
  EXPECT_EQ(read.request.keep, 5);
  EXPECT_TRUE(read.request.ignores_eos);
  EXPECT_FALSE(read.request.caches_prompt);
  EXPECT_EQ(read.request.slot, 1u);
  EXPECT_EQ(read.request.predict_time_max, std::chrono::milliseconds(30));
  EXPECT_EQ(read.request.room_wait_ms, 2000);
}

TEST(SamplingFieldsTest, TheTimeToWaitForRoomIsAtLeastMinusOne) {
  EXPECT_EQ(ReadOf("{}").request.room_wait_ms, 0);
  EXPECT_EQ(ReadOf(R"({"room_wait_ms":-1})").request.room_wait_ms, -1);
  EXPECT_THAT(ReadOf(R"({"room_wait_ms":-2})").error, StartsWith("room_wait_ms: -2 "));
}

TEST(SamplingFieldsTest, AWrongTypeIsRefusedByName) {
  for (const std::string_view name : {"temperature",
                                      "dynatemp_range",
                                      "dynatemp_exponent",
                                      "top_k",
                                      "top_p",
                                      "min_p",
                                      "typical_p",
                                      "top_n_sigma",
                                      "xtc_probability",
                                      "xtc_threshold",
                                      "repeat_last_n",
                                      "repeat_penalty",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "dry_multiplier",
                                      "dry_base",
                                      "dry_allowed_length",
                                      "dry_penalty_last_n",
                                      "mirostat",
                                      "mirostat_tau",
                                      "mirostat_eta",
                                      "adaptive_target",
                                      "adaptive_decay",
                                      "seed",
                                      "n_keep",
                                      "ignore_eos",
                                      "cache_prompt",
                                      "id_slot",
                                      "t_max_predict_ms",
                                      "room_wait_ms",
                                      "n_predict",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "n_probs",
                                      "min_keep",
                                      "logit_bias",
                                      "return_progress",
                                      "grammar_lazy"}) {
    const Read read = ReadOf("{\"" + std::string(name) + "\":\"hot\"}");
    EXPECT_THAT(read.error, StartsWith(std::string(name) + ": ")) << name;
  }
  for (const std::string_view name : {"stop", "samplers", "dry_sequence_breakers"}) {
    const Read read = ReadOf("{\"" + std::string(name) + "\":5}");
    EXPECT_THAT(read.error, StartsWith(std::string(name) + ": ")) << name;
  }
  for (const std::string_view name :
       {"stream", "return_tokens", "timings_per_token", "return_progress", "post_sampling_probs",
        "verbose", "n", "n_cmpl", "n_indent", "sse_ping_interval", "stream_options"}) {
    EXPECT_THAT(ReplyErrorOf("{\"" + std::string(name) + "\":\"hot\"}"),
                StartsWith(std::string(name) + ": "));
  }
  EXPECT_THAT(ReplyErrorOf(R"({"response_fields":5})"), StartsWith("response_fields: "));
  EXPECT_THAT(ReplyErrorOf(R"({"stream_options":{"include_usage":1}})"),
              StartsWith("stream_options.include_usage: "));
}

TEST(SamplingFieldsTest, NullIsAbsentAndUnknownFieldsAreIgnored) {
  const Read read = ReadOf(R"({"temperature":null,"seed":null,"stop":null,"colour":[1,{"a":2}]})");
  EXPECT_THAT(read.error, IsEmpty());
  EXPECT_EQ(read.request.sampling, kDefaultSampling);
}

TEST(SamplingFieldsTest, NumbersOutOfRangeAreClampedOrRefusedAsByLlamaServer) {
  EXPECT_EQ(ReadOf(R"({"temperature":-1})").request.sampling.temperature, 0);
  EXPECT_EQ(ReadOf(R"({"top_k":-5})").request.sampling.top_k, 0);
  EXPECT_EQ(ReadOf(R"({"top_p":7})").request.sampling.top_p, 1);
  EXPECT_GT(ReadOf(R"({"top_p":0})").request.sampling.top_p, 0);
  EXPECT_EQ(ReadOf(R"({"dry_base":0.5})").request.sampling.dry_base, kDefaultSampling.dry_base);
  EXPECT_EQ(ReadOf(R"({"seed":-1})").request.seed, kRandomSeed);
  EXPECT_EQ(ReadOf(R"({"seed":4294967294})").request.seed, 4294967294u);
  EXPECT_FALSE(ReadOf(R"({"id_slot":-1})").request.slot.has_value());
  EXPECT_THAT(ReadOf(R"({"seed":4294967296})").error, StartsWith("seed: "));
  EXPECT_THAT(ReadOf(R"({"seed":-2})").error, StartsWith("seed: "));
  EXPECT_THAT(ReadOf(R"({"n_predict":-2})").error, StartsWith("n_predict: "));
  EXPECT_THAT(ReadOf(R"({"repeat_last_n":-2})").error, StartsWith("repeat_last_n: "));
  EXPECT_THAT(ReadOf(R"({"repeat_last_n":2147483648})").error, StartsWith("repeat_last_n: "));
  EXPECT_THAT(ReadOf(R"({"n_probs":65})").error, StartsWith("n_probs: "));
  EXPECT_THAT(ReadOf(R"({"presence_penalty":3})").error, HasSubstr("presence_penalty"));
  EXPECT_THAT(ReadOf(R"({"repeat_penalty":0})").error, HasSubstr("repeat_penalty"));
  EXPECT_THAT(ReplyErrorOf(R"({"n":65})"), StartsWith("n: "));
  EXPECT_THAT(ReplyErrorOf(R"({"n":0})"), StartsWith("n: "));
}

TEST(SamplingFieldsTest, OfSeveralNamesOfALimitTheFirstApplies) {
  EXPECT_EQ(ReadOf(R"({"max_tokens":5})").request.predict_max, 5);
  EXPECT_EQ(ReadOf(R"({"max_tokens":5,"max_completion_tokens":6})").request.predict_max, 6);
  EXPECT_EQ(ReadOf(R"({"max_tokens":5,"n_predict":7})").request.predict_max, 7);
  EXPECT_EQ(ReadOf(R"({"max_tokens":5,"n_predict":null})").request.predict_max, 5);
}

TEST(SamplingFieldsTest, StopsAreATextOrALimitedList) {
  EXPECT_EQ(ReadOf(R"({"stop":"a"})").request.stops, std::vector<std::string>{"a"});
  EXPECT_EQ(ReadOf(R"({"stop":["a","","b"]})").request.stops, (std::vector<std::string>{"a", "b"}));
  std::string many = R"({"stop":["0")";
  for (int i = 1; i < 17; ++i) many += ",\"" + std::to_string(i) + "\"";
  EXPECT_THAT(ReadOf(many + "]}").error, StartsWith("stop: 17 texts"));
  EXPECT_THAT(ReadOf("{\"stop\":\"" + std::string(257, 'x') + "\"}").error,
              StartsWith("stop: a text of 257 bytes"));
}

TEST(SamplingFieldsTest, SamplersAreNamesOrLetters) {
  const SamplerChain chain = {{SamplerKind::kTopK, SamplerKind::kTemperature}};
  EXPECT_EQ(ReadOf(R"({"samplers":["top_k","temperature"]})").request.sampling.chain, chain);
  EXPECT_EQ(ReadOf(R"({"samplers":"kt"})").request.sampling.chain, chain);
  EXPECT_THAT(ReadOf(R"({"samplers":["colour"]})").error, StartsWith("samplers: "));
}

TEST(SamplingFieldsTest, BiasesAreReadInEveryNotation) {
  const Read pairs = ReadOf(R"({"logit_bias":[[5,1.5],["word",-2],[7,false]]})");
  ASSERT_EQ(pairs.texts.biases.size(), 3u);
  EXPECT_EQ(std::get<TokenId>(pairs.texts.biases[0].what), 5);
  EXPECT_EQ(pairs.texts.biases[0].bias, 1.5f);
  EXPECT_EQ(std::get<std::string>(pairs.texts.biases[1].what), "word");
  EXPECT_TRUE(std::isinf(pairs.texts.biases[2].bias));
  const Read object = ReadOf(R"({"logit_bias":{"15":-100,"word":5000}})");
  ASSERT_EQ(object.texts.biases.size(), 2u);
  EXPECT_EQ(std::get<TokenId>(object.texts.biases[0].what), 15);
  EXPECT_EQ(object.texts.biases[1].bias, wire::kBiasMax);
  EXPECT_THAT(ReadOf(R"({"logit_bias":[[1]]})").error, StartsWith("logit_bias: "));
  EXPECT_THAT(ReadOf(R"({"logit_bias":[[1,"x"]]})").error, StartsWith("logit_bias: "));
  EXPECT_THAT(ReadOf(R"({"logit_bias":[[[],1]]})").error, StartsWith("logit_bias: "));
  std::string many = R"({"logit_bias":[[0,1])";
  for (int i = 0; i < 1024; ++i) many += ",[1,1]";
  EXPECT_THAT(ReadOf(many + "]}").error, StartsWith("logit_bias: 1025 biases"));
}

TEST(SamplingFieldsTest, ALazyGrammarNeedsTriggers) {
  const Read read = ReadOf(R"({"grammar_lazy":true,"grammar_triggers":[
      {"type":1,"value":"<call>"},{"type":0,"value":"x","token":9}]})");
  EXPECT_THAT(read.error, IsEmpty());
  EXPECT_EQ(read.request.triggers, (std::vector<GrammarStart>{{-1, "<call>"}, {9, ""}}));
  EXPECT_THAT(ReadOf(R"({"grammar_lazy":true})").error, StartsWith("grammar_triggers: "));
  EXPECT_THAT(ReadOf(R"({"grammar_lazy":true,"grammar_triggers":[{"type":2,"value":"a"}]})").error,
              StartsWith("grammar_triggers[0].type: "));
  EXPECT_THAT(ReadOf(R"({"grammar_lazy":true,"grammar_triggers":[{"type":0}]})").error,
              StartsWith("grammar_triggers[0].token: "));
}

TEST(SamplingFieldsTest, ASchemaBecomesAGrammar) {
  const auto grammar_of = [](std::string_view json) -> std::string {
    AnswerRequest request;
    const Value body = Body(json);
    const Status status = ReadGrammarFields(Fields(body), Value(), request);
    return status ? request.grammar : "error: " + status.error().message;
  };
  EXPECT_THAT(grammar_of(R"({"json_schema":{"const":"42"}})"), HasSubstr("root ::="));
  EXPECT_EQ(grammar_of(R"({"grammar":"root ::= \"a\""})"), "root ::= \"a\"");
  EXPECT_EQ(grammar_of(R"({"grammar":"root ::= \"a\"","json_schema":{"const":1}})"),
            "root ::= \"a\"");
  EXPECT_THAT(grammar_of(R"({"json_schema":{"type":"hiccup"}})"),
              StartsWith("error: json_schema: #/type"));
  EXPECT_THAT(grammar_of(R"({"json_schema":5})"), StartsWith("error: json_schema: "));
  EXPECT_THAT(grammar_of(R"({"grammar":5})"), StartsWith("error: grammar: "));
}

}  // namespace
}  // namespace kvd::http
