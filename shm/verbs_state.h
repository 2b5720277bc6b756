// Arguments and replies of the verbs that transfer saved states between a client and the daemon, in
// the format of state_layout/state_layout.h.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

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
