#include "engine/forward/decoder.h"

#include "engine/forward/architectures/architecture.h"
#include "engine/forward/compute/step_profile.h"

namespace kvd {

Decoder::Decoder(const ModelConfig& config, const ModelWeights& weights, const CellLayout& cells,
                 const kernels::KernelTable& kernels, ThreadPool& pool, bool exact,
                 std::size_t row_count_max, StepProfile* profile)
    : architecture_(DefinitionOf(config.architecture)),
      pass_(config, weights, cells, kernels, pool, exact, row_count_max, profile) {
  logits_input_.reserve(row_count_max);
  logits_output_.reserve(row_count_max);
}

void Decoder::Run(const StepPlan& plan, Memory& memory, std::span<ForwardItem> items) {
  StepProfile* const profile = pass_.compute().profile;
  {
    const StepProfile::Scope scope(profile, StepPhase::kEmbedding);
    pass_.Begin(plan, memory, items);
    Embed();
    if (architecture_.begin != nullptr) architecture_.begin(pass_);
  }
  for (std::size_t layer = 0; layer < pass_.config().layer_count; ++layer) {
    const StepProfile::Scope scope(
        profile, pass_.IsRecurrent(layer) ? StepPhase::kRecurrent : StepPhase::kOther);
    architecture_.run_layer(pass_, layer);
  }
  const StepProfile::Scope scope(profile, StepPhase::kLogits);
  Logits();
}

// stream[row] = embedding_scale * token embedding
void Decoder::Embed() {
  const WeightView& embedding = pass_.weights().token_embedding;
  const kernels::KernelTable& kernels = *pass_.compute().kernels;
  const float scale = pass_.config().embedding_scale;
  const std::size_t row_bytes = kernels::RowBytes(embedding.type, embedding.in_features);
  for (std::size_t s = 0; s < pass_.plan().count; ++s) {
    const StepSequence& sequence = pass_.plan().sequences[s];
    for (std::size_t i = 0; i < sequence.new_cells; ++i) {
      float* row = pass_.stream()[pass_.sequences()[s].first_row + i];
      kernels.decode_row(embedding.type,
                         embedding.data + static_cast<std::size_t>(sequence.tokens[i]) * row_bytes,
                         row, embedding.in_features);
      if (scale != 1.0f) kernels.scale(row, scale, embedding.in_features, row);
    }
  }
}

// The product with the output matrix writes each requested row of logits directly to the row's
// address in the ForwardItem.
void Decoder::Logits() {
  const ModelConfig& config = pass_.config();
  const kernels::KernelTable& kernels = *pass_.compute().kernels;
  logits_input_.clear();
  logits_output_.clear();
  for (std::size_t s = 0; s < pass_.sequences().size(); ++s) {
    const SequenceRows& rows = pass_.sequences()[s];
    const ForwardItem& item = pass_.item(s);
    for (std::size_t i = item.first_logits_row; i < rows.row_count; ++i) {
      logits_input_.push_back(pass_.stream()[rows.first_row + i]);
      logits_output_.push_back(item.logits + (i - item.first_logits_row) * config.vocab_size);
    }
  }
  const std::size_t count = logits_output_.size();
  if (count == 0) return;
  const RowBuffer& normed = pass_.Rows(Scratch::kNormed, {config.embedding_size});
  if (architecture_.final_norm != nullptr) {
    architecture_.final_norm(pass_, logits_input_, normed.pointers());
  } else {
    pass_.ForRows(count, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        kernels.rms_norm(logits_input_[i], pass_.weights().output_norm, config.embedding_size,
                         config.rms_epsilon, normed[i]);
      }
    });
  }
  const LinearJob output{.linear = &pass_.weights().output,
                         .x = normed[0],
                         .x_stride = normed.width(),
                         .y = logits_output_.data()};
  RunLinear(pass_.compute(), {&output, 1}, count);
  pass_.ForRows(count, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      float* logits = logits_output_[i];
      if (config.logit_scale != 1.0f) {
        kernels.scale(logits, config.logit_scale, config.vocab_size, logits);
      }
      if (config.logit_softcap != 0.0f) {
        kernels.softcap(logits, config.logit_softcap, config.vocab_size, logits);
      }
    }
  });
  std::size_t next = 0;
  for (std::size_t s = 0; s < pass_.sequences().size(); ++s) {
    ForwardItem& item = pass_.item(s);
    for (std::size_t i = item.first_logits_row; i < pass_.sequences()[s].row_count; ++i, ++next) {
      item.finite = item.finite && kernels.all_finite(logits_output_[next], config.vocab_size);
    }
  }
}

}  // namespace kvd
