// Attention of one token to the cells of its sequence (Vaswani et al. 2017), with grouped heads
// (Ainslie et al. 2023), rotation (Su et al. 2021) and windows (Beltagy et al. 2020).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/reference/linear_algebra.h"
#include "tests/reference/model_file.h"
#include "tests/reference/sequence.h"

namespace kvd::reference {

// The elements of a head that form rotated pair i: 2i and 2i + 1 (kNeighbours), or i and i + half
// of the head size (kHalves).
enum class Pairs { kNeighbours, kHalves };

struct Rotation {
  Pairs pairs = Pairs::kNeighbours;
  double base = 0;       // 0: no rotation
  Vector divisors = {};  // divisors of the angles, by pair; empty: all 1
};

// Rotates pair i of a head by the angle pos * base^(-2i / head size) / divisors[i].
Vector Rotate(const Rotation& rotation, const Vector& head, std::int32_t pos);

struct Attention {
  std::size_t head_size = 0;
  std::size_t heads_per_kv_head = 1;
  std::size_t window = 0;  // number of positions that a query attends to, including its own; 0: all
  double scale = 1;        // of the scores
  double epsilon = 0;
  bool norms_values = false;  // true: the heads of a value are normed, without weights
  // The layer whose keys and values this layer reads instead of its own.
  std::optional<std::size_t> shared_layer;
  Rotation rotation;
  Matrix q, k, v, out;
  Vector q_norm, k_norm;  // norm weights for each head; empty: no norm

  // Reads the attention tensors of the layer: q_norm and k_norm only if the file has them, k and v
  // only if the layer has its own. Without v, values are keys before their norm. The scale is
  // 1 / sqrt(head size).
  static Attention Read(const ModelFile& file, std::size_t layer);

  // Stores the key and the value of `x` in the last cell and returns the attention output of `x` at
  // the position of that cell. REQUIRES: sequence.cells is not empty.
  Vector operator()(const Vector& x, std::size_t layer, Sequence& sequence) const;

 private:
  Vector NormedHeads(Vector heads, const Vector& weight) const;
};

// Returns "blk.LAYER.", the prefix of the layer's tensor names.
std::string BlockName(std::size_t layer);

}  // namespace kvd::reference
