// TextTokenizer is the interface of all tokenizers, which convert text without special tokens to
// token ids.
//
// There is one implementation for each row of the models in tokenizer_choice.cc. A tokenizer is
// immutable after its creation and may be used from any thread. A tokenizer refers to the
// vocabulary's `TokenTable`, which must outlive it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/work_control.h"

namespace kvd {

// The units of work (WorkMeter) that tokenizers count, in addition to the bytes that they read.
inline constexpr std::size_t kWordUnits = 16;
inline constexpr std::size_t kCharacterUnits = 8;
inline constexpr std::size_t kMatchUnits = 16;  // per match of a regular expression or of a token
inline constexpr std::size_t kNodeUnits = 4;    // per visited node of a trie

class TextTokenizer {
 public:
  virtual ~TextTokenizer() = default;

  // Appends the tokens of `text`, which may be any bytes. `at_start`: the text is at the beginning
  // or follows a special token. Errors: kCancelled; the contents of `tokens` are then unspecified.
  virtual Status Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                        WorkControl& work) const = 0;
};

}  // namespace kvd
