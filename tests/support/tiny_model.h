// Small models with random weights, and engines that use them, for tests. A model file is created
// on first use and removed when the process exits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

// The tokenizer of a model file: none, or that of the bundled model, whose size replaces
// ModelShape::vocab.
enum class Tokenizer : std::uint8_t { kNone, kBundled };

// Returns the path of a model file of this shape. Equal shapes with equal tokenizers share a file.
std::string TinyModelPath(const ModelShape& shape, Tokenizer tokenizer = Tokenizer::kNone);
// Returns the shape of a llama model with 3 layers, 4 heads, 2 KV heads and a vocabulary of 96
// tokens.
ModelShape TinyLlama();

// Returns the shape of a model of another architecture with the sizes of TinyLlama. Models with
// windows have windows of 45 positions; models whose layers can share cells have layers that share
// cells with and without a window.
ModelShape TinyOf(Architecture architecture);

std::unique_ptr<Engine> MakeEngine(const ModelShape& shape, EngineOptions options,
                                   Tokenizer tokenizer = Tokenizer::kNone);

// Returns `count` random token ids below `vocab_size`, determined by the seed.
std::vector<TokenId> RandomTokens(std::uint64_t seed, std::size_t count, std::uint32_t vocab_size);

// Appends tokens in chunks of `chunk` and returns the logits of every token, [tokens, vocab_size].
// Fails the test on errors.
std::vector<float> Feed(Engine& engine, SequenceHandle sequence, const std::vector<TokenId>& tokens,
                        std::size_t chunk);

}  // namespace kvd::test
