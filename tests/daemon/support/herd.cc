#include "tests/daemon/support/herd.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/memory/memory_home.h"
#include "engine/model/model_config.h"
#include "shm/payload_codec.h"
#include "tests/support/tiny_model.h"

namespace kvd::test {
namespace {

constexpr std::uint32_t kUid = 1000;
constexpr std::uint32_t kBlock = layout::kBlockCells;
constexpr std::size_t kContext = 40;
constexpr std::size_t kAnswerMin = 30;
constexpr std::size_t kAnswerMax = 75;
constexpr std::size_t kPromptMax = 22;
constexpr std::size_t kStraysMax = 3;
constexpr int kDisturbedTurns = 150;
constexpr int kIdleTurnsMax = 100;

constexpr std::uint32_t BlocksOf(std::size_t cells) {
  return static_cast<std::uint32_t>((cells + kBlock - 1) / kBlock);
}

// The prompt, the length and the sampling of each answer are the same in every herd.
std::vector<TokenId> PromptOf(std::size_t index, std::uint32_t vocab_size) {
  return RandomTokens(100 + index, 1 + index * 7 % kPromptMax, vocab_size);
}

constexpr std::size_t AnswerOf(std::size_t index) {
  return kAnswerMin + index * 17 % (kAnswerMax - kAnswerMin + 1);
}

// Every fourth generation begins an empty sequence with the context as a part of its prompt; the
// others are forks of the context.
constexpr bool IsOpening(std::size_t index) { return index % 4 == 3; }

std::size_t CellsOf(std::size_t index) {
  return kContext + PromptOf(index, 96).size() + AnswerOf(index);
}

std::vector<TokenId> ContextTokens(std::uint32_t vocab_size) {
  return RandomTokens(99, kContext, vocab_size);
}

}  // namespace

struct Herd::Daemon {
  Daemon(Engine& engine, const Shares& shares, std::function<RoomQueue::Time()> now)
      : scheduler(std::make_unique<Scheduler>(
            engine, engine.config().vocab_size,
            SchedulerOptions{.room_wait = std::chrono::hours(24), .now = std::move(now)})),
        grammars(
            engine.vocabulary(), engine.config().vocab_size, [](const auto& call) { call(); },
            [this] { scheduler->WakeUp(); }),
        service(engine, *scheduler, shares,
                {.pid_of_session = [](SessionId) { return 7u; },
                 .session_count = [] { return 1u; },
                 .grammars = &grammars}) {}
  // The scheduler's requests must be destroyed before the service that made them.
  ~Daemon() { scheduler.reset(); }

  std::unique_ptr<Scheduler> scheduler;
  GrammarWorker grammars;
  Service service;
};

Herd::Herd(const HerdPlan& plan, const HerdAnswers* answers, HerdTally* tally)
    : plan_(plan),
      answers_(answers),
      tally_(*tally),
      random_(plan.seed),
      shares_({}, OwnerOf(kUid), false) {
  OpenEngine();
  is_plain_ = engine_->state_bytes() == 0 &&
              std::ranges::all_of(engine_->config().window, [](auto w) { return w == 0; });
  for (std::size_t session = 0; session < kSessions; ++session) {
    stored_[session] = IssueToken(static_cast<SessionId>(5 + session), OwnerOf(kUid))->session;
    EXPECT_TRUE(memory().sessions().Open(EntryOf(stored_[session])));
  }
  StartDaemon();
}

Herd::~Herd() = default;

std::uint32_t Herd::BlocksMin() {
  std::size_t cells = 0;
  for (std::size_t index = 0; index < kHerdSize; ++index) cells = std::max(cells, CellsOf(index));
  return BlocksOf(kContext) + BlocksOf(cells - kContext);
}

std::uint32_t Herd::BlocksMax() {
  std::uint32_t blocks = BlocksOf(kContext);
  for (std::size_t index = 0; index < kHerdSize; ++index) blocks += BlocksOf(CellsOf(index)) + 1;
  return blocks;
}

// ---------------------------------------------------------------------- the daemon and its clients

void Herd::OpenEngine() {
  engine_ = MakeEngine(plan_.shape, {.cells = std::uint64_t{plan_.blocks} * kBlock,
                                     .sequence_capacity = 64,
                                     .snapshot_capacity = 4,
                                     .session_capacity = 8,
                                     .state_slots = plan_.state_slots,
                                     .checkpoint_every = 16,
                                     .threads = 1,
                                     .ubatch_tokens = 64,
                                     .deterministic = true,
                                     .tunes = false,
                                     .state_directory = folder_.descriptor()});
  KVD_ASSERT(engine_ != nullptr);
}

void Herd::StartDaemon() {
  for (auto& client : clients_) client.reset();
  daemon_ = std::make_unique<Daemon>(*engine_, shares_, [this] { return now_; });
  for (std::size_t session = 0; session < kSessions; ++session) Connect(session);
}

void Herd::Connect(std::size_t session) {
  clients_[session] = std::make_unique<TestSession>(static_cast<std::uint64_t>(stored_[session].id),
                                                    kUid, ChannelGeometry{}, stored_[session]);
}

std::optional<ReceivedCompletion> Herd::Submit(std::size_t session,
                                               const wire::Submission& submission,
                                               std::span<const std::byte> payload) {
  ReceivedSubmission received = clients_[session]->Send(submission, payload);
  EXPECT_TRUE(received.check) << received.check.error().message;
  Outcome outcome = daemon_->service.Handle(clients_[session]->session(), received);
  if (std::holds_alternative<AnsweredByScheduler>(outcome)) return std::nullopt;
  WireReply reply;
  if (auto* const work = std::get_if<WorkCall>(&outcome)) {
    reply = work->call(Uncontrolled());
  } else {
    reply = std::get<WireReply>(std::move(outcome));
  }
  wire::Completion completion = reply.completion;
  completion.request = submission.request;
  completion.verb = submission.verb;
  EXPECT_TRUE(clients_[session]->session()->TryFinal(completion, {}));
  return ReceivedCompletion{reply.completion, std::move(reply.output)};
}

bool Herd::RunRounds(int count) {
  bool has_worked = false;
  for (int round = 0; round < count; ++round) {
    has_worked = daemon_->scheduler->RunOnce() || has_worked;
    now_ += std::chrono::milliseconds(20);
    NoteGiven();
  }
  return has_worked;
}

// ------------------------------------------------------------------------------- the generations

void Herd::FillContext() {
  const std::vector<TokenId> tokens = ContextTokens(engine_->config().vocab_size);
  context_ = Call(wire::CreateArgs{}).sequence();
  wire::Submission decode = wire::MakeSubmission(wire::DecodeArgs{.sequence = context_});
  decode.request = ++last_request_;
  EXPECT_FALSE(Submit(0, decode, std::as_bytes(std::span(tokens))));
  while (RunRounds(1)) {
  }
  const auto all = clients_[0]->All();
  ASSERT_FALSE(all.empty());
  ASSERT_EQ(all.back().code(), Code::kOk) << all.back().text();
}

void Herd::Begin(std::size_t index) {
  Member member{.index = index, .session = index % kSessions};
  if (IsOpening(index)) {
    member.sequence = Call(wire::CreateArgs{}).sequence();
  } else {
    const auto reply = Call(wire::ForkArgs{.sequence = context_});
    ASSERT_EQ(reply.code(), Code::kOk) << reply.text();
    member.sequence = reply.sequence();
  }
  const StoredSession& stored = stored_[member.session];
  ASSERT_TRUE(memory().sequences().SetOwner(member.sequence,
                                            {.id = stored.owner, .session = stored.id}, 0, 0));
  std::vector<TokenId> prompt;
  if (IsOpening(index)) prompt = ContextTokens(engine_->config().vocab_size);
  for (const TokenId token : PromptOf(index, engine_->config().vocab_size)) {
    prompt.push_back(token);
  }
  wire::GenerateView view;
  view.tokens = prompt;
  view.params.token_count = static_cast<std::uint32_t>(prompt.size());
  view.params.predict_max = static_cast<std::int32_t>(AnswerOf(index));
  view.params.sampling = DefaultSamplingAt(index % 2 == 0 ? 0.0f : 0.9f);
  view.params.flags = wire::kIgnoreEos | wire::kNoText;
  view.params.seed = index + 1;
  member.payload.resize(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, member.payload);
  member.submission = wire::MakeSubmission(wire::GenerateArgs{.sequence = member.sequence});
  member.submission.request = ++last_request_;
  const auto direct = Submit(member.session, member.submission, member.payload);
  ASSERT_FALSE(direct) << direct->text();
  members_.emplace(member.submission.request, std::move(member));
}

bool Herd::Collect() {
  bool any = false;
  for (std::size_t session = 0; session < kSessions; ++session) {
    for (const ReceivedCompletion& received : clients_[session]->All()) {
      const auto found = members_.find(received.completion.request);
      if (found == members_.end() || found->second.session != session) continue;
      any = true;
      Member& member = found->second;
      if (received.is_final()) {
        End(member, received);
        members_.erase(found);
        continue;
      }
      const auto piece = wire::ParsePiece(received.output);
      member.tokens.insert(member.tokens.end(), piece->tokens.begin(), piece->tokens.end());
    }
  }
  return any;
}

void Herd::End(const Member& member, const ReceivedCompletion& last) {
  SCOPED_TRACE(testing::Message() << "generation " << member.index);
  std::vector<TokenId> wanted = ContextTokens(engine_->config().vocab_size);
  for (const TokenId token : PromptOf(member.index, engine_->config().vocab_size)) {
    wanted.push_back(token);
  }
  const bool is_whole = last.code() == Code::kOk;
  EXPECT_TRUE(is_whole || (member.is_cancelled && last.code() == Code::kCancelled)) << last.text();
  tally_.cancelled += is_whole ? 0 : 1;
  const std::vector<TokenId>& answer =
      answers_ == nullptr ? member.tokens : (*answers_)[member.index];
  wanted.insert(wanted.end(), answer.begin(), answer.end());
  if (is_whole) {
    EXPECT_EQ(member.tokens, answer);
  } else {
    ASSERT_LE(member.tokens.size(), answer.size());
    EXPECT_TRUE(std::ranges::equal(member.tokens, std::span(answer).first(member.tokens.size())));
  }
  ExpectCells(member, wanted, is_whole);
  EXPECT_LE(member.times_given, TimesMax(member));
  given_max_ += GivenMax(member);
  own_answers_[member.index] = member.tokens;
  EXPECT_TRUE(memory().sequences().Drop(member.sequence));
}

void Herd::ExpectCells(const Member& member, const std::vector<TokenId>& wanted, bool is_whole) {
  std::vector<TokenId> held;
  std::vector<Pos> positions;
  EXPECT_TRUE(memory().holds().ReadCells(member.sequence, 0, ~0u, &held, &positions));
  ASSERT_LE(held.size(), wanted.size());
  EXPECT_TRUE(std::ranges::equal(held, std::span(wanted).first(held.size())));
  EXPECT_TRUE(!is_whole || held.size() == wanted.size());
  for (std::size_t at = 0; at < positions.size(); ++at) {
    ASSERT_EQ(positions[at].value, static_cast<std::int32_t>(at));
  }
  EXPECT_EQ(memory().sequences().Query(member.sequence)->given_count, 0u);
}

HerdAnswers Herd::Run() {
  FillContext();
  for (std::size_t index = 0; index < kHerdSize && !testing::Test::HasFailure(); ++index) {
    Begin(index);
  }
  int idle_turns = 0;
  for (int turn = 0; !members_.empty() && idle_turns < kIdleTurnsMax; ++turn) {
    if (testing::Test::HasFailure()) break;
    bool has_worked = RunRounds(static_cast<int>(random_.In(1, 12)));
    has_worked = Collect() || has_worked;
    idle_turns = has_worked ? 0 : idle_turns + 1;
    if (!plan_.is_disturbed) continue;
    if (turn < kDisturbedTurns) {
      Disturb();
    } else {
      DropStrays();
    }
  }
  EXPECT_TRUE(members_.empty()) << members_.size() << " generations cannot go on" << Standing();
  if (testing::Test::HasFailure()) return own_answers_;
  DropStrays();
  ExpectBounded();
  EXPECT_TRUE(memory().sequences().Drop(context_));
  EXPECT_EQ(memory().Usage().free_blocks, plan_.blocks);
  return own_answers_;
}

std::string Herd::Standing() {
  std::string text = "; free blocks: " + std::to_string(memory().Usage().free_blocks);
  for (const SequenceInfo& info : memory().sequences().List()) {
    text += "\n  sequence " + std::to_string(static_cast<std::uint64_t>(info.handle)) + ": " +
            std::to_string(info.cell_count) + " cells, " + std::to_string(info.given_count) +
            " given back, flags " + std::to_string(info.flags);
  }
  for (const auto& [request, member] : members_) {
    text += "\n  generation " + std::to_string(member.index) + " of sequence " +
            std::to_string(static_cast<std::uint64_t>(member.sequence)) + ": " +
            std::to_string(member.tokens.size()) + " tokens of " +
            std::to_string(AnswerOf(member.index));
  }
  return text;
}

// ---------------------------------------------------------------------------------- disturbances

void Herd::CountHit() {
  bool lacks_cells = false;
  for (const auto& [request, member] : members_) {
    const auto info = memory().sequences().Query(member.sequence);
    lacks_cells = lacks_cells || (info && info->given_count > 0);
  }
  tally_.hits_on_given += lacks_cells ? 1 : 0;
}

void Herd::Disturb() {
  const std::int64_t draw = random_.In(0, 99);
  if (draw < 6) {
    Interrupt();
  } else if (draw < 10) {
    Lose(static_cast<std::size_t>(random_.In(0, kSessions - 1)));
  } else if (draw < 12) {
    CancelOne();
  } else if (draw < 40) {
    DisturbStray();
  } else if (draw < 50) {
    DisturbMember();
  }
}

// A daemon that is killed between two rounds, and another one over the same memory.
void Herd::Interrupt() {
  CountHit();
  given_back_ += daemon_->scheduler->tokens_given_back();
  for (auto& client : clients_) client.reset();
  daemon_.reset();
  if (random_.OneIn(3)) {
    computed_ += engine_->counters().tokens_computed;
    engine_.reset();
    OpenEngine();
    ASSERT_TRUE(engine_->memory_start().is_warm) << engine_->memory_start().why_cold;
    ++tally_.reattachments;
  } else {
    ++tally_.restarts;
  }
  StartDaemon();
  for (std::size_t session = 0; session < kSessions; ++session) Resend(session);
}

// The connection of one session is lost, and its client returns while those of the other session
// may have computed.
void Herd::Lose(std::size_t session) {
  CountHit();
  ++tally_.lost_connections;
  clients_[session]->session()->Close();
  daemon_->service.SessionLost(stored_[session].id);
  if (random_.OneIn(2)) (void)RunRounds(static_cast<int>(random_.In(1, 20)));
  for (int round = 0; round < 1000 && daemon_->scheduler->HasRequests(stored_[session].id);
       ++round) {
    (void)RunRounds(1);
  }
  ASSERT_FALSE(daemon_->scheduler->HasRequests(stored_[session].id));
  Connect(session);
  Resend(session);
}

void Herd::Resend(std::size_t session) {
  for (auto& [request, member] : members_) {
    if (member.session != session) continue;
    SCOPED_TRACE(testing::Message() << "generation " << member.index);
    ++member.times_interrupted;
    member.submission.flags |= wire::kFlagRetry;
    member.submission.received = static_cast<std::uint32_t>(member.tokens.size());
    member.submission.last_token = member.tokens.empty() ? 0 : member.tokens.back();
    const auto direct = Submit(session, member.submission, member.payload);
    ASSERT_FALSE(direct) << direct->text();
    if (member.is_cancelled) {
      (void)daemon_->scheduler->Cancel(stored_[session].id, RequestId{request});
    }
  }
}

void Herd::CancelOne() {
  if (members_.empty()) return;
  CountHit();
  auto chosen = members_.begin();
  std::advance(chosen, random_.In(0, std::ssize(members_) - 1));
  chosen->second.is_cancelled = true;
  (void)daemon_->scheduler->Cancel(stored_[chosen->second.session].id, RequestId{chosen->first});
}

SequenceHandle Herd::AnyStray() {
  return strays_[static_cast<std::size_t>(random_.In(0, std::ssize(strays_) - 1))];
}

// Forks another sequence, appends to it, edits it or drops it.
void Herd::DisturbStray() {
  const std::int64_t draw = random_.In(0, 9);
  if (strays_.empty() || (draw < 3 && strays_.size() < kStraysMax)) {
    SequenceHandle source = context_;
    if (!members_.empty() && random_.OneIn(2)) {
      auto chosen = members_.begin();
      std::advance(chosen, random_.In(0, std::ssize(members_) - 1));
      source = chosen->second.sequence;
    }
    const auto reply = Call(wire::ForkArgs{.sequence = source});
    if (reply.code() == Code::kOk) strays_.push_back(reply.sequence());
    tally_.forks += reply.code() == Code::kOk ? 1 : 0;
    return;
  }
  const SequenceHandle stray = AnyStray();
  const auto info = memory().sequences().Query(stray);
  ASSERT_TRUE(info);
  const Pos first{static_cast<std::int32_t>(random_.In(0, info->next_pos.value))};
  const Pos end{first.value + static_cast<std::int32_t>(random_.In(1, 20))};
  ++tally_.edits;
  if (draw < 5) {
    const std::vector<TokenId> tokens =
        RandomTokens(plan_.seed, static_cast<std::size_t>(random_.In(1, 40)), 96);
    wire::Submission decode =
        wire::MakeSubmission(wire::DecodeArgs{.sequence = stray, .pos = info->next_pos});
    decode.request = ++last_request_;
    (void)Submit(0, decode, std::as_bytes(std::span(tokens)));
  } else if (draw < 7) {
    (void)Call(wire::RemoveRangeArgs{.sequence = stray, .range = {first, end}});
  } else if (draw < 8) {
    (void)Call(wire::AddArgs{.sequence = stray, .range = {first, kPosEnd}, .delta = 3});
  } else if (Call(wire::DropArgs{.sequence = stray}).code() == Code::kOk) {
    std::erase(strays_, stray);
  }
}

// Edits of a sequence that a request computes are refused, parked or not.
void Herd::DisturbMember() {
  if (members_.empty()) return;
  auto chosen = members_.begin();
  std::advance(chosen, random_.In(0, std::ssize(members_) - 1));
  const Member& member = chosen->second;
  if (member.session != 0 || daemon_->scheduler->CheckIdle(member.sequence)) return;
  const auto reply = Call(wire::RemoveRangeArgs{.sequence = member.sequence, .range = {Pos{1}}});
  EXPECT_EQ(reply.code(), Code::kBusy) << reply.text();
  const auto shifted =
      Call(wire::AddArgs{.sequence = member.sequence, .range = {Pos{5}, kPosEnd}, .delta = 1});
  EXPECT_EQ(shifted.code(), Code::kBusy) << shifted.text();
  tally_.refused_edits += 2;
}

void Herd::DropStrays() {
  std::erase_if(strays_, [&](SequenceHandle stray) {
    return Call(wire::DropArgs{.sequence = stray}).code() == Code::kOk;
  });
}

// ------------------------------------------------------------------------------------- the bound

void Herd::NoteGiven() {
  for (auto& [request, member] : members_) {
    const auto info = memory().sequences().Query(member.sequence);
    ASSERT_TRUE(info) << info.error().message;
    if (info->given_count > member.given_count) ++member.times_given;
    member.given_count = info->given_count;
  }
}

std::uint64_t Herd::TimesMax(const Member& member) {
  return 1 + AnswerOf(member.index) / kBlock + member.times_interrupted;
}

std::uint64_t Herd::GivenMax(const Member& member) const {
  const std::uint64_t each =
      is_plain_ ? AnswerOf(member.index) + kBlock - 1 : CellsOf(member.index);
  return member.times_given * each;
}

void Herd::ExpectBounded() {
  const std::uint64_t given = given_back_ + daemon_->scheduler->tokens_given_back();
  const std::uint64_t computed = computed_ + engine_->counters().tokens_computed;
  EXPECT_LE(given, given_max_);
  tally_.given_back += given;
  if (plan_.is_disturbed) return;
  std::uint64_t needed = kContext;
  for (std::size_t index = 0; index < kHerdSize; ++index) {
    needed += CellsOf(index) - (IsOpening(index) ? 0 : kContext);
  }
  EXPECT_LE(computed, needed + given);
}

}  // namespace kvd::test
