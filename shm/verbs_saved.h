// Arguments and replies of the verbs on saved states: kUnsupported where the daemon has no --store.
// The payload of those that name a file is the name.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

enum SaveBits : std::int64_t {
  kSaveNoLogits = 1 << 0,
  kSaveTokensOnly = 1 << 1,  // no cells, states and logits
  kSaveUnpacked = 1 << 2,    // larger and faster
  kSaveQ8Rows = 1 << 3,      // K and V as q8_0
  kSaveSizeOnly = 1 << 4,    // nothing is saved; no name is given
};
inline constexpr std::int64_t kSaveBitsAll = (1 << 5) - 1;

enum LoadedFlags : std::uint32_t {
  kLoadedConverted = 1u << 0,  // to the pool's types, which are other ones
  kLoadedSampler = 1u << 1,    // with the sampler of its last generation
};
struct LoadedEntry {
  std::uint64_t handle;
  std::uint32_t cell_count;   // 0 where tokens alone were saved
  std::uint32_t token_count;  // to be decoded; 0 where cells were saved
  std::uint64_t raw_bytes;    // of what was saved, not packed
  std::uint32_t flags;        // LoadedFlags
  std::uint32_t reserved;
  char k_type[8];  // that were saved
  char v_type[8];
};
static_assert(sizeof(LoadedEntry) == 48 && std::is_standard_layout_v<LoadedEntry>);

enum SavedFlags : std::uint32_t {
  kSavedThisModel = 1u << 0,
  kSavedDamaged = 1u << 1,  // nothing else is known
  kSavedTokensOnly = 1u << 2,
  kSavedLogits = 1u << 3,
};
struct SavedEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t file_bytes;
  std::uint64_t raw_bytes;  // not packed
  std::uint64_t cell_count;
  std::uint64_t age_ms;
  std::uint32_t sequence_count;
  std::uint32_t flags;  // SavedFlags
  char k_type[8];
  char v_type[8];
  char architecture[32];
};
static_assert(sizeof(SavedEntry) == 152 && std::is_standard_layout_v<SavedEntry>);

// kFlagForce: replaces that name. Others go on meanwhile, also with the sequence.
struct SaveArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::int64_t bits = 0;  // SaveBits
  static constexpr auto Slots() {
    return std::tuple{Handle("sequence", &SaveArgs::sequence, Access::kRead),
                      Number("bits", &SaveArgs::bits, ArgumentSlot::kArgument, 0, kSaveBitsAll)};
  }
};
// The same of all of the session's sequences, by handle.
struct SaveAllArgs {
  std::int64_t bits = 0;  // SaveBits
  static constexpr auto Slots() {
    return std::tuple{Number("bits", &SaveAllArgs::bits, ArgumentSlot::kArgument, 0, kSaveBitsAll)};
  }
};
struct SaveReply {
  std::uint64_t file_bytes = 0;      // 0 with kSaveSizeOnly
  std::uint64_t unpacked_bytes = 0;  // of a file in which nothing is packed
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &SaveReply::file_bytes),
                      At(ReplySlot::kValue1, &SaveReply::unpacked_bytes),
                      At(ReplySlot::kValue2, &SaveReply::cells)};
  }
};

// Makes sequences of this session, all or none.
struct LoadArgs {};
struct LoadReply {
  SequenceHandle first = SequenceHandle::kNone;
  std::int64_t count = 0;  // sequences
  // LoadedEntry[count] | i32 tokens of those of which tokens alone were saved, to be decoded.
  std::vector<std::byte> entries{};
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kSequence, &LoadReply::first),
                      At(ReplySlot::kValue0, &LoadReply::count)};
  }
  static constexpr auto Output() { return &LoadReply::entries; }
};

// Those of the uid, in pieces.
struct SavedArgs {};

struct RemoveSavedArgs {};

}  // namespace kvd::wire
