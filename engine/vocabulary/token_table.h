// TokenTable holds the tokens of a vocabulary: text, score and attributes by id, and the id by
// text.
//
// `Create` validates the arrays of a `VocabularyData` and builds the table. `ResolveSpecialTokens`
// then adjusts attributes. After ResolveSpecialTokens the table is constant, and any thread may
// read it. Views of text are valid as long as the table exists; moving the table keeps them valid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/text_index.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {

// Bits of a token's attributes. A token starts with exactly one of the first six bits, or with none
// ("undefined"). kControl may be added later.
namespace token_attribute {
inline constexpr std::uint8_t kUnknown = 1;
inline constexpr std::uint8_t kUnused = 2;
inline constexpr std::uint8_t kNormal = 4;
inline constexpr std::uint8_t kControl = 8;
inline constexpr std::uint8_t kUserDefined = 16;
inline constexpr std::uint8_t kByte = 32;
inline constexpr std::uint8_t kStripLeft =
    64;  // white space before the token is dropped when the token is found in a text
inline constexpr std::uint8_t kStripRight = 128;  // as kStripLeft, for white space after the token
inline constexpr std::uint8_t kHidden = kUnknown | kControl;  // shown and parsed only on demand
}  // namespace token_attribute

class TokenTable {
 public:
  // Limits of a vocabulary. Real vocabularies are far below kTokenCountMax and the other limits:
  // their longest texts are runs of white space of a few hundred bytes. A token's text and its
  // log-probabilities must fit into the smallest result arena of a client.
  static constexpr std::size_t kTokenCountMax = 1u << 22;
  static constexpr std::size_t kTokenBytesMax = 1u << 12;
  static constexpr std::size_t kTextBytesMax = 1u << 30;  // total of all tokens

  // Moves tokens, scores and token_types out of `data`. An empty text becomes "[EMPTY_<id>]", as in
  // llama.cpp. Errors: kCorrupt: an array of the wrong length, too many tokens, a text that is too
  // long or occurs twice, too many bytes of text in total, a score that is NaN, a byte token whose
  // text is not "<0xHH>".
  static Result<TokenTable> Create(VocabularyData& data);

  std::uint32_t token_count() const { return static_cast<std::uint32_t>(texts_.size()); }
  bool Contains(TokenId token) const {
    return token >= 0 && static_cast<std::size_t>(token) < texts_.size();
  }

  // REQUIRES for the next four functions: Contains(token).
  std::string_view text(TokenId token) const { return texts_[static_cast<std::size_t>(token)]; }
  float score(TokenId token) const { return scores_[static_cast<std::size_t>(token)]; }
  std::uint8_t attributes(TokenId token) const {
    return attributes_[static_cast<std::size_t>(token)];
  }
  void SetAttributes(TokenId token, std::uint8_t attributes) {
    attributes_[static_cast<std::size_t>(token)] = attributes;
  }

  // The token with exactly this text, or kNoToken.
  TokenId Find(std::string_view text) const;
  // tokens[i] becomes the token with the text texts[i], or kNoToken (TextIndex::FindMany).
  void FindMany(std::span<const std::string_view> texts, std::span<TokenId> tokens) const;
  // The bytes of the longest text.
  std::size_t text_bytes_max() const { return text_bytes_max_; }

 private:
  TokenTable() = default;
  Status CheckArrays() const;
  Status AddTexts();

  std::vector<std::string> texts_;
  std::vector<float> scores_;
  std::vector<std::uint8_t> attributes_;
  TextIndex ids_;
  std::size_t text_bytes_max_ = 0;
};

// The byte that a text of the form "<0xHH>" names; -1 for any other text.
int ByteOfHexText(std::string_view text);

// The token of each byte, or kNoToken.
using ByteTokens = std::array<TokenId, 256>;

// The tokens "<0x00>" to "<0xFF>", with capital digits.
ByteTokens FindHexTokens(const TokenTable& tokens);

}  // namespace kvd
