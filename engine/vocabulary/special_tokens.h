// Determines which tokens begin and end texts, turns and generation. The rules are those of
// llama.cpp's loader: the ids in the file, the defaults of the tokenizer's kind, and the token
// texts that well-known models use.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace kvd {

// The values that are used if the file does not contain them.
struct SpecialTokenDefaults {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId unk = kNoToken;
  TokenId sep = kNoToken;
  TokenId pad = kNoToken;
  TokenId mask = kNoToken;
  bool add_bos = false;
  bool add_eos = false;
  bool add_sep = false;
  bool always_adds_bos = false;  // the file's add_bos is ignored, add_bos is true
  bool flags_are_fixed = false;  // the file's add_bos, add_eos and add_sep are ignored
  bool add_space_prefix = false;
};

// The special tokens of a vocabulary; an id is kNoToken if the vocabulary has no such token.
struct SpecialTokens {
  TokenId bos = kNoToken;
  TokenId eos = kNoToken;
  TokenId eot = kNoToken;
  TokenId eom = kNoToken;
  TokenId unk = kNoToken;
  TokenId sep = kNoToken;
  TokenId pad = kNoToken;
  TokenId mask = kNoToken;
  TokenId fim_pre = kNoToken;
  TokenId fim_suf = kNoToken;
  TokenId fim_mid = kNoToken;
  TokenId fim_pad = kNoToken;
  TokenId fim_rep = kNoToken;
  TokenId fim_sep = kNoToken;
  bool add_bos = false;  // false if there is no bos; likewise add_eos (no eos) and add_sep (no sep)
  bool add_eos = false;
  // Sep stands between two texts; WordPiece appends it to a text, too.
  bool add_sep = false;
  bool add_space_prefix = false;
  std::vector<TokenId> end_of_generation;  // ascending
};

// Determines the special tokens of a vocabulary, and adjusts attributes in `tokens`: a token found
// by its text becomes a control token, and the special tokens of models that strip white space
// around them get kStripLeft or kStripRight. An id of 0xffffffff in the file means that the
// vocabulary does not have the special token. Errors: kCorrupt: an id in the file that is not a
// token. A default that is not a token is ignored. REQUIRES: id_count is tokens.token_count(), or
// the size of a vocabulary without tokens.
Result<SpecialTokens> ResolveSpecialTokens(const VocabularyData& data,
                                           const SpecialTokenDefaults& defaults,
                                           std::uint32_t id_count, TokenTable& tokens);

}  // namespace kvd
