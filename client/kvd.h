/* kvd.h: the C interface to kvd, the daemon that owns one language model and its cached state.
 *
 * Read this first:
 *
 *  - fork(2). A kvd_client belongs to the process that opened it. In a forked child every call on
 *    it fails with KVD_INVALID_ARGUMENT, except kvd_close; open another one there. A child that
 *    neither execs nor closes it keeps the parent's session open after the parent has ended.
 *  - Threads. Any number of threads may use one kvd_client at once, and cancel each other's
 *    requests. One request is waited for by one thread at a time; a kvd_logits or kvd_piece is used
 *    by one thread at a time. kvd_close must be the last call on its client.
 *  - Lifetimes. Rows of logits lie in shared memory where the daemon wrote them: they are valid
 *    until kvd_release, a piece until the next call on its request, both at the latest until
 *    kvd_close.
 *  - What is not given back (logits not released, pieces not taken) fills this client's own output
 *    arena. When it is full, further answers to this client wait, also those of other threads:
 *    release first, or allow a timeout. No other client notices.
 *  - Sequences are private to their session and end with it (kvd_close, exit, a crash), unless
 *    published as a snapshot. What they hold of plain text then stays as a prefix for later prompts
 *    of the same user, until room is needed; kvd_sequence_drop leaves nothing.
 *  - Lost connections, also those of a daemon that was killed and started again, are made again by
 *    themselves while a call waits, for reconnect_timeout_ms at most. Sequences are as they were,
 *    requests in flight go on and are applied once. A daemon that does not know the session any
 *    more is KVD_SESSION_LOST for every call until kvd_renew.
 *  - Versions. The library and the daemon must speak the same protocol version; otherwise
 *    kvd_connect fails with KVD_VERSION_MISMATCH and its message names both. Structs with a `size`
 *    member grow at their end: set it to sizeof the struct (kvd_..._init does).
 *  - Not waiting. Every verb has a form kvd_..._submit, which sends the request and returns: its
 *    arguments are copied, its outputs are written by kvd_finish (which also returns what the verb
 *    returns) and must stay where they are until then. kvd_wait_any and kvd_event_fd tell when a
 *    request has something. Submitting waits for nothing: what finds no room in the ring is kept and
 *    sent in its turn by later calls. Decode and generate come in pieces: kvd_decode_next,
 *    kvd_generate_next. Only kvd_connect, kvd_renew, kvd_load and the kvd_state_ functions, which
 *    make several requests, have no such form, or one in parts.
 *  - Signals. The library ignores EINTR, raises no SIGPIPE, and installs no handlers.
 *
 * Every function that returns int returns KVD_OK or the code of its error; the text of this
 * thread's last error is kvd_error_message(). Outputs are written only on success, unless said
 * otherwise. Codes that any call on a client may return, beside those named with it:
 *    KVD_INVALID_ARGUMENT  a null pointer, a number out of range, a forked child
 *    KVD_TIMEOUT           the client's timeout_ms has passed; the request may still be applied
 *    KVD_DISCONNECTED      the daemon is gone, and for reconnect_timeout_ms none came back
 *    KVD_SESSION_LOST      one came back that does not know this session: its sequences are gone
 *    KVD_CORRUPT           the daemon broke the protocol
 *    KVD_NO_SPACE          the arguments exceed the request arena, or memory is exhausted
 * Calls on a sequence also: KVD_NOT_FOUND (no such sequence, or not one that this user may see),
 * KVD_PERMISSION (it is another session's), KVD_BUSY (it is being computed).
 */
#ifndef KVD_KVD_H_
#define KVD_KVD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvd_client kvd_client;
typedef uint64_t kvd_sequence; /* a handle; 0 is none */
typedef uint64_t kvd_request;  /* of an asynchronous call; 0 is none */
typedef int32_t kvd_token;

/* Numbers are stable; new ones are added at the end. */
enum kvd_code {
  KVD_OK = 0,
  KVD_INVALID_ARGUMENT = 1,
  KVD_NOT_FOUND = 2,
  KVD_PERMISSION = 3,
  KVD_NO_SPACE = 4,
  KVD_BUSY = 5,
  KVD_EXISTS = 6,
  KVD_UNSUPPORTED = 7,
  KVD_CORRUPT = 8,
  KVD_IO = 9,
  KVD_NUMERICAL = 10,
  KVD_CANCELLED = 11,
  KVD_DISCONNECTED = 12,
  KVD_VERSION_MISMATCH = 13,
  KVD_NO_TOKENIZER = 14,
  KVD_CONFLICT = 15,
  KVD_INTERNAL = 16,
  KVD_TIMEOUT = 17,
  /* 18 stays inside the daemon */
  KVD_WINDOW_LOST = 19, /* an edit needs cells that a sliding window has dropped; nothing changed */
  KVD_SESSION_LOST = 20 /* the daemon does not know the session any more: see kvd_renew */
};

/* The message of this thread's last error; never null, valid until this thread's next call. */
const char* kvd_error_message(void);
/* "no_space" for KVD_NO_SPACE; "unknown" for a number that is no code. */
const char* kvd_code_name(int code);
/* The protocol version that this library speaks. */
uint32_t kvd_protocol_version(void);
/* Frees what a call returned by pointer (text, lists). Null is fine. */
void kvd_free(void* pointer);

/* ----------------------------------------------------------------------------------- connection */

typedef struct kvd_connect_options {
  size_t size;                  /* sizeof(kvd_connect_options) */
  const char* socket_path;      /* null: KVD_SOCKET, else the default path of daemon_name */
  const char* daemon_name;      /* null: "default" */
  const char* client_name;      /* shown in lists; printable ASCII, at most 32 bytes; null: none */
  uint32_t submission_entries;  /* requests that may wait, a power of two 8..4096; 0: 256 */
  uint32_t completion_entries;  /* at least twice that; 0: twice that */
  uint64_t request_arena_bytes; /* bounds the arguments of one call; 0: 1 MiB */
  uint64_t result_arena_bytes;  /* bounds logits not yet released; 0: 4 MiB */
  /* Negative: for ever; default 10,000. A daemon that hangs up before its welcome, because it is
   * being restarted, is tried again until then. */
  int32_t connect_timeout_ms;
  int32_t timeout_ms;           /* of each call; negative (default): for ever */
  uint32_t wants_map;           /* 1: kvd_map_open will be called; default 0 */
  uint32_t no_prefix;           /* 1: prompts take nothing from other sequences; default 0 */
  uint64_t cache_salt;          /* prompts take from sequences with the same one alone; default 0 */
  int32_t reconnect_timeout_ms; /* how long a lost daemon is tried; 0: not at all; default 10,000 */
  uint32_t reserved;            /* 0 */
} kvd_connect_options;
/* Fills in the defaults. `size`: sizeof *options. */
void kvd_connect_options_init(kvd_connect_options* options, size_t size);

/* Opens a session. `options` may be null. Errors: KVD_DISCONNECTED (no daemon there: the message
 * says how to start one), KVD_PERMISSION, KVD_VERSION_MISMATCH, KVD_NO_SPACE
 * (the daemon's limits). */
int kvd_connect(const kvd_connect_options* options, kvd_client** client);
/* Ends the session: requests in flight are cancelled; what its sequences hold of plain text stays as
 * prefixes for later prompts until room is needed (see kvd_sequence_retain). Null is fine. */
void kvd_close(kvd_client* client);
/* After KVD_DISCONNECTED or KVD_SESSION_LOST: goes on as a new session, with no sequences. Requests
 * in flight end with the failure. No other thread may be in a call on the client. Errors:
 * kvd_connect's. Nothing happens where nothing has failed. */
int kvd_renew(kvd_client* client);

typedef struct kvd_session_info {
  size_t size; /* sizeof(kvd_session_info), set by the caller */
  uint64_t session;
  uint64_t pool_cells;
  uint32_t vocab_size; /* floats of one row of logits */
  uint32_t daemon_pid;
} kvd_session_info;
/* What the daemon said when the session was opened; no round trip. */
int kvd_session(kvd_client* client, kvd_session_info* info);

typedef struct kvd_daemon_info {
  size_t size; /* sizeof(kvd_daemon_info), set by the caller */
  char model_name[64];
  char architecture[32];
  char kernels[16];
  char version[16];
  uint64_t weight_bytes;
  uint64_t pool_cells;
  uint64_t free_cells;
  uint64_t live_cells;
  uint64_t cell_bytes;
  uint64_t uptime_ms;
  uint32_t vocab_size;
  uint32_t context_trained;
  uint32_t layer_count;
  uint32_t embedding_size;
  uint32_t sequences_live;
  uint32_t sessions;
  uint32_t has_tokenizer;
  int32_t bos_token; /* -1: none */
  int32_t eos_token; /* -1: none */
} kvd_daemon_info;
int kvd_info(kvd_client* client, kvd_daemon_info* info);
int kvd_info_submit(kvd_client* client, kvd_daemon_info* info, kvd_request* request);

/* ------------------------------------------------------------------------------------- live map */

/* What the daemon holds, as it publishes it at most 20 times a second: the sequences that this user
 * may see, the blocks of the pool, and totals. Reading it makes no request. One thread at a time;
 * a map may be used until kvd_map_close, also after kvd_close. */
typedef struct kvd_map kvd_map;

enum kvd_map_state {
  KVD_MAP_LIVE = 0,
  KVD_MAP_STOPPED = 1, /* stale: the daemon has stopped; what is shown is its last */
  KVD_MAP_KILLED = 2   /* stale: it is gone without a word */
};

typedef struct kvd_map_totals {
  size_t size; /* sizeof(kvd_map_totals), set by the caller */
  uint64_t live_cells;
  uint64_t tokens_computed;
  uint64_t tokens_sampled;
  uint64_t steps;
  uint32_t block_cells; /* cells of one block */
  uint32_t total_blocks;
  uint32_t free_blocks;
  uint32_t reclaimable_blocks;
  uint32_t sequences;
  uint32_t sessions;
  uint32_t state_slots;
  uint32_t free_state_slots;
  uint32_t checkpoint_slots;
  uint32_t daemon_pid;
} kvd_map_totals;

typedef struct kvd_map_sequence {
  kvd_sequence sequence;
  uint64_t session;
  uint32_t owner_uid;
  uint32_t flags; /* as kvd_sequence_info's */
  uint32_t cell_count;
  uint32_t shared_cells;
  uint32_t checkpoint_count;
  int32_t next_pos;
} kvd_map_sequence;

typedef struct kvd_map_block {
  kvd_sequence sequence; /* one that uses it; 0: free, or used by what this user may not see */
  uint32_t used_cells;
  uint32_t shared_cells;
} kvd_map_block;

/* REQUIRES wants_map in the options of kvd_connect (else KVD_INVALID_ARGUMENT). */
int kvd_map_open(kvd_client* client, kvd_map** map);
/* Takes over what has changed. `state` (may be null): enum kvd_map_state. */
int kvd_map_refresh(kvd_map* map, int* state);
/* As of the last refresh. Lists are given back with kvd_free. */
int kvd_map_read_totals(const kvd_map* map, kvd_map_totals* totals);
int kvd_map_read_sequences(const kvd_map* map, kvd_map_sequence** sequences, size_t* count);
int kvd_map_read_blocks(const kvd_map* map, kvd_map_block** blocks, size_t* count);
/* Null is fine. */
void kvd_map_close(kvd_map* map);

/* One round trip; its nanoseconds. `payload_bytes` at most 4096. */
int kvd_ping(kvd_client* client, size_t payload_bytes, uint64_t* nanoseconds);
int kvd_ping_submit(kvd_client* client, size_t payload_bytes, uint64_t* nanoseconds,
                    kvd_request* request);

typedef struct kvd_defrag_report {
  uint64_t cells_moved;
  uint64_t cells_settled; /* of sequences with many shifts, which have none now */
  uint64_t blocks_freed;
  uint64_t bytes_returned; /* to the system */
  uint64_t packing_ns;
  uint64_t returning_ns; /* what giving bytes back took; no part of packing_ns */
  uint64_t settling_ns;
} kvd_defrag_report;
/* Packs the pool, between the steps of others. `report` may be null. Errors: KVD_PERMISSION (another
 * user than the daemon's), KVD_BUSY (one is going on), KVD_NO_SPACE (it gave up; what was done
 * stays). */
int kvd_defrag(kvd_client* client, kvd_defrag_report* report);
int kvd_defrag_submit(kvd_client* client, kvd_defrag_report* report, kvd_request* request);

/* ------------------------------------------------------------------------------------- sequences
 *
 * A sequence is a list of tokens with their computed state. Ranges are half-open positions [p0,
 * p1); p1 < 0 is the end. */

enum kvd_flags {
  KVD_FORCE = 1,          /* also what another session of this user owns; replace a name */
  KVD_PUBLIC = 2,         /* publish: for every user that may connect */
  KVD_ADD_SPECIAL = 4,    /* tokenize: put the model's begin token in front */
  KVD_PARSE_SPECIAL = 8,  /* tokenize: "<|eot|>" in the text is that token */
  KVD_SPECIAL = 16,       /* detokenize, read_text: show special tokens */
  KVD_ADD_ASSISTANT = 32, /* chat: end with the opening of the assistant's turn */
  KVD_NORMALIZE = 128     /* embed: rows of length 1 */
};

/* An empty sequence. Errors: KVD_NO_SPACE (too many sequences). */
int kvd_sequence_create(kvd_client* client, kvd_sequence* sequence);
int kvd_sequence_create_submit(kvd_client* client, kvd_sequence* sequence, kvd_request* request);

typedef struct kvd_fork_info {
  uint64_t engine_ns;  /* spent in the daemon's engine */
  uint64_t cell_count; /* in each fork */
  /* Recurrent models, where no checkpoint is at that cell: tokens computed again. */
  uint64_t tokens_replayed;
} kvd_fork_info;
/* `count` (1..1024) forks of the first `cell_count` cells (negative: all). Nothing is copied.
 * `forks` has room for `count`; `info` may be null. Errors: KVD_NO_SPACE. */
int kvd_sequence_fork(kvd_client* client, kvd_sequence sequence, int32_t cell_count, uint32_t count,
                      kvd_sequence* forks, kvd_fork_info* info);
int kvd_sequence_fork_submit(kvd_client* client, kvd_sequence sequence, int32_t cell_count,
                             uint32_t count, kvd_sequence* forks, kvd_fork_info* info,
                             kvd_request* request);
/* flags: KVD_FORCE. */
int kvd_sequence_drop(kvd_client* client, kvd_sequence sequence, uint32_t flags);
int kvd_sequence_drop_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                             kvd_request* request);
/* Copies a range into another sequence. Errors: KVD_EXISTS (that one has cells there),
 * KVD_UNSUPPORTED (recurrent models: ranges that do not start at the source's first cell, and
 * destinations that have cells). `cells` and `replayed` (tokens that a recurrent model computed
 * again to arrive there) may be null. */
int kvd_sequence_copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, int32_t p0,
                      int32_t p1, uint64_t* cells, uint64_t* replayed);
int kvd_sequence_copy_submit(kvd_client* client, kvd_sequence source, kvd_sequence destination,
                             int32_t p0, int32_t p1, uint64_t* cells, uint64_t* replayed,
                             kvd_request* request);
/* `cells` and `replayed` may be null. Errors: KVD_NO_SPACE (recurrent models: no state slots),
 * KVD_WINDOW_LOST (sliding windows: the next token would reach cells that are gone). */
int kvd_sequence_remove(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        uint64_t* cells, uint64_t* replayed);
int kvd_sequence_remove_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                               uint64_t* cells, uint64_t* replayed, kvd_request* request);
/* Lets a sequence go as if the session had ended: the cells that were computed from its start in
 * order stay, as a prefix for later prompts of the same user and salt, until room is needed.
 * *is_retained (may be null): 0: there were too few, or others hold the same, and it was dropped.
 * flags: KVD_FORCE. */
int kvd_sequence_retain(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                        int* is_retained);
int kvd_sequence_retain_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                               int* is_retained, kvd_request* request);
/* A pinned sequence is never evicted. flags: KVD_FORCE. */
int kvd_sequence_pin(kvd_client* client, kvd_sequence sequence, int is_pinned, uint32_t flags);
int kvd_sequence_pin_submit(kvd_client* client, kvd_sequence sequence, int is_pinned,
                            uint32_t flags, kvd_request* request);
/* Drops this user's retained sequences. flags: KVD_FORCE (also pinned ones). `count` (may be null):
 * how many. */
int kvd_drop_retained(kvd_client* client, uint32_t flags, uint64_t* count);
int kvd_drop_retained_submit(kvd_client* client, uint32_t flags, uint64_t* count,
                             kvd_request* request);
/* Drops every other sequence of this session. */
int kvd_sequence_keep(kvd_client* client, kvd_sequence sequence);
int kvd_sequence_keep_submit(kvd_client* client, kvd_sequence sequence, kvd_request* request);
int kvd_sequence_clear(kvd_client* client, kvd_sequence sequence);
int kvd_sequence_clear_submit(kvd_client* client, kvd_sequence sequence, kvd_request* request);
/* Shifts positions. A shift that would overlap, reorder or go below 0: KVD_INVALID_ARGUMENT. */
int kvd_sequence_add(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                     int32_t delta);
int kvd_sequence_add_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                            int32_t delta, kvd_request* request);
/* Divides positions by `divisor` (at least 1). `cells` (rewritten) may be null. */
int kvd_sequence_divide(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        int32_t divisor, uint64_t* cells);
int kvd_sequence_divide_submit(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                               int32_t divisor, uint64_t* cells, kvd_request* request);

enum kvd_sequence_flags {
  KVD_SEQUENCE_LIVE = 1,
  KVD_SEQUENCE_RETAINED = 2,
  KVD_SEQUENCE_PINNED = 4,
  KVD_SEQUENCE_PUBLISHED = 8,
  KVD_SEQUENCE_EDITED = 16
};
typedef struct kvd_sequence_info {
  kvd_sequence handle;
  uint64_t session;
  uint32_t owner_uid;
  uint32_t owner_pid; /* 0: unknown */
  uint32_t flags;     /* kvd_sequence_flags */
  uint32_t cell_count;
  uint32_t shared_cells; /* of which other sequences hold too */
  uint32_t extent_count;
  uint32_t delta_count; /* distinct shifts */
  int32_t first_pos;
  int32_t next_pos; /* where kvd_decode goes on */
  uint32_t reserved;
  uint64_t age_ms;
} kvd_sequence_info;
int kvd_sequence_query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info);
int kvd_sequence_query_submit(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info,
                              kvd_request* request);
/* All that this user may see. Free *list with kvd_free. */
int kvd_list(kvd_client* client, kvd_sequence_info** list, size_t* count);
int kvd_list_submit(kvd_client* client, kvd_sequence_info** list, size_t* count,
                    kvd_request* request);

/* ------------------------------------------------------------------------------------ computing */

enum kvd_logits_wanted { KVD_LOGITS_NONE = 0, KVD_LOGITS_LAST = 1, KVD_LOGITS_ALL = 2 };

/* A prompt that begins an empty sequence takes the longest part that another sequence of the same
 * user and salt (or a snapshot that this user may see) holds already: live ones, retained ones,
 * snapshots, files. Where it came from, and why it was not more: */
enum kvd_prefix_origin {
  KVD_PREFIX_NOWHERE = 0,
  KVD_PREFIX_LIVE = 1,
  KVD_PREFIX_RETAINED = 2,
  KVD_PREFIX_SNAPSHOT = 3,
  KVD_PREFIX_DISK = 4
};
enum kvd_prefix_limit {
  KVD_PREFIX_NONE = 0,          /* no sequence goes on like the prompt */
  KVD_PREFIX_COMPLETE = 1,      /* all but the last token, which is computed for its logits */
  KVD_PREFIX_NAMESPACE = 2,     /* one does, but not with this salt */
  KVD_PREFIX_EDITED = 3,        /* one does, but behind an edit */
  KVD_PREFIX_EVICTED = 4,       /* one did, and had to make room */
  KVD_PREFIX_NO_CHECKPOINT = 5, /* one does, but its recurrent state is not kept there */
  KVD_PREFIX_WINDOW_LOST = 6,   /* one does, but its sliding windows are beyond there */
  KVD_PREFIX_TOO_SHORT = 7,     /* the prompt is, or what it has in common */
  KVD_PREFIX_NOT_EMPTY = 8,     /* the sequence had cells already */
  KVD_PREFIX_ALL_LOGITS = 9,    /* rows of all tokens were asked for */
  KVD_PREFIX_OFF = 10,          /* by request, session or daemon */
  KVD_PREFIX_UNSUPPORTED = 11,  /* the model attends to an encoded text beside */
  KVD_PREFIX_ON_DISK = 12       /* the prompt cache has more, but computing looked faster */
};
/* "no-checkpoint"; "unknown" for a number that is none. */
const char* kvd_prefix_limit_name(int limit);

/* What of a prompt for an empty sequence of this client could be reused now, and where it parts from
 * what is cached. Only what such a prompt may take from is looked at. */
typedef struct kvd_why_info {
  kvd_sequence source;    /* what could be reused comes from it; 0: nothing could */
  kvd_sequence nearest;   /* has the most tokens in common with the prompt; 0: none has any */
  uint32_t prompt_tokens; /* of the prompt */
  uint32_t reused;        /* tokens that could be reused; all but the last at most */
  uint32_t common;        /* tokens in common with `nearest` */
  uint32_t on_disk;       /* tokens that the prompt cache has, if more than `reused` */
  /* The first tokens that differ, behind `common`; -1: the prompt, or the sequence, ends there. */
  kvd_token prompt_token;
  kvd_token cached_token;
  uint16_t shared_origin; /* kvd_prefix_origin */
  uint16_t share_limit;   /* kvd_prefix_limit: why not more */
  uint32_t reserved;
  /* Their texts, zero terminated UTF-8; bytes that are no character as <0xE2>. Empty without a
   * tokenizer. */
  char prompt_text[64];
  char cached_text[64];
} kvd_why_info;
/* Computes nothing and changes nothing. */
int kvd_why(kvd_client* client, const kvd_token* tokens, size_t token_count, kvd_why_info* info);
int kvd_why_submit(kvd_client* client, const kvd_token* tokens, size_t token_count,
                   kvd_why_info* info, kvd_request* request);

enum kvd_edit_kind {
  KVD_EDIT_REMOVED = 1,
  KVD_EDIT_COPIED = 2, /* from another sequence */
  KVD_EDIT_SHIFTED = 3,
  KVD_EDIT_DIVIDED = 4
};
#define KVD_EDITS_KEPT 32

typedef struct kvd_edit {
  uint64_t unix_ms;
  int32_t p0; /* positions [p0, p1) of the cells before the edit; of copied cells as they are */
  int32_t p1;
  int32_t delta; /* of a shift; of a division, the divisor; else 0 */
  uint16_t kind; /* kvd_edit_kind */
  uint16_t verb; /* by which it was asked for (docs/verbs.md); 0: the daemon did it by itself */
} kvd_edit;

typedef struct kvd_log_entry {
  kvd_sequence sequence;
  /* What it was forked from, which may be gone; 0: nothing, or another user's that cannot be read. */
  kvd_sequence parent;
  uint64_t created_unix_ms;
  uint32_t parent_cells; /* that the fork began with */
  uint32_t owner_uid;
  uint32_t cell_count;
  uint32_t edit_count;            /* so far */
  kvd_edit edits[KVD_EDITS_KEPT]; /* the last min(edit_count, KVD_EDITS_KEPT), the oldest first */
} kvd_log_entry;
/* What a sequence was forked from and how it was edited: the sequence, its parent, the parent's parent
 * and so on, while they exist and this user may read them, at most 64. Free *list with kvd_free. */
int kvd_log(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count);
int kvd_log_submit(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count,
                   kvd_request* request);

/* Rows of logits, [row_count][row_floats], in the daemon's memory. */
typedef struct kvd_logits {
  const float* rows;   /* null when row_count is 0 */
  uint32_t row_count;  /* of this piece */
  uint32_t row_floats; /* the vocabulary */
  uint64_t row_first;  /* which of the decode's rows rows[0] is */
  uint64_t cell_count; /* of the sequence, computed by now */
  int32_t has_more;    /* 1: further pieces come by kvd_decode_next */
  uint32_t reserved;
  kvd_request request;
  uint64_t ticket;        /* for kvd_release */
  uint32_t prompt_shared; /* tokens taken from another sequence */
  uint16_t shared_origin; /* kvd_prefix_origin */
  uint16_t share_limit;   /* kvd_prefix_limit: why not more */
} kvd_logits;

/* Appends tokens at position `pos`, which must be the sequence's next one (next_pos of
 * kvd_sequence_query), and waits for the first piece of logits: all of them unless they exceed the
 * output arena. Errors: KVD_INVALID_ARGUMENT (another position), KVD_NO_SPACE (cells),
 * KVD_NUMERICAL, KVD_CONFLICT; nothing is appended then, unless the message says that what was
 * appended stays (a window or a recurrent state that cannot go back). */
int kvd_decode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, int32_t pos, int wanted, kvd_logits* logits);
/* Gives rows back; `logits->rows` becomes null. In any order; the arena is free again in the order
 * in which it was filled. Errors: KVD_NOT_FOUND (released before). */
int kvd_release(kvd_client* client, kvd_logits* logits);

/* The same without waiting: many requests, of many sequences, may be in flight. */
int kvd_decode_submit(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
                      size_t token_count, int32_t pos, int wanted, kvd_request* request);
/* Waits for a request's next piece. Errors: those of kvd_decode, which end the request;
 * KVD_TIMEOUT, which does not; KVD_NOT_FOUND (its last piece was taken). */
int kvd_decode_next(kvd_client* client, kvd_request request, int32_t timeout_ms,
                    kvd_logits* logits);

/* The embedding of a text (models with an encoder alone): *values is [row_count][row_floats], one
 * row, or one for each token where the model pools none; free it with kvd_free. The tokens are read
 * at once and kept nowhere. flags: KVD_NORMALIZE. Errors: KVD_UNSUPPORTED (the model embeds no
 * texts), KVD_NO_SPACE (the output arena), KVD_NUMERICAL. */
int kvd_embed(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
              float** values, size_t* row_count, size_t* row_floats);
int kvd_embed_submit(kvd_client* client, const kvd_token* tokens, size_t token_count,
                     uint32_t flags, float** values, size_t* row_count, size_t* row_floats,
                     kvd_request* request);

/* The text that the sequence's decoder attends to (models with an encoder and a decoder, such as
 * t5): once per sequence, before its first token; forks share what is kept of it. *start_token (may
 * be null) becomes the token that decoding starts with, -1 where the model names none. Errors:
 * KVD_UNSUPPORTED (another kind of model), KVD_EXISTS (it has one), KVD_INVALID_ARGUMENT (it has
 * tokens), KVD_NO_SPACE, KVD_NUMERICAL. */
int kvd_encode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, kvd_token* start_token);
int kvd_encode_submit(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
                      size_t token_count, kvd_token* start_token, kvd_request* request);

typedef struct kvd_logit_bias {
  kvd_token token;
  float bias; /* [-1000, 1000], or -infinity to forbid the token */
} kvd_logit_bias;

enum kvd_generate_flags {
  KVD_IGNORE_EOS = 1,
  KVD_NO_TEXT = 2,
  KVD_SHOW_SPECIAL = 4,
  /* No prompt: goes on from the logits of the sequence's last token, which are kept with it
   * (recurrent models) or computed once more. KVD_UNSUPPORTED where neither can be. */
  KVD_CONTINUE = 8,
  /* Goes on with the sampler of the last generation that drew tokens for this sequence, or for the
   * one that it was forked or loaded from: with its seed and the draw that comes next. Temperature,
   * top_k to repeat_last, seed, biases and KVD_IGNORE_EOS are that generation's; what is given here
   * of them is ignored. KVD_NOT_FOUND: there was none. With KVD_CONTINUE the tokens are those that
   * the generation would have gone on with. */
  KVD_RESUME_SAMPLER = 16
};

typedef struct kvd_generate_params {
  size_t size;             /* sizeof(kvd_generate_params) */
  const kvd_token* tokens; /* to append first; at least one */
  size_t token_count;
  int32_t pos;             /* of the first; negative (default): the sequence's next */
  int32_t predict_max;     /* 0: only compute the prompt; -1 (default): until an end token */
  float temperature;       /* 0: greedy; default 0.8 */
  int32_t top_k;           /* 0: off; default 40 */
  float top_p;             /* (0, 1]; 1: off; default 0.95 */
  float min_p;             /* [0, 1]; 0: off; default 0.05 */
  float typical_p;         /* (0, 1]; 1 (default): off */
  float repeat_penalty;    /* > 0; 1 (default): off */
  float presence_penalty;  /* [-2, 2]; default 0 */
  float frequency_penalty; /* [-2, 2]; default 0 */
  int32_t repeat_last;     /* tokens that penalties look back at; -1: all; default 64 */
  uint32_t logprob_count;  /* top n with each token, 0..64 */
  uint64_t seed;           /* 0 (default): drawn by the daemon, reported in the result */
  uint32_t flags;          /* kvd_generate_flags */
  uint32_t wants_progress; /* 1: pieces of KVD_PIECE_PROGRESS while the prompt is computed */
  const kvd_logit_bias* biases;
  size_t bias_count;        /* at most 1024 */
  const char* const* stops; /* UTF-8, 1..256 bytes each */
  size_t stop_count;        /* at most 16 */
  uint32_t no_prefix;       /* 1: takes nothing from other sequences; default 0 */
  uint32_t reserved;        /* 0 */
} kvd_generate_params;
/* Fills in the defaults. `size`: sizeof *params. */
void kvd_generate_params_init(kvd_generate_params* params, size_t size);

typedef struct kvd_token_logprob {
  kvd_token token;
  float logprob;
} kvd_token_logprob;

enum kvd_piece_kind { KVD_PIECE_END = 0, KVD_PIECE_PROGRESS = 1, KVD_PIECE_TOKENS = 2 };
typedef struct kvd_piece {
  uint32_t kind; /* kvd_piece_kind */
  uint32_t token_count;
  const kvd_token* tokens;
  const char* text; /* UTF-8, not zero terminated */
  size_t text_bytes;
  const kvd_token_logprob* logprobs; /* for each token its own, then the top n */
  size_t logprob_count;
  uint64_t done;  /* progress: prompt tokens computed */
  uint64_t total; /* progress: prompt tokens */
  kvd_request request;
} kvd_piece;

enum kvd_finish { KVD_FINISH_END = 1, KVD_FINISH_STOP = 2, KVD_FINISH_LENGTH = 3 };
typedef struct kvd_generate_result {
  uint64_t seed;
  uint32_t finish; /* kvd_finish */
  uint32_t prompt_reused;
  uint32_t prompt_computed; /* of the prompt's tokens, those that were not shared */
  uint32_t predicted;
  uint64_t prompt_ns;
  uint64_t predict_ns;
  uint32_t prompt_shared; /* of the prompt's tokens, taken from another sequence */
  uint8_t shared_origin;  /* kvd_prefix_origin */
  uint8_t share_limit;    /* kvd_prefix_limit: why not more */
  uint16_t reserved;
} kvd_generate_result;

/* Called in the calling thread for every piece; 0 goes on, anything else cancels. It may call any
 * function of this client but must not wait for its own request. */
typedef int (*kvd_piece_function)(void* user, const kvd_piece* piece);

/* Appends the prompt, samples, and hands out pieces until the end. `on_piece` and `result` may be
 * null. Errors: KVD_CANCELLED (by the callback or kvd_cancel; what was computed stays in the
 * sequence), KVD_NO_SPACE, KVD_NUMERICAL, KVD_CONFLICT. After KVD_TIMEOUT the request is
 * cancelled. */
int kvd_generate(kvd_client* client, kvd_sequence sequence, const kvd_generate_params* params,
                 kvd_piece_function on_piece, void* user, kvd_generate_result* result);

/* The same without waiting, then piece by piece. A piece is valid until the next call for its
 * request; KVD_PIECE_END is the last one, with which `result` (may be null) is filled. Errors as
 * kvd_decode_next. */
int kvd_generate_submit(kvd_client* client, kvd_sequence sequence,
                        const kvd_generate_params* params, kvd_request* request);
int kvd_generate_next(kvd_client* client, kvd_request request, int32_t timeout_ms, kvd_piece* piece,
                      kvd_generate_result* result);

/* Waits for the answer of a request of any other verb and writes the outputs that its kvd_..._submit
 * was given. Errors: those of the verb, which end the request; KVD_TIMEOUT, which does not;
 * KVD_NOT_FOUND (no such request, or it has ended). */
int kvd_finish(kvd_client* client, kvd_request request, int32_t timeout_ms);

/* Waits until one of the requests has something to take; *index says which. Errors: KVD_NOT_FOUND
 * (none of them is in flight). */
int kvd_wait_any(kvd_client* client, const kvd_request* requests, size_t count, int32_t timeout_ms,
                 size_t* index);
/* A descriptor for an event loop (poll, epoll, select; for reading), so that none of these waits needs
 * a thread. It is readable when something may have happened: then call kvd_wait_any with timeout 0
 * until it returns KVD_TIMEOUT (KVD_NOT_FOUND with none in flight), taking what it finds. Call it so
 * once before the first wait, too. Nothing else may be read from it or done with it; it stays the same, also through lost connections
 * (while one is made again such a call may take 100 ms), and is closed by kvd_close. Errors: KVD_IO. */
int kvd_event_fd(kvd_client* client, int* descriptor);
/* Ends a request from any thread: it then fails with KVD_CANCELLED. `was_found` (may be null)
 * becomes 0 when it had ended before. */
int kvd_cancel(kvd_client* client, kvd_request target, int* was_found);
int kvd_cancel_submit(kvd_client* client, kvd_request target, int* was_found, kvd_request* request);
/* Cancels it and throws away what it still says. Unknown requests are ignored. */
void kvd_abandon(kvd_client* client, kvd_request request);

/* ------------------------------------------------------------------------------------- snapshots
 *
 * Names: [A-Za-z0-9_-][A-Za-z0-9._-]{0,63}. */

/* Publishes the sequence as it is now; it lives on until unpublished. flags: KVD_PUBLIC, KVD_FORCE
 * (replace). `snapshot` (may be null) is the immutable sequence behind the name. Errors:
 * KVD_EXISTS, KVD_NO_SPACE. */
int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                kvd_sequence* snapshot);
int kvd_publish_submit(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                       kvd_sequence* snapshot, kvd_request* request);
int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags);
int kvd_unpublish_submit(kvd_client* client, const char* name, uint32_t flags,
                         kvd_request* request);
/* A fork of a snapshot. `info` may be null. */
int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info);
int kvd_attach_submit(kvd_client* client, const char* name, kvd_sequence* sequence,
                      kvd_fork_info* info, kvd_request* request);

typedef struct kvd_snapshot_info {
  char name[72]; /* zero terminated */
  kvd_sequence sequence;
  uint32_t owner_uid;
  uint32_t is_public;
  uint32_t cell_count;
  uint32_t reserved;
  uint64_t age_ms;
} kvd_snapshot_info;
/* Free *list with kvd_free. */
int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count);
int kvd_snapshots_submit(kvd_client* client, kvd_snapshot_info** list, size_t* count,
                         kvd_request* request);

/* ---------------------------------------------------------------------------------- saved states
 *
 * Files in the daemon's --store, each with one or several sequences; names as of snapshots. Errors
 * of all: KVD_UNSUPPORTED (the daemon has no store), KVD_IO. */

enum {
  KVD_SAVE_NO_LOGITS = 1,   /* without the last row of logits, which recurrent models keep */
  KVD_SAVE_TOKENS_ONLY = 2, /* small; loading computes them again, at positions 0, 1, ... */
  KVD_SAVE_UNPACKED = 4,    /* larger and faster */
  KVD_SAVE_Q8_ROWS = 8,     /* K and V as q8_0 */
  KVD_SAVE_REPLACE = 256    /* a saved state of that name */
};

typedef struct kvd_save_info {
  uint64_t file_bytes;     /* 0 from kvd_save_size */
  uint64_t unpacked_bytes; /* of a file in which nothing is packed: exact */
  uint64_t cell_count;
} kvd_save_info;

/* Saves the sequence as it is now, while it and others go on. `info` may be null. Errors:
 * KVD_EXISTS, KVD_NO_SPACE (the disk, the user's bytes), KVD_INVALID_ARGUMENT. */
int kvd_save(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
             kvd_save_info* info);
int kvd_save_submit(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
                    kvd_save_info* info, kvd_request* request);
/* All sequences of this session in one file. */
int kvd_save_all(kvd_client* client, const char* name, uint32_t flags, kvd_save_info* info);
int kvd_save_all_submit(kvd_client* client, const char* name, uint32_t flags, kvd_save_info* info,
                        kvd_request* request);
/* What kvd_save would write. */
int kvd_save_size(kvd_client* client, kvd_sequence sequence, uint32_t flags, kvd_save_info* info);
int kvd_save_size_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                         kvd_save_info* info, kvd_request* request);

typedef struct kvd_loaded_sequence {
  kvd_sequence sequence;
  uint64_t cell_count;
  uint32_t is_converted; /* from k_type and v_type to the types of the pool */
  uint32_t is_computed;  /* tokens alone were saved */
  char k_type[8];        /* zero terminated */
  char v_type[8];
  uint32_t has_sampler; /* KVD_RESUME_SAMPLER goes on with the generation that was saved */
  uint32_t reserved;
} kvd_loaded_sequence;
/* The sequences of the file as fresh ones of this session, all or none; free *list with kvd_free.
 * Errors: KVD_NOT_FOUND, KVD_CORRUPT (what is damaged), KVD_UNSUPPORTED (another model; the message
 * says what differs), KVD_NO_SPACE. */
int kvd_load(kvd_client* client, const char* name, kvd_loaded_sequence** list, size_t* count);
/* A sequence of which tokens alone were saved has no cells then: *tokens has the tokens of all such,
 * cell_count of each, in order; decode them at positions 0, 1, ... Free it with kvd_free. */
int kvd_load_submit(kvd_client* client, const char* name, kvd_loaded_sequence** list, size_t* count,
                    kvd_token** tokens, size_t* token_count, kvd_request* request);

enum {
  KVD_SAVED_THIS_MODEL = 1,
  KVD_SAVED_DAMAGED = 2, /* nothing else is known */
  KVD_SAVED_TOKENS_ONLY = 4,
  KVD_SAVED_LOGITS = 8
};
typedef struct kvd_saved_info {
  char name[72]; /* zero terminated */
  uint64_t file_bytes;
  uint64_t raw_bytes; /* not packed */
  uint64_t cell_count;
  uint64_t age_ms;
  uint32_t sequence_count;
  uint32_t flags; /* KVD_SAVED_... */
  char k_type[8]; /* zero terminated */
  char v_type[8];
  char architecture[32];
} kvd_saved_info;
/* Those of this user; free *list with kvd_free. */
int kvd_saved(kvd_client* client, kvd_saved_info** list, size_t* count);
int kvd_saved_submit(kvd_client* client, kvd_saved_info** list, size_t* count,
                     kvd_request* request);
int kvd_remove_saved(kvd_client* client, const char* name);
int kvd_remove_saved_submit(kvd_client* client, const char* name, kvd_request* request);

/* ------------------------------------------------------------------------------------------ text
 *
 * Errors of all: KVD_NO_TOKENIZER. Text is UTF-8; what is returned is zero terminated beyond its
 * byte count, and freed with kvd_free. */

/* flags: KVD_ADD_SPECIAL, KVD_PARSE_SPECIAL. */
int kvd_tokenize(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                 kvd_token** tokens, size_t* token_count);
int kvd_tokenize_submit(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                        kvd_token** tokens, size_t* token_count, kvd_request* request);
/* flags: KVD_SPECIAL. */
int kvd_detokenize(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
                   char** text, size_t* text_bytes);
int kvd_detokenize_submit(kvd_client* client, const kvd_token* tokens, size_t token_count,
                          uint32_t flags, char** text, size_t* text_bytes, kvd_request* request);

typedef struct kvd_chat_message {
  const char* role; /* "system", "user", "assistant", ... */
  const char* content;
} kvd_chat_message;
/* A conversation as one prompt, by the model's own template; tokenize it with KVD_PARSE_SPECIAL.
 * flags: KVD_ADD_ASSISTANT. Errors: KVD_UNSUPPORTED (the model has no template that we know). */
int kvd_chat(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
             uint32_t flags, char** text, size_t* text_bytes);
int kvd_chat_submit(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
                    uint32_t flags, char** text, size_t* text_bytes, kvd_request* request);

/* --------------------------------------------------------------------- llama.cpp's state verbs
 *
 * Sequences as state files of llama.cpp, in memory or on disk, with that library's names. What is
 * written has the layout that llama.cpp of August 2026 reads, or with KVD_STATE_LAYOUT_2025 that of
 * February 2025; what is read may have either. A size that is told is that of the same flags. Each
 * returns how many bytes it told, wrote or read, or 0: then kvd_error_message() is the reason,
 * kvd_error_code() its code, and nothing has changed. Sequences are not overwritten but made; they
 * are this client's. "seq": a sequence file. Without: a session of all sequences of this client that
 * have cells, ids 0, 1, ... from the oldest on. One call of these at a time per client.
 *
 * Errors: KVD_NOT_FOUND, KVD_CORRUPT (the field and its byte), KVD_INVALID_ARGUMENT (the file is of
 * another model, with what differs; a sequence without cells; streams that do not fit),
 * KVD_UNSUPPORTED, KVD_NUMERICAL, KVD_NO_SPACE, KVD_IO. */

/* The code of this thread's last error; KVD_OK before the first. */
int kvd_error_code(void);

enum {
  KVD_STATE_V_TRANSPOSED = 1, /* get and save: what llama.cpp without flash attention reads */
  KVD_STATE_UNROTATED = 2,    /* quantised heads as a 2026 build has them that does not rotate */
  KVD_STATE_LAYOUT_2025 = 4   /* get and save: the layout of February 2025, not that of 2026 */
};
/* Get and save, in `flags` beside the above, not with KVD_STATE_LAYOUT_2025: for a llama_context
 * whose cache is not unified and that has `count` (at most 256) sequences. A unified cache, and one
 * of a single sequence, reads files without it. */
#define KVD_STATE_STREAMS(count) ((uint32_t)(count) << 16)

size_t kvd_state_seq_get_size(kvd_client* client, kvd_sequence sequence, uint32_t flags);
/* KVD_NO_SPACE: `size` is less than needed; the message has both numbers. */
size_t kvd_state_seq_get_data(kvd_client* client, kvd_sequence sequence, void* data, size_t size,
                              uint32_t flags);
size_t kvd_state_seq_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                              kvd_sequence* sequence);
/* Written beside `path`, synced, renamed. */
size_t kvd_state_seq_save_file(kvd_client* client, kvd_sequence sequence, const char* path,
                               uint32_t flags);
size_t kvd_state_seq_load_file(kvd_client* client, const char* path, uint32_t flags,
                               kvd_sequence* sequence);

size_t kvd_state_get_size(kvd_client* client, uint32_t flags);
size_t kvd_state_get_data(kvd_client* client, void* data, size_t size, uint32_t flags);
/* *sequences, one for each id of the file in ascending order: free it with kvd_free. */
size_t kvd_state_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                          kvd_sequence** sequences, size_t* sequence_count);
size_t kvd_state_save_file(kvd_client* client, const char* path, uint32_t flags);
size_t kvd_state_load_file(kvd_client* client, const char* path, uint32_t flags,
                           kvd_sequence** sequences, size_t* sequence_count);

typedef struct kvd_token_at {
  kvd_token token;
  int32_t pos;
} kvd_token_at;
/* `cell_count` (negative: all) cells from `first_cell` on. */
int kvd_read_tokens(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                    int32_t cell_count, kvd_token_at** tokens, size_t* token_count);
int kvd_read_tokens_submit(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                           int32_t cell_count, kvd_token_at** tokens, size_t* token_count,
                           kvd_request* request);
/* flags: KVD_SPECIAL. */
int kvd_read_text(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                  size_t* text_bytes);
int kvd_read_text_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                         size_t* text_bytes, kvd_request* request);

#ifdef __cplusplus
}
#endif

#endif /* KVD_KVD_H_ */
