// Texts through the encoder as work in slices: for their embedding, or as what a sequence's decoder
// attends to.
//
// Engine thread. The rows of a text are buffers of the work's own: bounded by EncoderTokensMax and
// kEncodeTokensMax.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/cell_layout.h"
#include "engine/encoder.h"
#include "engine/engine_work.h"
#include "engine/memory/memory.h"

namespace kvd {

class TextEmbedWork final : public EmbedWork {
 public:
  // `computed` counts the tokens once the text is done. REQUIRES: CheckEmbed is content with the
  // tokens. The others outlive the object.
  TextEmbedWork(Encoder& encoder, std::vector<TokenId> tokens, std::atomic<std::uint64_t>& computed)
      : encoder_(encoder), encoding_(std::move(tokens)), computed_(computed) {}

  std::size_t tokens_left() const override;
  // Errors: kNumerical.
  Result<bool> Advance(std::size_t tokens) override;
  Embedding TakeEmbedding() override { return std::move(embedding_); }

 private:
  Encoder& encoder_;
  TextEncoding encoding_;
  std::atomic<std::uint64_t>& computed_;
  Embedding embedding_;
};

// Whether a text can be encoded for the sequence. Errors: kNotFound; kExists (it has one);
// kInvalidArgument (it has tokens).
Status CheckNothingEncoded(const Memory& memory, SequenceHandle sequence);

// The text's cells are reserved by a restore of it alone, filled layer by layer of the decoder once
// the encoder is through, and committed at the end.
class TextEncodeWork final : public EngineWork {
 public:
  // Takes over a restore of the text, with grows_later. `computed` counts the tokens once it is
  // committed. The others outlive the object. REQUIRES: CheckEncode is content with the tokens.
  TextEncodeWork(Encoder& encoder, const ModelConfig& config, const CellLayout& cells,
                 Memory& memory, std::vector<TokenId> tokens, Restore restore,
                 std::atomic<std::uint64_t>& computed);

  std::size_t tokens_left() const override;
  // Errors: kNumerical, kNoSpace, Restores::Commit's.
  Result<bool> Advance(std::size_t tokens) override;

 private:
  std::uint64_t CostLeft() const;
  // Multiply-adds of one row's keys and values in one layer of the decoder.
  std::uint64_t StoreCost() const;
  Status StoreSome(std::uint64_t cost_max);

  Encoder& encoder_;
  const ModelConfig& config_;
  const CellLayout& cells_;
  Memory& memory_;
  TextEncoding encoding_;
  Restore restore_;
  std::atomic<std::uint64_t>& computed_;
  // Cells before it are stored in all layers of the decoder; of those from there to rows_end_, in
  // store_layer_ layers.
  std::size_t store_row_ = 0;
  std::size_t rows_end_ = 0;
  std::size_t store_layer_ = 0;
};

}  // namespace kvd
