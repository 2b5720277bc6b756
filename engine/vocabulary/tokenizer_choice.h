// Decides which tokenizer a vocabulary has, by tokenizer.ggml.model and tokenizer.ggml.pre, and
// makes it.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/special_tokens.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {

struct TokenizerChoice {
  // What surrounds the tokenizer of the words.
  enum class Around { kNothing, kBlankSeparated, kHybridDna };

  VocabularyKind kind = VocabularyKind::kNone;
  const Pretokenizer* pretokenizer = nullptr;  // of kBytePair and kCharacterPair
  Around around = Around::kNothing;
  bool has_no_vocabulary = false;        // the file says that there is none
  std::string no_tokenizer_reason = {};  // of kNone

  // Whether U+2581 in the text of a normal token means a space.
  bool escapes_spaces() const {
    return pretokenizer == nullptr || pretokenizer->spelling == Spelling::kEscapedCharacters;
  }
};

TokenizerChoice ChooseTokenizer(const VocabularyData& data);

// The special tokens and flags of a file that does not say.
SpecialTokenDefaults SpecialTokenDefaultsOf(const VocabularyData& data,
                                            const TokenizerChoice& choice);

// Errors: kCorrupt: the metadata of the tokenizer are wrong; the message names the key. REQUIRES:
// choice.kind is not kNone; `special` and `tokens` are resolved; `tokens` outlives the tokenizer.
Result<std::unique_ptr<const TextTokenizer>> MakeTokenizer(const TokenizerChoice& choice,
                                                           const VocabularyData& data,
                                                           const TokenTable& tokens,
                                                           const SpecialTokens& special);

// The bytes that `token` contributes to a text in which special tokens are shown. REQUIRES:
// choice.kind is not kNone; tokens.Contains(token).
std::string PieceOf(const TokenizerChoice& choice, const TokenTable& tokens, TokenId token);

}  // namespace kvd
