#include "engine/forward/layers/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "engine/forward/compute/activations.h"

namespace kvd {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();
constexpr float kWeightSumMin = 0x1p-14f;  // the smallest normal f16, as in llama.cpp

// In place: x[i] = e^x[i] / sum of e^x.
void Softmax(std::span<float> x) {
  const float largest = *std::ranges::max_element(x);
  double sum = 0;
  for (float& value : x) {
    value = PortableExp(std::min(value - largest, 0.0f));
    sum += value;
  }
  const auto inverse = static_cast<float>(1.0 / sum);
  for (float& value : x) value *= inverse;
}

// Excludes the experts of all groups except the best groups. Groups are compared by the sum of the
// two largest numbers of each group in `selection`.
void KeepBestGroups(const ExpertConfig& config, std::span<float> selection) {
  const std::size_t size = config.count / config.group_count;
  std::uint32_t kept[ExpertConfig::kCountMax / 2];
  float scores[ExpertConfig::kCountMax / 2];
  for (std::uint32_t group = 0; group < config.group_count; ++group) {
    float first = kNever, second = kNever;
    for (const float value : selection.subspan(group * size, size)) {
      if (value > first) {
        second = first;
        first = value;
      } else if (value > second) {
        second = value;
      }
    }
    kept[group] = group;
    scores[group] = first + second;
  }
  std::ranges::sort(std::span(kept, config.group_count), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  for (std::uint32_t i = config.groups_used; i < config.group_count; ++i) {
    std::ranges::fill(selection.subspan(kept[i] * size, size), kNever);
  }
}

}  // namespace

void ChooseExperts(const ExpertConfig& config, std::span<const float> logits,
                   const float* selection_bias, std::span<float> probabilities,
                   std::span<float> selection, std::span<ChosenExpert> chosen) {
  if (config.gating == ExpertGating::kSigmoid) {
    Logistics(logits.data(), logits.size(), probabilities.data());
  } else {
    std::ranges::copy(logits, probabilities.begin());
    if (config.gating == ExpertGating::kSoftmax) Softmax(probabilities);
  }
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const float value = probabilities[i] + (selection_bias == nullptr ? 0.0f : selection_bias[i]);
    selection[i] = std::isnan(value) ? kNever : value;
  }
  if (config.group_count > 1) KeepBestGroups(config, selection);

  float weights[ExpertConfig::kUsedMax];
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::size_t best = selection.size();
    for (std::size_t e = 0; e < selection.size(); ++e) {
      if (std::isnan(selection[e])) continue;
      if (best == selection.size() || selection[e] > selection[best]) best = e;
    }
    chosen[i].expert = static_cast<std::uint32_t>(best);
    weights[i] = probabilities[best];
    selection[best] = kTaken;
  }

  const std::span<float> used(weights, chosen.size());
  if (config.gating == ExpertGating::kSoftmaxOfChosen) Softmax(used);
  if (config.is_normalised) {
    float sum = 0.0f;
    for (const float weight : used) sum += weight;
    sum = std::max(sum, kWeightSumMin);
    for (float& weight : used) weight /= sum;
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i].weight = used[i] * config.scale;
}

}  // namespace kvd
