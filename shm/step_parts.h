// The parts of a step through the model whose time is told apart. Numbers are sent: append only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvd {

enum class StepPart : std::uint8_t {
  kMemory = 0,             // cells reserved and committed
  kEmbedding = 1,          // of the tokens, and what is prepared once a step
  kNorms = 2,              // before the layers
  kProjections = 3,        // attention: queries, keys, values, and back to the stream
  kCells = 4,              // keys and values rotated and written to the pool
  kAttention = 5,          // over the cells
  kRecurrentProducts = 6,  // recurrent layers: their matrices
  kRecurrent = 7,          // the rest of them: convolutions, scans
  kFeedForward = 8,
  kLogits = 9,  // the last norm and product
  kOther = 10,
};
inline constexpr std::size_t kStepParts = 11;

constexpr std::string_view StepPartName(StepPart part) {
  constexpr std::string_view kNames[] = {
      "memory",    "embedding",          "norms",     "projections",  "cells",
      "attention", "recurrent_products", "recurrent", "feed_forward", "logits",
      "other"};
  static_assert(std::size(kNames) == kStepParts);
  const auto number = static_cast<std::size_t>(part);
  return number < kStepParts ? kNames[number] : "unknown";
}

}  // namespace kvd
