// A model's vocabulary: tokens by id, text to tokens and back, and which tokens end a text or a
// turn.
//
// Made once from a file's metadata and immutable from then on: every function may be called from
// any thread. Views of text live as long as the object. Behaviour is llama.cpp's, so that prompts
// mean the same to a model here and there; where it differs, the function says so.
//
// A vocabulary whose tokenizer is not known here (another tokenizer.ggml.model, a pre-tokenizer
// without its expressions) is usable without text: sizes and special ids work, text verbs answer
// kNoTokenizer with the reason. Nothing is ever guessed: a prompt that is split in the wrong way
// makes a model worse without a sign of why.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/special_partition.h"
#include "engine/vocabulary/special_tokens.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/work_control.h"

namespace kvd {

struct TokenizeOptions {
  bool add_special =
      false;  // put BOS (CLS) before and EOS (SEP) after the text, as far as the vocabulary wants them
  bool parse_special =
      false;  // control tokens that stand in the text become tokens; never for text of a stranger
};

struct DetokenizeOptions {
  bool remove_special = false;  // leave out the BOS, EOS and SEP that add_special put there
  bool unparse_special =
      false;  // write control and unknown tokens by their text; otherwise they are silent
};

class Vocabulary {
 public:
  enum class Kind { kNone, kSentencePiece, kBytePair, kWordPiece, kUnigram };

  // Limit on the text of one call, that goes in or comes out.
  static constexpr std::size_t kTextBytesMax = std::size_t{16} << 20;

  // kCorrupt: the file contradicts itself (the message names the key). An unknown tokenizer is no
  // error, see above.
  static Result<std::unique_ptr<Vocabulary>> Create(VocabularyData data);

  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  // Any bytes are a text. kNoTokenizer; kInvalidArgument: longer than kTextBytesMax; kCancelled.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, TokenizeOptions options,
                                        WorkControl& work = Uncontrolled()) const;

  // The bytes of the tokens, which may end within a character. The space that the tokenizer puts
  // before a text is taken away again. Of a WordPiece text, which is words with spaces between
  // them, the space before the first and those before punctuation go, too (CleanUpSpaces). Unlike
  // llama.cpp's, byte-level vocabularies give the bytes back as they are. kNoTokenizer;
  // kInvalidArgument: an id that is no token; kNoSpace: the text is longer than kTextBytesMax;
  // kCancelled.
  Result<std::string> Detokenize(std::span<const TokenId> tokens, DetokenizeOptions options,
                                 WorkControl& work = Uncontrolled()) const;
  // The same text at the end of `bytes`, without a second copy of it. After an error what was
  // appended is of no use.
  Status DetokenizeTo(std::span<const TokenId> tokens, DetokenizeOptions options, WorkControl& work,
                      std::vector<std::byte>* bytes) const;

  // The bytes that one token contributes to a text; empty for a control or unknown token unless
  // `special`. The text of generated tokens is the concatenation of these. Errors as Detokenize.
  Result<std::string_view> Piece(TokenId token, bool special) const;

  // The token's text as the vocabulary stores it, escaped or byte-encoded. Errors as Detokenize.
  Result<std::string_view> TokenText(TokenId token) const;

  Kind kind() const { return kind_; }
  // Why text verbs answer kNoTokenizer; empty when they do not.
  std::string_view no_tokenizer_reason() const { return no_tokenizer_reason_; }
  // Ids are 0 to vocab_size() - 1.
  std::uint32_t vocab_size() const { return vocab_size_; }
  bool Contains(TokenId token) const {
    return token >= 0 && static_cast<std::uint32_t>(token) < vocab_size_;
  }
  // As stored; chat_template.h recognises it.
  std::string_view chat_template() const { return chat_template_; }

  const SpecialTokens& special() const { return special_; }
  // kNoToken where there is none.
  TokenId bos() const { return special_.bos; }
  TokenId eos() const { return special_.eos; }
  TokenId eot() const { return special_.eot; }
  bool add_bos() const { return special_.add_bos; }
  bool add_eos() const { return special_.add_eos; }
  bool add_sep() const { return special_.add_sep; }

  // Generation stops at these. "Ignore EOS" means that none of them may be sampled.
  bool IsEndOfGeneration(TokenId token) const;
  std::span<const TokenId> end_of_generation() const { return special_.end_of_generation; }
  // False for an id that is no token.
  bool IsControl(TokenId token) const { return HasAttribute(token, token_attribute::kControl); }
  bool IsByte(TokenId token) const { return HasAttribute(token, token_attribute::kByte); }

 private:
  explicit Vocabulary(TokenTable tokens) : tokens_(std::move(tokens)) {}

  Status Initialize(VocabularyData& data);
  Status MakeTokenizer(const VocabularyData& data);
  void MakePieces();
  std::string PieceOf(TokenId token) const;
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
  std::string chat_template_;
  std::unique_ptr<const SpecialPartition> partition_;  // these two: null without a tokenizer
  std::unique_ptr<const TextTokenizer> tokenizer_;
  std::string pieces_;                     // of all tokens, one after the other
  std::vector<std::uint32_t> piece_ends_;  // by token
};

// "none", "sentencepiece", "byte_pair", "wordpiece" or "unigram".
std::string_view VocabularyKindName(Vocabulary::Kind kind);

}  // namespace kvd
