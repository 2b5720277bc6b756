// SamplerChain: the samplers of a generation, in the order in which they change the logits.
//
// The names, aliases and letters are those of llama.cpp (common/sampling.cpp), so that a chain can
// be copied from one of its command lines. The bytes of a chain are sent and stored, so the numbers
// of SamplerKind must not change. docs/sampling.md describes each sampler.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace kvd {

enum class SamplerKind : std::uint8_t {
  kNone = 0,  // the end of a chain
  kPenalties = 1,
  kDry = 2,
  kTopNSigma = 3,
  kTopK = 4,
  kTypicalP = 5,
  kTopP = 6,
  kMinP = 7,
  kXtc = 8,
  kTemperature = 9,
  // Draws the token, so that it is always applied last, wherever the chain names it.
  kAdaptiveP = 10,
};
inline constexpr std::size_t kSamplerKinds = 10;

// The samplers from the first one; kNone from the end of the chain on.
struct SamplerChain {
  std::array<SamplerKind, 12> kinds;

  friend bool operator==(const SamplerChain&, const SamplerChain&) = default;
};
static_assert(sizeof(SamplerChain) == 12 && std::is_standard_layout_v<SamplerChain> &&
              std::is_trivially_copyable_v<SamplerChain>);

// llama.cpp's default order.
inline constexpr SamplerChain kDefaultChain = {
    {SamplerKind::kPenalties, SamplerKind::kDry, SamplerKind::kTopNSigma, SamplerKind::kTopK,
     SamplerKind::kTypicalP, SamplerKind::kTopP, SamplerKind::kMinP, SamplerKind::kXtc,
     SamplerKind::kTemperature}};

// Returns whether the chain has the sampler. REQUIRES: the chain is valid.
constexpr bool HasSampler(const SamplerChain& chain, SamplerKind wanted) {
  for (const SamplerKind kind : chain.kinds) {
    if (kind == wanted) return true;
  }
  return false;
}

// Errors: kInvalidArgument (`field`, then: a number that is no sampler, a sampler that occurs
// twice, or a sampler behind the end of the chain).
Status ValidateChain(const SamplerChain& chain, std::string_view field);

// Parses names separated by ';', such as "top_k;top_p;temperature". Upper and lower case are equal.
// "top-k" and "topk" name top_k, and so for all names; "nucleus" is top_p, "typ" is typ_p, "temp"
// is temperature. An empty text is an empty chain. Errors: kInvalidArgument (names the sampler).
Result<SamplerChain> ParseSamplerNames(std::string_view text);
// Parses one letter for each sampler; kDefaultChain is "edskypmxt". Errors: kInvalidArgument.
Result<SamplerChain> ParseSamplerLetters(std::string_view text);

// The names of the chain's samplers, separated by ';'. REQUIRES: the chain is valid.
std::string SamplerNames(const SamplerChain& chain);

}  // namespace kvd
