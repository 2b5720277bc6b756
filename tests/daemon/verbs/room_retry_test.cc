// Herds of generations over pools of every size: forks of one context whose answers do not fit
// together wait for each other, give cells back and are cut off by restarts at any place, and each
// ends with its whole answer.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "shm/payload_codec.h"
#include "tests/daemon/support/retry_fixture.h"
#include "tests/support/test_scale.h"

namespace kvd::room_retry_test {
namespace {

using test::IsScaledDown;
using test::ReceivedCompletion;
using test::RetryTest;

constexpr std::uint32_t kContext = 40;
constexpr std::int32_t kAnswer = 50;

class Herd final : public RetryTest {
 public:
  struct Plan {
    std::uint32_t blocks = 0;
    bool has_state = false;
    std::size_t count = 8;
    unsigned seed = 0;
    bool restarts = false;
    bool loses_connections = false;
    // How many of the last generations begin empty sequences, with the context in their prompts.
    std::size_t openings = 0;
  };

  explicit Herd(const Plan& plan)
      : RetryTest({.cells = std::uint64_t{plan.blocks} * layout::kBlockCells,
                   .ubatch_tokens = 32,
                   .has_state = plan.has_state}),
        plan_(plan),
        random_(plan.seed) {}
  void TestBody() override {}

  void Run() {
    context_ = Filled(kContext);
    for (std::size_t at = 0; at < plan_.count; ++at) Begin(at);
    int idle_rounds = 0;
    while (!members_.empty() && idle_rounds < 200 && !HasFailure()) {
      bool has_worked = false;
      for (unsigned round = 0; round < 1 + random_() % 20; ++round) {
        has_worked = daemon_->scheduler.RunOnce() || has_worked;
      }
      has_worked = Collect() || has_worked;
      idle_rounds = has_worked ? 0 : idle_rounds + 1;
      if (plan_.restarts && random_() % 4 == 0) RestartAll();
      if (plan_.loses_connections && random_() % 4 == 0) LoseConnection();
    }
    EXPECT_TRUE(members_.empty()) << members_.size() << " generations cannot go on";
    EXPECT_TRUE(memory().sequences().Drop(context_));
    EXPECT_EQ(memory().Usage().free_blocks, plan_.blocks);
  }

 private:
  struct Member {
    SequenceHandle sequence = SequenceHandle::kNone;
    wire::Submission submission{};
    std::vector<std::byte> payload;
    TokenId prompt = 0;
    std::vector<TokenId> tokens;
  };

  void Begin(std::size_t at) {
    Member member;
    member.prompt = static_cast<TokenId>(3 + at);
    std::vector<TokenId> prompt;
    const bool is_opening = at + plan_.openings >= plan_.count;
    if (is_opening) prompt.assign(kContext, 5);
    prompt.push_back(member.prompt);
    const SequenceOwner owner{.id = daemon_->client.session()->owner(),
                              .session = daemon_->client.session()->id()};
    if (is_opening) {
      member.sequence = *memory().sequences().Create(owner);
    } else {
      ASSERT_TRUE(memory().sequences().Fork(context_, owner, {&member.sequence, 1}));
    }
    wire::GenerateView view;
    view.tokens = prompt;
    view.params.token_count = static_cast<std::uint32_t>(prompt.size());
    view.params.predict_max = kAnswer;
    view.params.sampling = kDefaultSampling;
    view.params.sampling.temperature = 0;
    view.params.flags = wire::kIgnoreEos;
    view.params.seed = 1;
    member.payload.resize(wire::GenerateBytes(view));
    wire::EncodeGenerate(view, member.payload);
    member.submission = WithId(Make(wire::GenerateArgs{.sequence = member.sequence}));
    ASSERT_FALSE(Submit(member.submission, member.payload));
    const std::uint64_t id = member.submission.request;
    members_.emplace(id, std::move(member));
  }

  // Takes what the members have sent; drops the sequence of one that has ended. Returns whether
  // something came.
  bool Collect() {
    const std::vector<ReceivedCompletion> all = daemon_->client.All();
    for (const ReceivedCompletion& received : all) {
      const auto found = members_.find(received.completion.request);
      if (found == members_.end()) continue;
      Member& member = found->second;
      EXPECT_EQ(received.code(), Code::kOk) << received.text();
      if (!received.is_final()) {
        const auto piece = wire::ParsePiece(received.output);
        member.tokens.insert(member.tokens.end(), piece->tokens.begin(), piece->tokens.end());
        continue;
      }
      Check(member);
      EXPECT_TRUE(memory().sequences().Drop(member.sequence));
      members_.erase(found);
    }
    return !all.empty();
  }

  void Check(const Member& member) {
    std::vector<TokenId> wanted(kContext, 5);
    wanted.push_back(member.prompt);
    for (std::int32_t drawn = 0; drawn < kAnswer; ++drawn) {
      wanted.push_back(engine_.NextToken(wanted.back()));
    }
    std::vector<TokenId> held;
    std::vector<Pos> positions;
    EXPECT_TRUE(memory().holds().ReadCells(member.sequence, 0, ~0u, &held, &positions));
    EXPECT_EQ(held, wanted);
    EXPECT_EQ(member.tokens, std::vector<TokenId>(wanted.begin() + kContext + 1, wanted.end()));
  }

  void RestartAll() {
    Restart();
    for (auto& [id, member] : members_) {
      member.submission = Again(member.submission);
      member.submission.received = static_cast<std::uint32_t>(member.tokens.size());
      member.submission.last_token = member.tokens.empty() ? 0 : member.tokens.back();
      const auto direct = Submit(member.submission, member.payload);
      EXPECT_FALSE(direct) << direct->text();
    }
  }

  // The requests of a lost connection end, and its client finds another daemon.
  void LoseConnection() {
    daemon_->client.session()->Close();
    daemon_->service.SessionLost(test::kRetrySession);
    RunDry();
    RestartAll();
  }

  const Plan plan_;
  std::mt19937 random_;
  SequenceHandle context_ = SequenceHandle::kNone;
  std::map<std::uint64_t, Member> members_;  // by request, in order of arrival
};

// The smallest pool has the context's 2 blocks, those of one answer, one that is promised beyond
// them, and one that stays free for other owners.
constexpr std::uint32_t kBlocksMin = 7;
constexpr std::uint32_t kBlocksMax = 28;

void RunHerds(Herd::Plan plan) {
  const std::uint32_t step = IsScaledDown() ? 5 : 1;
  const unsigned seeds = IsScaledDown() ? 1 : 6;
  for (std::uint32_t blocks = kBlocksMin; blocks <= kBlocksMax; blocks += step) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE(testing::Message() << blocks << " blocks, seed " << seed);
      plan.blocks = blocks;
      plan.seed = seed;
      Herd(plan).Run();
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RoomRetryTest, EachOfAHerdEndsWithItsWholeAnswer) { RunHerds({}); }

TEST(RoomRetryTest, EachOfAHerdOfRecurrentSequencesEndsWithItsWholeAnswer) {
  RunHerds({.has_state = true});
}

// A sequence that has given back all of its cells takes those of the context again.
TEST(RoomRetryTest, EachOfAHerdWithEmptySequencesEndsWithItsWholeAnswer) {
  RunHerds({.openings = 4});
  RunHerds({.has_state = true, .openings = 4});
}

TEST(RoomRetryTest, EachOfAHerdEndsWithItsWholeAnswerWhateverConnectionsAreLost) {
  RunHerds({.loses_connections = true});
  RunHerds({.has_state = true, .loses_connections = true, .openings = 4});
}

TEST(RoomRetryTest, EachOfAHerdEndsWithItsWholeAnswerWhateverRestartsCome) {
  RunHerds({.restarts = true});
}

TEST(RoomRetryTest, EachOfAHerdOfRecurrentSequencesEndsWholeWhateverRestartsCome) {
  RunHerds({.has_state = true, .restarts = true});
}

}  // namespace
}  // namespace kvd::room_retry_test
