// What the architectures with an encoder share: metadata, tensors and layers.
#pragma once

#include <cstddef>
#include <string>

#include "engine/forward/architectures/common_tensors.h"
#include "engine/forward/pass/encoder_pass.h"
#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"

namespace kvd {

// Reads the metadata that models with an encoder share, and the metadata of rerankers. Defaults are
// those of llama.cpp (src/llama-model.cpp, load_hparams).
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

// Reads the tensors that encoders share.

// attn_q, attn_k, attn_v (or attn_qkv) and attn_output, with optional biases.
Status VisitTextAttention(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& block, EncoderLayerWeights& layer);

// The tensors of an encoder of the family of bert: token_embd, token_types, token_embd_norm, those
// that visit_layer visits for each layer, and the classifier. `block`: "blk.N.".
using VisitEncoderLayer = Status (*)(const ModelConfig& config, TensorVisitor& visitor,
                                     const std::string& block, EncoderLayerWeights& layer);
Status VisitBertModel(const ModelConfig& config, TensorVisitor& visitor,
                      VisitEncoderLayer visit_layer, ModelWeights& weights);

// attn_output_norm and layer_output_norm: norms of the stream, as in bert.
Status VisitBertNorms(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                      EncoderLayerWeights& layer);

// cls, cls.norm and cls.output: the head of a reranker, which a file may lack.
Status VisitClassifier(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);

// The layers of encoders in the two forms that several architectures have: norms after the sums, as
// in bert, and norms before attention and feed-forward, as in llama.

// x = Norm(x + Attention(x)), x = Norm(x + FeedForward(x))   (Devlin et al. 2018). EncodeBertKeys
// embeds the tokens in the first layer: x = Norm(token + type + position), without the embeddings
// that the model lacks. Every text is one segment of type 0.
void EncodeBertKeys(EncoderPass& pass, std::size_t layer);
void EncodeBertRows(EncoderPass& pass, std::size_t layer, TextActivation activation);

// x += Attention(Norm(x)), x += FeedForward(Norm(x)), and a norm after the last layer (Touvron et
// al. 2023). EncodePreNormKeys embeds the tokens in the first layer.
void EncodePreNormKeys(EncoderPass& pass, std::size_t layer);
void EncodePreNormRows(EncoderPass& pass, std::size_t layer, TextActivation activation);

}  // namespace kvd
