#include "http/answer/answer_sequence.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"

namespace kvd::http {

// How an answer takes its slot, gives it back, and shifts its context. What a slot's sequence has
// of a prompt is answer_sequence.cc.

Status AnswerSequence::OpenSession() {
  KVD_TRY(session_, tenant_.session());
  return {};
}

Await<void> AnswerSequence::Lease(std::optional<std::uint32_t> number) {
  const AttemptPause pause(request_.journal.get());
  lease_ = co_await SlotLease::Acquire(tenant_.slots(), number, request_.prompt);
}

Await<Status> AnswerSequence::LeaseSlot() {
  if (request_.slot && *request_.slot >= tenant_.slots().count()) {
    co_return Fail(Code::kInvalidArgument, "id_slot: ", *request_.slot, " is not within 0 to ",
                   tenant_.slots().count() - 1);
  }
  co_await Lease(request_.slot);
  co_return Status();
}

void AnswerSequence::EnterSlot() {
  GatewaySlot& slot = lease_.slot();
  slot.sequence = handle_;
  lease_.Note();
  slot.tokens = request_.prompt;
  slot.are_tokens_unknown = true;
  slot.is_edited = kept_.has_value();
  slot.kept = kept_.value_or(0);
  slot.prompt_tokens = static_cast<std::uint32_t>(request_.prompt.size());
  slot.cached_tokens = slot.decoded_tokens = 0;
}

Await<Result<PromptPrefix>> AnswerSequence::FindPrefix() {
  // While the answer waited, the session may have failed.
  KVD_CO_CHECK_OK(OpenSession());
  PromptPrefix prefix;
  KVD_CO_TRY(const std::size_t common, co_await PrepareSlot(prefix));
  prefix.tokens = static_cast<std::uint32_t>(common);
  prefix.cached_tokens = std::max(prefix.cached_tokens, prefix.tokens);
  handle_ = lease_.slot().sequence;
  EnterSlot();
  cells_ = lease_.slot().prompt_tokens;
  co_return prefix;
}

Await<Result<ForkContext::Branch>> AnswerSequence::TakeFork() {
  KVD_CO_TRY(ForkContext::Branch branch, co_await request_.fork->Take());
  permit_ = std::move(branch.permit);
  TakeBranch(std::move(branch.session), branch.sequence);
  co_return branch;
}

void AnswerSequence::TakeBranch(std::shared_ptr<DaemonSession> session, SequenceHandle sequence) {
  is_branch_ = true;
  session_ = std::move(session);
  handle_ = sequence;
  cells_ = static_cast<std::uint32_t>(request_.prompt.size());
}

void AnswerSequence::BeginAgain(const LoggedStart& start) {
  cells_ = start.cells;
  is_branch_ = start.is_branch;
}

Await<Status> AnswerSequence::Claim(const LoggedStart& start, const AnswerEnd& end) {
  if (handle_ != SequenceHandle::kNone) co_return Status();
  if (start.first > request_.prompt.size()) {
    co_return Fail(Code::kCorrupt, "the journal belongs to another prompt");
  }
  if (!is_branch_) {
    if (start.slot >= tenant_.slots().count()) {
      co_return Fail(Code::kNotFound, "slot ", start.slot, ": there are fewer slots now");
    }
    co_await Lease(start.slot);
  }
  {
    const AttemptPause pause(request_.journal.get());
    KVD_CO_TRY(session_, co_await tenant_.WaitForSession());
  }
  if (start.session != session_->mark()) {
    co_return Fail(Code::kSessionLost, "the session that made the answer has ended");
  }
  handle_ = static_cast<SequenceHandle>(start.sequence);
  if (lease_) {
    const SequenceHandle held = lease_.slot().sequence;
    if (held != handle_ && held != SequenceHandle::kNone) session_->RetainLater(held);
    EnterSlot();
    lease_.slot().cached_tokens = end.cached_tokens;
    lease_.slot().decoded_tokens = end.predicted_tokens;
    knows_tokens_ = false;
  }
  co_return Status();
}

Await<Status> AnswerSequence::TakeNew(std::uint32_t slot) {
  Drop();
  kept_.reset();
  {
    const AttemptPause pause(request_.journal.get());
    KVD_CO_TRY(session_, co_await tenant_.WaitForSession());
  }
  cells_ = static_cast<std::uint32_t>(request_.prompt.size());
  knows_tokens_ = false;
  if (is_branch_) {
    KVD_CO_TRY(handle_, co_await session_->Create());
    co_return Status();
  }
  if (!lease_) {
    const bool has_slot = slot < tenant_.slots().count();
    co_await Lease(has_slot ? std::optional(slot) : std::nullopt);
  }
  const std::uint32_t cached_tokens = lease_.slot().cached_tokens;
  KVD_CO_TRY([[maybe_unused]] const std::size_t none, co_await TakeFreshSequence(lease_.slot()));
  handle_ = lease_.slot().sequence;
  EnterSlot();
  lease_.slot().cached_tokens = cached_tokens;
  co_return Status();
}

void AnswerSequence::Append(std::span<const TokenId> tokens) {
  cells_ += static_cast<std::uint32_t>(tokens.size());
  if (!lease_) return;
  GatewaySlot& slot = lease_.slot();
  slot.tokens.insert(slot.tokens.end(), tokens.begin(), tokens.end());
  slot.decoded_tokens += static_cast<std::uint32_t>(tokens.size());
}

void AnswerSequence::NoteSkip(bool may_skip) {
  if (lease_) lease_.slot().lacks_last = may_skip;
}

void AnswerSequence::NoteParking(bool is_parked) {
  if (lease_) {
    std::optional<std::chrono::steady_clock::time_point>& since = lease_.slot().parked_since;
    since.reset();
    if (is_parked) since = std::chrono::steady_clock::now();
  }
  tenant_.slots().NoteParking(is_parked);
}

void AnswerSequence::Finish(bool skipped) {
  permit_.End();
  if (!lease_) return;
  GatewaySlot& slot = lease_.slot();
  if (knows_tokens_) slot.are_tokens_unknown = false;
  slot.lacks_last = skipped;
  if (slot.lacks_last && !slot.tokens.empty()) slot.tokens.pop_back();
}

void AnswerSequence::Drop() {
  if (is_branch_ && session_ && handle_ != SequenceHandle::kNone) session_->DropLater(handle_);
  handle_ = SequenceHandle::kNone;
}

bool AnswerSequence::TakeGuess() {
  const bool has_guessed = expected_pos_ && !session_->is_failed();
  expected_pos_.reset();
  return has_guessed;
}

std::uint32_t AnswerSequence::room() const {
  const std::uint32_t most = tenant_.model().slot_cells();
  return cells_ < most ? most - cells_ : 0;
}

Await<Result<bool>> AnswerSequence::Shift(bool is_done) {
  const std::uint32_t most = tenant_.model().slot_cells();
  std::uint32_t keep = static_cast<std::uint32_t>(
      request_.keep < 0 ? request_.prompt.size() : static_cast<std::size_t>(request_.keep));
  keep += tenant_.model().info().adds_bos != 0 ? 1 : 0;
  keep = std::min(keep, most > 4 ? most - 4 : 0);
  const std::uint32_t removed = (cells_ - keep) / 2;
  if (removed == 0) co_return false;
  if (!is_done) {
    KVD_CO_TRY(const bool has_shifted, co_await RemoveAndShift(keep, removed));
    if (!has_shifted) co_return false;
  }
  NoteShift(keep, removed);
  co_return true;
}

// An earlier process may have been killed between the two verbs, so what was done is asked for.
Await<Result<bool>> AnswerSequence::RemoveAndShift(std::uint32_t keep, std::uint32_t removed) {
  const Pos begin{static_cast<std::int32_t>(keep)};
  const Pos end{static_cast<std::int32_t>(keep + removed)};
  KVD_CO_TRY(const wire::SequenceEntry before, co_await session_->Query(handle_));
  if (before.cell_count == cells_) {
    const PosRange range{.begin = begin, .end = end};
    const Status has_removed = co_await session_->RemoveRange(handle_, range);
    if (!has_removed) co_return false;  // a window or a recurrent state does not allow it
  }
  if (before.next_pos == static_cast<std::int32_t>(cells_)) {
    const PosRange rest{.begin = end, .end = kPosEnd};
    KVD_CO_CHECK_OK(co_await session_->Shift(handle_, rest, -static_cast<std::int32_t>(removed)));
  }
  co_return true;
}

void AnswerSequence::NoteShift(std::uint32_t keep, std::uint32_t removed) {
  cells_ -= removed;
  kept_ = std::min(kept_.value_or(keep), keep);
  if (!lease_) return;
  GatewaySlot& slot = lease_.slot();
  const auto first = slot.tokens.begin() + keep;
  if (slot.tokens.size() >= keep + removed) slot.tokens.erase(first, first + removed);
  slot.kept = slot.is_edited ? std::min(slot.kept, keep) : keep;
  slot.is_edited = true;
}

// How a prompt finds its prefix. The slot's sequence holds tokens of an earlier answer. If they are
// a prefix of the prompt, the answer continues the sequence. Otherwise the common prefix is forked,
// and the slot's sequence is retained, so that the daemon's prefix cache keeps its tail; if the
// tail is too short for that, or the client has named the slot, the tail is removed. If the
// daemon's prefix cache holds more of the prompt than the slot, the answer takes a new sequence,
// which takes the cached prefix by itself.

namespace {

// The daemon shares and retains no shorter prefixes.
constexpr std::size_t kShortestShared = 16;

}  // namespace

Await<std::size_t> AnswerSequence::AskWhy(CacheReport& cache) {
  const std::span<const TokenId> prompt(request_.prompt);
  const auto bytes = std::as_bytes(prompt);
  const auto why = co_await session_->Call(wire::WhyArgs{}, PayloadOf(bytes));
  if (!why) co_return 0;  // the report lacks the texts
  const auto text = [](const char(&bytes_of)[wire::kWhyTextBytes]) {
    return std::string(bytes_of, ::strnlen(bytes_of, sizeof bytes_of));
  };
  cache.prompt_text = text(why->record.prompt_text);
  cache.cached_text = text(why->record.cached_text);
  cache.limit = PrefixLimitName(static_cast<PrefixLimit>(why->record.limit));
  co_return why->record.reused;
}

Await<Status> AnswerSequence::RemoveTail(const GatewaySlot& slot, std::size_t begin) {
  const Pos first{static_cast<std::int32_t>(begin)};
  const PosRange range{.begin = first, .end = kPosEnd};
  // A recurrent model may compute tokens again. A process that resumes from the journal must find
  // the tail removed. If the removal fails, what was shifted in the slot must be known.
  if (waits_for_removal_ || request_.journal || slot.is_edited ||
      tenant_.model().info().state_bytes != 0) {
    co_return co_await session_->RemoveRange(slot.sequence, range);
  }
  session_->RemoveRangeLater(slot.sequence, range);
  expected_pos_ = first;
  co_return Status();
}

Await<Result<std::size_t>> AnswerSequence::TakeFreshSequence(GatewaySlot& slot) {
  if (slot.sequence != SequenceHandle::kNone) session_->RetainLater(slot.sequence);
  slot.sequence = SequenceHandle::kNone;
  KVD_CO_TRY(slot.sequence, co_await session_->Create());
  co_return 0;
}

Await<Result<std::size_t>> AnswerSequence::PrepareSlot(PromptPrefix& prefix) {
  GatewaySlot& slot = lease_.slot();
  const std::size_t reusable_max = request_.prompt.size() - 1;  // the last token is computed
  if (slot.sequence != SequenceHandle::kNone && slot.are_tokens_unknown) {
    auto tokens = co_await session_->ReadTokens(slot.sequence, 0, -1);
    if (!tokens) co_return co_await TakeFreshSequence(slot);
    slot.tokens = std::move(*tokens);
    slot.are_tokens_unknown = false;
  }
  std::size_t common = 0;
  if (request_.caches_prompt && slot.sequence != SequenceHandle::kNone) {
    const std::span<const TokenId> held(slot.tokens);
    const std::size_t usable =
        slot.is_edited ? std::min<std::size_t>(slot.kept, held.size()) : held.size();
    common = std::min(CommonPrefix(held.first(usable), request_.prompt), reusable_max);
  }
  if (request_.caches_prompt && common < reusable_max && reusable_max >= kShortestShared) {
    const std::size_t elsewhere = co_await AskWhy(prefix.cache);
    prefix.cached_tokens = static_cast<std::uint32_t>(elsewhere);
    if (elsewhere > common && !request_.slot) co_return co_await TakeFreshSequence(slot);
    // A client that names the slot expects the slot's own prefix, unless another one is much
    // longer.
    if (elsewhere > kShortestShared && elsewhere > 2 * common) {
      co_return co_await TakeFreshSequence(slot);
    }
  }
  if (common == 0) co_return co_await TakeFreshSequence(slot);
  prefix.cache.source = "slot";
  const std::size_t tail = slot.tokens.size() - common;
  if (tail == 0) co_return common;
  if (request_.slot || tail < kShortestShared) {
    const Status removed = co_await RemoveTail(slot, common);
    if (removed) co_return common;
    prefix.cache.limit = CodeName(removed.error().code);
  } else {
    const auto fork = co_await session_->Fork(slot.sequence, static_cast<std::int32_t>(common));
    if (fork) {
      session_->RetainLater(slot.sequence);
      slot.sequence = *fork;
      co_return common;
    }
    prefix.cache.limit = CodeName(fork.error().code);
  }
  // A sliding window or a recurrent state does not allow it.
  prefix.cache.source = "none";
  co_return co_await TakeFreshSequence(slot);
}

}  // namespace kvd::http
