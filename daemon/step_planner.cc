// Water-filling: of the least served user the least served session's oldest candidate gets one more
// portion, until the step is full.
#include "daemon/step_planner.h"

#include <algorithm>
#include <tuple>

namespace kvd {

// Accounts of those that are not candidates any more go; new ones start level with the least served.
template <class Key, class KeyOf>
void StepPlanner::UpdateAccounts(Accounts<Key>& accounts, std::span<const StepCandidate> candidates,
                                 const KeyOf& key_of) {
  for (const StepCandidate& candidate : candidates) {
    const auto known = accounts.find(key_of(candidate));
    if (known != accounts.end()) known->second.seen_in_plan = plan_number_;
  }
  std::erase_if(accounts,
                [this](const auto& entry) { return entry.second.seen_in_plan != plan_number_; });
  std::uint64_t least = accounts.empty() ? 0 : ~std::uint64_t{0};
  for (const auto& [key, account] : accounts) least = std::min(least, account.served);
  for (const StepCandidate& candidate : candidates) {
    accounts.try_emplace(key_of(candidate), Account{least, plan_number_, 0});
  }
}

void StepPlanner::MakeClaims(std::span<const StepCandidate> candidates, bool decode) {
  constexpr std::size_t kNoClaim = ~std::size_t{0};
  claims_.clear();
  for (auto& [session, account] : sessions_) account.claim = kNoClaim;
  const auto takes_part = [decode](const StepCandidate& candidate) {
    return candidate.wanted_tokens > 0 && (candidate.wanted_tokens == 1) == decode;
  };
  for (const StepCandidate& candidate : candidates) {
    Account& account = sessions_[candidate.session];
    if (!takes_part(candidate) || account.claim != kNoClaim) continue;
    account.claim = claims_.size();
    claims_.push_back({candidate.uid, account.served, {}});
  }
  for (const bool is_awaited : {false, true}) {
    for (std::size_t i = candidates.size(); i-- > 0;) {
      if (!takes_part(candidates[i]) || candidates[i].is_awaited != is_awaited) continue;
      Claim& claim = claims_[sessions_[candidates[i].session].claim];
      claim.waiting.push_back(i);
      claim.is_awaited = is_awaited;
    }
  }
}

StepPlanner::Claim* StepPlanner::Next() {
  const auto order = [this](const Claim& claim) {
    return std::tuple(user_served_[claim.uid], !claim.is_awaited, claim.served);
  };
  Claim* next = nullptr;
  for (Claim& claim : claims_) {
    if (claim.waiting.empty()) continue;
    if (next == nullptr || order(claim) < order(*next)) next = &claim;
  }
  return next;
}

void StepPlanner::Charge(Claim& claim, std::size_t tokens) {
  claim.served += tokens;
  user_served_[claim.uid] += tokens;
}

void StepPlanner::PopWaiting(Claim& claim, std::span<const StepCandidate> candidates) {
  claim.waiting.pop_back();
  claim.is_awaited = !claim.waiting.empty() && candidates[claim.waiting.back()].is_awaited;
}

void StepPlanner::GiveDecodeRows(std::size_t& room) {
  for (; room > 0; --room) {
    Claim* const claim = Next();
    if (claim == nullptr) return;
    shares_.push_back({claim->waiting.back(), 1});
    claim->waiting.pop_back();
    Charge(*claim, 1);
  }
}

void StepPlanner::GivePrompts(std::span<const StepCandidate> candidates, std::size_t room) {
  tokens_.assign(candidates.size(), 0);
  while (room > 0) {
    Claim* const claim = Next();
    if (claim == nullptr) break;
    const std::size_t candidate = claim->waiting.back();
    const std::size_t portion =
        std::min({kPortionTokens, room, candidates[candidate].wanted_tokens - tokens_[candidate]});
    tokens_[candidate] += portion;
    room -= portion;
    Charge(*claim, portion);
    if (tokens_[candidate] == candidates[candidate].wanted_tokens) PopWaiting(*claim, candidates);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (tokens_[i] > 0) shares_.push_back({i, tokens_[i]});
  }
}

std::span<const StepShare> StepPlanner::Plan(std::span<const StepCandidate> candidates,
                                             std::size_t prefill_tokens) {
  ++plan_number_;
  UpdateAccounts(users_, candidates, [](const StepCandidate& candidate) { return candidate.uid; });
  UpdateAccounts(sessions_, candidates,
                 [](const StepCandidate& candidate) { return candidate.session; });
  user_served_.clear();
  for (const auto& [uid, account] : users_) user_served_[uid] = account.served;
  shares_.clear();
  std::size_t room = step_tokens_;

  MakeClaims(candidates, /*decode=*/true);
  GiveDecodeRows(room);
  if (!shares_.empty()) decoded_in_plan_ = plan_number_;
  const bool somebody_decodes =
      decoded_in_plan_ != 0 && plan_number_ - decoded_in_plan_ <= kPlansAfterDecoding;
  if (somebody_decodes) room = std::min(room, prefill_tokens);
  MakeClaims(candidates, /*decode=*/false);
  GivePrompts(candidates, room);
  return shares_;
}

void StepPlanner::AddServed(const StepCandidate& candidate, std::size_t tokens) {
  users_[candidate.uid].served += tokens;
  sessions_[candidate.session].served += tokens;
}

}  // namespace kvd
