// How a prompt finds its prefix. The slot's sequence holds tokens of an earlier answer. If they are
// a prefix of the prompt, the answer continues the sequence. Otherwise the common prefix is forked,
// and the slot's sequence is retained, so that the daemon's prefix cache keeps its tail; if the
// tail is too short for that, or the client has named the slot, the tail is removed. If the
// daemon's prefix cache holds more of the prompt than the slot, the answer takes a new sequence,
// which takes the cached prefix by itself.
#include <algorithm>
#include <utility>

#include "http/answer/answer_place.h"

namespace kvd::http {
namespace {

// The daemon shares and retains no shorter prefixes.
constexpr std::size_t kShortestShared = 16;

}  // namespace

Await<std::size_t> AnswerPlace::AskWhy(CacheReport& cache) {
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

Await<Status> AnswerPlace::RemoveTail(const Slot& slot, std::size_t begin) {
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

Await<Result<std::size_t>> AnswerPlace::TakeFreshSequence(Slot& slot) {
  if (slot.sequence != SequenceHandle::kNone) session_->RetainLater(slot.sequence);
  slot.sequence = SequenceHandle::kNone;
  KVD_CO_TRY(slot.sequence, co_await session_->Create());
  co_return 0;
}

Await<Result<std::size_t>> AnswerPlace::PrepareSlot(PromptPrefix& prefix) {
  Slot& slot = lease_.slot();
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
