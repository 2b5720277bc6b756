// Handles, ids and positions that client, engine and daemon share. Each kind of handle, id or
// position has its own type, so code that passes one kind where another kind is expected does not
// compile.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace kvd {

using TokenId = std::int32_t;
// The id that means "no token".
inline constexpr TokenId kNoToken = -1;

// The name of a sequence: the index of its record in the low 32 bits, the record's generation in
// the high 32 bits. A handle whose generation differs from the record's is stale and stays invalid.
// 0 names no sequence.
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

// Identifies one session. A daemon never reuses an id.
enum class SessionId : std::uint64_t { kNone = 0 };
// The id of a request, which the client chooses and which is unique within the client's session.
enum class RequestId : std::uint64_t {};
enum class BlockId : std::uint32_t { kNone = 0xffffffffu };

// The position of a token in its sequence, counted from 0.
struct Pos {
  std::int32_t value = 0;
  friend constexpr auto operator<=>(Pos, Pos) = default;
};

// The half-open range [begin, end) of positions.
struct PosRange {
  Pos begin{0};
  Pos end{std::numeric_limits<std::int32_t>::max()};
  friend constexpr bool operator==(PosRange, PosRange) = default;
};
inline constexpr Pos kPosEnd{std::numeric_limits<std::int32_t>::max()};
// The last position that a token can have, so that every range of positions has an end.
inline constexpr std::int32_t kLastPos = kPosEnd.value - 1;

}  // namespace kvd
