// Water-filling: the least served session's oldest candidate gets one more portion, until the step
// is full.
#include "daemon/step_planner.h"

#include <algorithm>

namespace kvd {

// Accounts of sessions that are not candidates any more go; new ones start level with the least
// served.
void StepPlanner::UpdateAccounts(std::span<const StepCandidate> candidates) {
  ++plan_number_;
  for (const StepCandidate& candidate : candidates) {
    const auto known = accounts_.find(candidate.session);
    if (known != accounts_.end()) known->second.seen_in_plan = plan_number_;
  }
  std::erase_if(accounts_,
                [this](const auto& entry) { return entry.second.seen_in_plan != plan_number_; });
  std::uint64_t least = accounts_.empty() ? 0 : ~std::uint64_t{0};
  for (const auto& [session, account] : accounts_) least = std::min(least, account.served);
  for (const StepCandidate& candidate : candidates) {
    accounts_.try_emplace(candidate.session, Account{least, plan_number_, 0});
  }
}

void StepPlanner::MakeClaims(std::span<const StepCandidate> candidates, bool decode) {
  constexpr std::size_t kNoClaim = ~std::size_t{0};
  claims_.clear();
  for (auto& [session, account] : accounts_) account.claim = kNoClaim;
  for (const StepCandidate& candidate : candidates) {
    const bool fits = candidate.wanted_tokens > 0 && (candidate.wanted_tokens == 1) == decode;
    Account& account = accounts_[candidate.session];
    if (!fits || account.claim != kNoClaim) continue;
    account.claim = claims_.size();
    claims_.push_back({candidate.session, account.served, {}});
  }
  for (std::size_t i = candidates.size(); i-- > 0;) {
    const std::size_t wanted = candidates[i].wanted_tokens;
    if (wanted == 0 || (wanted == 1) != decode) continue;
    claims_[accounts_[candidates[i].session].claim].waiting.push_back(i);
  }
}

StepPlanner::Claim* StepPlanner::LeastServed() {
  Claim* least = nullptr;
  for (Claim& claim : claims_) {
    if (claim.waiting.empty()) continue;
    if (least == nullptr || claim.served < least->served) least = &claim;
  }
  return least;
}

std::span<const StepShare> StepPlanner::Plan(std::span<const StepCandidate> candidates) {
  UpdateAccounts(candidates);
  tokens_.assign(candidates.size(), 0);
  shares_.clear();
  std::size_t room = limits_.step_tokens;

  MakeClaims(candidates, /*decode=*/true);
  while (room > 0) {
    Claim* const claim = LeastServed();
    if (claim == nullptr) break;
    const std::size_t candidate = claim->waiting.back();
    claim->waiting.pop_back();
    claim->served += 1;
    room -= 1;
    shares_.push_back({candidate, 1});
  }

  if (!shares_.empty()) room = std::min(room, limits_.prefill_tokens);
  MakeClaims(candidates, /*decode=*/false);
  while (room > 0) {
    Claim* const claim = LeastServed();
    if (claim == nullptr) break;
    const std::size_t candidate = claim->waiting.back();
    const std::size_t portion =
        std::min({kPortionTokens, room, candidates[candidate].wanted_tokens - tokens_[candidate]});
    tokens_[candidate] += portion;
    claim->served += portion;
    room -= portion;
    if (tokens_[candidate] == candidates[candidate].wanted_tokens) claim->waiting.pop_back();
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (tokens_[i] > 0) shares_.push_back({i, tokens_[i]});
  }
  return shares_;
}

}  // namespace kvd
