// What a kind of tokenizer does: text without special tokens in, token ids out.
//
// One implementation for each tokenizer.ggml.model (sentencepiece.h, byte_pair.h,
// wordpiece.h, unigram.h). Immutable after
// creation, any thread; refers to the vocabulary's `TokenTable`, which outlives it.
#pragma once

#include <string_view>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/work_control.h"

namespace kvd {

class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;

  // Appends the tokens of `text`, any bytes. `at_start`: nothing, or a special token, stands before
  // it. Errors: kCancelled; then `tokens` is of no use.
  virtual Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                        WorkControl& work) const = 0;
};

}  // namespace kvd
