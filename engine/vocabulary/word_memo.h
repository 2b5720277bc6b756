// WordMemo remembers the tokens of the words of one text, so that a word that comes again is not
// merged again. In prose, most words do.
//
// A WordMemo is used during one call of a tokenizer. A word has one place, by its hash, and
// replaces the word that was there, so the memory is bounded and a look-up takes one step. The memo
// holds views of the text and indexes of the tokens, which must stay as they are meanwhile.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvd {

class WordMemo {
 public:
  // `text_bytes`: the length of the text, which decides the number of places.
  explicit WordMemo(std::size_t text_bytes)
      : places_(std::bit_ceil(std::clamp(text_bytes / 16, std::size_t{16}, kPlaceCountMax))),
        shift_(64 - std::countr_zero(places_.size())) {}

  // Words that are not remembered: they are tokens already, or rarely come again.
  static bool Skips(std::string_view word) { return word.size() < 2 || word.size() > 32; }

  // Appends the tokens of `word` if they are remembered, and returns whether they are. REQUIRES:
  // !Skips(word).
  bool Append(std::string_view word, std::vector<TokenId>& tokens) const {
    const Place& place = places_[PlaceOf(word)];
    if (place.word != word) return false;
    for (std::size_t i = 0; i < place.count; ++i) {
      const TokenId token = tokens[place.first + i];
      tokens.push_back(token);
    }
    return true;
  }

  // Remembers that the tokens from `first` on are those of `word`. REQUIRES: !Skips(word).
  void Remember(std::string_view word, std::size_t first, const std::vector<TokenId>& tokens) {
    places_[PlaceOf(word)] = {word, first, tokens.size() - first};
  }

 private:
  static constexpr std::size_t kPlaceCountMax = 4096;
  struct Place {
    std::string_view word;
    std::size_t first = 0;
    std::size_t count = 0;
  };

  // Mixes the first and the last eight bytes and the length, which distinguish most words.
  std::size_t PlaceOf(std::string_view word) const {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    const std::size_t bytes = std::min(word.size(), sizeof first);
    std::memcpy(&first, word.data(), bytes);
    std::memcpy(&last, word.data() + word.size() - bytes, bytes);
    const std::uint64_t mixed =
        (first ^ word.size()) * 0x9e3779b97f4a7c15u ^ last * 0xc2b2ae3d27d4eb4fu;
    return ((mixed ^ (mixed >> 29)) * 0x9e3779b97f4a7c15u) >> shift_;
  }

  std::vector<Place> places_;
  int shift_;
};

}  // namespace kvd
