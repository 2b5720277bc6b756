// A fixture with a scheduler over a fake engine and clients whose two ends the test can access.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/requests/decode_request.h"
#include "daemon/requests/generation_request.h"
#include "daemon/schedule/scheduler.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/test_session.h"

namespace kvd {

using test::FakeEngine;
using test::ReceivedCompletion;
using test::TestSession;

class SchedulerTest : public ::testing::Test {
 protected:
  explicit SchedulerTest(const test::FakeEngineOptions& options = {}, double step_seconds_max = 0.0)
      : engine_(options),
        scheduler_(engine_, options.vocab_size,
                   {.prefill_chunk_tokens = 64,
                    .step_seconds_max = step_seconds_max,
                    .now = [this] { return engine_.now(); }}) {}

  SequenceHandle NewSequence(const TestSession& client) {
    return *engine_.memory().sequences().Create(
        {.id = client.session()->owner(), .session = client.session()->id()});
  }
  RequestOrigin Begin(TestSession& client, std::uint64_t request, wire::Verb verb) {
    wire::Submission submission{};
    submission.request = request;
    submission.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
    (void)client.Send(submission);
    return {.session = client.session(), .request = static_cast<RequestId>(request), .verb = verb};
  }
  Status Decode(TestSession& client, std::uint64_t request, SequenceHandle sequence,
                std::vector<TokenId> tokens, wire::LogitsWanted wanted) {
    const Pos pos = engine_.memory().sequences().Query(sequence)->next_pos;
    return scheduler_.Submit(
        std::make_unique<DecodeRequest>(Begin(client, request, wire::Verb::kDecode), sequence, pos,
                                        std::move(tokens), wanted, engine_.config().vocab_size));
  }
  // Submits a generation with greedy sampling. `prompt` consists of letters 'a' to 'z'.
  Status Generate(TestSession& client, std::uint64_t request, SequenceHandle sequence,
                  std::string_view prompt, std::int32_t predict_max,
                  std::vector<std::string> stops = {}, std::uint32_t flags = 0) {
    wire::GenerateRequest generate;
    generate.params = {.token_count = static_cast<std::uint32_t>(prompt.size()),
                       .predict_max = predict_max,
                       .sampling = DefaultSamplingAt(0.0f),
                       .logprob_count = 0,
                       .flags = flags,
                       .seed = 1,
                       .bias_count = 0,
                       .stop_count = static_cast<std::uint32_t>(stops.size()),
                       .stop_bytes = 0,
                       .breaker_count = 0,
                       .breaker_bytes = 0,
                       .grammar_bytes = 0,
                       .trigger_count = 0,
                       .trigger_bytes = 0,
                       .room_wait_ms = room_wait_ms_,
                       .reserved = 0};
    for (const char letter : prompt) generate.tokens.push_back(FakeEngine::Letter(letter));
    generate.stops = std::move(stops);
    const SequenceInfo info = *engine_.memory().sequences().Query(sequence);
    auto made = GenerationRequest::Create(Begin(client, request, wire::Verb::kGenerate), sequence,
                                          info.next_pos, info.cell_count, std::move(generate), {},
                                          engine_.vocabulary(), engine_.config().vocab_size);
    if (!made) return std::unexpected(made.error());
    return scheduler_.Submit(std::move(*made));
  }
  void RunDry() {
    while (scheduler_.RunOnce()) {
    }
  }
  std::uint32_t Cells(SequenceHandle sequence) {
    return engine_.memory().sequences().Query(sequence)->cell_count;
  }
  std::vector<TokenId> Tokens(SequenceHandle sequence) {
    std::vector<TokenId> tokens;
    std::vector<Pos> positions;
    EXPECT_TRUE(
        engine_.memory().holds().ReadCells(sequence, 0, Cells(sequence), &tokens, &positions));
    return tokens;
  }

  struct Streamed {
    std::string text;
    std::vector<TokenId> tokens;
    std::optional<ReceivedCompletion> last;
  };
  static Streamed Collect(TestSession& client, std::uint64_t request) {
    Streamed streamed;
    for (const ReceivedCompletion& received : client.All()) {
      if (received.completion.request != request) continue;
      if (received.is_final()) {
        streamed.last = received;
        continue;
      }
      const auto piece = wire::ParsePiece(received.output);
      EXPECT_TRUE(piece) << piece.error().message;
      streamed.text += piece->text;
      streamed.tokens.insert(streamed.tokens.end(), piece->tokens.begin(), piece->tokens.end());
    }
    return streamed;
  }

  std::int32_t room_wait_ms_ = -1;  // of generations
  FakeEngine engine_;
  Scheduler scheduler_;
};

}  // namespace kvd
