// The tokens of a step are divided by water-filling: until the step is full, the next portion of
// kPortionTokens goes to the oldest candidate of the least served session of the least served user.
// Awaited prompts come first among the sessions of a user and among the candidates of a session.
#include "daemon/schedule/step_planner.h"

#include <algorithm>
#include <tuple>

namespace kvd {
namespace {

bool IsDecodeRow(const StepCandidate& candidate) {
  return candidate.wanted_tokens == 1 && !candidate.is_work;
}

}  // namespace

// Removes the accounts of users or sessions (`key_of`) that have no candidate in this plan. A new
// Account starts with the number of served tokens of the least served Account.
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
    return candidate.wanted_tokens > 0 && IsDecodeRow(candidate) == decode;
  };
  for (const StepCandidate& candidate : candidates) {
    Account& account = sessions_[candidate.session];
    if (!takes_part(candidate) || account.claim != kNoClaim) continue;
    account.claim = claims_.size();
    claims_.push_back({candidate.owner, account.served, candidate.weight, {}});
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
    return std::tuple(user_served_[claim.owner], !claim.is_awaited, claim.served);
  };
  Claim* next = nullptr;
  for (Claim& claim : claims_) {
    if (claim.waiting.empty()) continue;
    if (next == nullptr || order(claim) < order(*next)) next = &claim;
  }
  return next;
}

void StepPlanner::Charge(Claim& claim, std::size_t tokens) {
  const std::uint64_t served = tokens * kServedUnit / claim.weight;
  claim.served += served;
  user_served_[claim.owner] += served;
}

void StepPlanner::PopWaiting(Claim& claim, std::span<const StepCandidate> candidates) {
  claim.waiting.pop_back();
  claim.is_awaited = !claim.waiting.empty() && candidates[claim.waiting.back()].is_awaited;
}

std::size_t StepPlanner::RowsKept(std::span<const StepCandidate> candidates,
                                  std::size_t prefill_tokens) const {
  std::size_t waiting = 0;
  for (const StepCandidate& candidate : candidates) {
    if (!candidate.is_work && !IsDecodeRow(candidate)) waiting += candidate.wanted_tokens;
  }
  // The rows that are kept free for prompts are at most half of the step. If a step has room for a
  // single token only, steps alternate between decode rows and prompts.
  const std::size_t half = std::max(step_tokens_ / 2, step_tokens_ == 1 ? plan_number_ % 2 : 0);
  return std::min(
      {std::max(step_tokens_ / kPromptPart, kPortionTokens), prefill_tokens, half, waiting});
}

void StepPlanner::GiveDecodeRows(std::size_t room) {
  for (; room > 0; --room) {
    Claim* const claim = Next();
    if (claim == nullptr) return;
    shares_.push_back({claim->waiting.back(), 1});
    claim->waiting.pop_back();
    Charge(*claim, 1);
  }
}

void StepPlanner::GivePrompts(std::span<const StepCandidate> candidates, std::size_t room,
                              std::size_t rows) {
  tokens_.assign(candidates.size(), 0);
  while (room > 0) {
    Claim* const claim = Next();
    if (claim == nullptr) break;
    const std::size_t candidate = claim->waiting.back();
    const bool is_work = candidates[candidate].is_work;
    if (!is_work && rows == 0) {
      PopWaiting(*claim, candidates);
      continue;
    }
    const std::size_t portion =
        std::min({kPortionTokens, is_work ? room : std::min(room, rows),
                  candidates[candidate].wanted_tokens - tokens_[candidate]});
    tokens_[candidate] += portion;
    room -= portion;
    if (!is_work) rows -= portion;
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
  UpdateAccounts(users_, candidates,
                 [](const StepCandidate& candidate) { return candidate.owner; });
  UpdateAccounts(sessions_, candidates,
                 [](const StepCandidate& candidate) { return candidate.session; });
  user_served_.clear();
  for (const auto& [owner, account] : users_) user_served_[owner] = account.served;
  shares_.clear();

  MakeClaims(candidates, /*decode=*/true);
  GiveDecodeRows(step_tokens_ - RowsKept(candidates, prefill_tokens));
  const std::size_t rows = step_tokens_ - shares_.size();
  if (!shares_.empty()) decoded_in_plan_ = plan_number_;
  const bool somebody_decodes =
      decoded_in_plan_ != 0 && plan_number_ - decoded_in_plan_ <= kPlansAfterDecoding;
  MakeClaims(candidates, /*decode=*/false);
  GivePrompts(candidates, somebody_decodes ? prefill_tokens : step_tokens_, rows);
  return shares_;
}

void StepPlanner::AddServed(const StepCandidate& candidate, std::size_t tokens) {
  const std::uint64_t served = tokens * kServedUnit / candidate.weight;
  users_[candidate.owner].served += served;
  sessions_[candidate.session].served += served;
}

}  // namespace kvd
