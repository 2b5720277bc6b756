// What the command line says, as plain values; main.cc fills them, one verb each reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/handshake.h"
#include "shm/sampling_params.h"

namespace kvd::kvctl {

struct GlobalOptions {
  ConnectOptions connect;
  bool wants_json = false;
};

struct RunOptions {
  std::string prompt;
  bool has_prompt = false;  // else from standard input
  bool is_chat = false;
  std::string system;     // chat only
  std::string sequence;   // handle to go on from, in a fork
  std::string snapshot;   // name to go on from
  std::string keep_as;    // snapshot to publish the result as
  bool replaces = false;  // keep_as may exist
  std::int32_t predict_max = -1;
  SamplingParams sampling = kDefaultSampling;
  std::uint64_t seed = 0;
  std::vector<std::string> stops;
  bool ignores_eos = false;
  bool shows_special = false;
  bool continues = false;  // no prompt
  bool resumes = false;    // the sampler
  bool is_apart = false;   // takes no prefix of others
};

struct SequenceOptions {
  std::vector<std::string> handles;
  bool is_forced = false;
  bool shows_special = false;
  bool holds = false;  // fork: stay until Ctrl-C
  std::int32_t cell_count = -1;
  std::uint32_t fork_count = 1;
};

struct SnapshotOptions {
  std::string handle;
  std::string name;
  bool is_public = false;
  bool is_forced = false;
  bool holds = false;
};

struct SavedOptions {
  std::string handle;
  std::string name;
  bool no_logits = false;
  bool tokens_only = false;
  bool is_unpacked = false;
  bool q8_rows = false;
  bool is_forced = false;
  bool size_only = false;
  bool holds = false;
  std::string publish_as;
  std::string removed;
};

struct TextOptions {
  std::string text;
  bool has_text = false;
  bool adds_special = false;
  bool parses_special = false;
};

struct PrefixOptions {
  std::string file;                  // warm: "-": standard input
  bool parses_special = false;       // warm
  bool is_pinned = false;            // warm
  std::vector<std::string> handles;  // pin, unpin
  bool only_retained = false;        // drop
  bool is_forced = false;            // also another session's; drop: pinned ones too
};

struct EmbedOptions {
  std::string text;
  bool has_text = false;
  bool is_raw = false;  // not normalised
};

// State files of llama.cpp.
struct LlamaOptions {
  std::string path;
  std::string name;               // import: of the snapshot; empty: the file's
  std::int32_t sequence_id = -1;  // import: of a session; -1: the only one
  bool is_unrotated = false;
  bool is_forced = false;
  std::string handle;  // export
  std::string layout = "2026";
  std::uint16_t streams = 1;
  bool is_session = false;
  bool is_v_transposed = false;
  std::string k_type, v_type;  // empty: the pool's
};

struct MapOptions {
  bool wants_svg = false;
  bool is_once = false;
  std::uint32_t period_ms = 500;
};

struct PingOptions {
  std::uint32_t count = 10;
  std::uint32_t payload_bytes = 0;
};

}  // namespace kvd::kvctl
