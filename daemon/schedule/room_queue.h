// RoomQueue: requests whose next tokens have no room in the memory wait for it ("parked"). The
// queue decides who may take room, and when a request stops waiting.
//
// A parked request takes part in no step and keeps its cells. Room is given in order of arrival:
// what an owner has sent later takes no room before its earlier request that waits. Requests that
// need no room, because their last blocks are not full, go on. A request that does not wait
// (StepMember::room_wait) fails at once.
//
// If no request of an owner can go on, the request that it has sent last gives cells back, whose
// tokens are computed again later (Sequences::GiveBack), so that an earlier one can go on. The
// earliest request that waits never gives cells back. No owner gives cells for another. A request
// takes part in steps again when all of its tokens have room, and those of a further block or the
// rest of its answer, so that it computes new tokens before it gives cells back again.
//
// A parked request ends without room
//   * if its answer has no limit, no request proceeds, and none can give cells back: the earliest
//     such answer ends with what it has (StepMember::EndFull);
//   * before its first token, if the prompt exceeds the pool or the limits of its owner;
//   * if no request of its owner has progressed for StepMember::room_wait.
//
// Owner: the scheduler. Only the engine thread uses a RoomQueue.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "daemon/schedule/scheduled_request.h"
#include "engine/engine.h"

namespace kvd {

class RoomQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Room may come back at any time: a client drops a sequence, or a file system gets room. The
  // scheduler looks again so often while requests are parked and none computes.
  static constexpr std::chrono::milliseconds kLookEvery{20};
  // After a step that has failed although the queue found room (the list arena or the file system
  // is full), the request waits so long before it takes part in a step again.
  static constexpr std::chrono::milliseconds kPauseAfterFailure{100};

  // `wait`: of requests that leave it to the daemon. The engine outlives the queue.
  RoomQueue(Engine& engine, std::chrono::milliseconds wait, std::function<Time()> now)
      : engine_(engine), wait_(wait), now_(std::move(now)) {}

  // The scheduler calls Look before it plans a step. Sets ScheduledRequest::parking of each request
  // that waits, and ends those that wait no longer. `active`: in order of arrival.
  void Look(std::span<ScheduledRequest> active);
  // Takes note that a step or a promise has failed with kNoSpace. Returns false if the request does
  // not wait; it then ends with the error.
  bool Park(ScheduledRequest& request, const Error& reason);
  // Tokens of the request were computed, so requests of its owner wait anew.
  void NoteProgress(std::span<ScheduledRequest> active, ScheduledRequest& request);
  // Whether requests are parked.
  bool is_waited_for() const { return parked_count_ > 0; }
  // Tokens whose cells were given back. Any thread.
  std::uint64_t tokens_given_back() const {
    return tokens_given_back_.load(std::memory_order_relaxed);
  }

 private:
  // How long the request waits; 0: not at all.
  std::chrono::milliseconds WaitOf(const ScheduledRequest& request) const;
  // Gives each request room, or parks it.
  void Give(std::span<ScheduledRequest> active);
  void Claim(std::span<ScheduledRequest> active);
  void Settle(ScheduledRequest& request, const RoomClaim& claim);
  // Ends the earliest answer without a limit that has all the room.
  void EndFull(std::span<ScheduledRequest> active);
  void EndExpired(std::span<ScheduledRequest> active);
  // Lets one request of an owner give cells back if none of the owner's proceeds: the one that came
  // last, also one that waits for its client to read. Returns false if none does.
  bool GiveBackOne(std::span<ScheduledRequest> active);
  bool GiveBack(ScheduledRequest& request);

  Engine& engine_;
  const std::chrono::milliseconds wait_;
  const std::function<Time()> now_;
  std::size_t parked_count_ = 0;
  std::atomic<std::uint64_t> tokens_given_back_ = 0;
  std::vector<RoomClaim> claims_;
  std::vector<std::size_t> claimants_;  // index of the request of each claim
};

}  // namespace kvd
