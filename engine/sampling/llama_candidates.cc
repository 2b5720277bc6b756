#include "engine/sampling/llama_candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kvd {

// ---- mersenne stream
// libstdc++'s std::generate_canonical adds the outputs, the first one lowest, and divides the sum
// by the range; each operation is rounded. A quotient that rounds to 1 becomes the number before 1.
// The arithmetic is written out, because other versions of the library may change theirs.
std::uint32_t MersenneStream::Output(std::uint64_t number) {
  if (!generator_ || number < next_) {
    generator_ = std::make_unique<std::mt19937>(seed_);
    next_ = 0;
  }
  generator_->discard(number - next_);
  next_ = number + 1;
  return static_cast<std::uint32_t>((*generator_)());
}

double MersenneStream::Uniform(std::uint64_t draw) {
  const auto low = static_cast<double>(Output(2 * draw));
  const auto high = static_cast<double>(Output(2 * draw + 1));
  return std::min((low + high * 0x1p32) / 0x1p64, 0x1.fffffffffffffp-1);
}

float MersenneStream::UniformFloat(std::uint64_t draw) {
  return std::min(static_cast<float>(Output(draw)) / 0x1p32f, 0x1.fffffep-1f);
}

// ---- llama candidates
// Each operation is rounded to float where llama.cpp rounds it, and sums run in the order of the
// list, because a threshold that a sum meets within rounding decides about a candidate.

namespace {

bool IsFirst(const LlamaCandidate& a, const LlamaCandidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

}  // namespace

void LlamaCandidates::TakeAll(std::span<const float> row) {
  list_.clear();
  list_.reserve(row.size());
  for (std::size_t i = 0; i < row.size(); ++i)
    list_.push_back({row[i], static_cast<TokenId>(i), 0, 0});
  is_sorted_ = false;
}

void LlamaCandidates::TakeTop(std::span<const float> row, std::size_t k,
                              std::vector<Candidate>& working) {
  CollectTop(row, k, working);
  list_.clear();
  for (const Candidate& candidate : working)
    list_.push_back({candidate.logit, candidate.token, 0, 0});
  for (std::size_t i = 0; i < row.size() && list_.size() < k; ++i)
    if (row[i] == -kInfinity) list_.push_back({row[i], static_cast<TokenId>(i), 0, 0});
  is_sorted_ = true;
}

float LlamaCandidates::MaxLogit() const {
  float logit_max = -kInfinity;
  for (const LlamaCandidate& candidate : list_) logit_max = std::max(logit_max, candidate.logit);
  return logit_max;
}

void LlamaCandidates::Sort(std::size_t k) {
  k = std::min(k, list_.size());
  if (!is_sorted_) {
    std::partial_sort(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(k), list_.end(),
                      IsFirst);
  }
  list_.resize(k);
  is_sorted_ = true;
}

void LlamaCandidates::SetShares(bool sorts) {
  if (sorts) Sort(list_.size());
  const float logit_max = is_sorted_ ? list_.front().logit : MaxLogit();
  float total = 0;
  for (LlamaCandidate& candidate : list_) {
    candidate.share = std::exp(candidate.logit - logit_max);
    total += candidate.share;
  }
  for (LlamaCandidate& candidate : list_) candidate.share /= total;
}

void LlamaCandidates::KeepTopNSigma(float n) {
  if (list_.size() <= 1) return;
  float sum = 0;
  std::size_t count = 0;
  for (const LlamaCandidate& candidate : list_) {
    if (candidate.logit == -kInfinity) continue;
    sum += candidate.logit;
    ++count;
  }
  if (count == 0) return;
  const float mean = sum / static_cast<float>(count);
  float squares = 0;
  for (const LlamaCandidate& candidate : list_) {
    if (candidate.logit == -kInfinity) continue;
    const double distance = candidate.logit - mean;
    squares = static_cast<float>(squares + distance * distance);
  }
  const float least = MaxLogit() - n * std::sqrt(squares / static_cast<float>(count));
  for (LlamaCandidate& candidate : list_)
    if (candidate.logit < least) candidate.logit = -kInfinity;
}

void LlamaCandidates::KeepLikeliest(std::size_t k) { Sort(k); }

// With an excluded token in the list, the entropy is NaN, and the order of the distances is that of
// the sorting algorithm.
void LlamaCandidates::KeepTypical(float share) {
  SetShares(true);
  float entropy = 0;
  for (const LlamaCandidate& candidate : list_)
    entropy += -candidate.share * std::log(candidate.share);
  std::vector<float> distances;
  for (const LlamaCandidate& candidate : list_)
    distances.push_back(std::fabs(-std::log(candidate.share) - entropy));
  std::vector<std::size_t> order(list_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  std::vector<LlamaCandidate> kept;
  float held = 0;
  for (const std::size_t place : order) {
    kept.push_back(list_[place]);
    held += list_[place].share;
    if (held > share) break;
  }
  list_.assign(kept.begin(), kept.end());
  is_sorted_ = false;
}

void LlamaCandidates::KeepTop(float share) {
  SetShares(false);
  Sort(list_.size());
  float held = 0;
  std::size_t kept = 0;
  while (kept < list_.size()) {
    held += list_[kept++].share;
    if (held >= share) break;
  }
  list_.resize(kept);
}

void LlamaCandidates::KeepMinShare(float min_p) {
  const float least = MaxLogit() + std::log(min_p);
  std::erase_if(list_,
                [least](const LlamaCandidate& candidate) { return candidate.logit < least; });
}

void LlamaCandidates::ExcludeTopChoices(float threshold) {
  SetShares(true);
  std::size_t choices = 0;
  while (choices < list_.size() && list_[choices].share >= threshold) ++choices;
  if (choices > 1)
    list_.erase(list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(choices) - 1);
}

void LlamaCandidates::Scale(float temperature) {
  if (temperature > 0) {
    for (LlamaCandidate& candidate : list_) candidate.logit /= temperature;
    return;
  }
  const auto likeliest = std::ranges::max_element(list_, {}, &LlamaCandidate::logit);
  for (auto candidate = list_.begin(); candidate != list_.end(); ++candidate)
    if (candidate != likeliest) candidate->logit = -kInfinity;
}

void LlamaCandidates::ScaleByEntropy(float temperature, float range, float exponent) {
  if (list_.size() <= 1) return;
  const float low = std::max(0.0f, temperature - range);
  const float high = temperature + range;
  const float entropy_max = -std::log(1.0f / static_cast<float>(list_.size()));
  SetShares(true);
  float entropy = 0;
  for (const LlamaCandidate& candidate : list_)
    if (candidate.share > 0) entropy -= candidate.share * std::log(candidate.share);
  Scale(low + (high - low) * std::pow(entropy / entropy_max, exponent));
}

// The formulas are those of KeepZipf of adaptive_draws.h. A size that is not an integer of 32 bits
// counts as 1, as the conversion of x86 makes it.
void LlamaCandidates::KeepZipf(float mu, std::uint32_t vocab_size) {
  constexpr std::size_t kZipfCount = 100;
  SetShares(true);
  float t_b = 0;
  float t_t = 0;
  for (std::size_t i = 0; i + 1 < std::min(kZipfCount, list_.size()); ++i) {
    const float t = std::log(static_cast<float>(i + 2) / static_cast<float>(i + 1));
    const float b = std::log(list_[i].share / list_[i + 1].share);
    t_b += t * b;
    t_t += t * t;
  }
  const float s = t_b / t_t;
  const float e = s - 1;
  const float all = static_cast<float>(vocab_size);
  const float k = std::pow((e * std::pow(2.0f, mu)) / (1 - std::pow(all, -e)), 1 / s);
  const bool is_count = k >= 1 && k < 0x1p31f;
  KeepLikeliest(is_count ? static_cast<std::size_t>(k) : 1);
  SetShares(true);
}

void LlamaCandidates::KeepSurprise(float mu) {
  SetShares(true);
  std::size_t kept = 0;
  while (kept < list_.size() && !(-std::log2(list_[kept].share) > mu)) ++kept;
  list_.resize(std::max<std::size_t>(kept, 1));
  SetShares(true);
}

// The list still counts as sorted, as in llama.cpp: the first candidate's logit is then subtracted
// instead of the largest one.
void LlamaCandidates::PreferNear(float preferred) {
  constexpr float kPeak = 5;
  constexpr float kFalloff = 10;
  constexpr float kInverseWidth = 1.0f / 0.3f;
  for (LlamaCandidate& candidate : list_) {
    candidate.plain_share = candidate.share;
    if (candidate.logit == -kInfinity) continue;
    const float distance = std::fabs((candidate.share - preferred) * kInverseWidth);
    candidate.logit = kPeak - kFalloff * distance * distance / (1.0f + distance);
  }
  SetShares(false);
}

std::size_t LlamaCandidates::Pick(double uniform) {
  const float logit_max = MaxLogit();
  double total = 0;
  for (LlamaCandidate& candidate : list_) {
    candidate.share = std::exp(candidate.logit - logit_max);
    total += candidate.share;
  }
  const double goal = total * uniform;
  double sum = 0;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    sum += list_[i].share;
    if (sum >= goal) return i;
  }
  return list_.size() - 1;
}

std::size_t LlamaCandidates::PickByShare(double uniform) const {
  double total = 0;
  for (const LlamaCandidate& candidate : list_) total += candidate.share;
  double sum = 0;
  for (std::size_t i = 0; i + 1 < list_.size(); ++i) {
    sum += double{list_[i].share} / total;
    if (sum >= uniform) return i;
  }
  return list_.size() - 1;
}

}  // namespace kvd
