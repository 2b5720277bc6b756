// A unit of work is one head of one text: its keys and values are laid side by side in f32, keys as
// they are, values turned, so that both products run over dense rows.
#include "engine/layers/plain_attention.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace kvd {
namespace {

constexpr std::size_t kLanes = 16;
constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// What a thread needs for one unit; grows to the longest text and stays.
struct Scratch {
  std::vector<float> k;       // [count, dim]
  std::vector<float> v;       // [dim, width]
  std::vector<float> scores;  // [width]
};

Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

// The keys of one head. A width that is a multiple of sixteen is summed in lanes: that of an own
// sequence is rounded up to one, as whoever looks at the cells of a cache does; that of a text is its
// length.
class HeadKeys {
 public:
  HeadKeys(const kernels::KernelTable& kernels, Scratch& scratch, std::size_t count,
           std::size_t width, std::size_t dim)
      : kernels_(kernels), scratch_(scratch), count_(count), width_(width), dim_(dim) {
    scratch.k.resize(count * dim);
    scratch.v.assign(width * dim, 0.0f);
    scratch.scores.resize(width);
  }

  // Key `i`, to be filled in.
  float* key(std::size_t i) { return scratch_.k.data() + i * dim_; }
  void SetValue(std::size_t i, const float* value) {
    for (std::size_t d = 0; d < dim_; ++d) scratch_.v[d * width_ + i] = value[d];
  }

  // out = the values of keys [0, seen) weighted by softmax(q . k + bias_of(key)).
  template <class BiasOf>
  void Attend(const float* q, std::size_t seen, const BiasOf& bias_of, float* out) {
    float* const scores = scratch_.scores.data();
    kernels_.plain_dots(q, scratch_.k.data(), dim_, seen, dim_, scores);
    for (std::size_t i = 0; i < seen; ++i) scores[i] += bias_of(i);
    std::fill(scores + seen, scores + width_, kUnseen);
    kernels_.plain_softmax(scores, width_, width_ / kLanes * kLanes);
    const float* v = scratch_.v.data();
    if (width_ % kLanes != 0) return kernels_.plain_dots(scores, v, width_, dim_, width_, out);
    kernels_.lane_dots(scores, v, width_, dim_, width_, out);
  }

  std::size_t count() const { return count_; }

 private:
  const kernels::KernelTable& kernels_;
  Scratch& scratch_;
  const std::size_t count_;
  const std::size_t width_;
  const std::size_t dim_;
};

float NoBias(std::size_t) { return 0.0f; }

// Reads the cells of one head of a group's part; positions, if wanted: effective ones.
void LoadCells(ForwardPass& pass, std::size_t layer, const GroupPart& part, std::uint32_t group,
               std::size_t head, HeadKeys& keys, std::vector<std::int64_t>* positions) {
  const CellLayout& cells = pass.cells();
  const kernels::KernelTable& kernels = *pass.compute().kernels;
  const std::size_t dim = pass.config().head_dim_k;
  std::vector<float> value(dim);
  for (std::size_t e = 0; e < part.extents.size(); ++e) {
    const layout::Extent& extent = part.extents[e];
    const std::size_t end = e + 1 < part.extents.size() ? part.extents[e + 1].start : keys.count();
    const std::byte* block = pass.memory().BlockBytes(group, BlockId{extent.block});
    const layout::CellRecord* records = pass.memory().BlockCells(group, BlockId{extent.block});
    for (std::size_t i = extent.start; i < end; ++i) {
      const std::size_t cell = extent.first + (i - extent.start);
      kernels.decode_row(cells.k_type, block + cells.KRow(layer, head, cell), keys.key(i), dim);
      kernels.decode_row(cells.v_type, block + cells.VRow(layer, head, cell), value.data(), dim);
      keys.SetValue(i, value.data());
      if (positions != nullptr)
        positions->push_back(std::int64_t{records[cell].stored_pos} + extent.delta);
    }
  }
}

}  // namespace

void RunPlainTextAttention(const Compute& compute, const PlainTextShape& shape,
                           const PositionBias& bias, const float* q, const float* k, const float* v,
                           float* out) {
  const std::size_t head_dim = shape.head_dim;
  const std::size_t row_floats = shape.head_count * head_dim;
  compute.pool->Run(shape.head_count, [&](std::uint32_t, std::size_t head) {
    HeadKeys keys(*compute.kernels, ThreadScratch(), shape.key_count, shape.key_count, head_dim);
    for (std::size_t i = 0; i < shape.key_count; ++i) {
      const std::size_t at = i * row_floats + head * head_dim;
      std::copy_n(k + at, head_dim, keys.key(i));
      keys.SetValue(i, v + at);
    }
    constexpr auto kReach = static_cast<std::ptrdiff_t>(kBiasReach);
    const float* const middle = bias.table.data() + head * bias.distances + kReach;
    for (std::size_t row = 0; row < shape.row_count; ++row) {
      const auto position = static_cast<std::ptrdiff_t>(shape.first_row + row);
      const auto bias_of = [&](std::size_t i) {
        return middle[std::clamp(static_cast<std::ptrdiff_t>(i) - position, -kReach, kReach)];
      };
      const std::size_t at = row * row_floats + head * head_dim;
      keys.Attend(q + at, shape.key_count, bias_of, out + at);
    }
  });
}

void RunPlainAttention(ForwardPass& pass, std::size_t layer, const PositionBias& bias,
                       const RowBuffer& q, const RowBuffer& out) {
  const std::size_t heads = pass.config().head_count[layer];
  const std::size_t dim = pass.config().head_dim_k;
  const std::uint32_t group = pass.cells().groups[layer];
  pass.compute().pool->Run(pass.plan().count * heads, [&](std::uint32_t, std::size_t unit) {
    const std::size_t s = unit / heads;
    const std::size_t head = unit % heads;
    const StepSequence& sequence = pass.plan().sequences[s];
    const std::size_t count = std::size_t{sequence.past_cells} + sequence.new_cells;
    HeadKeys keys(*pass.compute().kernels, ThreadScratch(), count,
                  (count + kLanes - 1) / kLanes * kLanes, dim);
    std::vector<std::int64_t> positions;
    positions.reserve(count);
    LoadCells(pass, layer, sequence.groups[group], group, head, keys, &positions);
    const float* const table = bias.table.data() + head * bias.distances;
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      const std::size_t own = sequence.past_cells + i;
      const auto bias_of = [&](std::size_t cell) {
        const auto distance = static_cast<std::size_t>(positions[own] - positions[cell]);
        return table[std::min(distance, kBiasReach)];
      };
      keys.Attend(q[row] + head * dim, own + 1, bias_of, out[row] + head * dim);
    }
  });
}

void RunPlainCrossAttention(ForwardPass& pass, std::size_t layer, const RowBuffer& q,
                            const RowBuffer& out) {
  const std::size_t heads = pass.config().head_count[layer];
  const std::size_t dim = pass.config().head_dim_k;
  const std::uint32_t group = pass.cells().cross_group;
  const std::size_t cross_layer = CellLayout::CrossLayer(pass.config().layer_count, layer);
  pass.compute().pool->Run(pass.plan().count * heads, [&](std::uint32_t, std::size_t unit) {
    const std::size_t s = unit / heads;
    const std::size_t head = unit % heads;
    const StepSequence& sequence = pass.plan().sequences[s];
    const std::size_t count = sequence.groups[group].cell_count;
    HeadKeys keys(*pass.compute().kernels, ThreadScratch(), count, count, dim);
    LoadCells(pass, cross_layer, sequence.groups[group], group, head, keys, nullptr);
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      const std::size_t row = pass.sequences()[s].first_row + i;
      keys.Attend(q[row] + head * dim, count, NoBias, out[row] + head * dim);
    }
  });
}

}  // namespace kvd
