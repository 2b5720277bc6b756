// The definitions of all architectures, family by family. registry.cc lists them.
#pragma once

#include "engine/forward/architectures/architecture.h"

namespace kvd {

// bert: an encoder for embeddings, which caches no keys and values.
extern const ArchitectureDefinition kBertDefinition;

// jina-bert-v2: bert with a bias by distance and gated feed-forwards, for embeddings.
extern const ArchitectureDefinition kJinaBertV2Definition;

// nomic-bert: bert with rotated queries and keys and gated feed-forwards, for embeddings.
extern const ArchitectureDefinition kNomicBertDefinition;

// modern-bert: an encoder with windows and norms before its parts, for embeddings and rerankers.
extern const ArchitectureDefinition kModernBertDefinition;

// The architectures command-r and cohere2.
extern const ArchitectureDefinition kCommandRDefinition;
extern const ArchitectureDefinition kCohere2Definition;

// The architecture falcon.
extern const ArchitectureDefinition kFalconDefinition;

// The architecture phi2.
extern const ArchitectureDefinition kPhi2Definition;

// The architecture stablelm.
extern const ArchitectureDefinition kStableLmDefinition;

// The architecture gpt2.
extern const ArchitectureDefinition kGpt2Definition;

// The architecture starcoder2.
extern const ArchitectureDefinition kStarCoder2Definition;

// The architectures llama, mistral3 and smollm3, which differ little.
extern const ArchitectureDefinition kLlamaDefinition;
extern const ArchitectureDefinition kMistral3Definition;
extern const ArchitectureDefinition kSmolLm3Definition;

// Architectures that differ from llama only by a few values of TransformerTraits.
extern const ArchitectureDefinition kSeedOssDefinition;
extern const ArchitectureDefinition kInternLm2Definition;
extern const ArchitectureDefinition kErnie45Definition;
extern const ArchitectureDefinition kErnie45MoeDefinition;
extern const ArchitectureDefinition kMiniCpmDefinition;
extern const ArchitectureDefinition kMiniMaxM2Definition;
extern const ArchitectureDefinition kBailingMoe2Definition;
extern const ArchitectureDefinition kExaone4Definition;

// The architectures granite and granitemoe.
extern const ArchitectureDefinition kGraniteDefinition;
extern const ArchitectureDefinition kGraniteMoeDefinition;

// The architectures qwen2 and qwen3, dense and with experts.
extern const ArchitectureDefinition kQwen2Definition;
extern const ArchitectureDefinition kQwen2MoeDefinition;
extern const ArchitectureDefinition kQwen3Definition;
extern const ArchitectureDefinition kQwen3MoeDefinition;

// The architectures hunyuan-dense and hunyuan-moe.
extern const ArchitectureDefinition kHunyuanDenseDefinition;
extern const ArchitectureDefinition kHunyuanMoeDefinition;

// The architectures phi3 and phimoe.
extern const ArchitectureDefinition kPhi3Definition;
extern const ArchitectureDefinition kPhiMoeDefinition;

// The architecture gpt-oss.
extern const ArchitectureDefinition kGptOssDefinition;

// The architectures glm4 and glm4moe.
extern const ArchitectureDefinition kGlm4Definition;
extern const ArchitectureDefinition kGlm4MoeDefinition;

// The architectures olmo2 and olmoe.
extern const ArchitectureDefinition kOlmo2Definition;
extern const ArchitectureDefinition kOlmoeDefinition;

// The architecture of DeepSeek V2 and V3, and of models built like them.
extern const ArchitectureDefinition kDeepseek2Definition;

// The architecture kimi-linear.
extern const ArchitectureDefinition kKimiLinearDefinition;

// gemma, gemma2 and gemma3: norms before and after each half of a layer, GELU, and, except in the
// first, a sliding window in most layers. gemma2 soft-caps scores and logits; gemma3 norms queries
// and keys.
extern const ArchitectureDefinition kGemmaDefinition;
extern const ArchitectureDefinition kGemma2Definition;
extern const ArchitectureDefinition kGemma3Definition;

// gemma3n: four parallel streams, a low-rank product beside attention, inputs of layers, sparse
// feed-forwards in the first layers, layers that read the cells of earlier layers.
extern const ArchitectureDefinition kGemma3nDefinition;

// gemma4: layers with and without a sliding window, whose heads differ in length; layers that read
// the cells of earlier layers; inputs of layers, or experts beside each feed-forward.
extern const ArchitectureDefinition kGemma4Definition;

// gemma-embedding: the layers of gemma3 without a causal mask, for embeddings.
extern const ArchitectureDefinition kGemmaEmbeddingDefinition;

// lfm2: some layers are gated short convolutions and the others attention (Liquid AI 2025).
extern const ArchitectureDefinition kLfm2Definition;
extern const ArchitectureDefinition kLfm2MoeDefinition;

// mamba and mamba2 have state-space layers only. jamba, granitehybrid and falcon-h1 combine
// state-space layers with attention.
extern const ArchitectureDefinition kMambaDefinition;
extern const ArchitectureDefinition kMamba2Definition;
extern const ArchitectureDefinition kJambaDefinition;
extern const ArchitectureDefinition kGraniteHybridDefinition;
extern const ArchitectureDefinition kFalconH1Definition;

// The architectures nemotron_h and nemotron_h_moe.
extern const ArchitectureDefinition kNemotronHDefinition;
extern const ArchitectureDefinition kNemotronHMoeDefinition;

// qwen35 (Qwen3.5, dense): layers of gated delta nets; by default every fourth layer is gated
// attention instead.
extern const ArchitectureDefinition kQwen35Definition;
extern const ArchitectureDefinition kQwen35MoeDefinition;
extern const ArchitectureDefinition kQwen3NextDefinition;

// rwkv6 and rwkv7: recurrent layers only; the state has a matrix per head.
extern const ArchitectureDefinition kRwkv6Definition;
extern const ArchitectureDefinition kRwkv7Definition;

// t5: an encoder, and a decoder with cross attention. Attention has a bias by distance and no
// rotation.
extern const ArchitectureDefinition kT5Definition;

}  // namespace kvd
