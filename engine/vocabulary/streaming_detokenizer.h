// Turns generated tokens into text as they come, without ever handing out half a character.
//
// The bytes of a character may be spread over several tokens: those that could still become a
// character are held back (at most three). Bytes that can become none are handed out as they are.
// One object for each generated text; not shared between threads; the vocabulary outlives it. What
// was handed out, with what `Flush` adds, is always the concatenation of the tokens' pieces.
#pragma once

#include <string>
#include <string_view>

#include "engine/vocabulary/vocabulary.h"
#include "shm/error.h"
#include "shm/ids.h"

namespace kvd {

class StreamingDetokenizer {
 public:
  // `special`: control and unknown tokens are written by their text.
  StreamingDetokenizer(const Vocabulary& vocabulary, bool special)
      : vocabulary_(&vocabulary), special_(special) {}

  // The text that is complete now that `token` came. Errors as Vocabulary::Piece; nothing changes
  // then.
  Result<std::string> Push(TokenId token);

  // The end of the text: what is held back, as it is.
  std::string Flush();

  std::string_view held() const { return held_; }

 private:
  const Vocabulary* vocabulary_;
  bool special_;
  std::string held_;
};

}  // namespace kvd
