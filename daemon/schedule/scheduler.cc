// A round takes new requests, acts on cancels, sends waiting answers, plans and fills a step,
// computes the step, calls Finish for the step's requests, does work between steps, and sends
// answers again. After a step, rows of logits in clients' segments are published before other
// answers, because pieces of a segment are published in the order of their allocation.
#include "daemon/schedule/scheduler.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/text.h"
#include "daemon/schedule/room_error.h"
#include "daemon/stores/prompt_cache.h"

namespace kvd {
namespace {

std::string RequestName(const ComputingRequest& request) {
  return Concat("request ", static_cast<std::uint64_t>(request.id()), " of session ",
                static_cast<std::uint64_t>(request.session().id()));
}

// Whether the request's client may connect again and resume the request.
bool MayReturn(const ComputingRequest& request) {
  return request.session().closed() && request.session().identity().stored;
}

}  // namespace

Scheduler::Scheduler(Engine& engine, std::uint32_t vocab_size, SchedulerOptions options)
    : engine_(engine),
      vocab_size_(vocab_size),
      options_(std::move(options)),
      planner_(engine.options().ubatch_tokens),
      clock_(options_.step_seconds_max),
      sharing_(engine, options_.prompt_cache),
      room_(engine, options_.room_wait, options_.now),
      defragmentation_(engine, options_.defrag_threshold),
      has_idle_work_(options_.idle_work != nullptr) {}

Status Scheduler::Submit(std::unique_ptr<ComputingRequest> request) {
  std::shared_ptr<ComputingRequest> shared = std::move(request);
  {
    const MutexLock lock(mutex_);
    if (stopping_) return Fail(Code::kCancelled, "the daemon is stopping");
    const auto busy = computing_.find(shared->sequence());
    if (shared->excludes_others() && busy != computing_.end()) {
      return Fail(Code::kBusy, "sequence ", static_cast<std::uint64_t>(shared->sequence()),
                  ": is being computed by ", RequestName(*busy->second));
    }
    if (!requests_[shared->session().id()].try_emplace(shared->id(), shared).second) {
      return Fail(Code::kInvalidArgument, "request: id ", static_cast<std::uint64_t>(shared->id()),
                  " is in flight already");
    }
    if (shared->excludes_others()) computing_.emplace(shared->sequence(), shared);
    submitted_.push_back(std::move(shared));
    woken_ = true;
  }
  wake_.NotifyOne();
  return {};
}

bool Scheduler::Cancel(SessionId session, RequestId request) {
  {
    const MutexLock lock(mutex_);
    const auto own = requests_.find(session);
    if (own == requests_.end()) return false;
    const auto found = own->second.find(request);
    if (found == own->second.end()) return false;
    found->second->Cancel();
    woken_ = true;
  }
  wake_.NotifyOne();
  return true;
}

void Scheduler::CancelSession(SessionId session) {
  {
    const MutexLock lock(mutex_);
    const auto own = requests_.find(session);
    if (own == requests_.end()) return;
    for (const auto& [id, request] : own->second) request->Cancel();
    woken_ = true;
  }
  wake_.NotifyOne();
}

bool Scheduler::HasRequests(SessionId session) const {
  const MutexLock lock(mutex_);
  return requests_.contains(session);
}

void Scheduler::CancelSequence(SequenceHandle sequence) {
  {
    const MutexLock lock(mutex_);
    const auto found = computing_.find(sequence);
    if (found == computing_.end()) return;
    found->second->CancelDropped();
    woken_ = true;
  }
  wake_.NotifyOne();
}

Status Scheduler::CheckIdle(SequenceHandle sequence) const {
  const MutexLock lock(mutex_);
  const auto found = computing_.find(sequence);
  if (found == computing_.end()) return {};
  return Fail(Code::kBusy, "sequence ", static_cast<std::uint64_t>(sequence),
              ": is being computed by ", RequestName(*found->second));
}

RequestStanding Scheduler::StandingOf(SequenceHandle sequence) const {
  const MutexLock lock(mutex_);
  const auto found = computing_.find(sequence);
  return found == computing_.end() ? RequestStanding{} : found->second->StandingAt(options_.now());
}

RequestCounts Scheduler::counts() const {
  const auto count = [this](wire::RequestState state) {
    return state_counts_[state].load(std::memory_order_relaxed);
  };
  RequestCounts counts{.waiting = count(wire::kRequestWaits),
                       .computing = count(wire::kRequestComputes),
                       .parked = count(wire::kRequestParked)};
  const MutexLock lock(mutex_);
  counts.waiting += static_cast<std::uint32_t>(submitted_.size());
  return counts;
}

void Scheduler::WakeUp() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  wake_.NotifyOne();
}

void Scheduler::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    woken_ = true;
  }
  wake_.NotifyOne();
}

void Scheduler::DropRequests() {
  std::vector<ScheduledRequest> dropped = std::exchange(active_, {});
  {
    const MutexLock lock(mutex_);
    for (auto& request : std::exchange(submitted_, {})) dropped.emplace_back(std::move(request));
    requests_.clear();
    computing_.clear();
  }
  parts_.clear();
  works_.clear();
  // The requests are destroyed without the scheduler's lock, because a request's destructor may
  // undo its unfinished work.
  dropped.clear();
}

void Scheduler::Run() {
  for (;;) {
    const bool worked = RunRound();
    if (!worked) engine_.Rest();
    const MutexLock lock(mutex_);
    if (stopping_) break;
    while (!worked && !woken_) {
      std::optional<std::chrono::steady_clock::time_point> until;
      if (room_.is_waited_for()) {
        until = options_.now() + RoomQueue::kLookEvery;
      } else if (has_idle_work_) {
        until = idle_from_;
      }
      if (!until) {
        wake_.Wait(mutex_);
      } else if (!wake_.WaitUntil(mutex_, *until)) {
        break;
      }
    }
    woken_ = false;
  }
  TakeIn();
  for (const ScheduledRequest& active : active_) {
    if (active.request->session().identity().goes_on_elsewhere()) continue;
    active.request->EndWith({Code::kCancelled, "the daemon is stopping; committed tokens stay"});
  }
  Settle();
}

bool Scheduler::RunRound() {
  const bool worked = RunOnce();
  if (!has_idle_work_) return worked;
  if (!worked && active_.empty() && idle_from_) return RunIdle();
  idle_from_ = options_.now() + options_.idle_wait;
  return worked;
}

bool Scheduler::RunIdle() {
  if (options_.now() < *idle_from_) return false;
  const IdleWork::Left left = options_.idle_work->Slice();
  has_idle_work_ = left != IdleWork::Left::kNothing;
  if (left == IdleWork::Left::kLater) idle_from_ = options_.now() + options_.idle_wait;
  return true;
}

bool Scheduler::RunOnce() {
  TakeIn();
  bool worked = HandleCancels();
  Settle();
  worked = RunLoners() || worked;
  defragmentation_.Look();
  FillStep();
  worked = Step() || worked;
  worked = DoWork() || worked;
  Settle();
  NoteStandings();
  return worked;
}

void Scheduler::NoteStandings() {
  std::array<std::uint32_t, wire::kRequestParked + 1> counts = {};
  for (ScheduledRequest& active : active_) {
    if (active.request->finishing()) continue;
    const wire::RequestState state = active.state();
    ++counts[state];
    const bool is_parked = state == wire::kRequestParked;
    const RequestTokens tokens = active.step == nullptr ? RequestTokens{} : active.step->tokens();
    active.request->NoteStanding(
        state, tokens, is_parked ? active.parking->from : std::chrono::steady_clock::time_point());
    if (active.step != nullptr && active.step->tells_parking()) {
      active.request->TellParking(is_parked);
    }
  }
  for (std::size_t state = 0; state < counts.size(); ++state) {
    state_counts_[state].store(counts[state], std::memory_order_relaxed);
  }
}

void Scheduler::TakeIn() {
  std::vector<std::shared_ptr<ComputingRequest>> submitted;
  {
    const MutexLock lock(mutex_);
    submitted.swap(submitted_);
  }
  for (auto& request : submitted) active_.emplace_back(std::move(request));
}

bool Scheduler::HandleCancels() {
  bool any = false;
  for (ScheduledRequest& active : active_) {
    ComputingRequest& request = *active.request;
    if (!request.cancelled() || active.is_cancel_seen || request.finishing()) continue;
    active.is_cancel_seen = true;
    request.OnCancel();
    any = true;
  }
  return any;
}

bool Scheduler::RunLoners() {
  bool any = false;
  for (const ScheduledRequest& active : active_) {
    if (!active.runs_alone() || active.request->finishing()) continue;
    active.alone->RunAlone(engine_);
    any = true;
  }
  return any;
}

// Returns the number of tokens that the request may compute in this step. The part of a request in
// a step ends where a checkpoint is due or worth keeping, and where the model's key rotation
// changes with the sequence's length.
std::size_t Scheduler::TokensNow(const ScheduledRequest& request, std::size_t tokens) const {
  if (tokens <= 1) return tokens;
  tokens = sharing_.LimitTokens(request, tokens);
  const Result<SequenceInfo> info = engine_.memory().sequences().Query(request.request->sequence());
  return info ? engine_.StepTokens(info->cell_count, info->next_pos, tokens) : tokens;
}

void Scheduler::LookForPreparations() {
  for (ScheduledRequest& active : active_) {
    const ComputingRequest& request = *active.request;
    if (request.finishing() || active.opening.waits || active.wanted_tokens() == 0) continue;
    active.preparation.Look(engine_, request.sequence());
  }
}

std::uint32_t Scheduler::WeightOf(const Session& session) {
  return session.account() == nullptr ? 1 : session.account()->weight();
}

void Scheduler::ListCandidates() {
  awaited_.clear();
  for (const ScheduledRequest& active : active_) {
    if (active.opening.waits) awaited_.push_back(active.opening.leader);
  }
  std::ranges::sort(awaited_);
  candidates_.clear();
  for (const ScheduledRequest& active : active_) {
    const ComputingRequest* const request = active.request.get();
    const bool computes = !request->finishing() && !active.opening.waits && !active.parking;
    const std::size_t left = computes ? WorkLeft(active) : 0;
    const std::size_t work = active.has_begun_work ? left : 0;
    StepCandidate candidate{.session = request->session().id(),
                            .wanted_tokens = computes && left == 0 ? active.wanted_tokens() : 0,
                            .owner = request->session().owner(),
                            .weight = WeightOf(request->session()),
                            .is_awaited = std::ranges::binary_search(awaited_, request),
                            .is_work = work > 0};
    if (work > 0) candidate.wanted_tokens = clock_.InPromptTokens(WorkKindOf(active), work);
    candidates_.push_back(candidate);
  }
  if (!defragmentation_.is_running()) return;
  // The automatic defragmentation follows the candidates of active_ and counts as a user of its
  // own.
  candidates_.push_back(
      {.session = SessionId::kNone,
       .wanted_tokens = clock_.InPromptTokens(WorkKind::kPack, Defragmentation::kSliceCells),
       .owner = kNoOwner,
       .is_work = true});
}

void Scheduler::FillStep() {
  bool any_left_out = false;
  do {
    sharing_.Prepare(active_);
    LookForPreparations();
    room_.Look(active_);
    work_turns_.Begin(active_);
    ListCandidates();
    items_.clear();
    parts_.clear();
    works_.clear();
    const auto shares =
        planner_.Plan(candidates_, clock_.PrefillTokens(options_.prefill_chunk_tokens));
    any_left_out = FillItems(shares);
    // If no request was chosen, and a request has stalled or was refused, the other requests are
    // planned again without that request. The other requests may have waited for the prompt of the
    // request that is left out, or may have got no share of the step because of the request that is
    // left out.
  } while (items_.empty() && works_.empty() && any_left_out);
}

// FillItems calls Admit before each step of the request. Before the first step of a request with
// several tokens, Admit takes a promise of room for all of them, so that the request does not run
// out of room before its last token. A single token gets no promise, because its step reserves the
// room.
Status Scheduler::Admit(ScheduledRequest& request) {
  if (request.is_admitted || request.wanted_tokens() <= 1) return {};
  KVD_TRY(request.promise, engine_.memory().steps().Promise(request.request->sequence(),
                                                            request.step->promised_tokens()));
  request.is_admitted = true;
  return {};
}

bool Scheduler::HasParked(ScheduledRequest& request, const Status& status) {
  return !status && status.error().code == Code::kNoSpace && room_.Park(request, status.error());
}

void Scheduler::Explain(const ScheduledRequest& request, Status& status) {
  if (status || status.error().code != Code::kNoSpace) return;
  status = std::unexpected(NoRoomError(engine_, request, status.error()));
}

bool Scheduler::FillItems(std::span<const StepShare> shares) {
  const std::size_t rows_max =
      std::max<std::size_t>(1, options_.scratch_floats_max / std::max(vocab_size_, 1u));
  // The scratch rows are allocated before requests get pointers to them.
  std::size_t rows_wanted = 0;
  for (const StepShare& share : shares) {
    if (candidates_[share.candidate].is_work) continue;
    const ScheduledRequest& active = active_[share.candidate];
    rows_wanted += active.step->needs_row(TokensNow(active, share.tokens)) ? 1 : 0;
  }
  scratch_.resize(std::max(scratch_.size(), std::min(rows_wanted, rows_max) * vocab_size_));
  std::size_t rows_used = 0;
  bool any_left_out = false;
  for (const StepShare& share : shares) {
    if (candidates_[share.candidate].is_work) {
      works_.push_back({share.tokens, share.candidate});
      continue;
    }
    ScheduledRequest& active = active_[share.candidate];
    if (Status admitted = Admit(active); !admitted) {
      if (!HasParked(active, admitted)) {
        Explain(active, admitted);
        active.request->FailWith(admitted.error());
      }
      any_left_out = true;
      continue;
    }
    const std::size_t tokens = TokensNow(active, share.tokens);
    const bool needs_row = active.step->needs_row(tokens);
    if (needs_row && rows_used == rows_max) continue;
    float* const row = needs_row ? scratch_.data() + rows_used * vocab_size_ : nullptr;
    StepItem item;
    const bool was_stalled = active.opening.is_stalled;
    active.opening.is_stalled = !active.step->Fill(tokens, row, item);
    if (active.opening.is_stalled) {
      active.is_stalled = true;
      any_left_out = any_left_out || !was_stalled;
      continue;
    }
    item.keeps_state |= sharing_.IsWorthKeeping(active, item.tokens.size());
    rows_used += needs_row ? 1 : 0;
    items_.push_back(std::move(item));
    parts_.push_back({row, share.candidate});
  }
  return any_left_out;
}

bool Scheduler::DoWork() {
  for (const WorkShare& share : works_) DoWorkOf(share);
  return !works_.empty();
}

void Scheduler::DoWorkOf(const WorkShare& share) {
  const bool is_request = share.candidate < active_.size();
  const WorkKind kind = is_request ? WorkKindOf(active_[share.candidate]) : WorkKind::kPack;
  const std::size_t tokens = clock_.TokensFor(kind, share.prompt_tokens);
  std::size_t done = tokens;
  bool is_measured = true;
  const auto begin = options_.now();
  if (is_request) {
    ScheduledRequest& active = active_[share.candidate];
    const std::size_t before = WorkLeft(active);
    AdvanceWork(engine_, active, tokens);
    const std::size_t after = active.request->finishing() ? 0 : WorkLeft(active);
    // If more work is left than before the call of AdvanceWork, the work has just begun and its
    // amount has become known.
    is_measured = after <= before;
    if (after < before) done = std::min(before - after, tokens);
  } else {
    done = defragmentation_.Advance(tokens);
  }
  const std::chrono::duration<double> took = options_.now() - begin;
  if (is_measured) clock_.AddWork(kind, done, took.count());
  planner_.AddServed(candidates_[share.candidate], clock_.InPromptTokens(kind, done));
}

void Scheduler::Compute() {
  std::size_t decode_rows = 0;
  std::size_t prefill_tokens = 0;
  for (const StepItem& item : items_) {
    (item.tokens.size() == 1 ? decode_rows : prefill_tokens) += item.tokens.size();
  }
  const auto begin = options_.now();
  engine_.Step(items_);
  const auto took = options_.now() - begin;
  clock_.AddStep(decode_rows, prefill_tokens, std::chrono::duration<double>(took).count());
  if (options_.prompt_cache != nullptr) options_.prompt_cache->NoteComputed(prefill_tokens, took);
}

bool Scheduler::Step() {
  if (items_.empty()) return false;
  Compute();
  std::uint64_t sampled = 0;
  for (const bool in_place : {true, false}) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if ((parts_[i].row == nullptr) != in_place) continue;
      ScheduledRequest& active = active_[parts_[i].candidate];
      ComputingRequest& request = *active.request;
      if (HasParked(active, items_[i].status)) continue;
      Explain(active, items_[i].status);
      if (items_[i].status) {
        planner_.AddServed(candidates_[parts_[i].candidate], items_[i].tokens.size());
        request.NoteAppended();
        room_.NoteProgress(active_, active);
      }
      if (active.step->ends_with(items_[i])) Forget(active);
      active.step->Finish(items_[i], parts_[i].row != nullptr
                                         ? std::span<const float>(parts_[i].row, vocab_size_)
                                         : std::span<const float>());
      const std::uint64_t sampled_now = active.step->TakeSampledCount();
      request.session().CountTokens(items_[i].status ? items_[i].tokens.size() : 0, sampled_now);
      sampled += sampled_now;
    }
  }
  tokens_sampled_.fetch_add(sampled, std::memory_order_relaxed);
  parts_.clear();
  return true;
}

void Scheduler::Settle() {
  for (ScheduledRequest& active : active_) {
    ComputingRequest& request = *active.request;
    if (request.finishing()) {
      if (active.step != nullptr && active.step->given_left() > 0 && !MayReturn(request)) {
        (void)engine_.memory().sequences().ForgetGiven(request.sequence());
      }
      Forget(active);
      active.preparation.Drop();
      active.promise = {};
    }
    if (!request.Flush()) active.is_stalled = true;
    if (std::exchange(active.is_stalled, false)) request.session().WantRoom();
  }
  std::erase_if(active_, [](const ScheduledRequest& active) { return active.request->ended(); });
}

void Scheduler::Forget(ScheduledRequest& active) {
  if (std::exchange(active.is_forgotten, true)) return;
  const ComputingRequest& request = *active.request;
  const MutexLock lock(mutex_);
  const auto own = requests_.find(request.session().id());
  if (own != requests_.end()) {
    own->second.erase(request.id());
    if (own->second.empty()) requests_.erase(own);
  }
  const auto computing = computing_.find(request.sequence());
  if (computing != computing_.end() && computing->second.get() == &request) {
    computing_.erase(computing);
  }
}

}  // namespace kvd
