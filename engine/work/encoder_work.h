// Runs texts through the encoder as work in slices: TextEmbedWork computes the embedding of a text;
// TextEncodeWork computes the cells of a text that a sequence's decoder attends to.
//
// Used on the engine thread. The rows of a text are held in buffers of the work object; the size of
// the buffers is bounded by EncoderTokensMax and kEncodeTokensMax.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/forward/encoder.h"
#include "engine/memory/geometry.h"
#include "engine/memory/memory.h"
#include "engine/work/engine_work.h"

namespace kvd {

class TextEmbedWork final : public EmbedWork {
 public:
  // Adds the number of tokens to `computed` when the text is done. The references outlive the
  // TextEmbedWork. REQUIRES: CheckEmbed accepts the tokens and the pooling.
  TextEmbedWork(Encoder& encoder, std::vector<TokenId> tokens, Pooling pooling,
                std::atomic<std::uint64_t>& computed)
      : encoder_(encoder), encoding_(std::move(tokens)), pooling_(pooling), computed_(computed) {}

  std::size_t tokens_left() const override;
  // Errors: kNumerical, kNoSpace.
  Result<bool> Advance(std::size_t tokens) override;
  Embedding TakeEmbedding() override { return std::move(embedding_); }

 private:
  Encoder& encoder_;
  TextEncoding encoding_;
  const Pooling pooling_;
  std::atomic<std::uint64_t>& computed_;
  Embedding embedding_;
};

// Checks that a text can be encoded for the sequence. Errors: kNotFound; kExists (the sequence has
// an encoded text); kInvalidArgument (the sequence has tokens).
Status CheckNothingEncoded(const Memory& memory, SequenceHandle sequence);

// Encodes a text and stores its keys and values as cells of a sequence. One Restore reserves the
// cells. After the encoder has finished, the cells are filled, one layer of the decoder after the
// other, and then committed.
class TextEncodeWork final : public EngineWork {
 public:
  // Takes over a restore of the text that was begun with grows_later. Adds the number of tokens to
  // `computed` after the commit. The references outlive the TextEncodeWork. REQUIRES: CheckEncode
  // accepts the tokens.
  TextEncodeWork(Encoder& encoder, const ModelConfig& config, const CellLayout& cells,
                 Memory& memory, std::vector<TokenId> tokens, Restore restore,
                 std::atomic<std::uint64_t>& computed);

  std::size_t tokens_left() const override;
  // Errors: kNumerical, kNoSpace, those of Restores::Commit.
  Result<bool> Advance(std::size_t tokens) override;

 private:
  std::uint64_t CostLeft() const;
  // Multiply-adds for the keys and values of one row in one layer of the decoder.
  std::uint64_t StoreCost() const;
  Status StoreSome(std::uint64_t cost_max);

  Encoder& encoder_;
  const ModelConfig& config_;
  const CellLayout& cells_;
  Memory& memory_;
  TextEncoding encoding_;
  Restore restore_;
  std::atomic<std::uint64_t>& computed_;
  // Rows before store_row_ are stored in all layers of the decoder; rows from store_row_ to
  // rows_end_ are stored in the first store_layer_ layers.
  std::size_t store_row_ = 0;
  std::size_t rows_end_ = 0;
  std::size_t store_layer_ = 0;
};

}  // namespace kvd
