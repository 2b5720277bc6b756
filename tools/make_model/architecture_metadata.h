// Metadata that only some architectures have: which layers are recurrent, and the sizes of their
// states.
#pragma once

#include <string>

#include "engine/model/gguf_writer.h"
#include "tools/make_model/model_shape.h"

namespace kvd {

// Returns whether models of the architecture only embed and rank texts.
bool IsEncoder(Architecture architecture);

// Returns whether the file says how many types of segments the tokenizer distinguishes.
bool HasSegmentTypes(Architecture architecture);

// Returns whether AddArchitectureMetadata adds the lengths of heads and of their rotated part for
// the architecture.
bool HasOwnHeadLengths(Architecture architecture);

// Returns whether AddArchitectureMetadata adds feed_forward_length for the architecture.
bool HasOwnFeedForwardLengths(Architecture architecture);

// Returns whether files of the architecture have q, k and v in one matrix, attn_qkv.
bool HasFusedQkv(Architecture architecture);

// Returns the biases that a file of the architecture has unless its shape names others. llama.cpp
// requires them.
BiasSet DefaultBiases(Architecture architecture);

// Adds attention.head_count_kv and the entries that are specific to shape.architecture. Hybrid
// models that make-model writes have attention in every second layer, starting with the second
// layer. `prefix`: "ARCHITECTURE.".
void AddArchitectureMetadata(const ModelShape& shape, const std::string& prefix,
                             GgufWriter& writer);

}  // namespace kvd
