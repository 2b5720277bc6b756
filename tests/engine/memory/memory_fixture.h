// Creates small memories for tests and provides calls that most tests of the memory use.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "engine/memory/holds_and_restores.h"
#include "engine/memory/memory.h"
#include "engine/memory/rebuild.h"
#include "tests/support/into.h"

namespace kvd {

// Owners of sequences. kSalted is the same uid and session as kOwner in another namespace;
// kStranger is another uid.
inline constexpr SequenceOwner kOwner{OwnerId{1000}, SessionId{7}, 0};
inline constexpr SequenceOwner kSalted{OwnerId{1000}, SessionId{7}, 5};
inline constexpr SequenceOwner kStranger{OwnerId{1001}, SessionId{8}, 0};

// One layer with one head and rows of two f32 elements, so that a cell takes 16 bytes of the pool.
inline MemoryOptions SmallOptions(std::uint64_t cells) {
  MemoryOptions options;
  options.groups = {{.cells = cells, .layers = {{1, 2, 2}}}};
  options.k_type = kernels::DataType::kF32;
  options.v_type = kernels::DataType::kF32;
  options.sequence_capacity = 12;
  options.snapshot_capacity = 4;
  options.session_capacity = 1;
  return options;
}

inline std::unique_ptr<Memory> MakeMemory(const MemoryOptions& options) {
  Result<MemoryGeometry> geometry = ComputeGeometry(options);
  if (!geometry) throw std::runtime_error(geometry.error().message);
  Result<MemorySegments> segments = MemorySegments::CreateAnonymous(*geometry);
  if (!segments) throw std::runtime_error(segments.error().message);
  return Memory::Create(std::move(*segments));
}

// Expects that the prefix index holds exactly the pristine tokens of every live sequence.
inline void ExpectPrefixIndex(Memory& memory) {
  const PrefixIndex& prefixes = memory.prefix_index();
  std::vector<bool> is_live(memory.geometry().meta.sequence_capacity);
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  for (const SequenceInfo& info : memory.sequences().List()) {
    const std::uint32_t index = IndexOf(info.handle);
    is_live[index] = true;
    ASSERT_TRUE(prefixes.contains(index)) << index;
    ASSERT_TRUE(memory.holds().ReadCells(info.handle, 0, info.pristine_cells, &tokens, &positions));
    if (memory.geometry().meta.cross_group != layout::kNoSlot) tokens.clear();
    ASSERT_EQ(prefixes.Tokens(index), tokens) << index;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      ASSERT_EQ(positions[at].value, static_cast<std::int32_t>(at))
          << "position of a pristine cell";
    }
  }
  for (std::uint32_t index = 0; index < is_live.size(); ++index) {
    ASSERT_EQ(prefixes.contains(index), is_live[index]) << index;
  }
}

// A copy of the bytes of `meta`, as a later process would find them.
struct MetaCopy {
  explicit MetaCopy(std::span<const std::byte> bytes)
      : byte_count(bytes.size()),
        data(static_cast<std::byte*>(std::aligned_alloc(64, bytes.size()))) {
    std::memcpy(data.get(), bytes.data(), byte_count);
  }
  std::span<std::byte> bytes() const { return {data.get(), byte_count}; }

  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::size_t byte_count;
  std::unique_ptr<std::byte, Free> data;
};

// Appends the tokens first, first + 1, … to the sequence in one step.
inline Status AppendTokens(Memory& memory, SequenceHandle handle, TokenId first,
                           std::size_t count) {
  std::vector<TokenId> tokens;
  for (std::size_t k = 0; k < count; ++k) tokens.push_back(first + static_cast<TokenId>(k));
  Result<SequenceInfo> info = memory.sequences().Query(handle);
  if (!info) return std::unexpected(info.error());
  StepPlan plan;
  const AppendRequest request{handle, info->next_pos, tokens};
  KVD_CHECK_OK(memory.steps().Reserve({&request, 1}, plan));
  Status status = memory.steps().Commit(plan, 0);
  memory.steps().EndStep(plan);
  return status;
}

// Gives the sequence an encoded text of `count` tokens without writing the bytes of its cells.
inline Status EncodeText(Memory& memory, SequenceHandle handle, std::size_t count) {
  const std::vector<TokenId> tokens(count, 5);
  Restore restore;
  KVD_CHECK_OK(Into(memory.restores().Begin({.handle = handle, .cross_tokens = tokens}), &restore));
  return memory.restores().Commit(restore);
}

struct Contents {
  std::vector<TokenId> tokens;
  std::vector<std::int32_t> positions;
  friend bool operator==(const Contents&, const Contents&) = default;
};

inline Contents ContentsOf(Memory& memory, SequenceHandle handle) {
  Contents contents;
  std::vector<Pos> positions;
  const Status status = memory.holds().ReadCells(handle, 0, ~0u, &contents.tokens, &positions);
  if (!status) ADD_FAILURE() << status.error().message;
  for (const Pos pos : positions) contents.positions.push_back(pos.value);
  return contents;
}

}  // namespace kvd
