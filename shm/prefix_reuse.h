// The reused prefix of a prompt, as replies report it: how many tokens did not have to be computed,
// where these tokens came from, and why no more tokens were reused. The values of the enums are
// sent on the wire, so new values are only added at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvd {

// The source of a prompt's reused prefix.
enum class PrefixOrigin : std::uint8_t {
  kNone = 0,
  kLive = 1,
  kRetained = 2,
  kSnapshot = 3,
  kDisk = 4
};
inline constexpr std::size_t kPrefixOrigins = 5;

// The reason why no longer prefix of a prompt was reused.
enum class PrefixLimit : std::uint8_t {
  kNone = 0,      // no other sequence continues like the prompt
  kComplete = 1,  // all tokens but the last were reused; the last token is computed for its logits
  // A sequence without a salt has a longer common prefix, but the prompt has a salt.
  kNamespace = 2,
  // A sequence has a longer common prefix, but its cells after the reused prefix are not pristine.
  kEdited = 3,
  kEvicted = 4,  // a sequence with a longer common prefix existed and was evicted
  // A sequence has a longer common prefix, but no recurrent state at the end of that prefix.
  kNoCheckpoint = 5,
  // A sequence has a longer common prefix, but its sliding windows have dropped cells of that
  // prefix.
  kWindowLost = 6,
  kTooShort = 7,      // the prompt or the common prefix is too short
  kNotEmpty = 8,      // the sequence already had cells
  kAllLogits = 9,     // the request wants the logits of all tokens
  kOff = 10,          // the request, the session or the daemon has switched prefix sharing off
  kUnsupported = 11,  // the model also attends to an encoded text
  // The prompt cache on disk has more of the prompt's tokens, but computing was expected to be
  // faster.
  kOnDisk = 12,
};

constexpr std::string_view PrefixOriginName(PrefixOrigin origin) {
  constexpr std::string_view kNames[] = {"none", "live", "retained", "snapshot", "disk"};
  const auto number = static_cast<std::size_t>(origin);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}
constexpr std::string_view PrefixLimitName(PrefixLimit limit) {
  constexpr std::string_view kNames[] = {"none",      "complete",      "namespace",   "edited",
                                         "evicted",   "no-checkpoint", "window-lost", "too-short",
                                         "not-empty", "all-logits",    "off",         "unsupported",
                                         "on-disk"};
  const auto number = static_cast<std::size_t>(limit);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

struct PrefixReuse {
  std::uint32_t tokens = 0;  // number of reused tokens of the prompt
  PrefixOrigin origin = PrefixOrigin::kNone;
  PrefixLimit limit = PrefixLimit::kNone;
  friend constexpr bool operator==(const PrefixReuse&, const PrefixReuse&) = default;
};
// PackReuse converts a PrefixReuse to one number of a completion; UnpackReuse converts such a
// number back.
constexpr std::int64_t PackReuse(const PrefixReuse& reuse) {
  return static_cast<std::int64_t>(std::uint64_t{reuse.tokens} |
                                   std::uint64_t{static_cast<std::uint8_t>(reuse.origin)} << 32 |
                                   std::uint64_t{static_cast<std::uint8_t>(reuse.limit)} << 40);
}
constexpr PrefixReuse UnpackReuse(std::int64_t packed) {
  const auto number = static_cast<std::uint64_t>(packed);
  return {.tokens = static_cast<std::uint32_t>(number),
          .origin = static_cast<PrefixOrigin>(number >> 32 & 0xff),
          .limit = static_cast<PrefixLimit>(number >> 40 & 0xff)};
}

}  // namespace kvd
