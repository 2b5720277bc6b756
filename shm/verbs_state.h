// Arguments and replies of the verbs that carry saved states between a client and the daemon, in
// the form of state_form/state_layout.h.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

enum ExportStateFlags : std::uint32_t {
  // The description of the model alone (state_form/state_model.h); no handles.
  kStateModel = 1u << 0,
  kStateOutline = 1u << 1,  // without the bytes of rows, states and logits (StateParts::kOutline)
  kStateNoLogits = 1u << 2,
  kStateNoCheckpoints = 1u << 3,  // of recurrent states the one behind the last cell alone
};
inline constexpr std::uint32_t kExportStateFlagsAll = (1u << 4) - 1;
inline constexpr std::uint32_t kStateHandlesMax = 256;

// Element types of K and V by their ggml numbers, or kPoolType: as in the pool.
inline constexpr std::uint8_t kPoolType = 255;
struct ExportStateParams {
  std::uint32_t flags;  // ExportStateFlags
  std::uint8_t k_type;
  std::uint8_t v_type;
  std::uint16_t reserved;
};
static_assert(sizeof(ExportStateParams) == 8);

// Payload: ExportStateParams, u64 handles[] (none: all of the session's that have cells).
struct ExportStateArgs {};
struct ExportStateReply {
  std::uint64_t whole_bytes = 0;   // of a state that is no outline; 0 with kStateModel
  std::vector<std::byte> state{};  // in pieces
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &ExportStateReply::whole_bytes)};
  }
  static constexpr auto Output() { return &ExportStateReply::state; }
};

// Payload: the next bytes of a saved state, kept for an import.
struct UploadStateArgs {
  std::uint64_t offset = 0;  // bytes of the state sent before; 0 starts anew
  static constexpr auto Slots() {
    return std::tuple{
        Number("offset", &UploadStateArgs::offset, ArgumentSlot::kArgument, 0, kInt64Max)};
  }
};
struct UploadStateReply {
  std::uint64_t bytes = 0;  // kept
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &UploadStateReply::bytes)};
  }
};

// Makes sequences of the state that was sent, which is forgotten then, and replies as LoadArgs
// does. None of their cells counts as computed by this model.
struct ImportStateArgs {};

}  // namespace kvd::wire
