// Reads the tensors that encoders share.
#pragma once

#include <string>

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {

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

}  // namespace kvd
