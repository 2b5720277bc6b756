// Rotary position embedding (Su et al. 2021): the angle of each pair of a head's elements at a
// position.
//
// Angles are computed in double precision from the config's formula (linear, YaRN and llama3
// scaling included, see RopeConfig), so that a query rotated for position - delta meets a key
// stored at position - delta in the same bits. Immutable after creation, any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/model_config.h"
#include "shm/ids.h"

namespace kvd {

class RopeTable {
 public:
  // factors: [rotated_dim / 2] divisors of the frequencies, or null.
  RopeTable(const RopeConfig& config, const float* factors);

  std::size_t pair_count() const { return frequencies_.size(); }
  // cosine, sine: [pair_count()], the attention factor included. `pos` may be negative (a query
  // seen from a shifted extent).
  void Fill(std::int64_t pos, float* cosine, float* sine) const;
  // The rotation that takes a row that `from_table` rotated for `from` to one that this table
  // rotates for `to`: no attention factor, it is in the row already.
  void FillDifference(const RopeTable& from_table, Pos from, Pos to, float* cosine,
                      float* sine) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double attention_factor_;
};

}  // namespace kvd
