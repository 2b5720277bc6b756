// PrefixSharing: lets prompts at the begin of empty sequences reuse cells. A prompt takes the cells
// that other sequences hold for its first tokens. If several prompts in flight have the same first
// tokens, one of these prompts computes the common tokens, and the other prompts follow it.
//
// Owner: the scheduler. Only the engine thread calls the functions, unless a function says
// otherwise. A request whose prompt another request computes first follows this other request, its
// leader: the earlier request with which it shares the most tokens. While the leader has shared
// tokens left to compute, the follower computes nothing and takes each chunk of the leader's cells
// when the chunk is committed. If the leader ends, is cancelled or finds no room for its output,
// the follower has already taken all of the leader's committed chunks and computes the remaining
// tokens itself. A leader has always arrived before its followers, so the request that arrived
// first never waits for a leader.
//
// If the prompt cache on disk holds more tokens of a prompt than the pool and the leader will hold,
// the request waits until the file is read, and then takes the loaded cells as from any other
// sequence.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/schedule/scheduled_request.h"
#include "engine/engine.h"

namespace kvd {

class PromptCache;

class PrefixSharing {
 public:
  // `cache`: the prompt cache on disk; null: the daemon has no prompt cache. The engine and the
  // cache outlive the PrefixSharing.
  PrefixSharing(Engine& engine, PromptCache* cache)
      : engine_(engine), cache_(cache), has_state_(engine.state_bytes() != 0) {}

  // The scheduler calls Prepare before it plans a step. Prepare gives prompts the cells that other
  // sequences hold, and decides which requests wait (OpeningState::waits). `active`: the requests
  // in order of arrival.
  void Prepare(std::span<ScheduledRequest> active);
  // Returns the number of tokens, at most `tokens`, that the request computes in the next step.
  // LimitTokens chooses the number so that the step ends where the recurrent state is worth
  // keeping: at the token where prompts diverge, or before a prompt's last token.
  std::size_t LimitTokens(const ScheduledRequest& request, std::size_t tokens) const;
  // Returns whether the recurrent state after the request's next `tokens` tokens is worth keeping.
  bool IsWorthKeeping(const ScheduledRequest& request, std::size_t tokens) const;

  // prompts() and hits() may be called from any thread. prompts() is the number of prompts for
  // which cells were searched; hits() is the number of these prompts that took cells.
  std::uint64_t prompts() const { return prompts_.load(std::memory_order_relaxed); }
  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  using Active = std::span<ScheduledRequest>;

  // Gives the request cells of other sequences. `loaded`: the sequence that was read from disk for
  // this request; kNone: no sequence was read.
  void Take(ScheduledRequest& request, SequenceHandle loaded = SequenceHandle::kNone);
  // Returns whether the request waits for an entry of the prompt cache that is being read.
  // AwaitsLoad starts to read an entry if the prompt cache holds more tokens of the prompt.
  bool AwaitsLoad(ScheduledRequest& request, Active earlier);
  bool BeginLoad(ScheduledRequest& request);
  // Sets the request's leader: the earlier request of the same namespace that shares the most
  // tokens, if following it saves computing.
  static void ChooseLeader(ScheduledRequest& request, Active earlier);
  bool Follows(ScheduledRequest& request, Active earlier);

  Engine& engine_;
  PromptCache* const cache_;
  const bool has_state_;
  std::atomic<std::uint64_t> prompts_ = 0;
  std::atomic<std::uint64_t> hits_ = 0;
};

}  // namespace kvd
