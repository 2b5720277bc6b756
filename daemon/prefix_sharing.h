// PrefixSharing: prompts that begin empty sequences take what other sequences hold of them; and of
// prompts in flight that begin alike one is computed, the others follow it.
//
// Owner: the scheduler, engine thread only. A request follows the earlier one with which it has most
// in common. While that one has still to compute what they share, the follower computes nothing and
// takes every chunk as it is committed: when the leader ends, is cancelled, dies or stalls for room,
// the follower has all but the chunk in progress and goes on by itself. Leaders come before their
// followers in the order of arrival, so the first one never waits.
//
// A request for which the disk has more than the pool and its leader will have waits for the file,
// and then takes what was read as from any other sequence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/computing_request.h"
#include "engine/engine.h"

namespace kvd {

class PromptCache;

class PrefixSharing {
 public:
  // Both outlive it. `cache`: null: nothing is on disk.
  PrefixSharing(Engine& engine, PromptCache* cache)
      : engine_(engine), cache_(cache), has_state_(engine.state_bytes() != 0) {}

  // Before a step is planned: takes what is to be had and says who waits (OpeningState::waits).
  // `active`: in order of arrival.
  void Prepare(std::span<const std::shared_ptr<ComputingRequest>> active);
  // How many of `tokens` to compute in one step, so that it ends where recurrent state is worth
  // keeping: where prompts part, and before a prompt's last token.
  std::size_t LimitTokens(const ComputingRequest& request, std::size_t tokens) const;
  // Whether the state behind these tokens of the request is to be kept.
  bool IsWorthKeeping(const ComputingRequest& request, std::size_t tokens) const;

  // Any thread. Prompts that could have been shared, and those of which a part was.
  std::uint64_t prompts() const { return prompts_.load(std::memory_order_relaxed); }
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  using Active = std::span<const std::shared_ptr<ComputingRequest>>;

  // `loaded`: the sequence that was read from disk for it, if one was.
  void Take(ComputingRequest& request, SequenceHandle loaded = SequenceHandle::kNone);
  // Whether it waits for a file: for one that is being read, or that has now to be.
  bool AwaitsLoad(ComputingRequest& request, Active earlier);
  bool BeginLoad(ComputingRequest& request);
  // The earlier one of the same namespace with most in common, if that is worth waiting for.
  static void ChooseLeader(ComputingRequest& request, Active earlier);
  bool Follows(ComputingRequest& request, Active earlier);

  Engine& engine_;
  PromptCache* const cache_;
  const bool has_state_;
  std::atomic<std::uint64_t> prompts_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
};

}  // namespace kvd
