// A small random model on disk and an engine over it, for tests. Files are made once per process
// and removed at its end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

// Path of a model of that shape; the same shape name and seed give the same file.
std::string TinyModelPath(const ModelShape& shape);
// A llama with 3 layers, 4 heads over 2 KV heads and 96 tokens.
ModelShape TinyLlama();

std::unique_ptr<Engine> MakeEngine(const ModelShape& shape, EngineOptions options);

// `count` token ids drawn by seed.
std::vector<TokenId> RandomTokens(std::uint64_t seed, std::size_t count, std::uint32_t vocab_size);

// Appends tokens in chunks of `chunk` and returns the logits of every token, [tokens, vocab_size].
// Fails the test on errors.
std::vector<float> Feed(Engine& engine, SequenceHandle sequence, const std::vector<TokenId>& tokens,
                        std::size_t chunk);

}  // namespace kvd::test
