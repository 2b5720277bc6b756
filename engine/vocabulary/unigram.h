// The tokenizer of tokenizer.ggml.model "t5": SentencePiece's unigram model. Of all ways to cut the
// normalised text into tokens, the one with the best sum of scores.
//
// Normalised: the rules of the file's precompiled_charsmap are applied, bytes that are no character
// become U+FFFD, and spaces U+2581; as the file says, runs of spaces become one and the first word
// gets one, too. A character that is no token of its own may be an unknown token, at the price of
// the worst score less 10; neighbouring ones are one. User-defined tokens are not searched: the
// vocabulary has cut the text at them before.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/vocabulary/precompiled_charsmap.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/token_trie.h"

namespace kvd {

struct UnigramOptions {
  bool add_space_prefix = false;
  bool remove_extra_whitespaces = false;
};

class Unigram final : public TextTokenizer {
 public:
  // Limit on one text after normalisation; its search takes 16 bytes for each byte.
  static constexpr std::size_t kNormalizedBytesMax = std::size_t{32} << 20;

  // `unk`: kNoToken where there is none; what it would stand for is left out then. Without
  // `charsmap`, characters stay as they are. Errors as TokenTrie::Create.
  static Result<std::unique_ptr<Unigram>> Create(const TokenTable& tokens, TokenId unk,
                                                 std::optional<PrecompiledCharsmap> charsmap,
                                                 UnigramOptions options);

  // kInvalidArgument: the normalised text is longer than kNormalizedBytesMax.
  Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                WorkControl& work) const override;

 private:
  Unigram(const TokenTable& tokens, TokenTrie trie, TokenId unk,
          std::optional<PrecompiledCharsmap> charsmap, UnigramOptions options);

  Result<std::string> Normalize(std::string_view text, WorkMeter& meter) const;

  const TokenTable& tokens_;
  const TokenTrie trie_;
  const TokenId unk_;
  const std::optional<PrecompiledCharsmap> charsmap_;
  const UnigramOptions options_;
  double unknown_score_;
};

}  // namespace kvd
