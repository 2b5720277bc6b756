#include "http/api/embedding_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "http/api/json_text.h"

namespace kvd::http {
namespace {

constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

void AppendBase64(std::span<const std::byte> bytes, std::string& text) {
  text.reserve(text.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t taken = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < taken ? std::to_integer<std::uint32_t>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += j <= taken ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
}

// The numbers are written without a Value each: a reply may have millions. Each is the shortest
// text that is read as the same float.

namespace {

void AppendAsText(auto number, std::string& text) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

void AppendRow(std::span<const float> row, std::string& text) {
  text += '[';
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i != 0) text += ',';
    AppendAsText(row[i], text);
  }
  text += ']';
}

void AppendOpenai(const TextEmbedding& embedding, EmbeddingFormat format, std::string& text) {
  if (format == EmbeddingFormat::kBase64) {
    text += '"';
    AppendBase64(std::as_bytes(embedding.row(0)), text);
    text += R"(","encoding_format":"base64")";
  } else {
    AppendRow(embedding.row(0), text);
  }
  text += R"(,"object":"embedding"})";
}

}  // namespace

void NormaliseRow(std::span<float> row, std::int32_t norm) {
  if (norm == kNoNorm) return;
  double sum = 0;
  for (const float value : row) {
    const double size = std::abs(double{value});
    if (norm == kMaxNorm) {
      sum = std::max(sum, size);
    } else {
      sum += norm == kEuclideanNorm ? size * size : std::pow(size, norm);
    }
  }
  if (norm == kMaxNorm) {
    sum /= 32760.0;
  } else {
    sum = norm == kEuclideanNorm ? std::sqrt(sum) : std::pow(sum, 1.0 / norm);
  }
  if (!(sum > 0)) return;
  for (float& value : row) value = static_cast<float>(value / sum);
}

std::string EmbeddingsBody(std::span<const TextEmbedding> embeddings, const EmbeddingStyle& style) {
  std::string text = style.is_openai ? R"({"object":"list","data":[)" : "[";
  for (std::size_t i = 0; i < embeddings.size(); ++i) {
    const TextEmbedding& embedding = embeddings[i];
    text += i == 0 ? R"({"index":)" : R"(,{"index":)";
    AppendAsText(i, text);
    text += R"(,"embedding":)";
    if (style.is_openai) {
      AppendOpenai(embedding, style.format, text);
      continue;
    }
    text += '[';
    for (std::size_t row = 0; row < embedding.row_count; ++row) {
      if (row != 0) text += ',';
      AppendRow(embedding.row(row), text);
    }
    text += "]}";
  }
  if (!style.is_openai) return text + "]";
  const Value usage = Object()
                          .Set("prompt_tokens", CountValue(style.prompt_tokens))
                          .Set("total_tokens", CountValue(style.prompt_tokens))
                          .Take();
  return text + R"(],"model":)" + JsonText(TextValue(style.model)) + R"(,"usage":)" +
         JsonText(usage) + "}";
}

}  // namespace kvd::http
