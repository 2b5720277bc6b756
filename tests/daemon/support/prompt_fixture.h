// Prompts over a FakeEngine's scheduler and service: asked for, answered, counted.
#pragma once

#include <optional>
#include <vector>

#include "tests/daemon/support/service_fixture.h"

namespace kvd::test {

using Tokens = std::vector<TokenId>;

// Tokens of the fake engine's vocabulary of 64 that repeat after 60 * 59.
inline Tokens Prompt(std::size_t count, TokenId kind = 0) {
  Tokens tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>(3 + (i + (i / 60) * 7 + static_cast<std::size_t>(kind)) % 60);
  }
  return tokens;
}
inline Tokens Join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PromptTest : public ServiceTest {
 protected:
  explicit PromptTest(const FakeEngineOptions& options = {.cells = 4096},
                      const MakeCache& make_cache = {})
      : ServiceTest(options, make_cache) {}

  // Asks for the prompt; its final answer comes with Finish.
  void Start(TestSession& client, SequenceHandle sequence, const Tokens& prompt,
             wire::LogitsWanted wanted = wire::LogitsWanted::kNone, std::uint16_t flags = 0) {
    wire::Submission submission = Make(Verb::kDecode, sequence);
    submission.argument = static_cast<std::int64_t>(wanted);
    submission.flags = flags;
    submission.request = ++last_request_;
    ReceivedSubmission received = client.Send(submission, std::as_bytes(std::span(prompt)));
    const Outcome outcome = service_.Handle(client.session(), received);
    ASSERT_TRUE(std::holds_alternative<AnsweredByScheduler>(outcome));
  }
  SequenceHandle Start(TestSession& client, const Tokens& prompt) {
    const SequenceHandle sequence = Create(client);
    Start(client, sequence, prompt);
    return sequence;
  }
  // The final answer of the client's only request.
  PrefixReuse Finish(TestSession& client) {
    RunDry();
    std::optional<PrefixReuse> reuse;
    for (const ReceivedCompletion& received : client.All()) {
      if (!received.is_final()) continue;
      EXPECT_EQ(received.code(), Code::kOk) << received.text();
      reuse = UnpackReuse(received.completion.value2);
    }
    EXPECT_TRUE(reuse) << "no answer";
    return reuse.value_or(PrefixReuse{});
  }
  PrefixReuse Compute(TestSession& client, const Tokens& prompt) {
    (void)Start(client, prompt);
    return Finish(client);
  }
  std::size_t Computed() const {
    std::size_t tokens = 0;
    for (const auto& step : engine_.steps()) {
      for (const RecordedItem& item : step) tokens += item.tokens;
    }
    return tokens;
  }
  void ExpectHolds(SequenceHandle sequence, const Tokens& expected) {
    Tokens tokens;
    std::vector<Pos> positions;
    ASSERT_TRUE(engine_.memory().holds().ReadCells(sequence, 0, UINT32_MAX, &tokens, &positions));
    EXPECT_EQ(tokens, expected);
  }
};

}  // namespace kvd::test
