// A fixed set of requests of one client: generations, forks, removals and decodes, many of them in
// flight at once. Tests interrupt the work and compare its results with those of an uninterrupted
// run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"

namespace kvd::test {

// The results of the work. An interruption must not change them.
struct Seen {
  std::vector<std::vector<TokenId>> generated;
  std::vector<std::vector<TokenId>> held;  // the tokens of each sequence at the end
  std::vector<float> logits;
  std::size_t forks = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

inline std::vector<TokenId> HeldBy(const Client& client, SequenceHandle sequence) {
  std::vector<TokenId> tokens;
  const auto cells = client.ReadTokens(sequence);
  EXPECT_TRUE(cells) << cells.error().message;
  if (cells) {
    for (const TokenAt& cell : *cells) tokens.push_back(cell.token);
  }
  return tokens;
}

inline std::vector<TokenId> GenerateOn(const Sequence& sequence, std::int32_t count,
                                       std::uint64_t seed) {
  const std::vector<TokenId> prompt = {10, 20, 30, 40};
  std::vector<TokenId> tokens;
  auto generation = sequence.Generate({.tokens = prompt,
                                       .predict_max = count,
                                       .sampling = DefaultSamplingAt(3.0f),  // draws differ often
                                       .seed = seed,
                                       .flags = wire::kIgnoreEos});
  EXPECT_TRUE(generation) << generation.error().message;
  if (!generation) return tokens;
  for (;;) {
    auto piece = generation->Next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || !*piece) return tokens;
    tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
  }
}

// Performs forks, removals and decodes. A request that is executed twice or not at all changes the
// numbers of cells and forks.
inline void Edit(const Client& client, const Sequence& sequence, Seen* seen) {
  std::vector<SequenceHandle> forks;
  for (TokenId round = 0; round < 60; ++round) {
    const std::vector<TokenId> tokens(7, 100 + round);
    const auto entry = sequence.Query();
    ASSERT_TRUE(entry) << entry.error().message;
    auto logits = sequence.Decode(tokens, Pos{entry->next_pos});
    ASSERT_TRUE(logits) << logits.error().message;
    seen->logits.assign(logits->values().begin(), logits->values().end());
    const auto made = client.Fork(sequence.handle(), -1, 3);
    ASSERT_TRUE(made) << made.error().message;
    forks.insert(forks.end(), made->begin(), made->end());
    const auto removed = sequence.RemoveRange({.begin = Pos{entry->next_pos + 2}});
    ASSERT_TRUE(removed) << removed.error().message;
    ASSERT_EQ(*removed, 5u);
    ASSERT_TRUE(client.Drop(forks.front()));
    forks.erase(forks.begin());
  }
}

// Submits many requests at once, the same in every run: generations, forks, removals and decodes.
inline Seen Work(const Client& client) {
  constexpr std::size_t kGenerators = 3;
  Seen seen;
  seen.generated.resize(kGenerators);
  std::vector<Sequence> sequences;
  for (std::size_t i = 0; i <= kGenerators; ++i) {
    auto sequence = client.NewSequence();
    EXPECT_TRUE(sequence) << sequence.error().message;
    if (!sequence) return seen;
    sequences.push_back(std::move(*sequence));
  }
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kGenerators; ++i) {
      threads.emplace_back([&, i] {
        for (std::uint64_t round = 0; round < 3; ++round) {
          const auto tokens = GenerateOn(sequences[i], 120, 1 + i + 10 * round);
          seen.generated[i].insert(seen.generated[i].end(), tokens.begin(), tokens.end());
        }
      });
    }
    threads.emplace_back([&] { Edit(client, sequences.back(), &seen); });
  }
  for (const Sequence& sequence : sequences) {
    seen.held.push_back(HeldBy(client, sequence.handle()));
  }
  const auto listed = client.List();
  EXPECT_TRUE(listed) << listed.error().message;
  if (listed) {
    // Retained sequences of other sessions are also listed.
    const auto own = std::ranges::count(*listed, client.session().session,
                                        [](const auto& entry) { return entry.session; });
    seen.forks = static_cast<std::size_t>(own) - sequences.size();
  }
  return seen;
}

}  // namespace kvd::test
