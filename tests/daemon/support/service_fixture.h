// A fixture with a service over a FakeEngine and clients of the daemon's own uid and of another
// uid.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/stores/prompt_cache.h"
#include "daemon/verbs/service.h"
#include "tests/daemon/support/fake_engine.h"
#include "tests/daemon/support/test_session.h"

namespace kvd::test {

using wire::Verb;

inline constexpr std::uint32_t kOwn = 1000;    // the daemon's uid
inline constexpr std::uint32_t kOther = 1001;  // another uid whose connections are accepted

class ServiceTest : public ::testing::Test {
 protected:
  using MakeCache = std::function<std::unique_ptr<PromptCache>(Engine&)>;

  explicit ServiceTest(const FakeEngineOptions& options = {}, const MakeCache& make_cache = {})
      : engine_(options),
        cache_(make_cache ? make_cache(engine_) : nullptr),
        scheduler_(engine_, options.vocab_size, {.prompt_cache = cache_.get()}),
        service_(engine_, scheduler_, shares_,
                 {.pid_of_session = [](SessionId) { return 7u; },
                  .session_count = [] { return 1u; },
                  .prompt_cache = cache_.get()}) {}

  static wire::Submission Make(Verb verb, SequenceHandle sequence = SequenceHandle::kNone) {
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(verb);
    submission.sequence = static_cast<std::uint64_t>(sequence);
    const bool has_range = verb == Verb::kRemoveRange || verb == Verb::kCopyRange ||
                           verb == Verb::kAdd || verb == Verb::kDivide;
    submission.p1 = has_range ? -1 : 0;
    return submission;
  }
  template <wire::VerbArguments Args>
  static wire::Submission Make(const Args& args, std::uint16_t flags = 0) {
    return wire::MakeSubmission(args, flags);
  }
  // Passes the submission to the service and returns its reply. If the scheduler answers the
  // request, the returned reply is empty.
  ReceivedCompletion Call(TestSession& client, wire::Submission submission,
                          std::span<const std::byte> payload = {}) {
    submission.request = ++last_request_;
    ReceivedSubmission received = client.Send(submission, payload);
    Outcome outcome = service_.Handle(client.session(), received);
    WireReply reply;
    if (auto* const direct = std::get_if<WireReply>(&outcome)) {
      reply = std::move(*direct);
    } else if (auto* const work = std::get_if<WorkCall>(&outcome)) {
      reply = work->call(Uncontrolled());
    } else {
      return {};
    }
    wire::Completion completion{};
    completion.request = submission.request;
    completion.verb = submission.verb;
    EXPECT_TRUE(client.session()->TryFinal(completion, {}));
    (void)client.All();
    return {reply.completion, std::move(reply.output)};
  }
  template <wire::VerbArguments Args>
  ReceivedCompletion Call(TestSession& client, const Args& args,
                          std::span<const std::byte> payload = {}) {
    return Call(client, wire::MakeSubmission(args), payload);
  }
  ReceivedCompletion CallText(TestSession& client, wire::Submission submission,
                              std::string_view text) {
    return Call(client, submission, std::as_bytes(std::span(text)));
  }
  ReceivedCompletion CallTokens(TestSession& client, wire::Submission submission,
                                const std::vector<TokenId>& tokens) {
    return Call(client, submission, std::as_bytes(std::span(tokens)));
  }
  SequenceHandle Create(TestSession& client) {
    const ReceivedCompletion reply = Call(client, Make(Verb::kCreate));
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    return reply.sequence();
  }
  // Makes a sequence with `cells` cells.
  SequenceHandle Filled(TestSession& client, std::size_t cells) {
    const SequenceHandle sequence = Create(client);
    const ReceivedCompletion reply =
        CallTokens(client, Make(Verb::kDecode, sequence), std::vector<TokenId>(cells, 5));
    EXPECT_EQ(reply.code(), Code::kOk) << Text(reply);
    RunDry();
    (void)client.All();
    return sequence;
  }
  void RunDry() {
    while (scheduler_.RunOnce()) {
    }
  }
  static std::string Text(const ReceivedCompletion& reply) {
    return {reinterpret_cast<const char*>(reply.output.data()), reply.output.size()};
  }
  void ExpectRefused(const ReceivedCompletion& reply, Code code, const char* named) {
    EXPECT_EQ(reply.code(), code) << Text(reply);
    EXPECT_THAT(Text(reply), testing::HasSubstr(named));
  }
  std::uint32_t Cells(SequenceHandle sequence) {
    return engine_.memory().sequences().Query(sequence)->cell_count;
  }

  FakeEngine engine_;
  std::unique_ptr<PromptCache> cache_;
  Shares shares_{{}, OwnerOf(kOwn), true};
  Scheduler scheduler_;
  Service service_;
  TestSession client_{1, kOwn, {}, {}, {.account = shares_.AccountOf(OwnerOf(kOwn))}};
  TestSession sibling_{2, kOwn, {}, {}, {.account = shares_.AccountOf(OwnerOf(kOwn))}};
  TestSession stranger_{3, kOther, {}, {}, {.account = shares_.AccountOf(OwnerOf(kOther))}};
  std::uint64_t last_request_ = 0;
};

}  // namespace kvd::test
