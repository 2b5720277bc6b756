#include "engine/vocabulary/token_table.h"
#include "base/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvd {
namespace {

std::uint8_t AttributesOf(std::int32_t type) {
  switch (static_cast<GgufTokenType>(type)) {
    case GgufTokenType::kNormal: return token_attribute::kNormal;
    case GgufTokenType::kUnknown: return token_attribute::kUnknown;
    case GgufTokenType::kControl: return token_attribute::kControl;
    case GgufTokenType::kUserDefined: return token_attribute::kUserDefined;
    case GgufTokenType::kUnused: return token_attribute::kUnused;
    case GgufTokenType::kByte: return token_attribute::kByte;
    case GgufTokenType::kUndefined: break;
  }
  return 0;
}

int HexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

Status CheckLength(std::string_view key, std::size_t found, std::size_t token_count) {
  if (found == 0 || found == token_count) return {};
  return Fail(Code::kCorrupt, key, ": ", found, " values for ", token_count, " tokens");
}

}  // namespace

int ByteOfHexText(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return -1;
  int high = HexDigit(text[3]);
  int low = HexDigit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Result<TokenTable> TokenTable::Create(VocabularyData& data) {
  std::size_t token_count = data.tokens.size();
  if (token_count > kTokenCountMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: ", token_count, " tokens, the limit is ",
                kTokenCountMax);
  }
  KVD_CHECK_OK(CheckLength("tokenizer.ggml.scores", data.scores.size(), token_count));
  KVD_CHECK_OK(CheckLength("tokenizer.ggml.token_type", data.token_types.size(), token_count));

  TokenTable table;
  table.texts_ = std::move(data.tokens);
  table.scores_ = std::move(data.scores);
  table.scores_.resize(token_count, 0.0f);
  table.attributes_.assign(token_count, token_attribute::kNormal);
  for (std::size_t i = 0; i < data.token_types.size(); ++i)
    table.attributes_[i] = AttributesOf(data.token_types[i]);
  KVD_CHECK_OK(table.AddTexts());
  KVD_CHECK_OK(table.CheckArrays());
  return table;
}

Status TokenTable::AddTexts() {
  ids_ = TextIndex(texts_.size());
  const auto text_of = [this](TokenId token) { return text(token); };
  std::size_t text_bytes = 0;
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) texts_[i] = Concat("[EMPTY_", i, "]");
    if (texts_[i].size() > kTokenBytesMax) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: token ", i, " has ", texts_[i].size(),
                  " bytes, the limit is ", kTokenBytesMax);
    }
    text_bytes += texts_[i].size();
    text_bytes_max_ = std::max(text_bytes_max_, texts_[i].size());
    const TokenId earlier = ids_.Add(texts_[i], static_cast<TokenId>(i), text_of);
    if (earlier != TextIndex::kNone) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: tokens ", earlier, " and ", i,
                  " have the same text");
    }
  }
  if (text_bytes > kTextBytesMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: ", text_bytes, " bytes, the limit is ",
                kTextBytesMax);
  }
  return {};
}

Status TokenTable::CheckArrays() const {
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    if (std::isnan(scores_[i])) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.scores: the score of token ", i,
                  " is not a number");
    }
    if ((attributes_[i] & token_attribute::kByte) != 0 && ByteOfHexText(texts_[i]) < 0) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: the text of byte token ", i,
                  " does not have the form <0x41>");
    }
  }
  return {};
}

TokenId TokenTable::Find(std::string_view text) const {
  if (text.size() > text_bytes_max_) return kNoToken;
  return ids_.Find(text, [this](TokenId token) { return this->text(token); });
}

void TokenTable::FindMany(std::span<const std::string_view> texts,
                          std::span<TokenId> tokens) const {
  ids_.FindMany(texts, [this](TokenId token) { return text(token); }, tokens);
}

ByteTokens FindHexTokens(const TokenTable& tokens) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  ByteTokens found;
  for (std::size_t byte = 0; byte < found.size(); ++byte) {
    const char hex[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
    found[byte] = tokens.Find(std::string_view(hex, sizeof hex));
  }
  return found;
}

}  // namespace kvd
