// WordSplitter splits text into words by a pretokenizer's regular expressions. Only WordSplitter
// uses PCRE2.
//
// A WordSplitter compiles its expressions once, is then immutable, and may be used from any thread.
// An expression is widened before it is compiled: `\s`, `\S`, `\p{L}`, `\p{N}` and `\p{P}` become
// the sets of Unicode 15.1 (the library's own set, which may be of an older version, plus later
// additions). `\s` is Unicode's white space, without U+180E, which PCRE2 counts as white space.
//
// The time is linear in the text for the expressions of pretokenizers.h. The library's match limit
// grows with the length of the text, so that the limit stops only expressions with unbounded
// backtracking.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/work_control.h"

namespace kvd {

class WordSplitter {
 public:
  // Errors: kInternal: an expression does not compile.
  static Result<WordSplitter> Create(std::span<const std::string_view> expressions);

  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // Returns the bytes of each word, in order; their sum is text.size(). A word counts as one step,
  // whatever its length. Errors: kInternal: the library reported an error; kCancelled. REQUIRES:
  // text is well-formed UTF-8.
  Result<std::vector<std::size_t>> Split(std::string_view text,
                                         WorkControl& work = Uncontrolled()) const;

 private:
  struct Expression;
  explicit WordSplitter(std::vector<Expression> expressions);

  std::vector<Expression> expressions_;
};

// `expression` with its sets expanded, for tests.
std::string WidenExpression(std::string_view expression);

}  // namespace kvd
