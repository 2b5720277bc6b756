// The options of the command line as plain values: the parser fills them, and each verb reads the
// struct that it is called with.
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

// A chat that is formatted with a chat template.
struct ChatOptions {
  bool is_chat = false;
  std::string system;         // the system message
  std::string messages_path;  // a file with JSON: a list of messages, or an object (chat_request.h)
  std::string tools_path;     // a file with JSON: a list of tools
  std::string chat_template;  // a file, a name, or a Jinja program; empty: the model's template
  std::string variables;      // JSON: further variables of the template
  std::string thinking;       // "on", "off", or empty: the template's default
  std::string prefill;        // text with which the assistant's answer begins
};

struct RunOptions {
  std::string prompt;
  bool has_prompt = false;  // false: the prompt is read from standard input
  bool parses_special = true;
  ChatOptions chat;
  std::string sequence;           // handle of the sequence that kvctl run forks and continues
  std::string snapshot;           // name of the snapshot that kvctl run forks and continues
  std::string keep_as;            // name under which the result is published as a snapshot
  bool replaces = false;          // true: an existing snapshot named `keep_as` is replaced
  std::uint32_t ttl_seconds = 0;  // the snapshot `keep_as` expires; 0: it does not expire
  std::int32_t predict_max = -1;
  std::int32_t room_wait_ms = 0;  // as in GenerateParams
  SamplingParams sampling = kDefaultSampling;
  std::uint64_t seed = 0;
  std::vector<std::string> stops;
  std::vector<std::string> breakers;  // DRY's; empty: the default ones; "none": none
  bool ignores_eos = false;
  bool shows_special = false;
  bool continues = false;  // true: the generation continues the sequence without a prompt
  // True: the generation resumes the sampler of the sequence's last generation.
  bool resumes = false;
  bool draws_as_llama = false;  // true: tokens are drawn as llama.cpp draws them
  bool is_apart = false;        // true: the prompt reuses no prefix of other sequences
  std::string grammar_path;     // a file with GBNF that holds the answer; empty: none
  std::string schema_path;      // a file with a JSON Schema that holds the answer; empty: none
  std::vector<std::string> triggers;  // texts at which the grammar begins; empty: at once
  std::string tool_format;            // empty: the format that the template's text shows
  std::string tool_choice = "auto";   // "auto", "required", "none" or the name of a function
  bool one_call = false;              // true: at most one call of a function
};

struct SequenceOptions {
  std::vector<std::string> handles;
  bool is_forced = false;
  bool shows_special = false;
  bool holds = false;  // kvctl fork: true keeps the session open until Ctrl-C
  std::int32_t cell_count = -1;
  std::uint32_t fork_count = 1;
};

struct SnapshotOptions {
  std::string handle;
  std::string name;
  std::uint32_t ttl_seconds = 0;  // 0: the snapshot does not expire
  bool is_ephemeral = false;
  bool is_public = false;
  bool is_forced = false;
  bool holds = false;
};

struct SavedOptions {
  std::string handle;
  std::string name;        // of the file; empty: that of the snapshot
  bool saves_all = false;  // kvctl save: true saves each snapshot in a file of its name
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
  ChatOptions chat;
  bool adds_special = false;
  bool parses_special = true;
};

struct LifeOptions {
  std::vector<std::string> handles;
  std::uint32_t ttl_seconds = 0;  // 0: the sequences do not expire
  bool is_ephemeral = false;
  bool is_forced = false;  // true: also sequences of other sessions
};

struct WarmOptions {
  std::string file;  // file of the prompt; "-": standard input
  ChatOptions chat;  // a chat, of which the file has the user's message
  bool parses_special = true;
  bool is_pinned = false;
  std::string keep_as;            // name under which the result is published as a snapshot
  bool replaces = false;          // true: an existing snapshot named `keep_as` is replaced
  std::uint32_t ttl_seconds = 0;  // the snapshot `keep_as` expires; 0: it does not expire
};

struct PrefixFlags {
  std::vector<std::string> handles;  // pin, unpin
  bool only_retained = false;        // drop
  // True: the verb also acts on sequences of other sessions; kvctl drop also drops pinned
  // sequences.
  bool is_forced = false;
};

struct EmbedOptions {
  std::vector<std::string> texts;  // empty: standard input
  bool by_line = false;            // each line of standard input is a text
  std::string pooling;             // empty: the pooling of the model's file
  bool is_raw = false;             // true: the embedding is not scaled to length 1
};

struct RankOptions {
  std::string query;
  std::vector<std::string> documents;  // empty: the lines of standard input
};

// Options of the verbs import and export, for state files of llama.cpp.
struct LlamaOptions {
  std::string path;
  std::string name;  // kvctl import: name of the snapshot; empty: the file's name
  // Kvctl import: id of the sequence in a session file; -1: the file's only sequence.
  std::int32_t sequence_id = -1;
  bool is_unrotated = false;
  bool is_forced = false;
  std::string handle;  // export
  std::string layout = "2026";
  std::uint16_t streams = 1;
  bool is_session = false;
  bool is_v_transposed = false;
  std::string k_type, v_type;  // types of the exported K and V rows; empty: the types of the pool
};

struct DaemonsOptions {
  std::string name;     // of the daemon; empty: all
  bool prunes = false;  // true: what is left over is removed, with a name also the state
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
