// The named ways in which byte-level BPE vocabularies split text into words (tokenizer.ggml.pre),
// and the regular expressions behind them. Constant data, any thread.
//
// The names, and which of them share expressions, are those of llama.cpp's loader; the expressions
// are the ones published with the models (`tokenizer.json`), in the form in which llama.cpp runs
// them where the two differ. They are written in PCRE2's syntax, except that `\s`, `\S`, `\p{L}`,
// `\p{N}` and `\p{P}` mean the sets of Unicode 15.1 whatever the library's version knows (see
// word_splitter.h).
#pragma once

#include <span>
#include <string_view>

namespace kvd {

struct Pretokenizer {
  std::string_view name;
  // Applied one after the other, each to the pieces that the one before left; matches and the text
  // between them are pieces.
  std::span<const std::string_view> expressions;
  bool ignore_merges = false;  // a word that is a token as a whole is not merged together
  bool add_bos = false;        // unless the file says otherwise
  bool default_bos = true;     // has the default BOS of its kind when the file names none
};

// Null for a name that is not known. An empty name is "default", as in llama.cpp (files from before
// the key existed).
const Pretokenizer* FindPretokenizer(std::string_view name);

// All of them, for tests.
std::span<const Pretokenizer> AllPretokenizers();

}  // namespace kvd
