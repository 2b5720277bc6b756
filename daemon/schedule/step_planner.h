// StepPlanner: decides how many tokens of each request the next step computes, and how much work is
// done between this step and the next.
//
// A step first gets decode rows, then tokens of prompts and work between steps. While prompts or
// work wait, decode rows leave a part of the step to prompts and work. Tokens are divided fairly
// between users, and between the sessions of each user. Fairness is measured in tokens served,
// divided by the user's weight: among the users that want more tokens, the least served user gets
// the next portion of kPortionTokens tokens. Among the sessions of a user, the least served session
// gets the next portion too, except that prompts for which other requests wait come first. A user
// or session that becomes active starts with the count of the least served active user or session,
// so idle time gives no credit.
//
// Owner: the scheduler. Only the engine thread uses a StepPlanner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "engine/memory/owner.h"

namespace kvd {

struct StepCandidate {
  SessionId session = SessionId::kNone;
  std::size_t wanted_tokens = 0;  // number of tokens that the request can compute; 1: a decode row
  OwnerId owner{};                // the user to whom the session belongs
  std::uint32_t weight = 1;       // of the user, 1 to kWeightMax (daemon/sessions/quotas.h)
  bool is_awaited = false;        // true: other requests wait for this prompt's tokens
  // True: the candidate is work between steps, which takes no rows of the step and is never a
  // decode row. wanted_tokens is then the number of prompt tokens that take the same time as the
  // work.
  bool is_work = false;
};

struct StepShare {
  std::size_t candidate = 0;  // index
  std::size_t tokens = 0;
};

class StepPlanner {
 public:
  static constexpr std::size_t kPortionTokens = 32;
  // Decode rows leave 1 / kPromptPart of the step's tokens to waiting prompts, but at least
  // kPortionTokens.
  static constexpr std::size_t kPromptPart = 8;
  // A client that samples tokens itself submits its next decode row one or two steps later.
  // During the kPlansAfterDecoding plans after a plan with decode rows, prompts are therefore
  // limited as in a step with decode rows.
  static constexpr std::uint64_t kPlansAfterDecoding = 2;

  // `step_tokens`: the largest number of tokens of all requests of a step together.
  explicit StepPlanner(std::size_t step_tokens) : step_tokens_(step_tokens) {}

  // Returns the shares of the candidates that get tokens, decode rows first; each candidate occurs
  // at most once. If the plan has decode rows, prompts and work together get at most
  // prefill_tokens. The returned span is valid until the next call of Plan.
  std::span<const StepShare> Plan(std::span<const StepCandidate> candidates,
                                  std::size_t prefill_tokens);
  // Adds `tokens` computed tokens to the accounts of the candidate's user and session.
  void AddServed(const StepCandidate& candidate, std::size_t tokens);

 private:
  // An Account counts the tokens that were served to one user or one session, in units of 1 /
  // kServedUnit token of weight 1.
  struct Account {
    std::uint64_t served = 0;
    // Number of the last plan in which the user or session had a candidate.
    std::uint64_t seen_in_plan = 0;
    // For the Account of a session: index of the session's Claim in claims_ during a plan.
    std::size_t claim = 0;
  };
  // Tokens of a user with weight w count kServedUnit / w each.
  static constexpr std::uint64_t kServedUnit = 1'000'000;
  template <class Key>
  using Accounts = std::unordered_map<Key, Account>;
  // The waiting candidates of one session in one plan. `served` includes the tokens that this plan
  // gives the session.
  struct Claim {
    OwnerId owner;
    std::uint64_t served;
    std::uint32_t weight;
    // Indices of the session's candidates; the next candidate is at the back.
    std::vector<std::size_t> waiting;
    bool is_awaited = false;  // StepCandidate::is_awaited of the candidate at the back
  };
  template <class Key, class KeyOf>
  void UpdateAccounts(Accounts<Key>& accounts, std::span<const StepCandidate> candidates,
                      const KeyOf& key_of);
  void MakeClaims(std::span<const StepCandidate> candidates, bool decode);
  // Returns how many of the step's tokens are kept free for the prompts among the candidates.
  std::size_t RowsKept(std::span<const StepCandidate> candidates, std::size_t prefill_tokens) const;
  void GiveDecodeRows(std::size_t room);
  // Divides `room` tokens among prompts and work; prompts get at most `rows` of them.
  void GivePrompts(std::span<const StepCandidate> candidates, std::size_t room, std::size_t rows);
  Claim* Next();
  void Charge(Claim& claim, std::size_t tokens);
  void PopWaiting(Claim& claim, std::span<const StepCandidate> candidates);

  const std::size_t step_tokens_;
  Accounts<OwnerId> users_;
  Accounts<SessionId> sessions_;
  std::uint64_t plan_number_ = 0;
  // Number of the last plan with decode rows; 0: no plan had decode rows yet.
  std::uint64_t decoded_in_plan_ = 0;
  std::vector<Claim> claims_;
  // Tokens served to each user, including the tokens of this plan.
  std::unordered_map<OwnerId, std::uint64_t> user_served_;
  // The tokens that the plan gives to each candidate, indexed by candidate.
  std::vector<std::size_t> tokens_;
  std::vector<StepShare> shares_;
};

}  // namespace kvd
