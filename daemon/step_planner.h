// StepPlanner: which requests compute how many tokens in the next step, and how much of the work that
// is done between two steps goes with it. Decode rows first, then prompts and work; fair between
// users, and between the sessions of each. While prompts or work wait, decode rows leave them a part
// of the step.
//
// Owner: the scheduler, engine thread only. Fairness is by tokens served: of users that want more
// than there is, the one that was served least comes first, in portions of one block; so of the
// sessions of one user, but that prompts which others wait for go before those that nobody does.
// Who comes (back) starts level with the least served of those that are active: having been idle is
// no credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shm/ids.h"

namespace kvd {

struct StepCandidate {
  SessionId session = SessionId::kNone;
  std::size_t wanted_tokens = 0;  // 1: a decode row
  std::uint32_t uid = 0;          // the session's
  bool is_awaited = false;        // other prompts begin with what this one computes
  // Takes no rows of the step: work, in prompt tokens that take as long. Never a decode row.
  bool is_work = false;
};

struct StepShare {
  std::size_t candidate = 0;  // index
  std::size_t tokens = 0;
};

class StepPlanner {
 public:
  static constexpr std::size_t kPortionTokens = 32;
  // The part of a step that decode rows leave to prompts which wait: one of that many, kPortionTokens
  // at least.
  static constexpr std::size_t kPromptPart = 8;
  // Whose client samples for itself has no decode row in the step after one: prompts are held to
  // their chunk for so many plans more.
  static constexpr std::uint64_t kPlansAfterDecoding = 2;

  // step_tokens: of all requests together.
  explicit StepPlanner(std::size_t step_tokens) : step_tokens_(step_tokens) {}

  // Shares of the candidates that take part, decode rows first; each candidate at most once. While
  // rows are decoded, prompts and work get prefill_tokens together. Valid until the next call.
  std::span<const StepShare> Plan(std::span<const StepCandidate> candidates,
                                  std::size_t prefill_tokens);
  // What was really computed.
  void AddServed(const StepCandidate& candidate, std::size_t tokens);

 private:
  // Of one user or one session.
  struct Account {
    std::uint64_t served = 0;
    std::uint64_t seen_in_plan = 0;  // number of the last plan it was a candidate of
    std::size_t claim = 0;           // of a session: index in claims_ during a plan
  };
  template <class Key>
  using Accounts = std::unordered_map<Key, Account>;
  // Per session of the candidates: what it has been served, counting what this plan gives it.
  struct Claim {
    std::uint32_t uid;
    std::uint64_t served;
    std::vector<std::size_t> waiting;  // indices of candidates, the next one at the back
    bool is_awaited = false;           // the one at the back
  };
  template <class Key, class KeyOf>
  void UpdateAccounts(Accounts<Key>& accounts, std::span<const StepCandidate> candidates,
                      const KeyOf& key_of);
  void MakeClaims(std::span<const StepCandidate> candidates, bool decode);
  // Rows that decode rows leave to the prompts among the candidates.
  std::size_t RowsKept(std::span<const StepCandidate> candidates, std::size_t prefill_tokens) const;
  void GiveDecodeRows(std::size_t room);
  // `room` for prompts and work together, of which `rows` for prompts.
  void GivePrompts(std::span<const StepCandidate> candidates, std::size_t room, std::size_t rows);
  Claim* Next();
  void Charge(Claim& claim, std::size_t tokens);
  void PopWaiting(Claim& claim, std::span<const StepCandidate> candidates);

  const std::size_t step_tokens_;
  Accounts<std::uint32_t> users_;
  Accounts<SessionId> sessions_;
  std::uint64_t plan_number_ = 0;
  std::uint64_t decoded_in_plan_ = 0;  // the last one with decode rows; 0: none yet
  std::vector<Claim> claims_;
  std::unordered_map<std::uint32_t, std::uint64_t> user_served_;  // counting what this plan gives
  std::vector<std::size_t> tokens_;                               // by candidate
  std::vector<StepShare> shares_;
};

}  // namespace kvd
