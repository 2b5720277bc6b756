// A fixture that retries generations: a run is cut after any number of rounds of the scheduler,
// with any number of tokens read, and must give the tokens, the text and the sequence of a whole
// run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/retry_fixture.h"
#include "tests/support/test_scale.h"

namespace kvd::test {

using wire::Verb;

struct Generated {
  std::vector<TokenId> tokens;
  std::string text;
  std::optional<wire::GenerateResult> result;
  std::optional<Code> error;
  std::size_t tokens_in_piece_max = 0;
};

class GenerateRetryTest : public RetryTest, public testing::WithParamInterface<bool> {
 protected:
  GenerateRetryTest()
      : RetryTest({.cells = 4096, .ubatch_tokens = 8, .vocab_size = 29, .has_state = GetParam()}) {
    engine_.Spread();
  }

  struct Wish {
    std::size_t prompt = 19;
    std::int32_t predict_max = 12;
    float temperature = 1.0f;
    float repeat_penalty = 1.0f;
    SamplingParams sampling = kPlainSampling;
    std::uint32_t logprob_count = 0;
    std::uint32_t flags = wire::kIgnoreEos;
    std::vector<std::string_view> stops = {};
    std::string_view grammar = {};
    std::vector<wire::TriggerView> triggers = {};
    std::uint64_t seed = 0;  // 0: derived from the session, so it differs from one run to the next
  };
  std::vector<std::byte> PayloadOf(const Wish& wish) {
    prompt_.clear();
    for (std::size_t i = 0; i < wish.prompt; ++i) {
      prompt_.push_back(static_cast<TokenId>(3 + i % 20));
    }
    wire::GenerateView view;
    view.tokens = prompt_;
    view.stops = wish.stops;
    view.grammar = wish.grammar;
    view.triggers = wish.triggers;
    view.params.token_count = static_cast<std::uint32_t>(wish.prompt);
    view.params.predict_max = wish.predict_max;
    view.params.sampling = wish.sampling;
    view.params.seed = wish.seed;
    view.params.sampling.temperature = wish.temperature;
    view.params.sampling.repeat_penalty = wish.repeat_penalty;
    view.params.sampling.repeat_last = 8;
    view.params.logprob_count = wish.logprob_count;
    view.params.flags = wish.flags;
    std::vector<std::byte> payload(wire::GenerateBytes(view));
    wire::EncodeGenerate(view, payload);
    return payload;
  }
  // Appends the tokens of the pieces to `generated` until it has `tokens_max` tokens.
  // A piece that goes beyond them is not taken.
  static void Take(const std::vector<ReceivedCompletion>& pieces, std::size_t tokens_max,
                   std::uint32_t logprob_count, Generated* generated) {
    for (const ReceivedCompletion& piece : pieces) {
      if (generated->tokens.size() == tokens_max) return;
      if (piece.code() != Code::kOk) {
        generated->error = piece.code();
      } else if (piece.is_final()) {
        generated->result = piece.value<wire::GenerateResult>();
      } else {
        const auto view = wire::ParsePiece(piece.output);
        ASSERT_TRUE(view);
        if (generated->tokens.size() + view->tokens.size() > tokens_max) return;
        generated->tokens.insert(generated->tokens.end(), view->tokens.begin(), view->tokens.end());
        EXPECT_EQ(view->done, generated->tokens.size());
        EXPECT_EQ(view->logprobs.size(), logprob_count == 0 ? 0 : logprob_count + 1);
        generated->text += view->text;
        generated->tokens_in_piece_max =
            std::max(generated->tokens_in_piece_max, view->tokens.size());
      }
    }
  }
  // One cut of a run: after `rounds` rounds of the scheduler the daemon restarts and the client,
  // which has read at most `read` tokens, retries.
  struct Cut {
    int rounds = 0;
    std::size_t read = ~std::size_t{0};
    // The rounds are followed by others, until the attempt has removed the sequence's last token,
    // or until it has also computed the token again.
    enum class Until : std::uint8_t { kRounds, kTakenBack, kComputedAgain } until = Until::kRounds;
  };
  // Runs a generation that is cut once or twice.
  Generated Run(const Wish& wish, std::optional<int> rounds, std::size_t read,
                std::optional<int> second_cut = std::nullopt) {
    std::vector<Cut> cuts;
    if (rounds) cuts.push_back({.rounds = *rounds, .read = read});
    if (second_cut) cuts.push_back({.rounds = *second_cut});
    return RunCut(wish, cuts);
  }
  std::uint32_t CellsOf(SequenceHandle sequence) {
    const auto info = memory().sequences().Query(sequence);
    return info ? info->cell_count : 0;
  }
  Generated RunCut(const Wish& wish, std::span<const Cut> cuts) {
    const SequenceHandle sequence = Filled(0);
    const std::vector<TokenId> prefix(5, 7);
    wire::Submission decode = Make(Verb::kDecode, sequence);
    decode.request = 60'000;
    EXPECT_EQ(Call(decode, std::as_bytes(std::span(prefix))).code(), Code::kOk);
    if ((wish.flags & wire::kResumeSampler) != 0) {
      const SamplerOptions kept{.sampling = wish.sampling, .seed = 4711, .biases = {}};
      EXPECT_TRUE(memory().sequences().SetSampler(
          sequence, RecordOf(kept, {.draw_count = 5,
                                    .adaptation = InitialAdaptation(kept.sampling),
                                    .adaptation_before = InitialAdaptation(kept.sampling)})));
    }
    const std::vector<std::byte> payload = PayloadOf(wish);
    wire::Submission generate = Make(wire::GenerateArgs{.sequence = sequence});
    // Every run uses the same request id, because the seed is derived from the id.
    generate.request = 65'000;
    EXPECT_FALSE(Submit(generate, payload));
    Generated generated;
    for (const Cut& cut : cuts) {
      for (int round = 0; round < cut.rounds; ++round) (void)daemon_->scheduler.RunOnce();
      if (cut.until != Cut::Until::kRounds) {
        const std::uint32_t cells = CellsOf(sequence);
        while (CellsOf(sequence) == cells && daemon_->scheduler.RunOnce()) {
        }
        EXPECT_LT(CellsOf(sequence), cells) << "no token was removed";
        while (cut.until == Cut::Until::kComputedAgain && CellsOf(sequence) < cells &&
               daemon_->scheduler.RunOnce()) {
        }
      }
      Take(daemon_->client.All(), cut.read, wish.logprob_count, &generated);
      if (generated.result || generated.error) break;
      Restart();
      if (gives_back_from_ && CellsOf(sequence) > *gives_back_from_) {
        (void)memory().sequences().GiveBack(sequence, *gives_back_from_);
      }
      generate = Again(generate);
      generate.received = static_cast<std::uint32_t>(generated.tokens.size());
      generate.last_token = generated.tokens.empty() ? 0 : generated.tokens.back();
      const auto direct = Submit(generate, payload);
      EXPECT_FALSE(direct) << direct->text();
    }
    RunDry();
    Take(daemon_->client.All(), ~std::size_t{0}, wish.logprob_count, &generated);
    held_.clear();
    std::vector<Pos> positions;
    EXPECT_TRUE(memory().holds().ReadCells(sequence, 5, ~0u, &held_, &positions));
    EXPECT_TRUE(memory().sequences().Drop(sequence));
    return generated;
  }
  void ExpectTheSameFromEveryRound(const Wish& wish) {
    const Generated right = Run(wish, std::nullopt, 0);
    ASSERT_TRUE(right.result) << static_cast<int>(right.error.value_or(Code::kOk));
    std::vector<TokenId> all = prompt_;
    all.insert(all.end(), right.tokens.begin(), right.tokens.end());
    if (right.result->skipped != 0) all.pop_back();
    ASSERT_EQ(held_, all);
    for (int rounds = 0; rounds < 24; rounds += IsScaledDown() ? 3 : 1) {
      for (std::size_t read = 0; read <= right.tokens.size(); ++read) {
        for (const std::optional<int> second : {std::optional<int>(), std::optional(rounds % 5)}) {
          SCOPED_TRACE("after " + std::to_string(rounds) + " rounds, " + std::to_string(read) +
                       " tokens read, then " + std::to_string(second.value_or(-1)));
          const Generated generated = Run(wish, rounds, read, second);
          EXPECT_EQ(generated.tokens, right.tokens);
          EXPECT_EQ(generated.text, right.text);
          ASSERT_TRUE(generated.result) << static_cast<int>(generated.error.value_or(Code::kOk));
          EXPECT_EQ(generated.result->seed, right.result->seed);
          EXPECT_EQ(generated.result->finish, right.result->finish);
          EXPECT_EQ(generated.result->predicted, right.result->predicted);
          EXPECT_EQ(generated.result->prompt_reused, right.result->prompt_reused);
          EXPECT_EQ(generated.result->skipped, right.result->skipped);
          EXPECT_EQ(held_, all);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    EXPECT_EQ(memory().Usage().live_cells, 0u);
  }
  // Cuts a run up to 10 times in quick succession, at random places.
  void ExpectTheSameAfterManyCuts(const Wish& wish) {
    const Generated right = Run(wish, std::nullopt, 0);
    ASSERT_TRUE(right.result) << static_cast<int>(right.error.value_or(Code::kOk));
    const std::vector<TokenId> all = held_;
    const unsigned runs = IsScaledDown() ? 40 : 200;
    for (unsigned run = 0; run < runs; ++run) {
      std::mt19937 random(run);
      const auto below = [&](unsigned limit) { return random() % limit; };
      std::vector<Cut> cuts = {{.rounds = static_cast<int>(2 + below(30)),
                                .read = below(static_cast<unsigned>(right.tokens.size()) + 1)}};
      std::string trace = Concat("run ", run);
      while (cuts.size() < 1 + run % 10) {
        cuts.push_back({.rounds = static_cast<int>(below(6)), .read = cuts.back().read + below(3)});
      }
      for (const Cut& cut : cuts) trace += Concat("; ", cut.rounds, " rounds, ", cut.read, " read");
      SCOPED_TRACE(trace);
      const Generated generated = RunCut(wish, cuts);
      EXPECT_EQ(generated.tokens, right.tokens);
      EXPECT_EQ(generated.text, right.text);
      EXPECT_EQ(held_, all);
      EXPECT_TRUE(generated.result) << static_cast<int>(generated.error.value_or(Code::kOk));
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(memory().Usage().live_cells, 0u);
  }

  // The sequence gives back its cells from this one on before the retry, if that frees a block.
  std::optional<std::uint32_t> gives_back_from_;
  std::vector<TokenId> prompt_;
  std::vector<TokenId> held_;  // the tokens that the sequence of the last run held at its end
};

}  // namespace kvd::test
