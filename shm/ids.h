// Small types that client, engine and daemon share: handles, ids and positions. Mixing them does
// not compile.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace kvd {

using TokenId = std::int32_t;

// Names a sequence: the index of its record in the low 32 bits, the record's generation above. A
// handle whose generation is not the record's is stale and never found again. 0 is no sequence.
enum class SequenceHandle : std::uint64_t { kNone = 0 };

constexpr SequenceHandle MakeHandle(std::uint32_t index, std::uint32_t generation) {
  return static_cast<SequenceHandle>((std::uint64_t{generation} << 32) | index);
}
constexpr std::uint32_t IndexOf(SequenceHandle handle) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(handle));
}
constexpr std::uint32_t GenerationOf(SequenceHandle handle) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(handle) >> 32);
}

enum class SessionId : std::uint64_t {
  kNone = 0
};  // one connection's life, never reused by a daemon
enum class RequestId : std::uint64_t {};  // chosen by the client, unique within its session
enum class BlockId : std::uint32_t { kNone = 0xffffffffu };

// A position of a token in its sequence, 0-based.
struct Pos {
  std::int32_t value = 0;
  friend constexpr auto operator<=>(Pos, Pos) = default;
};

// Half-open [begin, end) in positions.
struct PosRange {
  Pos begin{0};
  Pos end{std::numeric_limits<std::int32_t>::max()};
  friend constexpr bool operator==(PosRange, PosRange) = default;
};
inline constexpr Pos kPosEnd{std::numeric_limits<std::int32_t>::max()};

}  // namespace kvd
