// The normalisation rules of a SentencePiece model, as tokenizer.ggml.precompiled_charsmap holds
// them: byte sequences and what each is replaced by.
//
// Format (little-endian; sentencepiece's normalizer.cc, darts-clone's unit): u32 `trie_bytes`, that
// many bytes of u32 units, then the replacements, each ended by a zero byte. The units are a double
// array: unit 0 is the root, and the child of unit i over byte c is unit j = i ^ base(i) ^ c where
// label(j) == c. Of a unit: bits 0 to 7 and 31 are its label, bit 8 says that a sequence ends here,
// and base is bits 10 and on, times 256 where bit 9 is set. Where a sequence ends, unit i ^ base(i)
// is the offset of its replacement in bits 0 to 30.
//
// The whole of it is checked when it is made, so that looking up needs no checks. Immutable, any
// thread; refers to nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shm/error.h"

namespace kvd {

class PrecompiledCharsmap {
 public:
  static constexpr std::size_t kBytesMax = 1u << 24;

  // kCorrupt, with what is wrong: too short or too long, a trie that is empty, not whole units or
  // leaves no replacements, replacements without an end, a unit or a replacement out of range, a
  // chain of units that comes back to itself.
  static Result<PrecompiledCharsmap> Create(std::span<const std::byte> bytes);

  struct Match {
    std::size_t bytes = 0;  // of the text; 0: no rule
    std::string_view replacement;
  };
  // The longest sequence with a rule that `text` begins with. A zero byte is in none.
  Match LongestPrefix(std::string_view text) const;

 private:
  PrecompiledCharsmap() = default;

  // The unit of the child over `byte`, or kNone.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t Child(std::uint32_t unit, unsigned char byte) const;
  Status CheckUnits() const;
  Status CheckUnit(std::uint32_t unit) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;  // ends with a zero byte
};

}  // namespace kvd
