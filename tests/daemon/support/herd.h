// Herd: 16 generations of one owner over a real engine whose memory does not hold all of their
// answers, and what happens to them meanwhile: forks, edits, cancels, lost connections and killed
// daemons, at random places.
//
// The herd checks the following:
//   1. Each generation ends with the answer that it has in a memory with room for all, or with its
//      cancel and a beginning of the answer. No token is sent twice.
//   2. A sequence that a request computes refuses edits and changes nothing.
//   3. No generation gives cells back more often than TimesMax, nor more tokens than GivenMax; and
//      without disturbances no token is computed again whose cells were not given back.
//   4. At the end the memory is empty.
//
// Time is virtual, and one thread runs everything, so that a seed repeats a herd.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/requests/grammar_worker.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/sessions/resumption.h"
#include "daemon/verbs/service.h"
#include "engine/engine.h"
#include "tests/daemon/support/test_session.h"
#include "tests/engine/memory/model_run.h"
#include "tests/engine/saved_state/state_folder.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

inline constexpr std::size_t kHerdSize = 16;

// The answers of a herd in a memory with room for all of them.
using HerdAnswers = std::array<std::vector<TokenId>, kHerdSize>;

struct HerdPlan {
  ModelShape shape{};
  std::uint32_t blocks = 0;
  std::uint32_t state_slots = 0;  // of models with recurrent states
  std::uint64_t seed = 0;
  // Whether other sequences are forked and edited, and requests cancelled and interrupted.
  bool is_disturbed = false;
};

// What has happened, summed over herds.
struct HerdTally {
  std::uint64_t given_back = 0;     // tokens
  std::uint64_t restarts = 0;       // new daemons over the same memory
  std::uint64_t reattachments = 0;  // new engines over the state directory
  std::uint64_t lost_connections = 0;
  std::uint64_t hits_on_given = 0;  // interruptions and cancels while tokens have no cells
  std::uint64_t cancelled = 0;
  std::uint64_t forks = 0;
  std::uint64_t edits = 0;
  std::uint64_t refused_edits = 0;
};

class Herd {
 public:
  // `answers`: null: the herd's own are returned by Run and not checked.
  Herd(const HerdPlan& plan, const HerdAnswers* answers, HerdTally* tally);
  ~Herd();
  Herd(const Herd&) = delete;
  Herd& operator=(const Herd&) = delete;

  HerdAnswers Run();

  // The blocks of the context and of the longest answer.
  static std::uint32_t BlocksMin();
  // The blocks with which no generation waits.
  static std::uint32_t BlocksMax();

 private:
  static constexpr std::size_t kSessions = 2;
  struct Daemon;
  struct Member {
    std::size_t index = 0;
    std::size_t session = 0;
    SequenceHandle sequence = SequenceHandle::kNone;
    wire::Submission submission{};
    std::vector<std::byte> payload{};
    std::vector<TokenId> tokens{};
    bool is_cancelled = false;
    std::uint32_t given_count = 0;        // tokens that have no cells now
    std::uint64_t times_given = 0;        // how often cells were given back
    std::uint64_t times_interrupted = 0;  // how often the request was sent again
  };

  // ---- the daemon and its clients
  void OpenEngine();
  void StartDaemon();
  void Connect(std::size_t session);
  std::optional<ReceivedCompletion> Submit(std::size_t session, const wire::Submission& submission,
                                           std::span<const std::byte> payload = {});
  template <wire::VerbArguments Args>
  ReceivedCompletion Call(const Args& args) {
    wire::Submission submission = wire::MakeSubmission(args);
    submission.request = ++last_request_;
    return Submit(0, submission).value_or(ReceivedCompletion{});
  }
  bool RunRounds(int count);

  // ---- the generations
  void FillContext();
  void Begin(std::size_t index);
  bool Collect();
  void End(const Member& member, const ReceivedCompletion& last);
  // The sequences and the generations that have not ended, for people.
  std::string Standing();
  void ExpectCells(const Member& member, const std::vector<TokenId>& wanted, bool is_whole);

  // ---- disturbances
  void Disturb();
  void Interrupt();
  void Lose(std::size_t session);
  void Resend(std::size_t session);
  void CancelOne();
  void DisturbStray();
  void DisturbMember();
  void DropStrays();
  SequenceHandle AnyStray();
  // Counts what happens while tokens have no cells.
  void CountHit();

  void NoteGiven();
  void ExpectBounded();
  // The most times that a generation gives cells back, and the most tokens each time.
  static std::uint64_t TimesMax(const Member& member);
  std::uint64_t GivenMax(const Member& member) const;
  Memory& memory() { return engine_->memory(); }

  const HerdPlan plan_;
  const HerdAnswers* const answers_;
  HerdTally& tally_;
  memory_model::Random random_;
  StateFolder folder_;
  Shares shares_;
  std::array<StoredSession, kSessions> stored_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Daemon> daemon_;
  std::array<std::unique_ptr<TestSession>, kSessions> clients_;
  std::chrono::steady_clock::time_point now_{};
  bool is_plain_ = false;
  SequenceHandle context_ = SequenceHandle::kNone;
  std::map<std::uint64_t, Member> members_;  // by request
  std::vector<SequenceHandle> strays_;
  HerdAnswers own_answers_;
  std::uint64_t last_request_ = 0;
  std::uint64_t given_back_ = 0;  // of earlier daemons
  std::uint64_t given_max_ = 0;   // of generations that have ended
  std::uint64_t computed_ = 0;    // of earlier engines
};

}  // namespace kvd::test
