// Rotary position embedding (Su et al. 2021): the angle by which each pair of a head's elements is
// rotated at a position.
//
// Angles are computed in double precision from the config's formula (RopeConfig; it includes
// linear, YaRN and llama3 scaling). The angle of a query rotated for position - delta therefore has
// the same bits as the angle of a key stored at position - delta. A RopeTable is immutable after
// creation; any thread may read it.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.h"
#include "engine/model/model_config.h"

namespace kvd {

class RopeTable {
 public:
  // factors: [rotated_dim / 2] divisors of the frequencies; null: all 1.
  RopeTable(const RopeConfig& config, const float* factors);

  std::size_t pair_count() const { return frequencies_.size(); }
  // Writes cosine and sine, [pair_count()] each, multiplied by the attention factor. `pos` may be
  // negative (a query as seen from a shifted extent).
  void Fill(std::int64_t pos, float* cosine, float* sine) const;
  // The rotation that turns a row that `from_table` rotated for `from` into a row that this table
  // rotates for `to`. The attention factor is not applied because the row already contains it.
  void FillDifference(const RopeTable& from_table, Pos from, Pos to, float* cosine,
                      float* sine) const;

 private:
  std::vector<double> frequencies_;  // radians per position
  double attention_factor_;
};

}  // namespace kvd
