// WordSplitter splits text into words by a pretokenizer's regular expressions. Only WordSplitter
// uses PCRE2.
//
// A WordSplitter compiles its expressions once, is then immutable, and may be used from any thread.
// An expression is widened before it is compiled: `\s`, `\S`, `\p{L}`, `\p{M}`, `\p{N}`, `\p{P}`
// and `\p{S}` become the sets of Unicode 15.1 (the library's own set, which may be of an older
// version, plus later additions). `\s` is Unicode's white space, without U+180E, which PCRE2 counts
// as white space.
//
// The work is linear in the text for the stages of pretokenizers.h, which a test checks by
// CountSteps. The library's match limit grows with the length of the text, so that the limit stops
// only expressions with unbounded backtracking. A text at which the limit is reached is refused; it
// is never split in another way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/work_control.h"
#include "engine/vocabulary/pretokenizers.h"

namespace kvd {

class WordSplitter {
 public:
  // Errors: kInternal: an expression does not compile.
  static Result<WordSplitter> Create(std::span<const SplitStage> stages);

  WordSplitter(WordSplitter&&) noexcept;
  WordSplitter& operator=(WordSplitter&&) noexcept;
  ~WordSplitter();

  // Returns the bytes of each word, in order; their sum is text.size(). A word counts as one step,
  // whatever its length. Errors: kInternal: the library reported an error; kCancelled. REQUIRES:
  // text is well-formed UTF-8.
  Result<std::vector<std::size_t>> Split(std::string_view text,
                                         WorkControl& work = Uncontrolled()) const;

  // Splits `text` and returns the number of steps of the library, for tests of growth: one for each
  // item of an expression that the library tries, and one for each byte by which the place in the
  // text moves forwards or backwards meanwhile. Errors: as Create and Split.
  static Result<std::uint64_t> CountSteps(std::span<const SplitStage> stages,
                                          std::string_view text);

 private:
  struct Stage;
  struct Matcher;
  explicit WordSplitter(std::vector<Stage> stages);
  static Result<WordSplitter> Compile(std::span<const SplitStage> stages, std::uint32_t options);
  Result<std::vector<std::size_t>> SplitBy(const Matcher& matcher, std::string_view text,
                                           WorkControl& work) const;

  std::vector<Stage> stages_;
};

// `expression` with its sets expanded, for tests.
std::string WidenExpression(std::string_view expression);

}  // namespace kvd
