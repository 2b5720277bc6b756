// A fixture that sends prompts to the scheduler and service of a FakeEngine and counts the answers.
#pragma once

#include <optional>
#include <vector>

#include "tests/daemon/support/service_fixture.h"

namespace kvd::test {

using Tokens = std::vector<TokenId>;

// Returns `count` tokens between 3 and 62, ids of the fake engine's vocabulary of 64. The sequence
// of tokens repeats after 60 * 60 tokens; two different values of `kind` below 60 give prompts
// without a common prefix.
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

  // Submits a decode of the prompt to the scheduler. Finish returns the final answer of this
  // decode.
  void Start(TestSession& client, SequenceHandle sequence, const Tokens& prompt,
             wire::LogitsWanted wanted = wire::LogitsWanted::kNone, std::uint16_t flags = 0) {
    wire::Submission submission =
        Make(wire::DecodeArgs{.sequence = sequence, .logits = wanted}, flags);
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
  // Runs the scheduler until it is idle and returns the final answer of the client's only request.
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
