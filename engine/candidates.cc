// Weights are exp(logit - largest logit) with the exponential of portable_exp.h, so that no cut and
// no draw depends on the machine's math library.
#include "engine/candidates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "engine/portable_exp.h"

namespace kvd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A total order, so that a selection is the same whatever algorithm makes it.
bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

float MaxLogit(std::span<const Candidate> candidates) {
  float logit_max = -kInfinity;
  for (const Candidate& candidate : candidates) logit_max = std::max(logit_max, candidate.logit);
  return logit_max;
}

// Keeps the shortest run, in the order `before`, that holds `share` of the probability. Only what
// is looked at is sorted: ever longer runs, until they hold enough.
template <class Before>
void KeepShare(std::vector<Candidate>& candidates, double share, Before before) {
  constexpr std::ptrdiff_t kFirstRun = 128;
  constexpr std::ptrdiff_t kRunGrowth = 8;
  const float logit_max = MaxLogit(candidates);
  double total = 0;
  for (const Candidate& candidate : candidates) total += PortableExp(candidate.logit - logit_max);
  const auto count = std::ssize(candidates);
  std::ptrdiff_t sorted = 0;
  std::ptrdiff_t kept = 0;
  double held = 0;
  while (kept < count && held < share * total) {
    if (kept == sorted) {
      sorted = std::min(count, std::max(kFirstRun, sorted * kRunGrowth));
      const auto first = candidates.begin() + kept;
      if (sorted == count)
        std::sort(first, candidates.end(), before);
      else
        std::partial_sort(first, candidates.begin() + sorted, candidates.end(), before);
    }
    held += PortableExp(candidates[static_cast<std::size_t>(kept++)].logit - logit_max);
  }
  candidates.resize(static_cast<std::size_t>(kept));
}

}  // namespace

// `out` is a heap with the least likely on top.
void CollectTop(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out) {
  out.clear();
  std::size_t i = 0;
  for (; i < logits.size() && out.size() < k; ++i)
    if (logits[i] > -kInfinity) out.push_back({logits[i], static_cast<TokenId>(i)});
  if (out.empty()) return;
  std::make_heap(out.begin(), out.end(), Likelier);
  float least = out.front().logit;
  for (; i < logits.size(); ++i) {
    if (logits[i] > least) [[unlikely]] {
      std::pop_heap(out.begin(), out.end(), Likelier);
      out.back() = {logits[i], static_cast<TokenId>(i)};
      std::push_heap(out.begin(), out.end(), Likelier);
      least = out.front().logit;
    }
  }
  std::sort_heap(out.begin(), out.end(), Likelier);
}

void CollectAll(std::span<const float> logits, std::vector<Candidate>& out) {
  out.clear();
  out.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -kInfinity) out.push_back({logits[i], static_cast<TokenId>(i)});
}

void KeepTop(std::vector<Candidate>& candidates, double share) {
  KeepShare(candidates, share, Likelier);
}

// Surprise and its expectation contain the same log-sum, so the distance is that of the logit to
// its mean.
void KeepTypical(std::vector<Candidate>& candidates, double share) {
  const float logit_max = MaxLogit(candidates);
  double total = 0;
  double logit_sum = 0;
  for (const Candidate& candidate : candidates) {
    const double weight = PortableExp(candidate.logit - logit_max);
    total += weight;
    logit_sum += weight * candidate.logit;
  }
  const double mean = logit_sum / total;
  KeepShare(candidates, share, [mean](const Candidate& a, const Candidate& b) {
    const double distance_a = std::fabs(a.logit - mean);
    const double distance_b = std::fabs(b.logit - mean);
    return distance_a < distance_b || (distance_a == distance_b && Likelier(a, b));
  });
}

void KeepMinShare(std::vector<Candidate>& candidates, float min_p) {
  const float logit_max = MaxLogit(candidates);
  std::erase_if(candidates, [=](const Candidate& candidate) {
    return PortableExp(candidate.logit - logit_max) < min_p;
  });
}

TokenId Pick(std::span<const Candidate> candidates, float temperature, double uniform) {
  const float logit_max = MaxLogit(candidates);
  const auto weight = [=](const Candidate& candidate) -> double {
    return PortableExp((candidate.logit - logit_max) / temperature);
  };
  double total = 0;
  for (const Candidate& candidate : candidates) total += weight(candidate);
  const double goal = uniform * total;
  double sum = 0;
  TokenId last = candidates.front().token;
  for (const Candidate& candidate : candidates) {
    const double share = weight(candidate);
    if (share == 0) continue;
    last = candidate.token;
    sum += share;
    if (sum > goal) break;
  }
  return last;
}

}  // namespace kvd
