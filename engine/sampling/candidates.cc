// Weights are exp(logit - largest logit), computed with the exponential of portable_math.h. The
// math library of the machine therefore affects neither the kept candidates nor the drawn token.
#include "engine/sampling/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace kvd {
namespace {

// Keeps the candidates of the smallest keys (0 or more) that together hold `share` of the
// probability. One pass adds the weights of the candidates for each bucket of keys and so finds the
// bucket in which the sum reaches `share`; only the candidates of this bucket are sorted.
template <class Key>
void KeepShare(std::vector<Candidate>& candidates, double share, Key key) {
  constexpr std::size_t kBuckets = 512;
  constexpr double kBucketsPerNat = 16;
  const auto bucket_of = [&](const Candidate& candidate) {
    return static_cast<std::size_t>(
        std::min(key(candidate) * kBucketsPerNat, static_cast<double>(kBuckets - 1)));
  };
  const float logit_max = MaxLogit(candidates);
  std::array<double, kBuckets> weights{};
  for (const Candidate& candidate : candidates)
    weights[bucket_of(candidate)] += Weight(candidate, logit_max);
  const double goal = share * std::accumulate(weights.begin(), weights.end(), 0.0);
  double held = 0;
  std::size_t cut = 0;
  while (cut + 1 < kBuckets && held + weights[cut] < goal) held += weights[cut++];

  std::erase_if(candidates, [&](const Candidate& candidate) { return bucket_of(candidate) > cut; });
  std::size_t kept = 0;
  for (Candidate& candidate : candidates)
    if (bucket_of(candidate) < cut) std::swap(candidate, candidates[kept++]);
  std::sort(candidates.begin() + static_cast<std::ptrdiff_t>(kept), candidates.end(),
            [&](const Candidate& a, const Candidate& b) {
              const double key_a = key(a);
              const double key_b = key(b);
              return key_a < key_b || (key_a == key_b && IsLikelier(a, b));
            });
  while (kept < candidates.size() && held < goal) held += Weight(candidates[kept++], logit_max);
  candidates.resize(kept);
}

}  // namespace

float MaxLogit(std::span<const Candidate> candidates) {
  float logit_max = -kInfinity;
  for (const Candidate& candidate : candidates) logit_max = std::max(logit_max, candidate.logit);
  return logit_max;
}

double TotalWeight(std::span<const Candidate> candidates, float logit_max) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += Weight(candidate, logit_max);
  return total;
}

// `out` is a heap with the least likely candidate on top.
void CollectTop(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out) {
  out.clear();
  std::size_t i = 0;
  for (; i < logits.size() && out.size() < k; ++i)
    if (logits[i] > -kInfinity) out.push_back({logits[i], static_cast<TokenId>(i)});
  if (out.empty()) return;
  std::make_heap(out.begin(), out.end(), IsLikelier);
  float least = out.front().logit;
  for (; i < logits.size(); ++i) {
    if (logits[i] > least) [[unlikely]] {
      std::pop_heap(out.begin(), out.end(), IsLikelier);
      out.back() = {logits[i], static_cast<TokenId>(i)};
      std::push_heap(out.begin(), out.end(), IsLikelier);
      least = out.front().logit;
    }
  }
  std::sort_heap(out.begin(), out.end(), IsLikelier);
}

void CollectAll(std::span<const float> logits, std::vector<Candidate>& out) {
  out.clear();
  out.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > -kInfinity) out.push_back({logits[i], static_cast<TokenId>(i)});
}

void KeepLikeliest(std::vector<Candidate>& candidates, std::size_t k) {
  k = std::min(k, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k),
                    candidates.end(), IsLikelier);
  candidates.resize(k);
}

void KeepTop(std::vector<Candidate>& candidates, double share) {
  KeepShare(candidates, share, [logit_max = MaxLogit(candidates)](const Candidate& candidate) {
    return static_cast<double>(logit_max) - candidate.logit;
  });
}

// The surprise of a candidate and the expected surprise contain the same logarithm of the sum of
// weights, so their difference equals the difference of the candidate's logit and the mean logit.
void KeepTypical(std::vector<Candidate>& candidates, double share) {
  const float logit_max = MaxLogit(candidates);
  double total = 0;
  double logit_sum = 0;
  for (const Candidate& candidate : candidates) {
    const double weight = Weight(candidate, logit_max);
    total += weight;
    logit_sum += weight * candidate.logit;
  }
  const double mean = logit_sum / total;
  KeepShare(candidates, share,
            [mean](const Candidate& candidate) { return std::fabs(candidate.logit - mean); });
}

void KeepMinShare(std::vector<Candidate>& candidates, float min_p) {
  const float logit_max = MaxLogit(candidates);
  std::erase_if(candidates,
                [=](const Candidate& candidate) { return Weight(candidate, logit_max) < min_p; });
}

Picked Pick(std::span<const Candidate> candidates, float temperature, double uniform) {
  const float logit_max = MaxLogit(candidates);
  return PickBy(
      candidates,
      [=](const Candidate& candidate) -> double {
        return PortableExp((candidate.logit - logit_max) / temperature);
      },
      uniform);
}

}  // namespace kvd
