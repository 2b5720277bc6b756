// Tests PrefixIndex with single examples, and with random operations whose results are compared
// with a reference that keeps a full copy of every sequence's tokens. KVD_TEST_SEED replays a run;
// KVD_TEST_SCALE multiplies the number of operations (60,000).
#include "engine/memory/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Candidate = PrefixIndex::Candidate;
using Serves = PrefixIndex::Serves;
using Tokens = std::vector<TokenId>;

constexpr PrefixSpace kSpace{
    .kind = PrefixSpace::Kind::kPrivate, .owner = OwnerId{1000}, .salt = 0};
constexpr PrefixSpace kSaltedSpace{
    .kind = PrefixSpace::Kind::kPrivate, .owner = OwnerId{1000}, .salt = 7};

class PrefixIndexTest : public ::testing::Test {
 protected:
  void Add(std::uint32_t sequence, const Tokens& tokens, const PrefixSpace& space = kSpace) {
    index_.Add(sequence, space);
    index_.Append(sequence, tokens);
  }
  PrefixIndex::Match Find(const Tokens& tokens, Serves serves = Serves::kAnyDepth) {
    PrefixIndex::Match match;
    index_.Find(kSpace, tokens, serves, &match);
    return match;
  }
  PrefixIndex index_{64};
};

TEST_F(PrefixIndexTest, TheLongestPrefixIsFoundToTheToken) {
  Add(1, {1, 2, 3, 4});
  Add(2, {1, 2, 9});
  EXPECT_EQ(Find({1, 2, 3, 7}).depth, 3u);
  EXPECT_EQ(Find({1, 2, 3, 7}).candidates.front(), (Candidate{1, 3}));
  EXPECT_EQ(Find({1, 2, 9, 9}).candidates.front(), (Candidate{2, 3}));
  EXPECT_EQ(Find({1, 2, 3, 4, 5}).depth, 4u);
  EXPECT_EQ(Find({2}).depth, 0u);
  EXPECT_THAT(Find({}).candidates, IsEmpty());
}

TEST_F(PrefixIndexTest, NamespacesAreSeparate) {
  Add(1, {1, 2, 3}, kSaltedSpace);
  EXPECT_EQ(Find({1, 2, 3}).depth, 0u);
  Add(2, {1, 2});
  EXPECT_EQ(Find({1, 2, 3}).depth, 2u);
  index_.Remove(2);
  EXPECT_EQ(Find({1, 2, 3}).depth, 0u);
}

TEST_F(PrefixIndexTest, WithPointsOnlyPrefixesThatEndAtAPointAreFound) {
  Add(1, {1, 2, 3, 4, 5, 6});
  index_.SetPoints(1, std::vector<std::uint32_t>{2, 4});
  Add(2, {1, 2, 3, 9});
  index_.SetPoints(2, std::vector<std::uint32_t>{3});
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, Serves::kPoints).candidates,
              ElementsAre(Candidate{1, 4}, Candidate{2, 3}, Candidate{1, 2}));
  index_.Cut(1, 3);
  EXPECT_THAT(Find({1, 2, 3, 4, 5}, Serves::kPoints).candidates,
              ElementsAre(Candidate{2, 3}, Candidate{1, 2}));
}

TEST_F(PrefixIndexTest, APrefixOfAnotherSequenceCountsAsShared) {
  Add(1, {1, 2, 3, 4});
  EXPECT_EQ(index_.CountUnshared(1), 4u);
  Add(2, {1, 2});
  EXPECT_EQ(index_.CountUnshared(1), 2u);
  EXPECT_EQ(index_.CountUnshared(2), 0u);
  EXPECT_TRUE(index_.IsCovered(2, [](std::uint32_t sequence) { return sequence == 1; }));
  EXPECT_FALSE(index_.IsCovered(2, [](std::uint32_t) { return false; }));
  EXPECT_FALSE(index_.IsCovered(1, [](std::uint32_t) { return true; }));
}

TEST_F(PrefixIndexTest, ADeepTreeIsDestroyedWithoutRecursion) {
  constexpr std::uint32_t kCount = 100'000;
  PrefixIndex index(kCount);
  Tokens tokens;
  for (std::uint32_t sequence = 0; sequence < kCount; ++sequence) {
    if (sequence == 0) {
      index.Add(0, kSpace);
    } else {
      index.AddLike(sequence, sequence - 1, sequence - 1);
    }
    index.Append(sequence, Tokens{1, 2});
    index.Cut(sequence, sequence);
    index.Append(sequence, Tokens{1, 3});
  }
  EXPECT_EQ(index.depth(kCount - 1), kCount + 1);
}

// ------------------------------------------------------------------------------------- the model

struct Modelled {
  PrefixSpace space;
  Tokens tokens;
  std::vector<std::uint32_t> points;
};

std::uint32_t Common(const Tokens& a, const Tokens& b) {
  return static_cast<std::uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {}

  void Run(int operations) {
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      Change();
      Check();
    }
  }

 private:
  static constexpr std::uint32_t kSequences = 24;

  std::uint32_t Draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
  Tokens DrawTokens(std::uint32_t most) {
    Tokens tokens(Draw(most + 1));
    for (TokenId& token : tokens) token = static_cast<TokenId>(Draw(8) == 0 ? Draw(3) : 0);
    return tokens;
  }
  std::optional<std::uint32_t> DrawHeld() {
    if (held_.empty()) return std::nullopt;
    return std::next(held_.begin(), Draw(static_cast<std::uint32_t>(held_.size())))->first;
  }

  void Change() {
    const auto held = DrawHeld();
    const std::uint32_t other = Draw(kSequences);
    switch (Draw(10)) {
      case 0:
      case 1: {
        if (held_.contains(other)) break;
        const PrefixSpace space{
            .kind = PrefixSpace::Kind::kPrivate, .owner = OwnerId{Draw(2)}, .salt = 0};
        index_.Add(other, space);
        held_[other].space = space;
        break;
      }
      case 2: {
        if (!held || held_.contains(other)) break;
        const Modelled& source = held_[*held];
        const std::uint32_t depth = Draw(static_cast<std::uint32_t>(source.tokens.size()) + 1);
        index_.AddLike(other, *held, depth);
        held_[other] = {source.space, {source.tokens.begin(), source.tokens.begin() + depth}, {}};
        break;
      }
      case 3:
      case 4:
      case 5:
      case 6: {
        if (!held) break;
        const Tokens tokens = DrawTokens(Draw(2) == 0 ? 1 : 20);
        index_.Append(*held, tokens);
        Tokens& all = held_[*held].tokens;
        all.insert(all.end(), tokens.begin(), tokens.end());
        break;
      }
      case 7: {
        if (!held) break;
        Modelled& modelled = held_[*held];
        const std::uint32_t depth = Draw(static_cast<std::uint32_t>(modelled.tokens.size()) + 1);
        index_.Cut(*held, depth);
        modelled.tokens.resize(depth);
        std::erase_if(modelled.points, [depth](std::uint32_t point) { return point > depth; });
        break;
      }
      case 8: {
        if (!held) break;
        Modelled& modelled = held_[*held];
        modelled.points.clear();
        for (std::uint32_t depth = 1; depth <= modelled.tokens.size(); ++depth) {
          if (Draw(6) == 0) modelled.points.push_back(depth);
        }
        index_.SetPoints(*held, modelled.points);
        break;
      }
      default: {
        if (!held || Draw(2) == 0) break;
        index_.Remove(*held);
        held_.erase(*held);
      }
    }
  }

  void Check() {
    for (std::uint32_t sequence = 0; sequence < kSequences; ++sequence) {
      ASSERT_EQ(index_.contains(sequence), held_.contains(sequence));
    }
    // Counts change only for the sequences that TakeTouched returns.
    for (const std::uint32_t sequence : index_.TakeTouched()) {
      if (held_.contains(sequence)) counted_[sequence] = index_.CountUnshared(sequence);
    }
    for (const auto& [sequence, modelled] : held_) {
      ASSERT_EQ(counted_[sequence], index_.CountUnshared(sequence)) << sequence;
    }
    if (const auto held = DrawHeld()) {
      const Modelled& modelled = held_[*held];
      ASSERT_EQ(index_.Tokens(*held), modelled.tokens);
      ASSERT_EQ(index_.space(*held), modelled.space);
      std::uint32_t shared = 0;
      for (const auto& [sequence, other] : held_) {
        if (sequence != *held && other.space == modelled.space) {
          shared = std::max(shared, Common(modelled.tokens, other.tokens));
        }
      }
      ASSERT_EQ(index_.CountUnshared(*held), modelled.tokens.size() - shared);
    }
    Tokens prompt;
    if (const auto like = DrawHeld(); like && Draw(4) != 0) {
      prompt = held_[*like].tokens;
      prompt.resize(Draw(static_cast<std::uint32_t>(prompt.size()) + 1));
    }
    const Tokens more = DrawTokens(4);
    prompt.insert(prompt.end(), more.begin(), more.end());
    const PrefixSpace space{
        .kind = PrefixSpace::Kind::kPrivate, .owner = OwnerId{Draw(2)}, .salt = 0};
    for (const Serves serves : {Serves::kAnyDepth, Serves::kPoints})
      CheckFind(space, prompt, serves);
  }

  // Returns the number of tokens of the prompt that the sequence can serve.
  static std::uint32_t Served(const Modelled& modelled, const Tokens& prompt, Serves serves) {
    const std::uint32_t common = Common(modelled.tokens, prompt);
    if (serves == Serves::kAnyDepth) return common;
    std::uint32_t best = 0;
    for (const std::uint32_t point : modelled.points) {
      if (point <= common) best = point;
    }
    return best;
  }

  void CheckFind(const PrefixSpace& space, const Tokens& prompt, Serves serves) {
    PrefixIndex::Match match;
    index_.Find(space, prompt, serves, &match);
    std::uint32_t common = 0;
    std::uint32_t best = 0;
    for (const auto& [sequence, modelled] : held_) {
      if (modelled.space != space) continue;
      common = std::max(common, Common(modelled.tokens, prompt));
      best = std::max(best, Served(modelled, prompt, serves));
    }
    ASSERT_EQ(match.depth, common);
    ASSERT_EQ(match.candidates.empty(), best == 0);
    if (best > 0) {
      ASSERT_EQ(match.candidates.front().depth, best);
    }
    ASSERT_TRUE(
        std::ranges::is_sorted(match.candidates, std::ranges::greater{}, &Candidate::depth));
    for (const Candidate& candidate : match.candidates) {
      ASSERT_TRUE(held_.contains(candidate.sequence));
      const Modelled& modelled = held_[candidate.sequence];
      ASSERT_EQ(modelled.space, space);
      ASSERT_GE(Common(modelled.tokens, prompt), candidate.depth);
      if (serves == Serves::kPoints) {
        ASSERT_TRUE(std::ranges::binary_search(modelled.points, candidate.depth));
      }
    }
  }

  std::mt19937_64 random_;
  PrefixIndex index_{kSequences};
  std::map<std::uint32_t, Modelled> held_;
  std::map<std::uint32_t, std::uint32_t> counted_;  // unshared tokens, by sequence
};

TEST(PrefixIndexModelTest, RandomOperationsAgreeWithAReference) {
  const char* const seed_text = std::getenv("KVD_TEST_SEED");
  const std::uint64_t seed =
      seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : std::random_device()();
  const int episodes = test::Scaled(30);
  SCOPED_TRACE("KVD_TEST_SEED=" + std::to_string(seed));
  for (int episode = 0; episode < episodes; ++episode) {
    Model(seed + static_cast<std::uint64_t>(episode)).Run(2000);
  }
}

}  // namespace
}  // namespace kvd
