// Rotary position embedding (Su et al. 2021): the angle by which each pair of a head's elements is
// rotated at a position.
//
// Angles are computed in double precision from the config's formula (RopeConfig; it includes
// linear, YaRN and llama3 scaling). The angle of a query rotated for position - delta therefore has
// the same bits as the angle of a key stored at position - delta. A RopeTable is immutable after
// creation; any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"

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

// The rotation tables of one model. Layers with a sliding window may use another rotation than the
// other layers, and keys of a long sequence may use another rotation than keys of a short sequence
// (docs/decisions/0008).
//
// The tables are immutable after creation; any thread may read them.
class ModelRopes {
 public:
  ModelRopes(const ModelConfig& config, const ModelWeights& weights);

  // The number of kinds of layers. Layers of kind 0 have no window; layers of kind 1 have a window,
  // and the kind exists only if the model has such layers.
  std::size_t kind_count() const { return tables_.size() / form_count_; }
  static std::size_t KindOf(const ModelConfig& config, std::size_t layer) {
    return config.window[layer] != 0 ? 1 : 0;
  }
  // The number of key forms (layout::CellRecord::key_form). Form 1 is for sequences that reach
  // long_rope_from and exists only if the model has that limit; form 0 is for all others.
  std::uint32_t form_count() const { return form_count_; }
  const RopeTable& table(std::size_t kind, std::uint32_t key_form) const {
    return tables_[kind * form_count_ + key_form];
  }
  std::size_t pair_count(std::size_t kind) const { return table(kind, 0).pair_count(); }
  std::size_t pair_count_max() const;

 private:
  std::uint32_t form_count_ = 1;
  std::vector<RopeTable> tables_;  // [kind, form]
};

// The key form of a sequence whose last position is `last`.
inline std::uint32_t KeyFormAt(const ModelConfig& config, std::int64_t last) {
  return config.long_rope_from != 0 && last >= config.long_rope_from ? 1 : 0;
}

}  // namespace kvd
