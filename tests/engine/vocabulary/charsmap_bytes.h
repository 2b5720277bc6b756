// A precompiled_charsmap made by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace kvd {

// The bytes of a trie of `units` and the replacements.
std::vector<std::byte> CharsmapBytes(std::span<const std::uint32_t> units,
                                     const std::string& replacements);

// The same of rules: sequence -> replacement. Every unit has a block of 256 units for its children.
std::vector<std::byte> CharsmapBytes(const std::map<std::string, std::string>& rules);

}  // namespace kvd
