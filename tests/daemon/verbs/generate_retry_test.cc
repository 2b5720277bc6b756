// Tests generations that are retried: they resume at the token where they stopped, with the same
// draws, whatever their samplers and grammars.
#include <optional>
#include <string>

#include "tests/daemon/support/generate_retry_fixture.h"

namespace kvd {
namespace {

using test::FakeEngine;
using test::Generated;
using test::GenerateRetryTest;
using test::ReceivedCompletion;
using testing::HasSubstr;

TEST_P(GenerateRetryTest, ARetriedGenerationResumesAtEveryRound) {
  ExpectTheSameFromEveryRound({});
}

TEST_P(GenerateRetryTest, ARetriedGenerationResumesWithItsSampler) {
  const Wish resumed{.flags = wire::kIgnoreEos | wire::kResumeSampler};
  ExpectTheSameFromEveryRound(resumed);
  EXPECT_NE(Run(resumed, std::nullopt, 0).tokens, Run({}, std::nullopt, 0).tokens);
}

TEST_P(GenerateRetryTest, ARetriedGreedyGenerationResumes) {
  ExpectTheSameFromEveryRound({.temperature = 0});
}

TEST_P(GenerateRetryTest, ARetriedGenerationKeepsTheHistoryOfPenalties) {
  ExpectTheSameFromEveryRound({.prompt = 3, .repeat_penalty = 1.7f});
}

// The sequence has 5 cells before the prompt and 19 of it, in one block, so it gives back all cells
// or those behind its first block.
TEST_P(GenerateRetryTest, ARetriedGenerationResumesAfterItsSequenceHasGivenCellsBack) {
  gives_back_from_ = 24;
  ExpectTheSameFromEveryRound({});
  ExpectTheSameFromEveryRound({.temperature = 0});
  ExpectTheSameFromEveryRound({.prompt = 3, .repeat_penalty = 1.7f});
  ExpectTheSameFromEveryRound({.flags = wire::kIgnoreEos | wire::kResumeSampler});
  ExpectTheSameFromEveryRound({.logprob_count = 2});
  ExpectTheSameFromEveryRound({.grammar = "root ::= ([a-e] \"fgh\" [a-z])*"});
  ExpectTheSameFromEveryRound({.flags = wire::kIgnoreEos | wire::kSkipLast});
  SamplingParams mirostat = kPlainSampling;
  mirostat.mirostat = 2;
  mirostat.mirostat_tau = 1.5f;
  mirostat.mirostat_eta = 0.7f;
  ExpectTheSameFromEveryRound({.sampling = mirostat});
  ExpectTheSameFromEveryRound({.sampling = mirostat, .flags = wire::kIgnoreEos | wire::kSkipLast});
  ExpectTheSameAfterManyCuts({.predict_max = 30});
}

// A recurrent model may lack the row of the last token, so adapting samplers may miss one update.
class AdaptingRetryTest : public GenerateRetryTest {};

TEST_P(AdaptingRetryTest, ARetriedGenerationResumesWithTheAdaptedState) {
  SamplingParams mirostat = kPlainSampling;
  mirostat.mirostat_tau = 1.5f;
  mirostat.mirostat_eta = 0.7f;
  for (mirostat.mirostat = 2; mirostat.mirostat >= 1; --mirostat.mirostat) {
    ExpectTheSameFromEveryRound({.sampling = mirostat});
  }
  SamplingParams adaptive = kPlainSampling;
  adaptive.adaptive_target = 0.3f;
  adaptive.chain = *ParseSamplerNames("penalties;temperature;adaptive_p");
  ExpectTheSameFromEveryRound({.sampling = adaptive});
  ExpectTheSameFromEveryRound({.prompt = 3, .repeat_penalty = 1.7f, .sampling = adaptive});
  ExpectTheSameFromEveryRound({.sampling = adaptive, .grammar = "root ::= ([a-e] \"fgh\" [a-z])*"});
  mirostat.mirostat = 2;
  const Wish resumed{.sampling = mirostat, .flags = wire::kIgnoreEos | wire::kResumeSampler};
  ExpectTheSameFromEveryRound(resumed);
}

TEST_P(GenerateRetryTest, ARetriedGenerationResumesWithTheDrawsOfLlamaCpp) {
  Wish wish{.flags = wire::kIgnoreEos | wire::kLlamaDraws};
  ExpectTheSameFromEveryRound(wish);
  EXPECT_NE(Run(wish, std::nullopt, 0).tokens, Run({}, std::nullopt, 0).tokens);
  wish.logprob_count = 1;
  ExpectTheSameFromEveryRound(wish);
}

// A token takes one or two draws if a grammar may refuse the first one, and XTC or mirostat may
// take none. With a recurrent model, the row of the last token may be lost.
TEST_P(AdaptingRetryTest, ResumedDrawsOfLlamaCppAreCountedByTokens) {
  constexpr std::uint32_t kFlags = wire::kIgnoreEos | wire::kLlamaDraws;
  ExpectTheSameFromEveryRound(
      {.predict_max = 24, .flags = kFlags, .grammar = "root ::= ([a-m] \"fgh\" [k-z])*"});
  const Generated whole =
      Run({.predict_max = 24, .flags = kFlags, .grammar = "root ::= ([a-m] \"fgh\" [k-z])*"},
          std::nullopt, 0);
  EXPECT_EQ(whole.text.substr(1, 3), "fgh");
  EXPECT_EQ(whole.tokens_in_piece_max, 1u) << "every token is drawn";
  SamplingParams xtc = kPlainSampling;
  xtc.xtc_probability = 0.5f;
  xtc.xtc_threshold = 0.02f;
  xtc.min_p = 0.5f;
  ExpectTheSameFromEveryRound({.sampling = xtc, .flags = kFlags});
  ExpectTheSameFromEveryRound({.sampling = xtc, .flags = kFlags, .grammar = "root ::= [a-m]*"});
  SamplingParams mirostat = kPlainSampling;
  mirostat.mirostat = 2;
  mirostat.mirostat_tau = 0.5f;
  ExpectTheSameFromEveryRound({.sampling = mirostat, .flags = kFlags});
}

TEST_P(AdaptingRetryTest, ALastTokenThatMayBeSkippedIsNotComputed) {
  constexpr std::uint32_t kFlags = wire::kIgnoreEos | wire::kSkipLast;
  ExpectTheSameFromEveryRound({.flags = kFlags});
  EXPECT_EQ(Run({.flags = kFlags}, std::nullopt, 0).result->skipped, 1);
  ExpectTheSameFromEveryRound({.predict_max = 1, .flags = kFlags});
  ExpectTheSameFromEveryRound({.logprob_count = 2, .flags = kFlags});
  ExpectTheSameFromEveryRound({.flags = kFlags | wire::kLlamaDraws});
  SamplingParams mirostat = kPlainSampling;
  mirostat.mirostat = 2;
  mirostat.mirostat_tau = 1.5f;
  mirostat.mirostat_eta = 0.7f;
  ExpectTheSameFromEveryRound({.sampling = mirostat, .flags = kFlags});
  const Generated whole = Run({}, std::nullopt, 0);
  const std::string stop = whole.text.substr(5, 3);
  ExpectTheSameFromEveryRound({.flags = kFlags, .stops = {stop}});
}

TEST_P(GenerateRetryTest, ARetriedGenerationResumesWithDryAndXtc) {
  SamplingParams sampling = kPlainSampling;
  sampling.dry_multiplier = 2;
  sampling.dry_penalty_last = -1;
  sampling.dry_allowed_length = 1;
  sampling.xtc_probability = 0.5f;
  ExpectTheSameFromEveryRound({.sampling = sampling});
}

TEST_P(GenerateRetryTest, ARetriedGenerationSendsTheSameLogProbabilities) {
  ExpectTheSameFromEveryRound({.logprob_count = 2});
}

TEST_P(GenerateRetryTest, StopStringsMatchAcrossThePointOfResumption) {
  const Generated whole = Run({}, std::nullopt, 0);
  ASSERT_GE(whole.text.size(), 8u);
  const std::string stop = whole.text.substr(5, 3);
  ExpectTheSameFromEveryRound({.stops = {stop}});
}

// Runs of letters that the grammar forces are computed in one step, also by a step that takes only
// a part of them, and the cut may fall between any two of them.
constexpr std::string_view kForcing =
    "root ::= \"ab\" ([c-f] \"gh\" [a-z] \"klmnopqrst\" [a-z] [a-z])*";

TEST_P(GenerateRetryTest, ARetriedGenerationResumesWithItsGrammar) {
  ExpectTheSameFromEveryRound({.predict_max = 24, .grammar = kForcing});
  const Generated whole = Run({.predict_max = 24, .grammar = kForcing}, std::nullopt, 0);
  EXPECT_EQ(whole.text.substr(0, 2), "ab");
  EXPECT_EQ(whole.text.substr(3, 2), "gh");
  EXPECT_EQ(whole.text.substr(6, 10), "klmnopqrst");
  EXPECT_GT(whole.tokens_in_piece_max, 8u);
}

TEST_P(GenerateRetryTest, GrammarsWithLogProbabilitiesDrawEveryToken) {
  const Wish wish{.predict_max = 9, .logprob_count = 1, .grammar = kForcing};
  ExpectTheSameFromEveryRound(wish);
  EXPECT_EQ(Run(wish, std::nullopt, 0).tokens_in_piece_max, 1u);
}

TEST_P(GenerateRetryTest, AStopStringWithinForcedTextEndsTheGeneration) {
  const Wish wish{.predict_max = 9, .stops = {"gh"}, .grammar = kForcing};
  ExpectTheSameFromEveryRound(wish);
  const Generated whole = Run(wish, std::nullopt, 0);
  EXPECT_EQ(whole.text.size(), 3u);
  EXPECT_EQ(whole.tokens.size(), 5u) << "the last token completes the stop text";
  EXPECT_GT(whole.tokens_in_piece_max, 1u) << "tokens before it are forced";
  EXPECT_EQ(whole.result->finish, wire::kFinishStop);
}

TEST_P(GenerateRetryTest, AGenerationMayEndInsideForcedText) {
  for (std::int32_t tokens = 1; tokens < 12; ++tokens) {
    ExpectTheSameFromEveryRound({.prompt = 2, .predict_max = tokens, .grammar = kForcing});
  }
}

// A last token that the grammar forces is computed together with the tokens before it.
TEST_P(GenerateRetryTest, AForcedLastTokenIsNotSkipped) {
  constexpr std::uint32_t kFlags = wire::kIgnoreEos | wire::kSkipLast;
  int skipped = 0;
  for (std::int32_t tokens = 1; tokens < 12; ++tokens) {
    const Wish wish{
        .prompt = 2, .predict_max = tokens, .flags = kFlags, .grammar = kForcing, .seed = 1};
    ExpectTheSameFromEveryRound(wish);
    skipped += Run(wish, std::nullopt, 0).result->skipped;
  }
  EXPECT_GT(skipped, 0);
  EXPECT_LT(skipped, 11);
}

TEST_P(GenerateRetryTest, TheEndOfTheGrammarEndsTheGeneration) {
  // Without end tokens (kIgnoreEos), nothing can follow "abcde".
  const GenerateRetryTest::Wish wish{.grammar = "root ::= \"abc\" [d] \"e\""};
  ExpectTheSameFromEveryRound(wish);
  const Generated whole = Run(wish, std::nullopt, 0);
  EXPECT_EQ(whole.text, "abcde");
  EXPECT_EQ(whole.result->finish, wire::kFinishGrammar);
  const Generated ended = Run({.flags = 0, .grammar = wish.grammar}, std::nullopt, 0);
  EXPECT_EQ(ended.text, "abcde");
  EXPECT_EQ(ended.tokens.size(), 6u);
  EXPECT_EQ(ended.tokens.back(), FakeEngine::kEos);
  EXPECT_EQ(ended.result->finish, wire::kFinishEnd);
}

TEST_P(GenerateRetryTest, LazyGrammarsBeginAtTheirTrigger) {
  // The answer of this seed has five letters first, and the fourth one does not occur before.
  constexpr std::uint64_t kSeed = 1;
  const Generated free = Run({.seed = kSeed}, std::nullopt, 0);
  const std::string trigger = free.text.substr(3, 2);
  ASSERT_EQ(free.text.find(trigger[0]), 3u) << free.text;
  for (const TokenId token : std::span(free.tokens).first(5)) {
    ASSERT_GE(token, FakeEngine::Letter('a')) << free.text;
  }
  const std::string grammar = "root ::= \"" + trigger + "xyz\" [a-c]+";
  const Wish wish{
      .predict_max = 20, .grammar = grammar, .triggers = {{.text = trigger}}, .seed = kSeed};
  ExpectTheSameFromEveryRound(wish);
  const Generated whole = Run(wish, std::nullopt, 0);
  EXPECT_EQ(whole.text.substr(0, 5), free.text.substr(0, 5));
  EXPECT_EQ(whole.text.substr(5, 3), "xyz");
  EXPECT_EQ(whole.text.find_first_not_of("abc", 8), std::string::npos);
  const Wish by_token{.predict_max = 20,
                      .grammar = grammar,
                      .triggers = {{.token = FakeEngine::Letter(trigger[0]), .text = {}}},
                      .seed = kSeed};
  ExpectTheSameFromEveryRound(by_token);
  EXPECT_EQ(Run(by_token, std::nullopt, 0).text.substr(0, 8), whole.text.substr(0, 8));
}

TEST_P(GenerateRetryTest, ARetriedPromptWithoutGenerationIsComputedOnce) {
  ExpectTheSameFromEveryRound({.predict_max = 0});
}

TEST_P(GenerateRetryTest, ARetryThatContradictsTheSequenceIsRefused) {
  const SequenceHandle sequence = Filled(3);
  const std::vector<std::byte> payload = PayloadOf({});
  wire::Submission generate = WithId(Make(wire::GenerateArgs{.sequence = sequence}));
  wire::Submission again = Again(generate);
  again.received = 1;
  const auto early = Submit(again, payload);
  ASSERT_TRUE(early);
  EXPECT_EQ(early->code(), Code::kConflict);
  EXPECT_THAT(early->text(), HasSubstr("received"));
  ASSERT_EQ(Call(generate, payload).code(), Code::kOk);
  again.received = 14;
  EXPECT_EQ(Submit(again, payload).value_or(ReceivedCompletion{}).code(), Code::kConflict);
  again.received = 13;
  again.last_token = 1'000'000;
  EXPECT_EQ(Submit(again, payload).value_or(ReceivedCompletion{}).code(), Code::kInvalidArgument);
}

// Each attempt ends before it has computed again the cell that it needs, so that the next one finds
// what several attempts have left.
TEST_P(GenerateRetryTest, ManyAttemptsInQuickSuccessionDrawTheSame) {
  ExpectTheSameAfterManyCuts({});
  ExpectTheSameAfterManyCuts({.flags = wire::kIgnoreEos | wire::kLlamaDraws});
  ExpectTheSameAfterManyCuts({.predict_max = 24, .grammar = kForcing});
}

TEST_P(AdaptingRetryTest, ManyAttemptsInQuickSuccessionCountTheSameDraws) {
  constexpr std::uint32_t kFlags = wire::kIgnoreEos | wire::kLlamaDraws;
  ExpectTheSameAfterManyCuts(
      {.predict_max = 24, .flags = kFlags, .grammar = "root ::= ([a-m] \"fgh\" [k-z])*"});
  SamplingParams xtc = kPlainSampling;
  xtc.xtc_probability = 0.5f;
  xtc.xtc_threshold = 0.02f;
  xtc.min_p = 0.5f;
  ExpectTheSameAfterManyCuts({.sampling = xtc, .flags = kFlags, .grammar = "root ::= [a-m]*"});
  SamplingParams mirostat = kPlainSampling;
  mirostat.mirostat = 2;
  mirostat.mirostat_tau = 1.5f;
  mirostat.mirostat_eta = 0.7f;
  ExpectTheSameAfterManyCuts({.sampling = mirostat, .flags = kFlags});
  ExpectTheSameAfterManyCuts({.sampling = mirostat});
}

// A recurrent model has no fork without the last token, so an attempt removes this token.
class RecurrentRetryTest : public GenerateRetryTest {};

TEST_P(RecurrentRetryTest, ATokenThatIsCommittedAgainKeepsItsDraws) {
  const Wish wish{.predict_max = 24,
                  .flags = wire::kIgnoreEos | wire::kLlamaDraws,
                  .grammar = "root ::= ([a-m] \"fgh\" [k-z])*"};
  const Generated right = Run(wish, std::nullopt, 0);
  for (int rounds = 8; rounds < 20; ++rounds) {
    SCOPED_TRACE(rounds);
    const Cut cuts[] = {{.rounds = rounds, .read = 0},
                        {.read = 0, .until = Cut::Until::kComputedAgain},
                        {.read = 0, .until = Cut::Until::kTakenBack}};
    EXPECT_EQ(RunCut(wish, cuts).tokens, right.tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GenerateRetryTest, testing::Bool());
INSTANTIATE_TEST_SUITE_P(RecurrentModel, RecurrentRetryTest, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(AttentionModel, AdaptingRetryTest, testing::Values(false));

}  // namespace
}  // namespace kvd
