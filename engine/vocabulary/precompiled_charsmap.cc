// Create checks every unit of the trie that is reachable from the root once. A unit may have
// several parents (equal endings are stored once), but no unit may be its own ancestor, so every
// sequence is finite.
#include "engine/vocabulary/precompiled_charsmap.h"
#include "base/text.h"

#include <cstring>

namespace kvd {
namespace {

constexpr std::uint32_t kLabelMask = 0x800000ff;
constexpr std::uint32_t kEndsHere = 1u << 8;
constexpr std::uint32_t kWide = 1u << 9;
constexpr std::uint32_t kOffsetMask = 0x7fffffff;

// `i ^ base` of unit i.
std::uint32_t ChildrenOf(std::uint32_t index, std::uint32_t unit) {
  return index ^ ((unit >> 10) << ((unit & kWide) != 0 ? 8 : 0));
}

std::unexpected<Error> FailCharsmap(const std::string& what) {
  return Fail(Code::kCorrupt, "tokenizer.ggml.precompiled_charsmap: ", what);
}

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::Create(std::span<const std::byte> bytes) {
  std::uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes || bytes.size() > kBytesMax) {
    return FailCharsmap(Concat(bytes.size(), " bytes, the limits are 4 and ", kBytesMax));
  }
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes = bytes.subspan(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(std::uint32_t) != 0 || trie_bytes >= bytes.size()) {
    return FailCharsmap(Concat("a trie of ", trie_bytes, " bytes, ", bytes.size(),
                               " remain for it and the replacements"));
  }
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / sizeof(std::uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
  bytes = bytes.subspan(trie_bytes);
  map.replacements_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (map.replacements_.back() != '\0')
    return FailCharsmap("the last replacement is not terminated");
  KVD_CHECK_OK(map.CheckUnits());
  return map;
}

Status PrecompiledCharsmap::CheckUnits() const {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  struct Visit {
    std::uint32_t unit;
    unsigned next_byte;
  };
  std::vector<Mark> marks(units_.size(), Mark::kNew);
  std::vector<Visit> path = {{0, 1}};
  KVD_CHECK_OK(CheckUnit(0));
  marks[0] = Mark::kOpen;
  while (!path.empty()) {
    Visit& visit = path.back();
    if (visit.next_byte > 0xff) {
      marks[visit.unit] = Mark::kDone;
      path.pop_back();
      continue;
    }
    std::uint32_t child = Child(visit.unit, static_cast<unsigned char>(visit.next_byte++));
    if (child == kNone || marks[child] == Mark::kDone) continue;
    if (marks[child] == Mark::kOpen)
      return FailCharsmap(Concat("unit ", child, " is its own descendant"));
    KVD_CHECK_OK(CheckUnit(child));
    marks[child] = Mark::kOpen;
    path.push_back({child, 1});
  }
  return {};
}

Status PrecompiledCharsmap::CheckUnit(std::uint32_t unit) const {
  if ((units_[unit] & kEndsHere) == 0) return {};
  std::uint32_t value = ChildrenOf(unit, units_[unit]);
  if (value >= units_.size()) {
    return FailCharsmap(Concat("unit ", unit, " names unit ", value, " of ", units_.size()));
  }
  std::uint32_t offset = units_[value] & kOffsetMask;
  if (offset < replacements_.size()) return {};
  return FailCharsmap(Concat("unit ", unit, " names the replacement at ", offset, " of ",
                             replacements_.size(), " bytes"));
}

std::uint32_t PrecompiledCharsmap::Child(std::uint32_t unit, unsigned char byte) const {
  std::uint32_t child = ChildrenOf(unit, units_[unit]) ^ byte;
  return child < units_.size() && (units_[child] & kLabelMask) == byte ? child : kNone;
}

PrecompiledCharsmap::Match PrecompiledCharsmap::LongestPrefix(std::string_view text) const {
  Match longest;
  std::uint32_t unit = 0;
  for (std::size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    unit = Child(unit, static_cast<unsigned char>(text[i]));
    if (unit == kNone) break;
    if ((units_[unit] & kEndsHere) == 0) continue;
    std::uint32_t offset = units_[ChildrenOf(unit, units_[unit])] & kOffsetMask;
    longest = {i + 1, std::string_view(replacements_.c_str() + offset)};
  }
  return longest;
}

}  // namespace kvd
