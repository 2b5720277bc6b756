// Tests the verb kWhy: the answer covers only sequences from which a prompt of the caller may take
// a prefix.
#include <cstring>

#include "tests/daemon/support/prompt_fixture.h"

namespace kvd {
namespace {

using test::Join;
using test::Prompt;
using test::ReceivedCompletion;
using test::TestSession;
using test::Tokens;
using wire::Verb;

class WhyTest : public test::PromptTest {
 protected:
  wire::WhyRecord Why(TestSession& client, const Tokens& prompt) {
    const ReceivedCompletion reply = CallTokens(client, Make(Verb::kWhy), prompt);
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    wire::WhyRecord record{};
    EXPECT_EQ(reply.output.size(), sizeof record);
    if (reply.output.size() == sizeof record) {
      std::memcpy(&record, reply.output.data(), sizeof record);
    }
    return record;
  }
  static bool IsSame(const wire::WhyRecord& a, const wire::WhyRecord& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};

TEST_F(WhyTest, TheReplyHasTheReusablePrefixAndTheFirstDifference) {
  const SequenceHandle held = Start(client_, Prompt(100));
  (void)Finish(client_);
  const Tokens prompt = Join(Prompt(80), {1, 2, 1});
  const wire::WhyRecord told = Why(sibling_, prompt);
  EXPECT_EQ(told.source, static_cast<std::uint64_t>(held));
  EXPECT_EQ(told.nearest, static_cast<std::uint64_t>(held));
  EXPECT_EQ(told.prompt_tokens, 83u);
  EXPECT_EQ(told.common, 80u);
  EXPECT_EQ(told.prompt_token, 1);
  EXPECT_EQ(told.cached_token, Prompt(81).back());
  const std::size_t computed = Computed();
  const PrefixReuse taken = Compute(sibling_, prompt);
  EXPECT_EQ(told.reused, taken.tokens);
  EXPECT_EQ(told.origin, static_cast<std::uint8_t>(taken.origin));
  EXPECT_EQ(told.limit, static_cast<std::uint8_t>(taken.limit));
  EXPECT_EQ(Computed(), computed + 3) << "asking computes nothing";
}

TEST_F(WhyTest, CompleteAndShortPromptsAreExplained) {
  EXPECT_EQ(Compute(client_, Prompt(100)).tokens, 0u);
  const wire::WhyRecord whole = Why(client_, Prompt(100));
  EXPECT_EQ(whole.reused, 99u);
  EXPECT_EQ(whole.common, 100u);
  EXPECT_EQ(whole.prompt_token, -1);
  EXPECT_EQ(whole.cached_token, -1);
  EXPECT_EQ(whole.limit, static_cast<std::uint8_t>(PrefixLimit::kComplete));
  const wire::WhyRecord few = Why(client_, Join(Prompt(3), {1}));
  EXPECT_EQ(few.reused, 0u);
  EXPECT_EQ(few.source, 0u);
  EXPECT_EQ(few.common, 3u);
  EXPECT_EQ(few.limit, static_cast<std::uint8_t>(PrefixLimit::kTooShort));
}

TEST_F(WhyTest, OtherUidsAndSaltsDoNotChangeTheReply) {
  EXPECT_EQ(Compute(client_, Prompt(40)).tokens, 0u);
  const Tokens prompt = Join(Prompt(90), {1, 2});
  const wire::WhyRecord before = Why(client_, prompt);
  EXPECT_EQ(before.common, 40u);
  EXPECT_EQ(Compute(stranger_, Prompt(100)).tokens, 0u);
  wire::Submission create = Make(wire::CreateArgs{.cache_salt = 77});
  Start(sibling_, Call(sibling_, create).sequence(), Prompt(100));
  (void)Finish(sibling_);
  EXPECT_TRUE(IsSame(Why(client_, prompt), before));
}

TEST_F(WhyTest, SnapshotsAreShownToSessionsThatMayForkThem) {
  const SequenceHandle sequence = Start(stranger_, Prompt(100));
  (void)Finish(stranger_);
  wire::Submission publish = Make(Verb::kPublish, sequence);
  EXPECT_EQ(CallText(stranger_, publish, "hidden").code(), Code::kOk);
  EXPECT_EQ(Why(client_, Prompt(100)).nearest, 0u);
  publish.flags = wire::kFlagPublic;
  const ReceivedCompletion shown = CallText(stranger_, publish, "shown");
  const wire::WhyRecord told = Why(client_, Prompt(100));
  EXPECT_EQ(told.nearest, static_cast<std::uint64_t>(shown.sequence()));
  EXPECT_EQ(told.reused, 99u);
  EXPECT_EQ(told.origin, static_cast<std::uint8_t>(PrefixOrigin::kSnapshot));
}

TEST_F(WhyTest, TokensOutsideTheVocabularyAreRefused) {
  ExpectRefused(CallTokens(client_, Make(Verb::kWhy), {1, 64}), Code::kInvalidArgument, "tokens");
}

}  // namespace
}  // namespace kvd
