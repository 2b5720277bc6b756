// Builds precompiled_charsmap bytes for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kvd {

// Returns the bytes of a charsmap with the trie `units` and the replacement texts.
std::vector<std::byte> CharsmapBytes(std::span<const std::uint32_t> units,
                                     const std::string& replacements);

// Returns the bytes of a charsmap with the given rules (sequence -> replacement). Every unit of its
// trie has a block of 256 units for its children.
std::vector<std::byte> CharsmapBytes(const std::map<std::string, std::string>& rules);

}  // namespace kvd
