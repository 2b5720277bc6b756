#include "engine/work/encoder_work.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/forward/layers/t5_attention.h"
#include "engine/model/model_config.h"

namespace kvd {
namespace {

std::size_t TokensOf(std::uint64_t cost, const Encoder& encoder) {
  const std::uint64_t token = encoder.TokenCost();
  return static_cast<std::size_t>((cost + token - 1) / token);
}

// Calls portion(cost that may be spent) until the budget is spent or no work is left, at least
// once.
template <class CostLeft, class Portion>
Status Spend(std::uint64_t budget, const CostLeft& cost_left, const Portion& portion) {
  for (std::uint64_t left = cost_left(); left > 0;) {
    KVD_CHECK_OK(portion(budget));
    const std::uint64_t now = cost_left();
    const std::uint64_t spent = left - now;
    // The budget that remains after the last portion is smaller than the portion's cost, so another
    // portion of equal cost does not fit.
    if (budget < 2 * spent) break;
    budget -= spent;
    left = now;
  }
  return {};
}

// Advances the encoding by about cost_max multiply-adds. The first portion allocates the rows of
// the text, which take hundreds of MiB for a long text. Errors: kNoSpace.
Status AdvanceText(Encoder& encoder, TextEncoding& encoding, std::uint64_t cost_max) {
  try {
    encoder.Advance(encoding, cost_max);
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "text: no memory for the rows of ", encoding.text.tokens.size(),
                " tokens");
  }
  return {};
}

std::uint64_t Budget(std::size_t tokens, const Encoder& encoder) {
  return std::min<std::uint64_t>(tokens, 1u << 24) * encoder.TokenCost();
}

}  // namespace

std::size_t TextEmbedWork::tokens_left() const {
  return TokensOf(encoder_.CostLeft(encoding_), encoder_);
}

Result<bool> TextEmbedWork::Advance(std::size_t tokens) {
  const auto cost_left = [this] { return encoder_.CostLeft(encoding_); };
  KVD_CHECK_OK(Spend(Budget(tokens, encoder_), cost_left, [this](std::uint64_t cost_max) -> Status {
    return AdvanceText(encoder_, encoding_, cost_max);
  }));
  if (cost_left() > 0) return false;
  KVD_TRY(embedding_, encoder_.Pool(encoding_, pooling_));
  computed_.fetch_add(encoding_.text.tokens.size(), std::memory_order_relaxed);
  return true;
}

Status CheckNothingEncoded(const Memory& memory, SequenceHandle sequence) {
  KVD_TRY(const SequenceInfo info, memory.sequences().Query(sequence));
  const std::string name = Concat("sequence ", static_cast<std::uint64_t>(sequence));
  if (info.cross_cells != 0) {
    return Fail(Code::kExists, name, ": has an encoded text of ", info.cross_cells, " tokens");
  }
  if (info.cell_count != 0) {
    return Fail(Code::kInvalidArgument, name, ": has ", info.cell_count,
                " cells; a text is encoded before the first one");
  }
  return {};
}

TextEncodeWork::TextEncodeWork(Encoder& encoder, const ModelConfig& config, const CellLayout& cells,
                               Memory& memory, std::vector<TokenId> tokens, Restore restore,
                               std::atomic<std::uint64_t>& computed)
    : encoder_(encoder),
      config_(config),
      cells_(cells),
      memory_(memory),
      encoding_(std::move(tokens)),
      restore_(std::move(restore)),
      computed_(computed) {}

std::uint64_t TextEncodeWork::StoreCost() const {
  std::uint64_t heads = 0;  // K and V heads of the layer with the most heads; used for all layers
  for (std::size_t layer = 0; layer < config_.layer_count; ++layer)
    heads = std::max<std::uint64_t>(heads, config_.kv_head_count[layer]);
  return std::max<std::uint64_t>(
      heads * config_.embedding_size * (config_.head_dim_k + config_.head_dim_v), 1);
}

std::uint64_t TextEncodeWork::CostLeft() const {
  const std::uint64_t rows = encoding_.text.tokens.size() - store_row_;
  const std::uint64_t done = (rows_end_ - store_row_) * store_layer_;
  return encoder_.CostLeft(encoding_) + (rows * config_.layer_count - done) * StoreCost();
}

std::size_t TextEncodeWork::tokens_left() const { return TokensOf(CostLeft(), encoder_); }

// Stores the keys and values of some rows in one layer.
Status TextEncodeWork::StoreSome(std::uint64_t cost_max) {
  constexpr std::uint64_t kRowsMin = layout::kBlockCells;
  const GroupPart& part = restore_.parts[cells_.cross_group];
  if (store_layer_ == 0) {
    const std::uint64_t rows =
        std::clamp<std::uint64_t>(cost_max / StoreCost(), kRowsMin, EncoderPass::kRowsMax);
    rows_end_ = std::min<std::size_t>(store_row_ + rows, encoding_.text.tokens.size());
    for (std::size_t at = store_row_ / layout::kBlockCells;
         at < part.extents.size() && part.extents[at].start < rows_end_; ++at) {
      KVD_CHECK_OK(memory_.GrowBlock(cells_.cross_group, BlockId{part.extents[at].block}));
    }
  }
  const std::size_t count = rows_end_ - store_row_;
  EncoderPass& pass = encoder_.Rows(encoding_, store_row_, count);
  if (!StoreCrossCells(pass, cells_, part, store_layer_, store_row_, count, memory_)) {
    return Fail(Code::kNumerical,
                "a key or value of the text is not finite; no cell was committed");
  }
  if (++store_layer_ < config_.layer_count) return {};
  store_row_ = rows_end_;
  store_layer_ = 0;
  return {};
}

Result<bool> TextEncodeWork::Advance(std::size_t tokens) {
  const auto cost_left = [this] { return CostLeft(); };
  KVD_CHECK_OK(Spend(Budget(tokens, encoder_), cost_left, [this](std::uint64_t cost_max) -> Status {
    if (encoder_.CostLeft(encoding_) == 0) return StoreSome(cost_max);
    return AdvanceText(encoder_, encoding_, cost_max);
  }));
  if (cost_left() > 0) return false;
  KVD_CHECK_OK(memory_.restores().Commit(restore_));
  computed_.fetch_add(encoding_.text.tokens.size(), std::memory_order_relaxed);
  return true;
}

}  // namespace kvd
