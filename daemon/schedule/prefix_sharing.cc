#include "daemon/schedule/prefix_sharing.h"

#include <algorithm>

#include "daemon/stores/prompt_cache.h"

namespace kvd {
namespace {

bool IsOpening(const ScheduledRequest& request) {
  return request.step != nullptr && !request.request->finishing() &&
         !request.request->cancelled() && !request.step->opening_prompt().empty();
}

// Returns whether the request computes its prompt, or will compute the prompt as soon as the
// scheduler gives the request a share of a step.
bool MayLead(const ScheduledRequest& request) {
  return IsOpening(request) && !request.step->opening().is_ephemeral &&
         !request.opening.is_stalled && !request.parking && !request.request->waits_for_room();
}

std::size_t CommonTokens(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

void PrefixSharing::Prepare(Active active) {
  for (std::size_t i = 0; i < active.size(); ++i) {
    ScheduledRequest& request = active[i];
    OpeningState& opening = request.opening;
    opening.waits = false;
    if (!IsOpening(request) || !request.step->opening().may_take) continue;
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

bool PrefixSharing::AwaitsLoad(ScheduledRequest& request, Active earlier) {
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

bool PrefixSharing::BeginLoad(ScheduledRequest& request) {
  // The largest number of entries of the prompt cache that are read for one request. A further
  // entry is read if the previous one, possibly read for another request, was too short or damaged.
  constexpr std::uint32_t kLoadsMax = 4;
  OpeningState& opening = request.opening;
  if (opening.loads_begun == kLoadsMax) return false;
  PromptOpening& prompt = request.step->opening();
  std::size_t held = request.step->opening_done();
  if (opening.leader != nullptr) held = std::max(held, opening.common);
  switch (cache_->Look(prompt.owner, prompt.salt, request.step->opening_prompt(),
                       static_cast<std::uint32_t>(held), &opening.load)) {
    case PromptCache::Found::kNothing: return false;
    case PromptCache::Found::kNotWorthIt: prompt.reuse.limit = PrefixLimit::kOnDisk; return false;
    case PromptCache::Found::kLoading: break;
  }
  ++opening.loads_begun;
  return true;
}

void PrefixSharing::Take(ScheduledRequest& request, SequenceHandle loaded) {
  OpeningState& opening = request.opening;
  StepMember& step = *request.step;
  PrefixReuse& reuse = step.opening().reuse;
  const Result<PrefixTaken> taken = engine_.memory().prefixes().Take(
      {.destination = request.request->sequence(),
       .tokens = step.opening_prompt(),
       .applied = {.session = request.request->session().id(), .request = request.request->id()},
       .loaded = loaded});
  // If the memory has no room for the lists of the cells to take, the prompt is computed instead.
  // If the sequence no longer exists, the next step reports the error.
  if (!taken) return;
  const std::size_t done = step.opening_done();
  if (step.given_left() == 0) reuse.limit = taken->limit;
  if (has_state_ && taken->common > taken->cells) opening.keep_at = taken->common;
  if (taken->cells <= done) return;
  if (step.given_left() == 0) {  // else the cells are not those of the prompt
    if (reuse.tokens == 0) hits_.fetch_add(1, std::memory_order_relaxed);
    reuse.tokens += static_cast<std::uint32_t>(taken->cells - done);
    reuse.origin = taken->origin;
  }
  step.SkipTo(taken->cells);
}

void PrefixSharing::ChooseLeader(ScheduledRequest& request, Active earlier) {
  OpeningState& opening = request.opening;
  opening.leader = nullptr;
  opening.common = request.step->opening_done() + PrefixCache::kCellsMin - 1;
  const std::span<const TokenId> prompt = request.step->opening_prompt();
  const PromptOpening& own = request.step->opening();
  for (const ScheduledRequest& other : earlier) {
    if (!MayLead(other)) continue;
    const PromptOpening& leading = other.step->opening();
    if (leading.owner != own.owner || leading.salt != own.salt) continue;
    const std::size_t common =
        CommonTokens(prompt.first(prompt.size() - 1), other.step->opening_prompt());
    if (common <= opening.common || other.step->opening_done() >= common) continue;
    opening.common = common;
    opening.leader = other.request.get();
  }
}

bool PrefixSharing::Follows(ScheduledRequest& request, Active earlier) {
  OpeningState& opening = request.opening;
  for (;;) {
    const auto found = std::ranges::find_if(earlier, [&](const ScheduledRequest& other) {
      return other.request.get() == opening.leader;
    });
    ScheduledRequest* const leader = found == earlier.end() ? nullptr : &*found;
    const bool leads = leader != nullptr && MayLead(*leader);
    const std::size_t ahead = leads ? leader->step->opening_done() : opening.common;
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

std::size_t PrefixSharing::LimitTokens(const ScheduledRequest& request, std::size_t tokens) const {
  const std::span<const TokenId> prompt = request.step->opening_prompt();
  if (!has_state_ || prompt.size() <= PrefixCache::kCellsMin) return tokens;
  const std::size_t done = request.step->opening_done();
  for (const std::size_t end : {request.opening.keep_at, prompt.size() - 1}) {
    if (end > done) tokens = std::min(tokens, end - done);
  }
  return tokens;
}

bool PrefixSharing::IsWorthKeeping(const ScheduledRequest& request, std::size_t tokens) const {
  const std::span<const TokenId> prompt = request.step->opening_prompt();
  if (!has_state_ || prompt.size() <= PrefixCache::kCellsMin) return false;
  const std::size_t end = request.step->opening_done() + tokens;
  return end == request.opening.keep_at || end == prompt.size() - 1;
}

}  // namespace kvd
