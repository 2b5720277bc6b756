// Splits text into words by a pretokenizer's regular expressions. PCRE2 is met here and nowhere
// else.
//
// Compiled once, immutable, any thread. An expression is widened before it is compiled: `\s`, `\S`,
// `\p{L}`, `\p{N}` and `\p{P}` become the sets of Unicode 15.1 (the library's own, which may know
// an older version, and what came later), and `\s` is white space as Unicode has it: PCRE2 also
// counts U+180E.
//
// Time is linear in the text for the expressions of pretokenizers.h. The library's match limit
// grows with the text, so it stops an expression that backtracks without bound and nothing else.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/error.h"
#include "shm/work_control.h"

namespace kvd {

class WordSplitter {
 public:
  // kInternal: an expression that does not compile.
  static Result<WordSplitter> Create(std::span<const std::string_view> expressions);

  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // The bytes of each word, in order; they sum to text.size(). kInternal: the library gave up.
  // kCancelled. A word is one step, however long. REQUIRES: text is well-formed UTF-8.
  Result<std::vector<std::size_t>> Split(std::string_view text,
                                         WorkControl& work = Uncontrolled()) const;

 private:
  struct Expression;
  explicit WordSplitter(std::vector<Expression> expressions);

  std::vector<Expression> expressions_;
};

// `expression` with its sets written out, for tests.
std::string WidenExpression(std::string_view expression);

}  // namespace kvd
