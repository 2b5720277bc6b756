// The verbs on saved states: those that the daemon keeps, and those that are transferred.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

// Arguments and replies of the verbs on saved states. The verbs on saved states return kUnsupported
// if the daemon has no --store. If a verb names a saved state, its payload is the name.
enum SaveBits : std::int64_t {
  kSaveNoLogits = 1 << 0,
  kSaveTokensOnly = 1 << 1,  // the saved state has no cells, recurrent states and logits
  kSaveUnpacked = 1 << 2,    // the sections of the saved state are not packed: larger and faster
  kSaveQ8Rows = 1 << 3,      // the saved state stores K and V as q8_0
  kSaveSizeOnly = 1 << 4,    // the request reports the sizes and saves no state; the name is empty
};
inline constexpr std::int64_t kSaveBitsAll = (1 << 5) - 1;

enum LoadedFlags : std::uint32_t {
  kLoadedConverted = 1u << 0,  // the rows were converted to the pool's types
  kLoadedSampler = 1u << 1,    // the sampler of the last generation was loaded
};
struct LoadedEntry {
  std::uint64_t handle;
  std::uint32_t cell_count;   // number of loaded cells; 0 if only tokens were saved
  std::uint32_t token_count;  // number of tokens that must be decoded; 0 if cells were saved
  std::uint64_t raw_bytes;    // size of the saved data without packing
  std::uint32_t flags;        // LoadedFlags
  std::uint32_t reserved;
  char k_type[8];  // element types of the saved rows
  char v_type[8];
};
static_assert(sizeof(LoadedEntry) == 48 && std::is_standard_layout_v<LoadedEntry>);

enum SavedFlags : std::uint32_t {
  kSavedThisModel = 1u << 0,
  kSavedDamaged = 1u << 1,  // the file is damaged; its content is unknown
  kSavedTokensOnly = 1u << 2,
  kSavedLogits = 1u << 3,
};
struct SavedEntry {
  char name[layout::kNameBytesMax];
  std::uint64_t file_bytes;
  std::uint64_t raw_bytes;  // size without packing
  std::uint64_t cell_count;
  std::uint64_t age_ms;
  std::uint32_t sequence_count;
  std::uint32_t flags;  // SavedFlags
  char k_type[8];
  char v_type[8];
  char architecture[32];
};
static_assert(sizeof(SavedEntry) == 152 && std::is_standard_layout_v<SavedEntry>);

// Saves a sequence. kFlagForce: replaces a file of that name. Other requests continue during the
// save, also on the same sequence.
struct SaveArgs {
  SequenceHandle sequence = SequenceHandle::kNone;
  std::int64_t bits = 0;  // SaveBits
  static constexpr auto Slots() {
    return Slotted(Handle("sequence", &SaveArgs::sequence, Access::kRead),
                   Number("bits", &SaveArgs::bits, ArgumentSlot::kArgument, 0, kSaveBitsAll));
  }
};
// Saves all sequences of the session, ordered by handle. Flags and bits have the meaning of
// SaveArgs.
struct SaveAllArgs {
  std::int64_t bits = 0;  // SaveBits
  static constexpr auto Slots() {
    return Slotted(Number("bits", &SaveAllArgs::bits, ArgumentSlot::kArgument, 0, kSaveBitsAll));
  }
};
struct SaveReply {
  std::uint64_t file_bytes = 0;      // size of the written file; 0 with kSaveSizeOnly
  std::uint64_t unpacked_bytes = 0;  // size of the file if nothing is packed
  std::uint64_t cells = 0;
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &SaveReply::file_bytes),
                   At(ReplySlot::kValue1, &SaveReply::unpacked_bytes),
                   At(ReplySlot::kValue2, &SaveReply::cells));
  }
};

// A load creates the saved sequences in this session. If a load fails, it creates no sequence.
struct LoadArgs {};
struct LoadReply {
  SequenceHandle first = SequenceHandle::kNone;
  std::int64_t count = 0;  // number of loaded sequences
  // LoadedEntry[count], followed by i32 tokens: the tokens to decode of the sequences that were
  // saved as tokens only.
  std::vector<std::byte> entries{};
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kSequence, &LoadReply::first),
                   At(ReplySlot::kValue0, &LoadReply::count));
  }
  static constexpr auto Output() { return &LoadReply::entries; }
};

// Lists the saved states of the caller's uid; the answer comes in pieces.
struct SavedArgs {};

struct RemoveSavedArgs {};

// Arguments and replies of the verbs that transfer saved states between a client and the daemon, in
// the format of state_layout/state_layout.h.
enum ExportStateFlags : std::uint32_t {
  // The reply is only the description of the model (state_layout/state_model.h); the request names
  // no handles.
  kStateModel = 1u << 0,
  // The export omits the bytes of rows, states and logits (StateContent::kOutline).
  kStateOutline = 1u << 1,
  kStateNoLogits = 1u << 2,
  // Sends only the recurrent state after the last cell, and no checkpoints.
  kStateNoCheckpoints = 1u << 3,
};
inline constexpr std::uint32_t kExportStateFlagsAll = (1u << 4) - 1;
inline constexpr std::uint32_t kStateHandlesMax = 256;

// Element types of K and V by their ggml numbers. kPoolType: the pool's type.
inline constexpr std::uint8_t kPoolType = 255;
struct ExportStateParams {
  std::uint32_t flags;  // ExportStateFlags
  std::uint8_t k_type;
  std::uint8_t v_type;
  std::uint16_t reserved;
};
static_assert(sizeof(ExportStateParams) == 8);

// The payload is an ExportStateParams and u64 handles[]. If the payload has no handles, all
// sequences of the session that have cells are exported.
struct ExportStateArgs {};
struct ExportStateReply {
  // Size of the complete state, also with kStateOutline; 0 with kStateModel.
  std::uint64_t whole_bytes = 0;
  std::vector<std::byte> state{};  // the saved state, sent in pieces
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &ExportStateReply::whole_bytes));
  }
  static constexpr auto Output() { return &ExportStateReply::state; }
};

// The payload is the next bytes of a saved state, which the daemon keeps for an import.
struct UploadStateArgs {
  // Number of bytes of the saved state that were sent before; 0: start a new upload.
  std::uint64_t offset = 0;
  static constexpr auto Slots() {
    return Slotted(
        Number("offset", &UploadStateArgs::offset, ArgumentSlot::kArgument, 0, kInt64Max));
  }
};
struct UploadStateReply {
  std::uint64_t bytes = 0;  // number of bytes of the upload received so far
  static constexpr auto Slots() {
    return Slotted(At(ReplySlot::kValue0, &UploadStateReply::bytes));
  }
};

// Creates the sequences of the uploaded state and discards the upload. The reply of ImportStateArgs
// is the reply of LoadArgs. The created sequences have no pristine cells.
struct ImportStateArgs {};

}  // namespace kvd::wire
