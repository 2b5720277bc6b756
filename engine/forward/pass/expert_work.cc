#include "engine/forward/pass/expert_work.h"

#include <algorithm>

namespace kvd {

ExpertWork::ExpertWork(const ExpertConfig& config, std::size_t row_count_max) {
  if (config.count == 0) return;
  const std::size_t slot_count = row_count_max * config.used;
  chosen.resize(slot_count);
  slots.resize(slot_count);
  slot_rows.resize(slot_count);
  starts.resize(config.count + 1);
  gate.Shape(slot_count, config.size);
  up.Shape(slot_count, config.size);
  results.Shape(slot_count, config.input_size);
  const std::size_t widest = std::max(config.size, config.input_size);
  const std::size_t row_bytes =
      std::max({InputRowBytes(InputForm::kQuantized, widest),
                InputRowBytes(InputForm::kBf16, widest), widest * sizeof(float)});
  inputs = FloatBuffer(slot_count * row_bytes / sizeof(float) + 1);
  const std::size_t product_count = 2 * std::size_t{config.count};
  views.reserve(product_count);
  jobs.reserve(product_count);
  ready.reserve(product_count);
}

}  // namespace kvd
