// TextIndex maps texts to their numbers: an open-addressed hash table that holds 32 bits of each
// text's hash and its number, but not the text.
//
// The owner of the texts adds them and passes them to each search, because their addresses may
// change. The table is at most half full, so that searches are short; a search that finds nothing
// usually reads no text. Several threads may search a table that does not change.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace kvd {

class TextIndex {
 public:
  static constexpr std::int32_t kNone = -1;

  TextIndex() : TextIndex(0) {}
  explicit TextIndex(std::size_t text_count_max) : slots_(std::bit_ceil(2 * text_count_max + 2)) {}

  // Returns the number of `text`, or kNone. `text_of(number)` returns an added text.
  template <class TextOf>
  std::int32_t Find(std::string_view text, const TextOf& text_of) const {
    return slots_[SlotOf(text, HashOf(text), text_of)].number;
  }

  // Searches for several texts at once: numbers[i] becomes the number of texts[i], or kNone. A
  // search in a large table waits for memory twice; these searches wait at the same time.
  // REQUIRES: at most kFindManyMax texts, and as many numbers.
  static constexpr std::size_t kFindManyMax = 96;
  template <class TextOf>
  void FindMany(std::span<const std::string_view> texts, const TextOf& text_of,
                std::span<std::int32_t> numbers) const {
    std::array<std::uint32_t, kFindManyMax> hashes;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      hashes[i] = HashOf(texts[i]);
      __builtin_prefetch(&slots_[FirstSlotOf(hashes[i])]);
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const Slot& slot = slots_[FirstSlotOf(hashes[i])];
      if (slot.number != kNone && slot.hash == hashes[i]) {
        __builtin_prefetch(text_of(slot.number).data());
      }
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      numbers[i] = slots_[SlotOf(texts[i], hashes[i], text_of)].number;
    }
  }

  // Adds `text` with a number that is not negative. If the table has the text already, Add changes
  // nothing and returns the text's number, else kNone. REQUIRES: fewer than `text_count_max` texts
  // have been added.
  template <class TextOf>
  std::int32_t Add(std::string_view text, std::int32_t number, const TextOf& text_of) {
    const std::uint32_t hash = HashOf(text);
    Slot& slot = slots_[SlotOf(text, hash, text_of)];
    if (slot.number != kNone) return slot.number;
    slot = {hash, number};
    return kNone;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = kNone;
  };

  static std::uint32_t HashOf(std::string_view text) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
  }

  std::size_t FirstSlotOf(std::uint32_t hash) const { return hash & (slots_.size() - 1); }

  // The slot of the text, or the empty slot in which it belongs.
  template <class TextOf>
  std::size_t SlotOf(std::string_view text, std::uint32_t hash, const TextOf& text_of) const {
    std::size_t slot = FirstSlotOf(hash);
    while (slots_[slot].number != kNone &&
           (slots_[slot].hash != hash || text_of(slots_[slot].number) != text)) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  std::vector<Slot> slots_;  // a power of two of them
};

}  // namespace kvd
