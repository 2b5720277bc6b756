// Reads the tensors that encoders share.
#pragma once

#include <string>

#include "engine/forward/architectures/common_tensors.h"

namespace kvd {

// attn_q, attn_k, attn_v (or attn_qkv) and attn_output, with optional biases.
Status VisitTextAttention(const ModelConfig& config, TensorVisitor& visitor,
                          const std::string& block, EncoderLayerWeights& layer);

// token_embd, token_types and token_embd_norm of the family of bert.
Status VisitBertEmbeddings(const ModelConfig& config, TensorVisitor& visitor,
                           ModelWeights& weights);

// attn_output_norm and layer_output_norm: norms of the stream, as in bert.
Status VisitBertNorms(const ModelConfig& config, TensorVisitor& visitor, const std::string& block,
                      EncoderLayerWeights& layer);

// cls, cls.norm and cls.output: the head of a reranker, which a file may lack.
Status VisitClassifier(const ModelConfig& config, TensorVisitor& visitor, ModelWeights& weights);

}  // namespace kvd
