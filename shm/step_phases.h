// The phases of a step for which time is measured separately. The values are sent on the wire, so
// new phases are only added at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvd {

enum class StepPhase : std::uint8_t {
  kMemory = 0,     // time to reserve and commit cells
  kEmbedding = 1,  // time to embed the tokens and to prepare data that all layers use
  kNorms = 2,      // time for the norms of the layers
  // Attention layers: time to compute queries, keys, values and the output projection.
  kProjections = 3,
  // Attention layers: time to rotate keys and to write keys and values to the pool.
  kCells = 4,
  kAttention = 5,          // attention layers: time to attend over the cells
  kRecurrentProducts = 6,  // recurrent layers: time for products with weight matrices
  kRecurrent = 7,          // recurrent layers: time for all other work (convolutions, scans)
  kFeedForward = 8,
  kLogits = 9,  // time for the last norm and the product with the output matrix
  kOther = 10,
  kRouter = 11,   // mixtures of experts: time to choose the experts of each row
  kExperts = 12,  // mixtures of experts: time for the experts' products
};
inline constexpr std::size_t kStepPhases = 13;

constexpr std::string_view StepPhaseName(StepPhase phase) {
  constexpr std::string_view kNames[] = {"memory",
                                         "embedding",
                                         "norms",
                                         "projections",
                                         "cells",
                                         "attention",
                                         "recurrent_products",
                                         "recurrent",
                                         "feed_forward",
                                         "logits",
                                         "other",
                                         "router",
                                         "experts"};
  static_assert(std::size(kNames) == kStepPhases);
  const auto number = static_cast<std::size_t>(phase);
  return number < kStepPhases ? kNames[number] : "unknown";
}

}  // namespace kvd
