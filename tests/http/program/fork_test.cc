// fork_from: several answers that continue one context, with the real programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/program/gateway_process.h"
#include "tests/http/value_at.h"
#include "text/json.h"
#include "text/value.h"

namespace kvd::http::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kSystem[] =
    R"({"role":"system","content":"The drum is red, kept by Tom in the mill."})";
constexpr char kWho[] = R"({"role":"user","content":"Who keeps the drum?"})";
constexpr char kChats[] = "/v1/chat/completions";
// Suffixes in the form of the bundled model's template.
constexpr char kSuffixes[] = R"("prompts":["<|user|>What color is the drum?<|end|><|assistant|>",)"
                             R"("<|user|>Where is the drum?<|end|><|assistant|>"])";

class ForkTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--temp", "0", "--metrics"});
    if (gateway_) {  // an orderly end: the next daemon has no cells
      gateway_->Signal(SIGTERM);
      EXPECT_EQ(gateway_->Wait(), 0);
    }
    gateway_ = std::make_unique<GatewayProcess>(folder_.path(), flags);
    ASSERT_TRUE(gateway_->WaitUntilReady()) << gateway_->error_text();
  }
  Value Ask(const std::string& target, const std::string& body, const std::string& headers = "") {
    const ReceivedReply reply = gateway_->Post(target, body, headers);
    EXPECT_EQ(reply.status, 200) << reply.body;
    const auto value = ParseJson(reply.body);
    EXPECT_TRUE(value) << reply.body;
    return value ? *value : Value();
  }
  std::string ErrorOf(const std::string& target, const std::string& body) {
    const ReceivedReply reply = gateway_->Post(target, body);
    return std::to_string(reply.status) + " " + reply.body;
  }
  // The id of a stored response to a question. limits: further members of the request.
  std::string Respond(const std::string& question = kWho, const std::string& limits = "") {
    const Value response = Ask("/v1/responses", std::string("{\"input\":[") + kSystem + "," +
                                                    question + "]" + limits + "}");
    tokens_ = At(response, "usage.total_tokens").integer();
    return std::string(At(response, "id").view());
  }
  // The tokens of prompts that the daemon has computed.
  std::int64_t Computed() {
    const std::string text = gateway_->Get("/metrics").body;
    const std::string name = "\nllamacpp:prompt_tokens_total ";
    const std::size_t at = text.find(name);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + name.size()));
  }
  // The contents of the answers of a fork, in their order.
  std::vector<std::string> Complete(const std::string& id) {
    const Value replies =
        Ask("/completion", "{\"fork_from\":\"" + id + "\",\"n_predict\":12," + kSuffixes + "}");
    std::vector<std::string> contents;
    computed_ = 0;
    sources_.clear();
    cached_.clear();
    for (const Value& reply : replies.items()) {
      EXPECT_EQ(At(reply, "index").integer(), static_cast<std::int64_t>(contents.size()));
      contents.emplace_back(At(reply, "content").view());
      computed_ += At(reply, "timings.prompt_n").integer();
      cached_.push_back(At(reply, "timings.cache_n").integer());
      sources_.emplace_back(At(reply, "cache.source").view());
    }
    return contents;
  }
  std::int64_t CountTokens(const std::string& text) {
    return static_cast<std::int64_t>(
        At(Ask("/tokenize", "{\"content\":\"" + text + "\"}"), "tokens").items().size());
  }
  std::int64_t SuffixTokens() {
    return CountTokens("<|user|>What color is the drum?<|end|><|assistant|>") +
           CountTokens("<|user|>Where is the drum?<|end|><|assistant|>");
  }

  kvd::test::TemporaryFolder folder_;
  std::unique_ptr<GatewayProcess> gateway_;
  std::int64_t tokens_ = 0;    // of the response that Respond has made
  std::int64_t computed_ = 0;  // tokens of prompts that Complete's answers report
  std::vector<std::string> sources_;
  std::vector<std::int64_t> cached_;  // cells that each of them has found
};

const std::vector<std::string> kAnswers = {"The drum is red.", "The drum is in the mill."};

TEST_F(ForkTest, AForkReusesTheCellsOfAResponse) {
  Start();
  const std::string id = Respond();
  const std::int64_t before = Computed();
  EXPECT_EQ(Complete(id), kAnswers);
  EXPECT_EQ(sources_, (std::vector<std::string>{"snapshot", "snapshot"}));
  EXPECT_EQ(computed_, SuffixTokens());
  EXPECT_EQ(Computed() - before, computed_);
}

// An answer that ends at its limit has no cell of its last token, unless it is a stored response.
TEST_F(ForkTest, AResponseCutByItsLimitHasTheCellOfItsLastToken) {
  Start();
  const std::string id = Respond(kWho, ",\"max_output_tokens\":2");
  Complete(id);
  EXPECT_EQ(sources_, (std::vector<std::string>{"snapshot", "snapshot"}));
  EXPECT_EQ(cached_, (std::vector<std::int64_t>{tokens_, tokens_}));
}

TEST_F(ForkTest, AnotherAnswerCutByItsLimitHasNoCellOfItsLastToken) {
  Start();
  const Value first = Ask("/completion", R"({"prompt":[1,5,6,7,8],"n_predict":4,"ignore_eos":true,)"
                                         R"("return_tokens":true})");
  std::string tokens = "1,5,6,7,8";
  ASSERT_EQ(At(first, "tokens").items().size(), 4u);
  for (const Value& token : At(first, "tokens").items()) {
    tokens += "," + std::to_string(token.integer());
  }
  const Value next = Ask("/completion", "{\"prompt\":[" + tokens + ",9],\"n_predict\":1}");
  EXPECT_EQ(At(next, "timings.cache_n").integer(), 5 + 4 - 1);
  EXPECT_EQ(At(next, "timings.prompt_n").integer(), 2);
}

TEST_F(ForkTest, AResponseWithoutASnapshotIsComputedOnceFromItsTokens) {
  Start({"--response-bytes", "0"});
  const std::string id = Respond();
  // The next process has neither the snapshot nor cached cells.
  Start({"--response-bytes", "0"});
  const std::int64_t before = Computed();
  EXPECT_EQ(Complete(id), kAnswers);
  EXPECT_EQ(computed_, tokens_ + SuffixTokens());
  EXPECT_EQ(Computed() - before, computed_);
  const Value next = Ask("/v1/responses", "{\"previous_response_id\":\"" + id +
                                              R"(","input":"What color is the drum?"})");
  EXPECT_EQ(At(next, "output_text").view(), "The drum is red.");
}

TEST_F(ForkTest, TheOldestSnapshotGoesBeyondTheBytesAndItsResponseIsComputedAgain) {
  // A cell of the bundled model has 1,024 bytes, and a response about 31 cells.
  Start({"--response-bytes", "40000"});
  const std::vector<std::string> snapshots = {"snapshot", "snapshot"};
  const std::string first = Respond();
  EXPECT_EQ(Complete(first), kAnswers);
  EXPECT_EQ(sources_, snapshots);
  const std::string second = Respond(R"({"role":"user","content":"Where is the drum?"})");
  EXPECT_EQ(Complete(second), kAnswers);
  EXPECT_EQ(sources_, snapshots);
  EXPECT_EQ(Complete(first), kAnswers);
  EXPECT_EQ(sources_.at(1), "fork");
  const Value next = Ask("/v1/responses", "{\"previous_response_id\":\"" + first +
                                              R"(","input":"What color is the drum?"})");
  EXPECT_EQ(At(next, "output_text").view(), "The drum is red.");
}

TEST_F(ForkTest, AConversationIsForkedByChatsAndByCompletions) {
  Start();
  const std::string question = std::string("{\"messages\":[") + kSystem + "," + kWho + "]";
  const std::string header = "X-Conversation-Id: drum\r\n";
  const ReceivedReply stream = gateway_->Post(kChats, question + ",\"stream\":true}", header);
  ASSERT_EQ(stream.status, 200) << stream.body;
  EXPECT_EQ(Complete("drum"), kAnswers);
  const Value forked = Ask(kChats, R"({"fork_from":"drum","prompts":["What color is the drum?",)"
                                   R"([{"role":"user","content":"Where is the drum?"}]]})");
  ASSERT_EQ(At(forked, "choices").items().size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& choice = At(forked, "choices").items()[i];
    EXPECT_EQ(At(choice, "index").integer(), static_cast<std::int64_t>(i));
    EXPECT_EQ(At(choice, "message.content").view(), kAnswers[i]);
  }
  const std::int64_t prompt = At(forked, "usage.prompt_tokens").integer();
  const std::int64_t cached = At(forked, "usage.prompt_tokens_details.cached_tokens").integer();
  EXPECT_LE(prompt - cached, SuffixTokens() + 1);
}

TEST_F(ForkTest, ChatsOfAResponseComputeTheContextOnce) {
  Start({"--response-bytes", "0"});
  const std::string id = Respond();
  Start({"--response-bytes", "0"});
  const std::int64_t before = Computed();
  const Value forked = Ask(kChats, "{\"fork_from\":\"" + id +
                                       R"(","n":2,"prompts":["What color is the drum?",)"
                                       R"("Where is the drum?"]})");
  ASSERT_EQ(At(forked, "choices").items().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(At(At(forked, "choices").items()[i], "message.content").view(), kAnswers[i / 2]);
  }
  const std::int64_t prompt = At(forked, "usage.prompt_tokens").integer();
  const std::int64_t cached = At(forked, "usage.prompt_tokens_details.cached_tokens").integer();
  // The first token of the template is common to both suffixes, too.
  EXPECT_EQ(Computed() - before, tokens_ + SuffixTokens() - 1);
  EXPECT_EQ(prompt - cached, Computed() - before);
}

TEST_F(ForkTest, TheStreamsOfAForkAreMixedByIndex) {
  Start();
  const std::string id = Respond();
  const ReceivedReply stream = gateway_->Post(
      kChats, "{\"fork_from\":\"" + id +
                  R"(","stream":true,"ignore_eos":true,"max_tokens":80,"prompts":[)"
                  R"("What color is the drum?","Where is the drum?","Who keeps the drum?"]})");
  EXPECT_EQ(stream.status, 200);
  EXPECT_THAT(stream.body, ::testing::EndsWith("data: [DONE]\n\n"));
  std::string order;
  for (std::size_t at = 0; (at = stream.body.find("\"index\":", at)) != std::string::npos;) {
    at += std::string("\"index\":").size();
    order += stream.body[at];
  }
  // The first answer has not ended when the last one begins.
  EXPECT_LT(order.find('2'), order.rfind('0')) << order;
  EXPECT_EQ(std::set<char>(order.begin(), order.end()), (std::set<char>{'0', '1', '2'})) << order;
}

TEST_F(ForkTest, SuffixesBeyondTheConcurrentNumberAreAllAnswered) {
  Start();
  const std::string id = Respond();
  std::string prompts;
  for (int i = 0; i < 150; ++i) {
    prompts += (i == 0 ? "" : ",") + std::string("\"<|user|>What color is the drum?<|end|>") +
               "<|assistant|>\"";
  }
  const Value replies =
      Ask("/completion",
          "{\"fork_from\":\"" + id + "\",\"n_predict\":12,\"prompts\":[" + prompts + "]}");
  ASSERT_EQ(replies.items().size(), 150u);
  for (const Value& reply : replies.items()) EXPECT_EQ(At(reply, "content").view(), kAnswers[0]);
}

TEST_F(ForkTest, ErrorsNameTheField) {
  Start();
  const std::string id = Respond();
  const std::string fork = "{\"fork_from\":\"" + id + "\"";
  EXPECT_THAT(ErrorOf(kChats, fork + "}"), StartsWith("400"));
  EXPECT_THAT(ErrorOf(kChats, fork + "}"), HasSubstr("\\\"prompts\\\" is required with fork_from"));
  EXPECT_THAT(ErrorOf(kChats, fork + R"(,"prompts":[]})"), HasSubstr("prompts: 0 prompts"));
  EXPECT_THAT(ErrorOf(kChats, fork + R"(,"prompts":[5]})"), HasSubstr("prompts[0]: a text or a"));
  EXPECT_THAT(ErrorOf(kChats, fork + R"(,"prompts":[[]]})"), HasSubstr("prompts[0]: a text or a"));
  EXPECT_THAT(ErrorOf(kChats, fork + R"(,"prompts":["a"],"messages":[]})"),
              HasSubstr("messages: not together with prompts"));
  EXPECT_THAT(ErrorOf(kChats, fork + R"(,"messages":[]})"), HasSubstr("messages: empty"));
  const std::string missing = R"({"fork_from":"resp_00000000000000000000000000000000")";
  EXPECT_THAT(ErrorOf(kChats, missing + R"(,"prompts":["a"]})"), StartsWith("404"));
  EXPECT_THAT(ErrorOf("/completion", missing + R"(,"prompts":["a"]})"), StartsWith("404"));
  EXPECT_THAT(ErrorOf("/completion", R"({"fork_from":"nothing","prompts":["a"]})"),
              StartsWith("404"));
  EXPECT_THAT(ErrorOf(kChats, R"({"fork_from":"nothing","prompts":["a"]})"), StartsWith("404"));
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "word ";
  EXPECT_THAT(ErrorOf("/completion", fork + ",\"prompts\":[\"" + words + "\"]}"),
              HasSubstr("exceed_context_size_error"));
}

}  // namespace
}  // namespace kvd::http::test
