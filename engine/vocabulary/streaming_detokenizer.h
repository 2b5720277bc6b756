// StreamingDetokenizer turns generated tokens into text one by one and never returns an incomplete
// character.
//
// The bytes of one character may be spread over several tokens. Bytes that could still become a
// character are held back (at most three). Bytes that cannot become a character are returned
// unchanged. Each generated text has a separate StreamingDetokenizer, which is not shared between
// threads. The vocabulary must outlive the object. Invariant: the returned texts, including that of
// `Flush`, concatenate to the tokens' pieces.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/ids.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

class StreamingDetokenizer {
 public:
  // `special`: control and unknown tokens contribute their text.
  StreamingDetokenizer(const Vocabulary& vocabulary, bool special)
      : vocabulary_(&vocabulary), special_(special) {}

  // Returns the text that `token` completes. Errors: as Vocabulary::Piece; the object is unchanged
  // after an error.
  Result<std::string> Push(TokenId token);

  // Ends the text: returns the bytes that are held back, unchanged.
  std::string Flush();

  std::string_view held() const { return held_; }

 private:
  const Vocabulary* vocabulary_;
  bool special_;
  std::string held_;
};

}  // namespace kvd
