// PrecompiledCharsmap holds the normalisation rules of a SentencePiece model, read from
// tokenizer.ggml.precompiled_charsmap: byte sequences and the replacement of each.
//
// The format is little-endian (see sentencepiece's normalizer.cc and the units of darts-clone): u32
// `trie_bytes`, then `trie_bytes` bytes of u32 units, then the replacements, each terminated by a
// zero byte. The units form a double array: unit 0 is the root, and the child of unit i over byte c
// is unit j = i ^ base(i) ^ c if label(j) == c. Fields of a unit: bits 0 to 7 and 31 are its label;
// bit 8 means that a sequence ends here; base is the value of bits 10 and up, times 256 if bit 9 is
// set. If a sequence ends at unit i, bits 0 to 30 of unit i ^ base(i) are the offset of its
// replacement.
//
// `Create` checks all units, so that lookups need no checks. A PrecompiledCharsmap is immutable,
// may be used from any thread, and holds no references.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kvd {

class PrecompiledCharsmap {
 public:
  static constexpr std::size_t kBytesMax = 1u << 24;

  // Errors: kCorrupt, with the reason: too few or too many bytes, a trie that is empty, not a whole
  // number of units or leaves no room for replacements, unterminated replacements, a unit or a
  // replacement out of range, a cycle of units.
  static Result<PrecompiledCharsmap> Create(std::span<const std::byte> bytes);

  struct Match {
    std::size_t bytes = 0;  // matched bytes of the text; 0: no rule matches
    std::string_view replacement;
  };
  // The rule with the longest byte sequence that `text` begins with. No sequence contains a zero
  // byte.
  Match LongestPrefix(std::string_view text) const;

 private:
  PrecompiledCharsmap() = default;

  // The child of `unit` over `byte`, or kNone.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t Child(std::uint32_t unit, unsigned char byte) const;
  Status CheckUnits() const;
  Status CheckUnit(std::uint32_t unit) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // ends with a zero byte
};

}  // namespace kvd
