// StepPlanner: which requests compute how many tokens in the next step. Fair between sessions,
// decode rows first.
//
// Owner: the scheduler, engine thread only. Fairness is by tokens served: of sessions that want
// more than there is, the one that was served least comes first, in portions of one block. A
// session that comes (back) starts level with the least served of those that are active: having
// been idle is no credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "shm/ids.h"

namespace kvd {

struct StepLimits {
  std::size_t step_tokens = 512;     // of all requests together
  std::size_t prefill_tokens = 256;  // of prompts, while somebody decodes
};

struct StepCandidate {
  SessionId session = SessionId::kNone;
  std::size_t wanted_tokens = 0;  // 1: a decode row
};

struct StepShare {
  std::size_t candidate = 0;  // index
  std::size_t tokens = 0;
};

class StepPlanner {
 public:
  static constexpr std::size_t kPortionTokens = 32;

  explicit StepPlanner(StepLimits limits) : limits_(limits) {}

  // Shares of the candidates that take part, decode rows first; each candidate at most once. Valid
  // until the next call.
  std::span<const StepShare> Plan(std::span<const StepCandidate> candidates);
  // What was really computed.
  void AddServed(SessionId session, std::size_t tokens) { accounts_[session].served += tokens; }

 private:
  struct Account {
    std::uint64_t served = 0;
    std::uint64_t seen_in_plan = 0;  // number of the last plan it was a candidate of
    std::size_t claim = 0;           // index in claims_ during a plan
  };
  // Per session of the candidates: what it has been served, counting what this plan gives it.
  struct Claim {
    SessionId session;
    std::uint64_t served;
    std::vector<std::size_t> waiting;  // indices of candidates, the next one at the back
  };
  void UpdateAccounts(std::span<const StepCandidate> candidates);
  void MakeClaims(std::span<const StepCandidate> candidates, bool decode);
  Claim* LeastServed();

  const StepLimits limits_;
  std::unordered_map<SessionId, Account> accounts_;
  std::uint64_t plan_number_ = 0;
  std::vector<Claim> claims_;
  std::vector<std::size_t> tokens_;  // by candidate
  std::vector<StepShare> shares_;
};

}  // namespace kvd
