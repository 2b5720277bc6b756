// Which tokens begin and end texts, turns and generation, as llama.cpp's loader decides it: by the
// ids in the file, by the defaults of the tokenizer's kind, and by the texts that well-known models
// use.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/vocabulary/token_table.h"
#include "engine/vocabulary/vocabulary_data.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

// What holds where the file says nothing.
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
  bool flags_are_fixed = false;  // what the file says about adding bos and eos does not count
  bool add_space_prefix = false;
};

// Every id is kNoToken where the vocabulary has no such token.
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
  bool add_bos = false;  // never without a bos; the same for eos and sep
  bool add_eos = false;
  bool add_sep = false;  // sep in the place of eos
  bool add_space_prefix = false;
  std::vector<TokenId> end_of_generation;  // ascending
};

// Also adjusts attributes in `tokens`: a token found by its text becomes a control token, and the
// models that swallow white space around special tokens get that. An id of 0xffffffff means none.
// kCorrupt: an id of the file that is no token; a default that is none is dropped. REQUIRES:
// id_count is tokens.token_count(), or the size of a vocabulary without tokens.
Result<SpecialTokens> ResolveSpecialTokens(const VocabularyData& data,
                                           const SpecialTokenDefaults& defaults,
                                           std::uint32_t id_count, TokenTable& tokens);

}  // namespace kvd
