// A fixture that retries requests with another service over the same memory, as after a restart.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/requests/grammar_worker.h"
#include "daemon/sessions/resumption.h"
#include "daemon/stores/saved_states.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd::test {

inline constexpr SessionId kRetrySession{5};

// The scheduler, the service and the other parts of a daemon that use its engine;
// RetryTest::Restart replaces them by new parts.
struct Daemon {
  Daemon(FakeEngine& engine, const Shares& shares, const StoredSession& stored,
         SavedStates* saved_states)
      : owned_scheduler(
            std::make_unique<Scheduler>(engine, engine.config().vocab_size, SchedulerOptions{})),
        scheduler(*owned_scheduler),
        grammars(
            engine.vocabulary(), engine.config().vocab_size, [](const auto& call) { call(); },
            [this] { scheduler.WakeUp(); }),
        service(engine, scheduler, shares,
                {.pid_of_session = [](SessionId) { return 7u; },
                 .session_count = [] { return 1u; },
                 .saved_states = saved_states,
                 .grammars = &grammars}),
        client(static_cast<std::uint64_t>(kRetrySession), kOwn, {}, stored) {}
  // The scheduler's requests must be destroyed before the service that made them.
  ~Daemon() { owned_scheduler.reset(); }

  std::unique_ptr<Scheduler> owned_scheduler;
  Scheduler& scheduler;
  GrammarWorker grammars;
  Service service;
  TestSession client;
};

class RetryTest : public testing::Test {
 protected:
  explicit RetryTest(const FakeEngineOptions& options = {}) : engine_(options) {
    Restart();
    EXPECT_TRUE(engine_.memory().sessions().Open(EntryOf(stored_)));
  }

  // Replaces the daemon by a new one, as after a kill: no request of the old daemon is ended.
  void Restart() {
    daemon_.reset();
    daemon_ = std::make_unique<Daemon>(engine_, shares_, stored_, saved_states_.get());
  }
  Memory& memory() { return engine_.memory(); }

  static wire::Submission Make(Verb verb, SequenceHandle sequence = SequenceHandle::kNone) {
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(verb);
    submission.sequence = static_cast<std::uint64_t>(sequence);
    return submission;
  }
  template <wire::VerbArguments Args>
  static wire::Submission Make(const Args& args, std::uint16_t flags = 0) {
    return wire::MakeSubmission(args, flags);
  }
  wire::Submission WithId(wire::Submission submission) {
    submission.request = ++last_request_;
    return submission;
  }
  // Passes the submission to the service and returns the service's answer. nullopt: the scheduler
  // answers the request.
  std::optional<ReceivedCompletion> Submit(const wire::Submission& submission,
                                           std::span<const std::byte> payload = {}) {
    ReceivedSubmission received = daemon_->client.Send(submission, payload);
    EXPECT_TRUE(received.check) << received.check.error().message;
    Outcome outcome = daemon_->service.Handle(daemon_->client.session(), received);
    if (std::holds_alternative<AnsweredByScheduler>(outcome)) return std::nullopt;
    // Work for the daemon's workers is executed immediately.
    WireReply reply;
    if (auto* const work = std::get_if<WorkCall>(&outcome)) {
      reply = work->call(Uncontrolled());
    } else {
      reply = std::get<WireReply>(std::move(outcome));
    }
    return ReceivedCompletion{reply.completion, std::move(reply.output)};
  }
  void RunDry() {
    while (daemon_->scheduler.RunOnce()) {
    }
  }
  // Submits the request and returns its final answer, from the service or from the scheduler.
  ReceivedCompletion Call(const wire::Submission& submission,
                          std::span<const std::byte> payload = {}) {
    if (auto direct = Submit(submission, payload)) return *direct;
    RunDry();
    const auto all = daemon_->client.All();
    EXPECT_FALSE(all.empty());
    if (all.empty()) return {};
    EXPECT_TRUE(all.back().is_final());
    return all.back();
  }
  SequenceHandle Filled(std::size_t cells) {
    const SequenceHandle sequence = Call(WithId(Make(Verb::kCreate))).sequence();
    if (cells == 0) return sequence;
    const std::vector<TokenId> tokens(cells, 5);
    EXPECT_EQ(Call(WithId(Make(Verb::kDecode, sequence)), std::as_bytes(std::span(tokens))).code(),
              Code::kOk);
    return sequence;
  }
  static wire::Submission Again(wire::Submission submission) {
    submission.flags |= wire::kFlagRetry;
    return submission;
  }
  // Describes the committed memory without the sessions: handles, owners, flags, tokens, positions
  // and snapshots' names.
  std::string State() {
    std::string state;
    for (const SequenceInfo& info : memory().sequences().List()) {
      std::vector<TokenId> tokens;
      std::vector<Pos> positions;
      EXPECT_TRUE(memory().holds().ReadCells(info.handle, 0, ~0u, &tokens, &positions));
      state += std::to_string(static_cast<std::uint64_t>(info.handle)) + " of " +
               std::to_string(static_cast<std::uint64_t>(info.owner.session)) + " " +
               std::to_string(info.flags) + ":";
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        state += " " + std::to_string(tokens[i]) + "@" + std::to_string(positions[i].value);
      }
      state += "\n";
    }
    for (const SnapshotInfo& snapshot : memory().snapshots().List()) state += snapshot.name + "\n";
    return state;
  }
  // Executes the request, retries it with a new daemon, and checks that the second attempt changes
  // nothing and gets the same answer. Returns the second answer.
  ReceivedCompletion ExpectAppliedOnce(wire::Submission submission, std::string_view text = {}) {
    const auto payload = std::as_bytes(std::span(text));
    submission = WithId(submission);
    const std::string before = State();
    const ReceivedCompletion first = Call(submission, payload);
    EXPECT_EQ(first.code(), Code::kOk) << first.text();
    const std::string after = State();
    EXPECT_NE(before, after);
    Restart();
    const ReceivedCompletion second = Call(Again(submission), payload);
    EXPECT_EQ(second.code(), Code::kOk) << second.text();
    EXPECT_EQ(State(), after);
    EXPECT_EQ(second.sequence(), first.sequence());
    EXPECT_EQ(second.output, first.output);
    EXPECT_EQ(second.completion.value1, first.completion.value1);
    EXPECT_EQ(second.completion.value2, first.completion.value2);
    const auto verb = static_cast<Verb>(submission.verb);
    // value0 of kFork and kAttach is the time that the request took.
    if (verb != Verb::kFork && verb != Verb::kAttach) {
      EXPECT_EQ(second.completion.value0, first.completion.value0);
    }
    return second;
  }

  FakeEngine engine_;
  Shares shares_{{}, OwnerOf(kOwn), true};
  StoredSession stored_ = IssueToken(kRetrySession, OwnerOf(kOwn))->session;
  std::unique_ptr<SavedStates> saved_states_;
  std::unique_ptr<Daemon> daemon_;
  std::uint64_t last_request_ = 70'000;
};

}  // namespace kvd::test
