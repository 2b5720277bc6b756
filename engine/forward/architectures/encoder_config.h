// Reads the metadata that models with an encoder share, and the metadata of rerankers. Defaults are
// those of llama.cpp (src/llama-model.cpp, load_hparams).
#pragma once

#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"

namespace kvd {

enum class EncoderNorms : std::uint8_t { kLayerNorms, kRmsNorms };

// Reads the encoder of a model without a decoder: heads, feed-forward, epsilon, pooling and labels.
// `classifier` is the form of a reranker's head.
// The heads are also head_dim_k of the config, for ReadRope. Errors: kUnsupported (attention is
// causal, or values have another length than keys); kCorrupt; kNotFound.
Status ReadEncoder(const ConfigReader& reader, EncoderNorms norms,
                   const ClassifierConfig& classifier, ModelConfig& config);

// Reads type_count, which models with embeddings of segment types have.
Status ReadTypeCount(const ConfigReader& reader, ModelConfig& config);

// Reads the rotation of the encoder's queries and keys, which are pairs (i, i + rotated_dim / 2).
// REQUIRES: ReadEncoder was called.
Status ReadEncoderRope(const ConfigReader& reader, ModelConfig& config);

// Reads attention.sliding_window, attention.sliding_window_pattern and the rotation of the layers
// with a window. A token of such a layer sees the tokens at most window / 2 positions away. The
// layer without a window is the last of each period, or with `is_first_free` the first. No window
// in the file: no layer has one. REQUIRES: ReadEncoderRope was called.
struct EncoderWindows {
  std::uint32_t period_default = 0;
  bool is_first_free = false;
};
Status ReadEncoderWindows(const ConfigReader& reader, const EncoderWindows& rule,
                          ModelConfig& config);

// Reads pooling_type and classifier.output_labels, and looks for the head of a reranker. Errors:
// kCorrupt. REQUIRES: the form of encoder.classifier is set.
Status ReadPooling(const ConfigReader& reader, EncoderConfig& encoder);

}  // namespace kvd
