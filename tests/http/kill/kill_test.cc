// Kills the gateway, its daemon and both under eight streams. The clients connect again and ask for
// what they have not received; together they must have the text of a run without a kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/kill/resumed_stream.h"
#include "tests/http/program/gateway_process.h"
#include "tests/support/test_scale.h"
#include "text/json.h"
#include "text/value.h"

namespace kvd::http::test::kill_test {
namespace {

namespace fs = std::filesystem;
using Kind = StreamQuestion::Kind;
using testing::HasSubstr;

constexpr char kChat[] = "/v1/chat/completions";

// Eight requests of all forms, with grammars, calls, log-probabilities, stop texts, timings and a
// budget of reasoning.
std::vector<StreamQuestion> Questions() {
  return {
      {"chat", Kind::kConversation, kChat,
       R"({"messages":[{"role":"user","content":"A long story about a kite"}],"stream":true,
           "max_tokens":160,"ignore_eos":true,"seed":5,"reasoning_budget_tokens":70,
           "reasoning_budget_message":" and so","chat_template":"{%- for m in messages %})"
       R"({{- m.content }}{% endfor %}{%- if add_generation_prompt %}<think>{% endif %})"
       R"({#- </think> #}"})"},
      {"schema", Kind::kConversation, kChat,
       R"({"messages":[{"role":"user","content":"Some numbers"}],"stream":true,"max_tokens":160,
           "seed":6,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
           {"type":"array","items":{"type":"integer","minimum":10,"maximum":999},
            "minItems":20,"maxItems":24}}}})"},
      {"call", Kind::kConversation, kChat,
       R"({"messages":[{"role":"user","content":"Which weather?"}],"stream":true,"max_tokens":160,
           "seed":7,"tool_choice":"required","tools":[{"type":"function","function":{"name":"get",
           "parameters":{"type":"object","properties":{"city":{"type":"string","minLength":20,
           "maxLength":40}},"required":["city"]}}}]})"},
      {"logprobs", Kind::kConversation, kChat,
       R"({"messages":[{"role":"user","content":"And then"}],"stream":true,"max_tokens":90,
           "ignore_eos":true,"seed":8,"logprobs":true,"top_logprobs":2})"},
      {"stop", Kind::kConversation, "/completion",
       R"({"prompt":"Once upon a time","stream":true,"n_predict":160,"ignore_eos":true,"seed":9,
           "stop":["zqx"],"timings_per_token":true})"},
      {"messages", Kind::kConversation, "/v1/messages",
       R"({"messages":[{"role":"user","content":"A boat"}],"stream":true,"max_tokens":160,
           "ignore_eos":true,"seed":10})"},
      {"response", Kind::kResponse, "/v1/responses",
       R"({"input":"About cats","stream":true,"max_output_tokens":160,"ignore_eos":true,
           "seed":11})"},
      {"background", Kind::kBackground, "/v1/responses",
       R"({"input":"About dogs","background":true,"max_output_tokens":160,"ignore_eos":true,
           "seed":12})"},
  };
}

enum class Victim : std::uint8_t { kGateway, kDaemon, kBoth };

struct Kill {
  Victim victim;
  // Kills when the streams' journals have grown to this part of those of a whole run.
  double part;
};

class KillTest : public ::testing::Test {
 protected:
  void Start() {
    gateways_.push_back(std::make_unique<GatewayProcess>(
        folder_.path(),
        std::vector<std::string>{"--deterministic", "--parallel", "8", "-c", "8192"}));
  }
  // Starts a gateway and waits until it serves.
  void StartReady() {
    Start();
    ASSERT_TRUE(gateway().WaitUntilReady()) << gateway().error_text();
    port_ = gateway().port();
  }
  // A gateway that was killed stays here: its destructor would kill the daemon.
  GatewayProcess& gateway() { return *gateways_.back(); }

  void KillNow(Victim victim) {
    const pid_t daemon = gateway().daemon_pid();
    const bool kills_gateway = victim != Victim::kDaemon;
    if (kills_gateway) gateway().Signal(SIGKILL);
    if (victim != Victim::kGateway && daemon > 0 && IsAlive(daemon)) ::kill(daemon, SIGKILL);
    if (!kills_gateway) return;
    EXPECT_EQ(gateway().Wait(), 128 + SIGKILL) << gateway().error_text();
    StartReady();
  }

  fs::path Folder(const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(folder_.path() / "kvd-http")) {
      if (fs::exists(entry.path() / name)) return entry.path() / name;
    }
    return {};
  }
  std::vector<fs::path> Journals() const {
    std::vector<fs::path> files;
    const fs::path folder = Folder("streams");
    if (folder.empty()) return files;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) files.push_back(entry.path());
    return files;
  }
  std::uintmax_t JournalBytes() const {
    std::uintmax_t bytes = 0;
    for (const fs::path& file : Journals()) {
      std::error_code error;
      const std::uintmax_t size = fs::file_size(file, error);
      if (!error) bytes += size;
    }
    return bytes;
  }

  // Asks all questions at once and kills while they are answered.
  std::vector<std::unique_ptr<ResumedStream>> Ask(const std::string& run,
                                                  const std::vector<Kill>& kills) {
    const std::uintmax_t before = JournalBytes();
    std::vector<std::unique_ptr<ResumedStream>> streams;
    std::vector<std::thread> threads;
    std::atomic<std::size_t> ended = 0;
    for (const StreamQuestion& question : Questions()) {
      streams.push_back(std::make_unique<ResumedStream>(question, question.name + "-" + run));
      threads.emplace_back([this, &ended, stream = streams.back().get()] {
        stream->Follow(port_);
        ++ended;
      });
    }
    for (const Kill& kill : kills) {
      const auto wanted =
          before + static_cast<std::uintmax_t>(kill.part * static_cast<double>(whole_bytes_));
      while (JournalBytes() < wanted && ended < streams.size()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      KillNow(kill.victim);
    }
    for (std::thread& thread : threads) thread.join();
    if (kills.empty()) whole_bytes_ = JournalBytes() - before;
    return streams;
  }
  void Stop() {
    gateway().Signal(SIGTERM);
    EXPECT_EQ(gateway().Wait(), 0) << gateway().error_text();
  }

  kvd::test::TemporaryFolder folder_;
  std::vector<std::unique_ptr<GatewayProcess>> gateways_;
  std::atomic<std::uint16_t> port_ = 0;
  std::uintmax_t whole_bytes_ = 0;
};

TEST_F(KillTest, EightStreamsLoseAndDoubleNothing) {
  StartReady();
  ASSERT_FALSE(HasFailure());
  std::map<std::string, std::vector<std::string>> right;
  for (const auto& stream : Ask("right", {})) {
    ASSERT_EQ(stream->failure(), "") << stream->question().name;
    right[stream->question().name] = stream->Events();
    EXPECT_GT(right[stream->question().name].size(), 15u) << stream->question().name;
  }
  const std::vector<std::vector<Kill>> runs = {
      {{Victim::kGateway, 0.3}},
      {{Victim::kDaemon, 0.3}},
      {{Victim::kBoth, 0.3}},
      {{Victim::kGateway, 0.02}},
      {{Victim::kDaemon, 0.02}},
      {{Victim::kGateway, 0.2}, {Victim::kGateway, 0.2}},
      {{Victim::kDaemon, 0.1}, {Victim::kDaemon, 0.4}},
      {{Victim::kBoth, 0.1}, {Victim::kBoth, 0.5}},
      {{Victim::kGateway, 0.1}, {Victim::kBoth, 0.4}, {Victim::kDaemon, 0.7}},
      {{Victim::kGateway, 0.9}, {Victim::kDaemon, 0.95}},
      // Each kill comes as soon as the gateway serves again: no stream is set aside for that.
      std::vector<Kill>(6, {Victim::kGateway, 0.1}),
  };
  // Sanitizer builds take every fourth run; these kill the gateway, the daemon and both.
  for (std::size_t run = 0; run < runs.size(); run += kvd::test::Stride(4)) {
    SCOPED_TRACE(testing::Message() << "run " << run);
    for (const auto& stream : Ask(std::to_string(run), runs[run])) {
      SCOPED_TRACE(stream->question().name);
      ASSERT_EQ(stream->failure(), "");
      EXPECT_EQ(stream->Events(), right[stream->question().name]);
      EXPECT_LE(stream->CountIds(), 1u);
      EXPECT_EQ(stream->ReadAgain(port_), stream->bytes());
    }
    for (const fs::path& file : Journals()) EXPECT_EQ(file.extension(), ".journal") << file;
    ASSERT_FALSE(HasFailure()) << gateway().error_text();
  }
  Stop();
}

std::int64_t NumberIn(const std::string& json, const std::string& object, const char* name) {
  const auto value = ParseJson(json);
  const Value found = value ? value->dict().Find(object) : Value();
  const Value& number = found.dict().Find(name);
  return number.is_int() ? number.integer() : -1;
}

TEST_F(KillTest, SlotsAndStoredResponsesSurvive) {
  StartReady();
  ASSERT_FALSE(HasFailure());
  std::string words = "The kite";
  for (int i = 0; i < 60; ++i) words += " and the boat " + std::to_string(i);
  const std::string question =
      R"({"id_slot":3,"n_predict":4,"seed":1,"ignore_eos":true,"prompt":")" + words + "\"}";
  const ReceivedReply first = gateway().Post("/completion", question);
  ASSERT_EQ(first.status, 200) << first.body;
  const ReceivedReply made =
      gateway().Post("/v1/responses", R"({"input":"hello","max_output_tokens":8,"seed":2})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string path = "/v1/responses/" + made.body.substr(made.body.find("resp_"),
                                                               std::string("resp_").size() + 32);
  const std::string stored = gateway().Get(path).body;
  EXPECT_THAT(stored, HasSubstr("output_text"));
  for (const Victim victim : {Victim::kGateway, Victim::kDaemon, Victim::kBoth}) {
    SCOPED_TRACE(static_cast<int>(victim));
    KillNow(victim);
    const ReceivedReply again = gateway().Post("/completion", question);
    ASSERT_EQ(again.status, 200) << again.body;
    EXPECT_GT(NumberIn(again.body, "timings", "cache_n"), 100) << again.body;
    EXPECT_EQ(gateway().Get(path).body, stored);
    const std::string id = path.substr(path.rfind('/') + 1);
    const ReceivedReply next = gateway().Post(
        "/v1/responses",
        R"({"input":"more","max_output_tokens":4,"previous_response_id":")" + id + "\"}");
    EXPECT_EQ(next.status, 200) << next.body;
  }
  Stop();
}

TEST_F(KillTest, AnEndedStreamIsReadAgainAfterItsSlotWentOnAndTheGatewayWasKilled) {
  StartReady();
  ASSERT_FALSE(HasFailure());
  const ReceivedReply stream = gateway().Post(
      "/completion", R"({"prompt":"A kite in the wind","id_slot":2,"stream":true,"n_predict":40,
                         "seed":3,"ignore_eos":true,"timings_per_token":true})",
      "X-Conversation-Id: ended\r\n");
  ASSERT_EQ(stream.status, 200) << stream.body;
  ASSERT_THAT(stream.body, HasSubstr("\"stop\":true"));
  for (const Victim victim : {Victim::kGateway, Victim::kBoth}) {
    SCOPED_TRACE(static_cast<int>(victim));
    // The slot's sequence now belongs to another conversation.
    const ReceivedReply other = gateway().Post(
        "/completion",
        R"({"prompt":"Boats and other things","id_slot":2,"n_predict":8,"cache_prompt":false})");
    ASSERT_EQ(other.status, 200) << other.body;
    KillNow(victim);
    EXPECT_EQ(gateway().Get("/v1/stream?conv_id=ended").body, stream.body);
    EXPECT_EQ(gateway().Get("/v1/stream?conv_id=ended&from=100").body, stream.body.substr(100));
  }
  Stop();
}

std::string BytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(KillTest, DamagedJournalsAreNamedAndCostOnlyTheirStreams) {
  StartReady();
  ASSERT_FALSE(HasFailure());
  // The journal of a stream, and the stream.
  const auto ask = [this](const std::string& id) {
    const auto before = Journals();
    const ReceivedReply reply =
        gateway().Post("/completion", R"({"prompt":"Once","stream":true,"n_predict":40,"seed":3,
                                         "ignore_eos":true})",
                       "X-Conversation-Id: " + id + "\r\n");
    EXPECT_EQ(reply.status, 200) << reply.body;
    for (const fs::path& file : Journals()) {
      if (std::ranges::find(before, file) == before.end()) return std::pair(file, reply.body);
    }
    return std::pair(fs::path(), reply.body);
  };
  const auto [cut, cut_text] = ask("cut");
  const auto [garbled, garbled_text] = ask("garbled");
  const auto [late, late_text] = ask("late");
  const auto [other, other_text] = ask("other");
  const ReceivedReply background = gateway().Post(
      "/v1/responses",
      R"({"input":"x","background":true,"max_output_tokens":800,"ignore_eos":true})");
  ASSERT_EQ(background.status, 200) << background.body;
  const auto with_response = Journals();
  gateway().Signal(SIGKILL);
  gateway().Wait();
  for (const fs::path& file : with_response) {
    if (file != cut && file != garbled && file != late && file != other) {
      std::ofstream(file, std::ios::trunc) << "no journal";
    }
  }
  fs::resize_file(cut, 7);
  std::string bytes = BytesOf(garbled);
  bytes[20] = static_cast<char>(bytes[20] ^ 1);
  std::ofstream(garbled, std::ios::binary | std::ios::trunc) << bytes;
  bytes = BytesOf(late);
  bytes[bytes.size() * 3 / 4] = static_cast<char>(bytes[bytes.size() * 3 / 4] ^ 1);
  std::ofstream(late, std::ios::binary | std::ios::trunc) << bytes;
  fs::create_symlink("/dev/zero", cut.parent_path() / "link.journal");
  StartReady();
  ASSERT_FALSE(HasFailure());
  const std::string text = gateway().error_text();
  for (const fs::path& file : {cut, garbled, late, fs::path("link.journal")}) {
    EXPECT_THAT(text, HasSubstr(file.filename().string()));
  }
  EXPECT_FALSE(fs::exists(cut));
  EXPECT_FALSE(fs::exists(garbled));
  EXPECT_FALSE(fs::is_symlink(cut.parent_path() / "link.journal"));
  EXPECT_EQ(gateway().Get("/v1/stream?conv_id=cut").status, 404);
  EXPECT_EQ(gateway().Get("/v1/stream?conv_id=garbled").status, 404);
  EXPECT_EQ(gateway().Get("/v1/stream?conv_id=other").body, other_text);
  const ReceivedReply continued = gateway().Get("/v1/stream?conv_id=late");
  EXPECT_TRUE(continued.is_whole);
  const std::size_t kept = continued.body.size() / 2;
  EXPECT_EQ(continued.body.substr(0, kept), late_text.substr(0, kept));
  EXPECT_THAT(continued.body, HasSubstr("\"stop\":true"));
  const std::string id = background.body.substr(background.body.find("resp_"), 37);
  EXPECT_THAT(gateway().Get("/v1/responses/" + id).body, HasSubstr("\"status\":\"failed\""));
  EXPECT_EQ(gateway().Get("/health").status, 200);
  Stop();
}

}  // namespace
}  // namespace kvd::http::test::kill_test
