#include "tests/engine/vocabulary/charsmap_bytes.h"

#include <cstring>

namespace kvd {

std::vector<std::byte> CharsmapBytes(std::span<const std::uint32_t> units,
                                     const std::string& replacements) {
  auto trie_bytes = static_cast<std::uint32_t>(units.size_bytes());
  std::vector<std::byte> bytes(sizeof trie_bytes + trie_bytes + replacements.size());
  std::memcpy(bytes.data(), &trie_bytes, sizeof trie_bytes);
  if (trie_bytes > 0) std::memcpy(bytes.data() + sizeof trie_bytes, units.data(), trie_bytes);
  if (!replacements.empty()) {
    std::memcpy(bytes.data() + sizeof trie_bytes + trie_bytes, replacements.data(),
                replacements.size());
  }
  return bytes;
}

std::vector<std::byte> CharsmapBytes(const std::map<std::string, std::string>& rules) {
  constexpr std::uint32_t kBlockUnits = 256;
  constexpr std::uint32_t kNoLabel = 0x80000000;
  // The unit of each prefix, and the block of its children. The root has unit 0 and block 1.
  std::map<std::string, std::uint32_t> unit_of = {{"", 0}};
  std::map<std::string, std::uint32_t> block_of = {{"", 1}};
  std::uint32_t block_count = 2;
  for (const auto& [sequence, replacement] : rules) {
    for (std::size_t bytes = 1; bytes <= sequence.size(); ++bytes) {
      std::string prefix = sequence.substr(0, bytes);
      auto label = static_cast<unsigned char>(prefix.back());
      unit_of[prefix] = block_of[prefix.substr(0, bytes - 1)] * kBlockUnits + label;
      if (!block_of.contains(prefix)) block_of[prefix] = block_count++;
    }
  }
  std::vector<std::uint32_t> units(std::size_t{block_count} * kBlockUnits, kNoLabel);
  std::string replacements;
  for (const auto& [prefix, unit] : unit_of) {
    std::uint32_t first_child = block_of[prefix] * kBlockUnits;
    std::uint32_t label = prefix.empty() ? 0 : static_cast<unsigned char>(prefix.back());
    units[unit] = ((unit ^ first_child) << 10) | label;
    auto rule = rules.find(prefix);
    if (rule == rules.end()) continue;
    units[unit] |= 1u << 8;
    units[first_child] = kNoLabel | static_cast<std::uint32_t>(replacements.size());
    replacements += rule->second + '\0';
  }
  return CharsmapBytes(units, replacements);
}

}  // namespace kvd
