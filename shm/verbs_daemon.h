// The verbs about the daemon itself and the tenants of a uid.
#pragma once

#include "shm/choice_source.h"
#include "shm/prefix_reuse.h"
#include "shm/step_phases.h"
#include "shm/verb_slots.h"

namespace kvd::wire {

// Arguments and replies of the verbs about the daemon itself.

inline constexpr std::uint32_t kPingBytesMax = 4096;

// The payload of a ping is any bytes; the reply returns the same bytes.
struct PingArgs {};
struct PingReply {
  std::vector<std::byte> bytes;
  static constexpr auto Output() { return &PingReply::bytes; }
};

// The state of the prompt cache on disk; all fields are zero if the daemon has no prompt cache.
// Counters count from the daemon's start; the numbers of entries and bytes and the rates are
// present values.
struct CacheReply {
  // Number of entries of this model and configuration in the prompt cache.
  std::uint64_t entries;
  std::uint64_t entry_bytes;  // bytes of the entries of this model and configuration
  std::uint64_t bytes_max;    // limit of the bytes of all entries in the prompt cache's directory
  std::uint64_t loads;        // number of entries read
  std::uint64_t loaded_bytes;
  std::uint64_t loaded_tokens;
  // Number of entries not read because computing was expected to be faster.
  std::uint64_t loads_not_worth_it;
  // Number of loads that failed: no room, cancelled, entry damaged or missing.
  std::uint64_t loads_failed;
  std::uint64_t spills;  // number of entries written
  std::uint64_t spilled_bytes;
  // Number of entries not written because the sequence was evicted or reused before the write.
  std::uint64_t spills_missed;
  // Number of entries not written because a write failed or the owner's limit was reached.
  std::uint64_t spills_failed;
  std::uint64_t spills_waiting;
  std::uint64_t entries_dropped;        // number of entries removed because they were damaged
  std::uint64_t entries_removed;        // number of entries that this daemon removed to make room
  std::uint64_t load_bytes_per_s;       // bytes per second of recent loads; 0: not measured
  std::uint64_t computed_tokens_per_s;  // prompt tokens per second of recent steps; 0: not measured
  std::uint32_t is_on;
  std::uint32_t reserved;
};
static_assert(sizeof(CacheReply) == 144 && std::is_standard_layout_v<CacheReply>);

// The measured times of one kind of step. `ns` is indexed by StepPhase (shm/step_phases.h).
struct StepTimesRecord {
  std::uint64_t steps;
  std::uint64_t tokens;
  // Nanoseconds of each phase; only the first kStepPhases elements are used.
  std::uint64_t ns[15];
  std::uint64_t expert_bytes;  // bytes of the weights of chosen experts that the steps read
};
static_assert(kStepPhases <= 15);

struct ProfileReply {
  StepTimesRecord decode;   // times of the steps with one token for each sequence
  StepTimesRecord prompts;  // times of all other steps
};
static_assert(sizeof(ProfileReply) == 2 * 18 * 8);

struct TuningArgs {};

inline constexpr std::size_t kChoicesMax = 24;  // most types of weights in a TuningReply

// The choices of matrix products with one type of weights (kernels/product_choice.h); 0: the
// kernel's own value.
struct ChoiceRecord {
  char weight_type[8];
  std::uint32_t wide_form;       // 0: that of few rows; 1: bf16; 2: outer products
  std::uint32_t wide_from_rows;  // number of rows from which products have wide_form
  std::uint32_t ahead_bytes;     // distance of prefetches
  std::uint32_t panel_from_rows;
  std::uint32_t panel_outs;
  std::uint32_t is_measured;  // 0: the default
};

struct TuningReply {
  std::uint32_t source;            // a ChoiceSource
  std::uint32_t progress;          // a TuningProgress
  std::uint64_t used_unix_ms;      // when the choices in use were measured; 0: they are defaults
  std::uint64_t measured_unix_ms;  // when this run of the daemon has measured; 0: it has not
  std::uint64_t slices;            // number of timed parts of products since the daemon's start
  std::uint32_t choice_count;
  std::uint32_t reserved;
  ChoiceRecord choices[kChoicesMax];  // the choices in use, for each type of the model's matrices
};
static_assert(sizeof(ChoiceRecord) == 32 && sizeof(TuningReply) == 40 + kChoicesMax * 32);

struct InfoReply {
  char model_name[64];
  char architecture[32];
  char kernels[16];
  char k_type[8];
  char v_type[8];
  char version[16];
  std::uint64_t weight_bytes;
  std::uint64_t pool_cells;
  std::uint64_t free_cells;  // number of cells in free blocks
  std::uint64_t reclaimable_cells;
  std::uint64_t live_cells;
  std::uint64_t cell_bytes;  // bytes of K and V of one token in all layers
  std::uint64_t pool_reserved_bytes;
  std::uint64_t resident_anonymous_bytes;
  std::uint64_t resident_shared_bytes;
  std::uint64_t resident_file_bytes;
  std::uint64_t tokens_computed;  // number of tokens computed since the daemon's start
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
  std::uint32_t descriptors;  // number of open descriptors of the daemon
  std::uint32_t mappings;
  std::uint32_t deterministic;
  std::uint32_t pid;
  std::uint32_t has_tokenizer;
  std::int32_t bos_token;  // -1: the model has no such token
  std::int32_t eos_token;
  std::uint32_t adds_bos;
  // Bytes of one sequence's recurrent state; 0: the model has no recurrent state.
  std::uint64_t state_bytes;
  std::uint32_t state_slots;
  std::uint32_t free_state_slots;
  std::uint32_t checkpoint_slots;  // number of state slots that hold checkpoints
  std::uint32_t wants_encode;      // 1: a sequence's first request must be kEncode
  // The next five members count prefix sharing since the daemon's start.
  std::uint64_t prefix_prompts;  // number of prompts for which sharing was allowed
  std::uint64_t prefix_hits;     // number of prompts that shared a prefix
  // Reused tokens of prompts, indexed by PrefixOrigin.
  std::uint64_t prefix_tokens_reused[kPrefixOrigins];
  std::uint64_t prefix_evictions;       // evicted retained sequences
  std::uint64_t prefix_tokens_evicted;  // tokens of evicted sequences that no other sequence held
  std::uint32_t sequences_retained;     // retained sequences that may be evicted
  // Pages that the daemon's threads have waited for while they were read from disk; at most
  // UINT32_MAX.
  std::uint32_t major_faults;
  // How many bytes of the model's files the daemon's thread for weights has read, and how many it
  // reads in all; both 0: the thread does not read, and pages are read when they are first used.
  std::uint64_t weight_bytes_read;
  std::uint64_t weight_bytes_to_read;
  // Requests of all users in flight that compute, by RequestState.
  std::uint32_t requests_waiting;
  std::uint32_t requests_computing;
  std::uint32_t requests_parked;
  std::uint32_t reserved;
  // Number of tokens whose cells were given back to make room for other requests, since the
  // daemon's start.
  std::uint64_t tokens_given_back;
};
static_assert(sizeof(InfoReply) == 464 && std::is_standard_layout_v<InfoReply>);

struct DefragReply {
  std::uint64_t cells_moved;
  // Number of cells whose shifted keys were rewritten at their positions.
  std::uint64_t cells_settled;
  std::uint64_t blocks_freed;
  std::uint64_t bytes_returned;  // number of bytes returned to the operating system
  std::uint64_t packing_ns;
  std::uint64_t returning_ns;  // time spent on returning bytes; not part of packing_ns
  std::uint64_t settling_ns;
  std::uint32_t sequences_settled;
  std::uint32_t reserved;
};
static_assert(sizeof(DefragReply) == 64 && std::is_standard_layout_v<DefragReply>);

struct InfoArgs {};
struct CacheArgs {};
// Asks for the times that the phases of steps have taken since the daemon's start.
struct ProfileArgs {};
// Defragments the pool between the steps of other requests. Errors: kBusy while another defrag is
// in flight.
struct DefragArgs {};

// Arguments and replies of the verb that lists the tenants of a uid.

inline constexpr std::uint64_t kNoTenantLimit = ~std::uint64_t{0};

// A tenant of the tenants' file, or a connected tenant. Numbers named `held` are present values;
// kNoTenantLimit as a limit: none. A tenant without sequences and connections holds nothing.
struct TenantEntry {
  std::uint8_t tenant[16];  // Hello::tenant
  char name[64];            // of the tenants' file, zero terminated; empty: none
  std::uint64_t sequences_held;
  std::uint64_t sequences_max;
  std::uint64_t cells_held;  // cells of the blocks of group 0
  std::uint64_t cells_max;
  std::uint64_t state_slots_held;
  std::uint64_t state_slots_max;
  std::uint64_t requests_held;  // in flight
  std::uint64_t requests_max;
  std::uint64_t connections_held;
  std::uint64_t connections_max;
  std::uint64_t saved_bytes_held;  // bytes of the files
  std::uint64_t saved_bytes_max;
  std::uint64_t weight;
};
static_assert(sizeof(TenantEntry) == 184);

struct TenantsArgs {};

}  // namespace kvd::wire
