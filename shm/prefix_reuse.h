// What a reply says of a prompt's beginning that had not to be computed: how many tokens, where
// they came from, and why not more. Numbers are sent: append only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace kvd {

// Where the beginning of a prompt came from.
enum class PrefixOrigin : std::uint8_t {
  kNone = 0,
  kLive = 1,
  kRetained = 2,
  kSnapshot = 3,
  kDisk = 4
};
inline constexpr std::size_t kPrefixOrigins = 5;

// Why not more of a prompt was taken.
enum class PrefixLimit : std::uint8_t {
  kNone = 0,          // no sequence goes on like the prompt
  kComplete = 1,      // all but the last token, which has to be computed for its logits
  kNamespace = 2,     // one does, but it was computed without the caller's salt
  kEdited = 3,        // one does, but behind an edit: its cells are not those of this text
  kEvicted = 4,       // one did, and had to make room
  kNoCheckpoint = 5,  // one does, but its recurrent state is not kept there
  kWindowLost = 6,    // one does, but its sliding windows are beyond there
  kTooShort = 7,      // the prompt is, or what it has in common
  kNotEmpty = 8,      // the sequence had cells already
  kAllLogits = 9,     // rows of all tokens were asked for
  kOff = 10,          // by request, session or daemon
  kUnsupported = 11,  // the model attends to an encoded text beside
  kOnDisk = 12,       // the prompt cache has more, but computing was expected to be faster
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
  std::uint32_t tokens = 0;  // of the prompt
  PrefixOrigin origin = PrefixOrigin::kNone;
  PrefixLimit limit = PrefixLimit::kNone;
  friend constexpr bool operator==(const PrefixReuse&, const PrefixReuse&) = default;
};
// As one number of a completion.
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
