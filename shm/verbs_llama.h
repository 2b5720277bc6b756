// Arguments and replies of the verbs on state files of llama.cpp.
#pragma once

#include "shm/verb_slots.h"

namespace kvd::wire {

enum LlamaExportFlags : std::uint32_t {
  kLlamaSession = 1u << 0,     // a session; else a sequence, of one handle
  kLlamaTransposed = 1u << 1,  // V as llama.cpp without flash attention has it
  kLlamaSizeOnly = 1u << 2,    // no output, the numbers alone
  kLlamaLayout2026 = 1u << 3,  // as llama.cpp of August 2026 reads it; else that of February 2025
  kLlamaExportUnrotated = 1u << 4,  // of 2026: quantised heads are not rotated
};
inline constexpr std::uint32_t kLlamaExportFlagsAll = (1u << 5) - 1;
inline constexpr std::uint32_t kLlamaHandlesMax = 256;  // LLAMA_MAX_SEQ of llama.cpp

// Element types of K and V by their ggml numbers, or kPoolType: as in the pool.
inline constexpr std::uint8_t kPoolType = 255;
struct LlamaExportParams {
  std::uint32_t flags;
  std::uint8_t k_type;
  std::uint8_t v_type;
  std::uint16_t streams;  // of 2026: of the cache that will read the file, at most 256; 0: 1
};
static_assert(sizeof(LlamaExportParams) == 8);

enum LlamaImportFlags : std::uint32_t {
  kLlamaUnrotated = 1u << 0,  // quantised heads are not rotated, which a file does not say
};
inline constexpr std::uint32_t kLlamaImportFlagsAll = 1;
inline constexpr std::int32_t kLlamaOnlySequence = -1;
inline constexpr std::int32_t kLlamaEverySequence = -2;
struct LlamaImportParams {
  std::int32_t sequence_id;  // of a session, or one of the two above
  std::uint32_t flags;
};
static_assert(sizeof(LlamaImportParams) == 8);

struct LlamaEntry {
  std::uint64_t handle;
  std::uint32_t cell_count;
  std::uint32_t tokens_left_out;  // of the file: behind the last cell
  std::uint32_t cells_left_out;   // of the file: behind the last token
  std::uint32_t is_converted;     // K or V had another type than the pool's
};
static_assert(sizeof(LlamaEntry) == 24);

// Payload: LlamaExportParams, u64 handles[] (none: all of the session's that have cells).
struct LlamaExportArgs {};
struct LlamaExportReply {
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  std::vector<std::byte> file{};  // in pieces
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &LlamaExportReply::bytes),
                      At(ReplySlot::kValue1, &LlamaExportReply::tokens)};
  }
  static constexpr auto Output() { return &LlamaExportReply::file; }
};

// Payload: the next bytes of a state file, kept for an import.
struct LlamaUploadArgs {
  std::uint64_t offset = 0;  // bytes of the file sent before; 0 starts anew
  static constexpr auto Slots() {
    return std::tuple{
        Number("offset", &LlamaUploadArgs::offset, ArgumentSlot::kArgument, 0, kInt64Max)};
  }
};
struct LlamaUploadReply {
  std::uint64_t bytes = 0;  // kept
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &LlamaUploadReply::bytes)};
  }
};

// Payload: LlamaImportParams. Makes sequences of the file that was sent, which is forgotten then.
struct LlamaImportArgs {};
struct LlamaImportReply {
  std::uint64_t cells = 0;
  std::vector<LlamaEntry> entries{};  // all or none
  static constexpr auto Slots() {
    return std::tuple{At(ReplySlot::kValue0, &LlamaImportReply::cells)};
  }
  static constexpr auto Output() { return &LlamaImportReply::entries; }
};

}  // namespace kvd::wire
