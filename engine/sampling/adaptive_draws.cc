#include "engine/sampling/adaptive_draws.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/forward/compute/portable_math.h"

namespace kvd {

// ---- mirostat

namespace {

constexpr double kBitNats = 0x1.62e42fefa39efp-1;  // ln 2
// Number of candidates from which the exponent is estimated: llama.cpp's number, and the paper's.
constexpr std::size_t kEstimatedCount = 100;

// The least-squares estimate of s in p(i) = c * i^-s from the probabilities of the most likely
// candidates: t = log((i + 1) / i) and b = log(p(i) / p(i + 1)), i = 1, 2, ...
double ZipfExponent(std::span<const Candidate> sorted) {
  double t_b = 0;
  double t_t = 0;
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    const double t = PortableLog(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    t_b += t * (double{sorted[i].logit} - sorted[i + 1].logit);
    t_t += t * t;
  }
  return t_b / t_t;
}

// log(e / (1 - n^-e)) for both signs of e; 1 / log n is the limit at 0.
double LogOfRatio(double e, double log_n) {
  const double nats = std::fabs(e) * log_n;
  if (nats < 1e-9) return -PortableLog(log_n);
  const double positive = PortableLog(std::fabs(e)) - PortableLog(1 - PortableExpDouble(-nats));
  return e > 0 ? positive : positive - nats;
}

}  // namespace

void KeepZipf(std::vector<Candidate>& candidates, float mu, std::uint32_t vocab_size) {
  std::vector<Candidate>& all = candidates;
  const std::size_t count = std::min(kEstimatedCount, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    IsLikelier);
  double k = 1;
  if (count > 1 && vocab_size > 1) {
    const double s = ZipfExponent(std::span(all).first(count));
    const double log_n = PortableLog(vocab_size);
    const double log_k = (LogOfRatio(s - 1, log_n) + double{mu} * kBitNats) / s;
    // Equal logits (s = 0) distinguish no candidates, so all are kept.
    k = s > 0 ? PortableExpDouble(log_k) : static_cast<double>(all.size());
  }
  const double kept = std::clamp(std::floor(k), 1.0, static_cast<double>(all.size()));
  KeepLikeliest(candidates, static_cast<std::size_t>(kept));
}

void KeepSurprise(std::vector<Candidate>& candidates, float mu) {
  const float logit_max = MaxLogit(candidates);
  const double least =
      TotalWeight(candidates, logit_max) * PortableExpDouble(-double{mu} * kBitNats);
  Candidate likeliest = candidates.front();
  for (const Candidate& candidate : candidates) {
    if (IsLikelier(candidate, likeliest)) likeliest = candidate;
  }
  std::erase_if(candidates,
                [=](const Candidate& candidate) { return Weight(candidate, logit_max) < least; });
  if (candidates.empty()) candidates.push_back(likeliest);
}

float AdaptedMu(float mu, double share, float tau, float eta) {
  const double surprise = -PortableLog(share) / kBitNats;
  return static_cast<float>(mu - eta * (surprise - tau));
}

// ---- adaptive p

namespace {

constexpr double kWidth = 0.3;
constexpr double kSharpness = 10;

}  // namespace

double PreferredShare(float target, const SamplerAdaptation& adaptation) {
  const double wanted = std::clamp(double{target}, 0.0, 1.0);
  if (adaptation.adaptive_weight == 0) return wanted;
  const double average = double{adaptation.adaptive_sum} / adaptation.adaptive_weight;
  return std::clamp(2 * wanted - average, 0.0, 1.0);
}

// The constant 5 of the logit is the same for all candidates and cancels out. The penalty of the
// nearest candidate is subtracted instead, so that this candidate has the weight 1.
NearShares::NearShares(std::span<const Candidate> candidates, double preferred)
    : preferred_(preferred),
      logit_max_(MaxLogit(candidates)),
      total_(TotalWeight(candidates, logit_max_)),
      least_(Penalty(candidates.front())) {
  for (const Candidate& candidate : candidates) least_ = std::min(least_, Penalty(candidate));
}

double NearShares::Penalty(const Candidate& candidate) const {
  const double distance = std::fabs(Share(candidate) - preferred_) / kWidth;
  return kSharpness * distance * distance / (1 + distance);
}

SamplerAdaptation AdaptedAverage(const SamplerAdaptation& adaptation, double share, float decay) {
  SamplerAdaptation adapted = adaptation;
  adapted.adaptive_sum = static_cast<float>(share + double{decay} * adaptation.adaptive_sum);
  adapted.adaptive_weight = 1 + decay * adaptation.adaptive_weight;
  return adapted;
}

}  // namespace kvd
