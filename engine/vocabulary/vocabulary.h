// Vocabulary is a model's vocabulary: tokens by id, conversion between text and tokens, and the
// tokens that end a text or a turn.
//
// A Vocabulary is created once from a file's metadata and then immutable: every function may be
// called from any thread. Views of text are valid as long as the object exists. A Vocabulary
// behaves like llama.cpp's vocabulary, so that kvd and llama.cpp give the same tokens for a prompt;
// where a function differs from llama.cpp, its comment says so.
//
// If the tokenizer is not supported (another tokenizer.ggml.model, or a pre-tokenizer whose
// expressions are not known), the vocabulary works without text: sizes and special ids are
// available, and text functions return kNoTokenizer with the reason. There is no fallback
// tokenizer, because a wrongly split prompt degrades a model's answers without any error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"
#include "engine/vocabulary/special_partition.h"
#include "engine/vocabulary/special_tokens.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/tokenizer_choice.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {

struct TokenizeOptions {
  bool add_special =
      false;  // add BOS (CLS) before and EOS (SEP) after the text if the vocabulary asks for them
  bool parse_special =
      false;  // control tokens written in the text become tokens; do not use for untrusted text
};

struct DetokenizeOptions {
  bool remove_special = false;  // omit the BOS, EOS and SEP that add_special adds
  bool unparse_special =
      false;  // write the text of control and unknown tokens; otherwise they are omitted
};

class Vocabulary {
 public:
  using Kind = VocabularyKind;

  // Limit on the text of one call, both input and output.
  static constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;

  // Errors: kCorrupt: inconsistent metadata (the message names the key). An unsupported tokenizer
  // is not an error: the vocabulary then works without text.
  static Result<std::unique_ptr<Vocabulary>> Create(VocabularyData data);

  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // `text` may be any bytes. Errors: kNoTokenizer; kInvalidArgument: longer than kTextBytesMax;
  // kCancelled.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, TokenizeOptions options,
                                        WorkControl& work = Uncontrolled()) const;

  // Returns the bytes of the tokens. The bytes may end within a character. The space that the
  // tokenizer puts before a text is removed. WordPiece text consists of words separated by spaces;
  // the space before the first word and the spaces before punctuation are removed (CleanUpSpaces).
  // Unlike llama.cpp, byte-level vocabularies return the bytes without clean-up. Errors:
  // kNoTokenizer; kInvalidArgument: an id that is not a token; kNoSpace: the text is longer than
  // kTextBytesMax; kCancelled.
  Result<std::string> Detokenize(std::span<const TokenId> tokens, DetokenizeOptions options,
                                 WorkControl& work = Uncontrolled()) const;
  // Appends the text that Detokenize returns to `bytes`, without an intermediate copy except for
  // WordPiece. After an error the appended bytes are unspecified.
  Status DetokenizeTo(std::span<const TokenId> tokens, DetokenizeOptions options, WorkControl& work,
                      std::vector<std::byte>* bytes) const;

  // The bytes that one token contributes to a text; empty for a control or unknown token unless
  // `special` is set. The text of generated tokens is the concatenation of their pieces. Errors: as
  // Detokenize.
  Result<std::string_view> Piece(TokenId token, bool special) const;

  // The token's text as the vocabulary stores it, escaped or byte-encoded. Errors: as Detokenize.
  Result<std::string_view> TokenText(TokenId token) const;

  Kind kind() const { return kind_; }
  // The reason why text functions return kNoTokenizer; empty if there is a tokenizer.
  std::string_view no_tokenizer_reason() const { return no_tokenizer_reason_; }
  // The number of token ids, which are 0 to vocab_size() - 1.
  std::uint32_t vocab_size() const { return vocab_size_; }
  bool Contains(TokenId token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocab_size_;
  }
  // The chat templates as the file contains them, in the file's order; clients run them.
  std::span<const NamedTemplate> chat_templates() const { return chat_templates_; }
  // The text of the template with a name; empty: the file has no such template.
  std::string_view TemplateText(std::string_view name) const;

  const SpecialTokens& special() const { return special_; }
  // The special tokens of the vocabulary; kNoToken if the vocabulary has no such token.
  TokenId bos() const { return special_.bos; }
  TokenId eos() const { return special_.eos; }
  TokenId eot() const { return special_.eot; }
  bool add_bos() const { return special_.add_bos; }
  bool add_eos() const { return special_.add_eos; }
  bool add_sep() const { return special_.add_sep; }

  // Returns whether generation stops at the token. "Ignore EOS" means that no end-of-generation
  // token may be sampled.
  bool IsEndOfGeneration(TokenId token) const;
  std::span<const TokenId> end_of_generation() const { return special_.end_of_generation; }
  // IsControl and IsByte return false for an id that is not a token.
  bool IsControl(TokenId token) const { return HasAttribute(token, token_attribute::kControl); }
  bool IsByte(TokenId token) const { return HasAttribute(token, token_attribute::kByte); }

 private:
  explicit Vocabulary(TokenTable tokens) : tokens_(std::move(tokens)) {}

  Status Initialize(VocabularyData& data);
  void MakePieces(const TokenizerChoice& choice);
  bool HasAttribute(TokenId token, std::uint8_t attribute) const;
  template <class Text>
  Status AppendPieces(std::span<const TokenId> tokens, DetokenizeOptions options, WorkControl& work,
                      Text* text) const;
  Status RequireTokenizer() const;
  Status RequireToken(TokenId token) const;

  TokenTable tokens_;
  SpecialTokens special_;
  Kind kind_ = Kind::kNone;
  std::uint32_t vocab_size_ = 0;
  std::string no_tokenizer_reason_;
  std::vector<NamedTemplate> chat_templates_;
  std::unique_ptr<const SpecialPartition> partition_;  // this and tokenizer_: null if no tokenizer
  std::unique_ptr<const TextTokenizer> tokenizer_;
  std::string pieces_;                     // pieces of all tokens, concatenated
  std::vector<std::uint32_t> piece_ends_;  // by token
};

// StreamingDetokenizer turns generated tokens into text one by one and never returns an incomplete
// character.
//
// The bytes of one character may be spread over several tokens. Bytes that could still become a
// character are held back (at most three). Bytes that cannot become a character are returned
// unchanged. Each generated text has a separate StreamingDetokenizer, which is not shared between
// threads. The vocabulary must outlive the object. Invariant: the returned texts, including that of
// `Flush`, concatenate to the tokens' pieces.
class StreamingDetokenizer {
 public:
  // `special`: control and unknown tokens contribute their text.
  StreamingDetokenizer(const Vocabulary& vocabulary, bool special)
      : vocabulary_(&vocabulary), special_(special) {}

  // Returns the text that `token` completes. Errors: as Vocabulary::Piece; the object is unchanged
  // after an error.
  Result<std::string> Push(TokenId token);

  // Ends the text: returns the bytes that are held back, unchanged.
  std::string Flush();

  std::string_view held() const { return held_; }

 private:
  const Vocabulary* vocabulary_;
  bool special_;
  std::string held_;
};

}  // namespace kvd
