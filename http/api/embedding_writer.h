// The writer of embeddings, as numbers or in base64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/types.h"

namespace kvd::http {

// Base64 of RFC 4648, section 4, with padding.

// Appends the encoding of `bytes` to `text`.
void AppendBase64(std::span<const std::byte> bytes, std::string& text);

// What embeddings look like in replies: normalised, cut, written as numbers or base64.

// llama.cpp's normalisations (common_embd_normalize): -1: none; 0: the largest absolute value
// becomes 32760; p > 0: the p-norm becomes 1. A row of zeros stays as it is.
inline constexpr std::int32_t kNoNorm = -1;
inline constexpr std::int32_t kMaxNorm = 0;
inline constexpr std::int32_t kEuclideanNorm = 2;
inline constexpr std::int32_t kHighestNorm = 64;
// REQUIRES: kNoNorm <= norm <= kHighestNorm.
void NormaliseRow(std::span<float> row, std::int32_t norm);

enum class EmbeddingFormat : std::uint8_t { kFloats, kBase64 };

struct EmbeddingStyle {
  bool is_openai = false;                             // OpenAI's format; else llama-server's
  EmbeddingFormat format = EmbeddingFormat::kFloats;  // of OpenAI's format
  std::string model;                                  // of OpenAI's format
  std::uint64_t prompt_tokens = 0;                    // of OpenAI's format
};

// The body of a reply: {"object":"list","data":[...],"model","usage"}, or
// [{"index":0,"embedding":[[...]]}]. REQUIRES: in OpenAI's format each embedding has one row; all
// values are finite; `model` is UTF-8.
std::string EmbeddingsBody(std::span<const TextEmbedding> embeddings, const EmbeddingStyle& style);

}  // namespace kvd::http
