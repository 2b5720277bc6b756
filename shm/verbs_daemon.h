// Arguments and replies of the verbs about the daemon itself.
#pragma once

#include "shm/prefix_reuse.h"
#include "shm/step_parts.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

inline constexpr std::uint32_t kPingBytesMax = 4096;

// Payload: any bytes; the reply has the same.
struct PingArgs {};
struct PingReply {
  std::vector<std::byte> bytes;
  static constexpr auto Output() { return &PingReply::bytes; }
};

// The prompt cache on disk. All zero: there is none. Numbers since the start of the daemon, but for
// the entries.
struct CacheReply {
  std::uint64_t entries;      // of this model and configuration
  std::uint64_t entry_bytes;  // of those
  std::uint64_t bytes_max;    // of all entries of the directory
  std::uint64_t loads;        // entries read
  std::uint64_t loaded_bytes;
  std::uint64_t loaded_tokens;
  std::uint64_t loads_not_worth_it;  // computing was expected to be faster
  std::uint64_t loads_failed;        // no room, cancelled, damaged, gone
  std::uint64_t spills;              // entries written
  std::uint64_t spilled_bytes;
  std::uint64_t spills_missed;  // the sequence had to go, or was taken, before it was written
  std::uint64_t spills_failed;  // the disk refused, or the owner has no room
  std::uint64_t spills_waiting;
  std::uint64_t entries_dropped;        // damaged
  std::uint64_t entries_removed;        // for others, by this daemon
  std::uint64_t load_bytes_per_s;       // as measured lately; 0: not yet
  std::uint64_t computed_tokens_per_s;  // of prompts, as measured lately; 0: not yet
  std::uint32_t is_on;
  std::uint32_t reserved;
};
static_assert(sizeof(CacheReply) == 144 && std::is_standard_layout_v<CacheReply>);

// Times of one kind of step, by StepPart (shm/step_parts.h).
struct StepTimesRecord {
  std::uint64_t steps;
  std::uint64_t tokens;
  std::uint64_t ns[16];  // kStepParts of them are used
};
static_assert(kStepParts <= 16);

struct ProfileReply {
  StepTimesRecord decode;   // steps of one token for each sequence
  StepTimesRecord prompts;  // all others
};
static_assert(sizeof(ProfileReply) == 2 * 18 * 8);

struct InfoReply {
  char model_name[64];
  char architecture[32];
  char kernels[16];
  char k_type[8];
  char v_type[8];
  char version[16];
  std::uint64_t weight_bytes;
  std::uint64_t pool_cells;
  std::uint64_t free_cells;  // in free blocks
  std::uint64_t reclaimable_cells;
  std::uint64_t live_cells;
  std::uint64_t cell_bytes;  // K and V of one token in all layers
  std::uint64_t pool_reserved_bytes;
  std::uint64_t resident_anonymous_bytes;
  std::uint64_t resident_shared_bytes;
  std::uint64_t resident_file_bytes;
  std::uint64_t tokens_computed;  // since start
  std::uint64_t tokens_sampled;
  std::uint64_t steps;
  std::uint64_t uptime_ms;
  std::uint32_t vocab_size;
  std::uint32_t context_trained;
  std::uint32_t layer_count;
  std::uint32_t embedding_size;
  std::uint32_t sequences_live;
  std::uint32_t sequence_capacity;
  std::uint32_t sessions;
  std::uint32_t threads;
  std::uint32_t descriptors;  // open in the daemon
  std::uint32_t mappings;
  std::uint32_t deterministic;
  std::uint32_t pid;
  std::uint32_t has_tokenizer;
  std::int32_t bos_token;  // -1: none
  std::int32_t eos_token;
  std::uint32_t adds_bos;
  std::uint64_t state_bytes;  // recurrent state of one sequence; 0: the model has none
  std::uint32_t state_slots;
  std::uint32_t free_state_slots;
  std::uint32_t checkpoint_slots;  // of those in use, held by checkpoints
  std::uint32_t wants_encode;      // 1: a sequence starts with kEncode
  // Prefix sharing, since start.
  std::uint64_t prefix_prompts;                        // that could have been shared
  std::uint64_t prefix_hits;                           // of those, a part was
  std::uint64_t prefix_tokens_reused[kPrefixOrigins];  // by PrefixOrigin
  std::uint64_t prefix_evictions;                      // retained sequences that made room
  std::uint64_t prefix_tokens_evicted;                 // that nothing else held
  std::uint32_t sequences_retained;                    // that may be evicted
  std::uint32_t reserved;
};
static_assert(sizeof(InfoReply) == 424 && std::is_standard_layout_v<InfoReply>);

struct DefragReply {
  std::uint64_t cells_moved;
  std::uint64_t cells_settled;  // re-rotated: their sequences have no shifts any more
  std::uint64_t blocks_freed;
  std::uint64_t bytes_returned;  // to the system
  std::uint64_t packing_ns;
  std::uint64_t returning_ns;  // what giving bytes back took; no part of packing_ns
  std::uint64_t settling_ns;
  std::uint32_t sequences_settled;
  std::uint32_t reserved;
};
static_assert(sizeof(DefragReply) == 64 && std::is_standard_layout_v<DefragReply>);

struct InfoArgs {};
struct CacheArgs {};
// Where the time of steps went since the daemon started.
struct ProfileArgs {};
// Between the steps of others; kBusy while another one is asked for.
struct DefragArgs {};

}  // namespace kvd::wire
