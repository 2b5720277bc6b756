// Tests submissions of every verb with every kind of error: wrong flags, handles, ranges, payloads,
// arguments, random bytes and false retry flags. The daemon answers each submission once, and after
// each kind of error another client gets its correct answer.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <random>

#include "tests/e2e/support/every_verb_fixture.h"
#include "tests/e2e/support/raw_client.h"

namespace kvd {
namespace {

using test::ModelKind;
using test::RawClient;
using test::Relation;
using test::Target;
using test::TestRequest;
using test::VerbUse;
using wire::Verb;

constexpr std::array<std::int32_t, 9> kInt32Limits = {INT32_MIN, INT32_MIN + 1, -2,       -1, 0, 1,
                                                      1 << 30,   INT32_MAX - 1, INT32_MAX};
constexpr std::array<std::int64_t, 14> kInt64Limits = {INT64_MIN,
                                                       INT64_MIN + 1,
                                                       std::int64_t{INT32_MIN} - 1,
                                                       INT32_MIN,
                                                       -2,
                                                       -1,
                                                       0,
                                                       1,
                                                       2,
                                                       INT32_MAX,
                                                       std::int64_t{INT32_MAX} + 1,
                                                       std::int64_t{UINT32_MAX} + 1,
                                                       INT64_MAX - 1,
                                                       INT64_MAX};

// A session that writes its submissions into the ring itself.
class Attacker {
 public:
  explicit Attacker(const std::string& socket_path) : client_(RawClient::Connect(socket_path)) {}

  // Says goodbye, so that the daemon drops the session and its sequences at once.
  ~Attacker() {
    const std::byte goodbye{wire::kGoodbyeBell};
    if (client_) (void)::send(client_->socket(), &goodbye, 1, MSG_NOSIGNAL);
  }
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  bool is_connected() const { return client_.has_value(); }
  // True if a request got no answer. The following requests are not sent.
  bool is_lost() const { return is_lost_; }
  std::size_t arena_bytes() { return client_->request_arena().size(); }
  std::uint64_t next_request() { return ++last_request_; }

  // Sends the submission with its payload fields unchanged and returns the final completion;
  // nullopt: none came within kAnswerWait. A request that takes more than kComputeWait is
  // cancelled.
  std::optional<wire::Completion> SendAsIs(const wire::Submission& submission) {
    if (is_lost_) return std::nullopt;
    client_->SubmitAsIs(submission);
    bool is_cancelled = false;
    const auto began = std::chrono::steady_clock::now();
    const auto has_passed = [began](std::chrono::milliseconds time) {
      return std::chrono::steady_clock::now() - began > time;
    };
    while (!has_passed(kAnswerWait)) {
      if (const auto completion = client_->Wait(100)) {
        client_->channel().completions().Release(*completion);
        client_->Ring();
        const bool is_last = (completion->flags & wire::kMore) == 0;
        if (completion->request == submission.request && is_last) return completion;
      }
      if (client_->HungUpWithin(1)) break;
      if (is_cancelled || !has_passed(kComputeWait)) continue;
      wire::Submission cancel{};
      cancel.request = kCancelRequest;
      cancel.verb = static_cast<std::uint16_t>(Verb::kCancel);
      cancel.argument = static_cast<std::int64_t>(submission.request);
      client_->SubmitAsIs(cancel);
      is_cancelled = true;
    }
    is_lost_ = true;
    return std::nullopt;
  }

  void SendUnread(const wire::Submission& submission) { client_->SubmitAsIs(submission); }

  // Sends the request with its payload at `offset` of the request arena and a new request id.
  std::optional<wire::Completion> Send(TestRequest request, std::size_t offset = 0) {
    request.submission.request = next_request();
    return SendAsIs(Place(request, offset));
  }
  // Copies the payload to `offset` of the request arena and returns the submission that refers to
  // it.
  wire::Submission Place(const TestRequest& request, std::size_t offset = 0) {
    std::ranges::copy(request.payload,
                      client_->request_arena().begin() + static_cast<std::ptrdiff_t>(offset));
    wire::Submission submission = request.submission;
    submission.payload_offset = offset;
    submission.payload_bytes = static_cast<std::uint32_t>(request.payload.size());
    return submission;
  }
  std::span<std::byte> arena() { return client_->request_arena(); }
  // The sequence of which all targets are forks.
  SequenceHandle master = SequenceHandle::kNone;

 private:
  static constexpr std::uint64_t kCancelRequest = 0xcccc'cccc'cccc;
  static constexpr std::chrono::milliseconds kComputeWait{200};
  static constexpr std::chrono::milliseconds kAnswerWait{120'000};  // for slow machines

  std::optional<RawClient> client_;
  std::uint64_t last_request_ = 0;
  bool is_lost_ = false;
};

void FillRandom(std::span<std::byte> bytes) {
  std::mt19937_64 random(5);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size();
       at += sizeof(std::uint64_t)) {
    const std::uint64_t number = random();
    std::memcpy(bytes.data() + at, &number, sizeof number);
  }
}

Code CodeOf(const wire::Completion& completion) { return static_cast<Code>(completion.code); }

bool IsIn(Code code, std::initializer_list<Code> codes) {
  return std::ranges::find(codes, code) != codes.end();
}

class HostileVerbsTest : public test::EveryVerbTest {
 protected:
  // Calls `attack` for each use of the model's verbs, each time with a new session, and then checks
  // that another client is served.
  template <class Attack>
  void ForEachUse(const Attack& attack) {
    for (const VerbUse& use : Uses()) {
      SCOPED_TRACE(use.name);
      {
        Attacker attacker(socket_path());
        ASSERT_TRUE(attacker.is_connected()) << "the daemon takes no connections any more";
        attack(attacker, use);
        ASSERT_FALSE(attacker.is_lost()) << "the daemon has hung up or does not answer";
      }
      ExpectServesOthers();
      if (HasFatalFailure()) return;
    }
  }

  // Makes a new target whose objects belong to the attacker's session.
  Target OwnTarget(Attacker& attacker) {
    const std::string number = std::to_string(++made_);
    Target target{.sequence = Forked(attacker, cells()),
                  .cells = cells(),
                  .own = Forked(attacker, -1),
                  .empty = Forked(attacker, 0),
                  .snapshot = "own-" + number,
                  .saved = "own-" + number,
                  .fresh = "new-" + number,
                  .state = state()};
    return target;
  }

  // Sends all requests of the use. `spoil` changes the last submission, and its payload in the
  // arena, before it is sent. Returns the code of the last answer.
  template <class Spoil>
  Code Spoiled(Attacker& attacker, const VerbUse& use, const Target& target, const Spoil& spoil) {
    std::vector<TestRequest> requests = use.make(target);
    for (std::size_t i = 0; i + 1 < requests.size(); ++i) {
      const auto prepared = attacker.Send(requests[i]);
      EXPECT_TRUE(prepared) << "no answer to the preparation";
    }
    wire::Submission submission = attacker.Place(requests.back());
    submission.request = attacker.next_request();
    spoil(submission);
    return CodeOfAnswer(attacker, submission);
  }

  // Sends the submission and returns the answer's code, which must not be a code for a fault of the
  // daemon.
  static Code CodeOfAnswer(Attacker& attacker, const wire::Submission& submission) {
    const auto completion = attacker.SendAsIs(submission);
    if (!completion) return Code::kInternal;
    const Code code = CodeOf(*completion);
    EXPECT_EQ(completion->verb, submission.verb);
    EXPECT_FALSE(IsIn(code, {Code::kInternal, Code::kIo, Code::kNumerical, Code::kNeedsReplay,
                             Code::kDisconnected, Code::kTimeout}))
        << CodeName(code);
    return code;
  }

  // Makes the attacker's master sequence. On models that permit it, the master sequence has more
  // cells than the target sequences, which are its forks.
  void MakeMaster(Attacker& attacker) const {
    TestRequest create;
    create.submission.verb = static_cast<std::uint16_t>(Verb::kCreate);
    const auto created = attacker.Send(create);
    ASSERT_TRUE(created && CodeOf(*created) == Code::kOk);
    attacker.master = static_cast<SequenceHandle>(created->sequence);
    if (cells() == 0) return;
    TestRequest decode;
    decode.submission.verb = static_cast<std::uint16_t>(Verb::kDecode);
    decode.submission.sequence = created->sequence;
    const std::vector<TokenId> tokens(static_cast<std::size_t>(cells() + 10), 7);
    const auto bytes = std::as_bytes(std::span(tokens));
    decode.payload.assign(bytes.begin(), bytes.end());
    const auto decoded = attacker.Send(decode);
    ASSERT_TRUE(decoded && CodeOf(*decoded) == Code::kOk);
  }
  // Forks the master. An attack may have dropped the master, so it is made again if the fork fails.
  SequenceHandle Forked(Attacker& attacker, std::int32_t cell_count) const {
    for (int attempt = 0; attempt < 2; ++attempt) {
      TestRequest fork;
      fork.submission.verb = static_cast<std::uint16_t>(Verb::kFork);
      fork.submission.sequence = static_cast<std::uint64_t>(attacker.master);
      fork.submission.p0 = cell_count;
      fork.submission.argument = 1;
      const auto forked = attacker.Send(fork);
      if (forked && CodeOf(*forked) == Code::kOk) {
        return static_cast<SequenceHandle>(forked->sequence);
      }
      MakeMaster(attacker);
    }
    ADD_FAILURE() << "the attacker gets no sequences";
    return SequenceHandle::kNone;
  }

 private:
  int made_ = 0;
};

TEST_P(HostileVerbsTest, FlagsThatTheVerbDoesNotHaveAreRefused) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    const Target target = OwnTarget(attacker);
    const unsigned known = unsigned{use.flags} | wire::kFlagRetry;
    for (unsigned bit = 0; bit < 16; ++bit) {
      if ((known >> bit & 1) != 0) continue;
      const Code code = Spoiled(attacker, use, target, [bit](wire::Submission& submission) {
        submission.flags = static_cast<std::uint16_t>(1u << bit);
      });
      EXPECT_EQ(CodeName(code), CodeName(Code::kInvalidArgument)) << "bit " << bit;
    }
    const Code all = Spoiled(attacker, use, target,
                             [](wire::Submission& submission) { submission.flags = 0xffff; });
    EXPECT_EQ(CodeName(all), CodeName(Code::kInvalidArgument));
  });
}

TEST_P(HostileVerbsTest, EveryKindOfHandleGetsTheResultInTheTable) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    const Target own = OwnTarget(attacker);
    if (!use.takes_sequence()) {
      for (const bool is_second : {false, true}) {
        const Code code = Spoiled(attacker, use, own, [&](wire::Submission& submission) {
          (is_second ? submission.sequence2 : submission.sequence) =
              static_cast<std::uint64_t>(own.sequence);
        });
        EXPECT_EQ(CodeName(code), CodeName(Code::kInvalidArgument)) << "a handle is not wanted";
      }
      return;
    }
    const auto aimed = [&](SequenceHandle handle) {
      Target target = OwnTarget(attacker);
      target.sequence = handle;
      return Spoiled(attacker, use, target, [](wire::Submission&) {});
    };
    // kExportState takes handles in its payload, where 0 is an unknown handle instead of a missing
    // one.
    const bool is_in_payload = use.verb == Verb::kExportState;
    EXPECT_EQ(CodeName(aimed(SequenceHandle::kNone)),
              CodeName(is_in_payload ? Code::kNotFound : Code::kInvalidArgument));
    const SequenceHandle later = MakeHandle(IndexOf(own.sequence), GenerationOf(own.sequence) + 1);
    for (const SequenceHandle bad : {SequenceHandle{77777}, SequenceHandle{~std::uint64_t{0}},
                                     SequenceHandle{std::uint64_t{1} << 63}, later}) {
      EXPECT_EQ(CodeName(aimed(bad)), CodeName(Code::kNotFound)) << static_cast<std::uint64_t>(bad);
    }
    const Client owner = Connect();
    const Target dropped = MakeTarget(owner, use, Relation::kSibling);
    ASSERT_TRUE(owner.Drop(dropped.sequence));
    EXPECT_EQ(CodeName(aimed(dropped.sequence)), CodeName(Code::kNotFound)) << "dropped";
    for (const Relation relation :
         {Relation::kSibling, Relation::kRetained, Relation::kPublished}) {
      const Target target = MakeTarget(owner, use, relation);
      const Code wanted = test::AnswerFor(use, relation);
      EXPECT_EQ(CodeName(aimed(target.sequence)), CodeName(wanted)) << NameOf(relation);
    }
  });
}

TEST_P(HostileVerbsTest, RangesAtTheLimitsOfPositionsAreAnswered) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    for (const std::int32_t p0 : kInt32Limits) {
      const Target target = OwnTarget(attacker);
      for (const std::int32_t p1 : kInt32Limits) {
        SCOPED_TRACE(std::to_string(p0) + ", " + std::to_string(p1));
        (void)Spoiled(attacker, use, target, [&](wire::Submission& submission) {
          submission.p0 = p0;
          submission.p1 = p1;
        });
      }
    }
  });
}

TEST_P(HostileVerbsTest, ArgumentsAtTheLimitsOfTheirTypeAreAnswered) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    for (const std::int64_t argument : kInt64Limits) {
      SCOPED_TRACE(argument);
      const Target target = OwnTarget(attacker);
      (void)Spoiled(attacker, use, target,
                    [&](wire::Submission& submission) { submission.argument = argument; });
    }
  });
}

TEST_P(HostileVerbsTest, PayloadsOutsideTheArenaAreRefused) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    const Target target = OwnTarget(attacker);
    const std::uint64_t arena_bytes = attacker.arena_bytes();
    for (const std::uint64_t offset :
         {arena_bytes + 1, std::uint64_t{UINT32_MAX}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
      const Code code = Spoiled(attacker, use, target, [&](wire::Submission& submission) {
        submission.payload_offset = offset;
      });
      EXPECT_EQ(CodeName(code), CodeName(Code::kInvalidArgument)) << offset;
    }
    const Code across = Spoiled(attacker, use, target, [&](wire::Submission& submission) {
      submission.payload_offset = arena_bytes - submission.payload_bytes + 1;
    });
    EXPECT_EQ(CodeName(across), CodeName(Code::kInvalidArgument));
    for (const std::uint64_t bytes : {arena_bytes + 4, std::uint64_t{UINT32_MAX} - 3}) {
      const Code code = Spoiled(attacker, use, target, [&](wire::Submission& submission) {
        submission.payload_bytes = static_cast<std::uint32_t>(bytes);
      });
      EXPECT_TRUE(IsIn(code, {Code::kInvalidArgument, Code::kTooLarge})) << CodeName(code);
    }
  });
}

TEST_P(HostileVerbsTest, PayloadsOfEveryLengthAreAnswered) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    const std::uint32_t good = attacker.Place(use.make(OwnTarget(attacker)).back()).payload_bytes;
    const auto whole = static_cast<std::uint32_t>(attacker.arena_bytes());
    std::vector<std::byte> noise(whole);
    FillRandom(noise);
    for (const std::uint32_t bytes :
         {0u,  1u,  2u,  3u,       4u,       5u,       7u,    8u,    9u,        63u,
          64u, 65u, 72u, good - 1, good + 1, good + 4, 4096u, 4097u, whole - 1, whole}) {
      if (bytes > whole) continue;
      SCOPED_TRACE(bytes);
      const Target target = OwnTarget(attacker);
      // The arena around the valid payload holds zeros in the first request and random bytes in the
      // second.
      std::ranges::fill(attacker.arena(), std::byte{0});
      const auto resize = [&](wire::Submission& submission) { submission.payload_bytes = bytes; };
      (void)Spoiled(attacker, use, target, resize);
      std::ranges::copy(noise, attacker.arena().begin());
      (void)Spoiled(attacker, use, target, resize);
    }
  });
}

TEST_P(HostileVerbsTest, ValidPayloadsAreReadAtEveryOffset) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    // Verbs that take a name answer kNotFound, because no object has that name yet.
    const bool is_by_name = use.need == test::Need::kLookByName ||
                            use.need == test::Need::kChangeByName ||
                            use.need == test::Need::kSavedFile;
    const Code wanted = is_by_name ? Code::kNotFound : Code::kOk;
    const auto bytes = attacker.Place(use.make(OwnTarget(attacker)).back()).payload_bytes;
    for (const std::size_t offset :
         {std::size_t{1}, std::size_t{3}, attacker.arena_bytes() - bytes}) {
      std::vector<TestRequest> requests = use.make(OwnTarget(attacker));
      std::optional<wire::Completion> answer;
      for (const TestRequest& request : requests) {
        answer = attacker.Send(request, &request == &requests.back() ? offset : 0);
        ASSERT_TRUE(answer) << "no answer";
      }
      EXPECT_EQ(CodeName(CodeOf(*answer)), CodeName(wanted)) << "at " << offset;
    }
  });
}

TEST_P(HostileVerbsTest, RandomPayloadsAndFieldsAreAnswered) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    std::mt19937_64 random(static_cast<std::uint64_t>(use.verb));
    for (int round = 0; round < 100; ++round) {
      SCOPED_TRACE(round);
      const Target target = OwnTarget(attacker);
      (void)Spoiled(attacker, use, target, [&](wire::Submission& submission) {
        // Rounds change in turn: one bit of the payload, the whole payload, one field, all fields.
        const auto payload = attacker.arena().first(submission.payload_bytes);
        if (round % 4 == 0 && !payload.empty()) {
          payload[random() % payload.size()] ^= std::byte{1} << (random() % 8);
        }
        if (round % 4 == 1) {
          for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
        }
        const std::uint64_t field = random() % 6;
        const auto meant = [&](std::uint64_t number) {
          return round % 4 == 3 || (round % 4 == 2 && field == number);
        };
        if (meant(0)) submission.flags = static_cast<std::uint16_t>(random());
        if (meant(1)) submission.sequence = random() % 64;
        if (meant(2)) submission.sequence2 = random() % 64;
        if (meant(3)) submission.p0 = static_cast<std::int32_t>(random());
        if (meant(4)) submission.p1 = static_cast<std::int32_t>(random());
        if (meant(5)) submission.argument = static_cast<std::int64_t>(random() % 1000);
      });
    }
  });
}

TEST_P(HostileVerbsTest, RequestsMarkedAsRetriedAreAnswered) {
  ForEachUse([this](Attacker& attacker, const VerbUse& use) {
    for (const std::uint32_t received : {0u, 1u, 2u, 1u << 31, UINT32_MAX}) {
      for (const std::int32_t last_token : {0, 1, -1, INT32_MIN, INT32_MAX}) {
        SCOPED_TRACE(std::to_string(received) + ", " + std::to_string(last_token));
        const Target target = OwnTarget(attacker);
        const auto claim = [&](wire::Submission& submission) {
          submission.flags |= wire::kFlagRetry;
          submission.received = received;
          submission.last_token = last_token;
        };
        // Sends, in this order: a retry of a request that was never sent; retry fields without the
        // retry flag; retries of an answered request with its position and other positions; a retry
        // with another verb; a retry with another request's id.
        (void)Spoiled(attacker, use, target, claim);
        const Code unflagged = Spoiled(attacker, use, target, [&](wire::Submission& submission) {
          claim(submission);
          submission.flags = 0;
        });
        if (received != 0 || last_token != 0) {
          EXPECT_EQ(CodeName(unflagged), CodeName(Code::kInvalidArgument));
        }
        const Target again = OwnTarget(attacker);
        wire::Submission sent{};
        (void)Spoiled(attacker, use, again,
                      [&](wire::Submission& submission) { sent = submission; });
        claim(sent);
        (void)CodeOfAnswer(attacker, sent);
        for (const std::int32_t position : {0, INT32_MAX - 1, INT32_MAX}) {
          wire::Submission moved = sent;
          moved.p0 = position;
          (void)CodeOfAnswer(attacker, moved);
        }
        wire::Submission other = sent;
        other.verb =
            static_cast<std::uint16_t>(use.verb == Verb::kCreate ? Verb::kClear : Verb::kCreate);
        (void)CodeOfAnswer(attacker, other);
        sent.request = 1;  // the id of the request that has created the master
        (void)CodeOfAnswer(attacker, sent);
      }
    }
    for (const std::uint64_t request : {std::uint64_t{0}, ~std::uint64_t{0}}) {
      SCOPED_TRACE(request);
      (void)Spoiled(attacker, use, OwnTarget(attacker), [&](wire::Submission& submission) {
        submission.flags |= wire::kFlagRetry;
        submission.request = request;
      });
    }
  });
}

// The answers carry the unknown verb number, which the client's channel rejects as an error of the
// daemon. The test therefore does not read them.
TEST_P(HostileVerbsTest, UnknownVerbNumbersDoNotAffectOtherClients) {
  for (const unsigned verb : {0u, wire::kVerbLast + 1u, 255u, 256u, 0x7fffu, 0xffffu}) {
    Attacker attacker(socket_path());
    ASSERT_TRUE(attacker.is_connected());
    for (const std::uint16_t flags : {std::uint16_t{0}, std::uint16_t{wire::kFlagRetry}}) {
      wire::Submission submission{};
      submission.request = attacker.next_request();
      submission.verb = static_cast<std::uint16_t>(verb);
      submission.flags = flags;
      attacker.SendUnread(submission);
    }
    ExpectServesOthers();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, HostileVerbsTest,
                         ::testing::Values(ModelKind::kDecoder, ModelKind::kEncoderDecoder,
                                           ModelKind::kEncoder),
                         test::NameOfModel);

}  // namespace
}  // namespace kvd
