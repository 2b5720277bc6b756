#include "daemon/prefix_sharing.h"

#include <algorithm>

#include "daemon/prompt_cache.h"

namespace kvd {
namespace {

bool IsOpening(const ComputingRequest& request) {
  return !request.finishing() && !request.cancelled() && !request.opening_prompt().empty();
}

// Returns whether the request computes its prompt, or will compute the prompt as soon as the
// scheduler gives the request a share of a step.
bool MayLead(const ComputingRequest& request) {
  return IsOpening(request) && !request.opening.is_ephemeral && !request.opening.is_stalled &&
         !request.waits_for_room();
}

std::size_t CommonTokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

void PrefixSharing::Prepare(Active active) {
  for (std::size_t i = 0; i < active.size(); ++i) {
    ComputingRequest& request = *active[i];
    OpeningState& opening = request.opening;
    opening.waits = false;
    if (!opening.may_take || !IsOpening(request)) continue;
    const Active earlier = active.first(i);
    if (!opening.is_looked_up) {
      opening.is_looked_up = true;
      opening.asks_disk = cache_ != nullptr;
      prompts_.fetch_add(1, std::memory_order_relaxed);
      Take(request);
      ChooseLeader(request, earlier);
    }
    opening.waits = AwaitsLoad(request, earlier) ||
                    (opening.leader != nullptr && Follows(request, earlier)) ||
                    AwaitsLoad(request, earlier);
  }
}

bool PrefixSharing::AwaitsLoad(ComputingRequest& request, Active earlier) {
  OpeningState& opening = request.opening;
  if (opening.load != nullptr) {
    if (!opening.load->is_done()) return true;
    const std::shared_ptr<PromptLoad> load = std::move(opening.load);
    Take(request, load->sequence());
    ChooseLeader(request, earlier);
    // The prompt cache is searched again, because another entry may hold more tokens or be
    // undamaged.
    opening.asks_disk = true;
  }
  return std::exchange(opening.asks_disk, false) && BeginLoad(request);
}

bool PrefixSharing::BeginLoad(ComputingRequest& request) {
  // The largest number of entries of the prompt cache that are read for one request. A further
  // entry is read if the previous one, possibly read for another request, was too short or damaged.
  constexpr std::uint32_t kLoadsMax = 4;
  OpeningState& opening = request.opening;
  if (opening.loads_begun == kLoadsMax) return false;
  std::size_t held = request.opening_done();
  if (opening.leader != nullptr) held = std::max(held, opening.common);
  switch (cache_->Look(opening.owner, opening.salt, request.opening_prompt(),
                       static_cast<std::uint32_t>(held), &opening.load)) {
    case PromptCache::Found::kNothing: return false;
    case PromptCache::Found::kNotWorthIt: opening.reuse.limit = PrefixLimit::kOnDisk; return false;
    case PromptCache::Found::kLoading: break;
  }
  ++opening.loads_begun;
  return true;
}

void PrefixSharing::Take(ComputingRequest& request, SequenceHandle loaded) {
  OpeningState& opening = request.opening;
  const Result<PrefixTaken> taken = engine_.memory().prefixes().Take(
      {.destination = request.sequence(),
       .tokens = request.opening_prompt(),
       .applied = {.session = request.session().id(), .request = request.id()},
       .loaded = loaded});
  // If the memory has no room for the lists of the cells to take, the prompt is computed instead.
  // If the sequence no longer exists, the next step reports the error.
  if (!taken) return;
  const std::size_t done = request.opening_done();
  opening.reuse.limit = taken->limit;
  if (has_state_ && taken->common > taken->cells) opening.keep_at = taken->common;
  if (taken->cells <= done) return;
  if (opening.reuse.tokens == 0) hits_.fetch_add(1, std::memory_order_relaxed);
  opening.reuse.tokens += static_cast<std::uint32_t>(taken->cells - done);
  opening.reuse.origin = taken->origin;
  request.SkipTo(taken->cells);
}

void PrefixSharing::ChooseLeader(ComputingRequest& request, Active earlier) {
  OpeningState& opening = request.opening;
  opening.leader = nullptr;
  opening.common = request.opening_done() + PrefixCache::kCellsMin - 1;
  const std::span<const TokenId> prompt = request.opening_prompt();
  for (const auto& other : earlier) {
    const OpeningState& leading = other->opening;
    if (!MayLead(*other) || leading.owner != opening.owner || leading.salt != opening.salt)
      continue;
    const std::size_t common =
        CommonTokens(prompt.first(prompt.size() - 1), other->opening_prompt());
    if (common <= opening.common || other->opening_done() >= common) continue;
    opening.common = common;
    opening.leader = other.get();
  }
}

bool PrefixSharing::Follows(ComputingRequest& request, Active earlier) {
  OpeningState& opening = request.opening;
  for (;;) {
    const auto found =
        std::ranges::find(earlier, opening.leader, &std::shared_ptr<ComputingRequest>::get);
    ComputingRequest* const leader = found == earlier.end() ? nullptr : found->get();
    const bool leads = leader != nullptr && MayLead(*leader);
    const std::size_t ahead = leads ? leader->opening_done() : opening.common;
    // A follower can take the cells of the tokens that its leader has committed, even if the leader
    // has ended or failed.
    if (ahead > opening.seen) {
      opening.seen = ahead;
      Take(request);
    }
    if (leads && ahead < opening.common) {
      std::size_t& keep_at = leader->opening.keep_at;
      if (keep_at <= ahead || keep_at > opening.common) keep_at = opening.common;
      return true;
    }
    opening.seen = 0;
    ChooseLeader(request, earlier);
    if (opening.leader == nullptr) {
      opening.asks_disk = cache_ != nullptr;
      return false;
    }
  }
}

std::size_t PrefixSharing::LimitTokens(const ComputingRequest& request, std::size_t tokens) const {
  const std::span<const TokenId> prompt = request.opening_prompt();
  if (!has_state_ || prompt.size() <= PrefixCache::kCellsMin) return tokens;
  const std::size_t done = request.opening_done();
  for (const std::size_t end : {request.opening.keep_at, prompt.size() - 1}) {
    if (end > done) tokens = std::min(tokens, end - done);
  }
  return tokens;
}

bool PrefixSharing::IsWorthKeeping(const ComputingRequest& request, std::size_t tokens) const {
  const std::span<const TokenId> prompt = request.opening_prompt();
  if (!has_state_ || prompt.size() <= PrefixCache::kCellsMin) return false;
  const std::size_t end = request.opening_done() + tokens;
  return end == request.opening.keep_at || end == prompt.size() - 1;
}

}  // namespace kvd
