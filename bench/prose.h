// Prose: made-up English-like text, the same for the same seed, for benches of tokenizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvd::bench {

// Returns `byte_count` bytes of sentences and paragraphs. Words follow Zipf's law over 20,000
// words, of which the most frequent are English; one sentence in eight has a number, a quotation, a
// contraction or a name with an accent.
std::string MakeProse(std::size_t byte_count, std::uint32_t seed);

}  // namespace kvd::bench
