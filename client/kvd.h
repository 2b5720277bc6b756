/* kvd.h: the C interface to kvd, the daemon that owns one language model and its cached state.
 *
 * Read this first:
 *
 *  - fork(2). A kvd_client belongs to the process that opened it. In a forked child every call on
 *    the parent's client except kvd_close fails with KVD_INVALID_ARGUMENT; the child must open its
 *    own client. A child that neither calls exec nor kvd_close keeps the parent's session open
 *    after the parent has ended.
 *  - Threads. Any number of threads may use one kvd_client at the same time, and may cancel each
 *    other's requests. Only one thread at a time may wait for a given request, and only one thread
 *    at a time may use a given kvd_logits or kvd_piece. kvd_close must be the last call on its
 *    client.
 *  - Lifetimes. Rows of logits lie in shared memory, where the daemon wrote them. Rows are valid
 *    until kvd_release, a piece is valid until the next call on its request, and both are valid
 *    until kvd_close at the latest.
 *  - Backpressure. Logits that were not released and pieces that were not taken occupy this
 *    client's output arena. When the arena is full, all further answers to this client wait,
 *    including answers to its other threads. Release outputs before waiting for further outputs, or
 *    set a timeout. The full arena of one client does not affect other clients.
 *  - Sequences are private to their session and end with it (kvd_close, exit, a crash), unless they
 *    are published as a snapshot. After the end of a session the daemon retains the pristine cells
 *    of its sequences as a prefix for later prompts of the same user, until the room is needed.
 *    kvd_sequence_drop retains no cells.
 *  - Lost connections. When the connection is lost, also because the daemon was killed and started
 *    again, a call that waits tries to reconnect for reconnect_timeout_ms at most. After a
 *    reconnect, the client finds its sequences unchanged. Requests in flight resume, and each
 *    request is applied once. If the daemon does not know the session, every call fails with
 *    KVD_SESSION_LOST until kvd_renew.
 *  - Versions. The library and the daemon must speak the same protocol version; otherwise
 *    kvd_connect fails with KVD_VERSION_MISMATCH, and the error message names both versions. Later
 *    versions of the library may add members at the end of structs with a `size` member: set `size`
 *    to sizeof the struct (the kvd_..._init functions set it).
 *  - Calls that wait, and calls that do not. The last parameter of a verb's function is `later`. If
 *    `later` is null, the function waits for the answer, writes its outputs and returns the verb's
 *    code. If `later` is not null, the function copies its arguments, sends the request, sets
 *    *later to the request's id and returns; *later is 0 if the function returns an error.
 *    kvd_finish then waits for the answer, writes the outputs and returns the verb's code. The
 *    outputs that were given to a function with `later` must stay valid until kvd_finish returns a
 *    code other than KVD_TIMEOUT, or until kvd_abandon or kvd_close returns; afterwards nothing is
 *    written to them. Submitting never blocks: if the ring is full, the library queues the request,
 *    and later calls send the queued requests in order. kvd_wait_any and kvd_event_fd report when a
 *    request has an answer or a piece. Functions without `later` send no request, or have only the
 *    form that waits (kvd_connect, kvd_renew, the kvd_state_ functions).
 *  - Signals. The library ignores EINTR, raises no SIGPIPE, and installs no handlers.
 *
 * Every function that returns int returns KVD_OK or the code of its error; kvd_error_message()
 * returns the text of this thread's last error. Outputs are written only on success, unless stated
 * otherwise; a pointer to an output may be null only where the function's comment says so. Any call
 * on a client may return these codes, in addition to the codes named at the call:
 *    KVD_INVALID_ARGUMENT  a null pointer, a number out of range, a forked child
 *    KVD_TIMEOUT           the client's timeout_ms has passed; the request may still be applied
 *    KVD_DISCONNECTED      the connection is lost, and reconnecting failed for reconnect_timeout_ms
 *    KVD_SESSION_LOST      the daemon does not know the session: its sequences are gone
 *    KVD_CORRUPT           the daemon broke the protocol
 *    KVD_NO_SPACE          memory is exhausted
 *    KVD_TOO_LARGE         the arguments exceed the request arena or a limit of one request
 *    KVD_CONFLICT          the connection was lost during the request, and its answer cannot be
 *                          repeated: another process of the session has changed the sequence since
 * Calls on a sequence may also return KVD_NOT_FOUND (the sequence does not exist, or this user may
 * not see it), KVD_PERMISSION (the sequence belongs to another session) and KVD_BUSY (a request
 * computes on the sequence).
 */
#ifndef KVD_KVD_H_
#define KVD_KVD_H_

#include <stddef.h>
#include <stdint.h>

/* The version of this header; kvd_version() returns that of the library. */
#define KVD_VERSION_MAJOR 0
#define KVD_VERSION_MINOR 1
#define KVD_VERSION_PATCH 0
#define KVD_VERSION_TEXT "0.1.0"
/* Grows with the version: #if KVD_VERSION_NUMBER >= 100 */
#define KVD_VERSION_NUMBER (KVD_VERSION_MAJOR * 10000 + KVD_VERSION_MINOR * 100 + KVD_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvd_client kvd_client;
typedef uint64_t kvd_sequence; /* a handle; 0: none */
typedef uint64_t kvd_request;  /* the id of a request that was submitted with `later`; 0: none */
typedef int32_t kvd_token;

/* The numbers of the codes are stable; new codes are added at the end. */
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
  /* 18 is used only inside the daemon. */
  KVD_WINDOW_LOST = 19, /* an edit needs cells that a sliding window has dropped; nothing changed */
  KVD_SESSION_LOST = 20, /* the daemon does not know the session: see kvd_renew */
  KVD_TOO_LARGE = 21     /* the arguments exceed a limit of one request: it fails again */
};

/* -------------------------------------------------------------------------------- a first program
 *
 * A program that continues a text and prints the continuation needs these functions (checks of the
 * codes are left out; Show is a kvd_piece_function):
 *
 *   kvd_connect(NULL, &client);
 *   kvd_sequence_create(client, NULL, &sequence, NULL);
 *   kvd_generate_text(client, sequence, text, KVD_ADD_SPECIAL, NULL, Show, NULL, NULL);
 *   kvd_close(client);
 *
 * The structs are described in the sections below. */

typedef struct kvd_connect_options kvd_connect_options;
typedef struct kvd_sequence_options kvd_sequence_options;
typedef struct kvd_fork_info kvd_fork_info;
typedef struct kvd_generate_params kvd_generate_params;
typedef struct kvd_generate_result kvd_generate_result;
typedef struct kvd_piece kvd_piece;

/* The message of this thread's last error; never null. The message is valid until this thread's
 * next call. */
const char* kvd_error_message(void);
/* Returns the name of a code: "no_space" for KVD_NO_SPACE, "unknown" for a number that is no
 * code. */
const char* kvd_code_name(int code);
/* Frees memory that a call returned by pointer (text, lists). `pointer` may be null. */
void kvd_free(void* pointer);

/* Sets all members of *options to their defaults. `size`: sizeof *options. */
void kvd_connect_options_init(kvd_connect_options* options, size_t size);
/* Opens a session: *client becomes its client. `options` may be null. Errors: KVD_DISCONNECTED (no
 * daemon listens; the message says how to start one), KVD_PERMISSION, KVD_VERSION_MISMATCH,
 * KVD_NO_SPACE (a limit of the daemon), KVD_SESSION_LOST (the daemon does not know the
 * session_token), KVD_TIMEOUT (connect_timeout_ms), KVD_IO (the system opens no socket),
 * KVD_CORRUPT (what listens is no daemon of kvd). */
int kvd_connect(const kvd_connect_options* options, kvd_client** client);
/* Ends the session and frees the client. kvd_close cancels requests in flight. The daemon retains
 * the pristine cells of the session's sequences until the room is needed (see kvd_sequence_retain).
 * `client` may be null. */
void kvd_close(kvd_client* client);

enum kvd_flags {
  /* The call may change sequences of this user's other sessions, or replace an existing name. */
  KVD_FORCE = 1,
  KVD_PUBLIC = 2,      /* publish: every user that may connect can fork the snapshot */
  KVD_ADD_SPECIAL = 4, /* kvd_tokenize: the tokens begin with the model's begin token */
  /* For kvd_tokenize: a text such as "<|eot|>" becomes the special token of that name. */
  KVD_PARSE_SPECIAL = 8,
  KVD_SPECIAL = 16,       /* kvd_detokenize, kvd_read_text: the text shows special tokens */
  KVD_ADD_ASSISTANT = 32, /* kvd_chat: the prompt ends with the header of the assistant's turn */
  KVD_NORMALIZE = 128,    /* kvd_embed: the rows are scaled to length 1 */
  KVD_EPHEMERAL = 512     /* kvd_sequence_options, kvd_sequence_life */
};

/* Creates an empty sequence: *sequence becomes its handle. options (may be null): flag
 * KVD_EPHEMERAL, ttl_seconds. Errors: KVD_NO_SPACE (too many sequences), KVD_INVALID_ARGUMENT (the
 * options). */
int kvd_sequence_create(kvd_client* client, const kvd_sequence_options* options,
                        kvd_sequence* sequence, kvd_request* later);
/* Creates `count` (1..1024) forks, each with the first `cell_count` cells (negative: all) of the
 * sequence. No cell is copied. forks[count] becomes the handles of the forks; *info (may be null)
 * describes them. The sequence may be one of this user's other sessions, or a public snapshot;
 * KVD_FORCE is not needed. options (may be null): flag KVD_EPHEMERAL, ttl_seconds; forks do not
 * inherit the time of expiry. Errors: KVD_NO_SPACE, KVD_INVALID_ARGUMENT (count, cell_count, the
 * options). */
int kvd_sequence_fork(kvd_client* client, kvd_sequence sequence, int32_t cell_count, uint32_t count,
                      const kvd_sequence_options* options, kvd_sequence* forks, kvd_fork_info* info,
                      kvd_request* later);
/* Drops the sequence without retaining its cells. flags: KVD_FORCE. */
int kvd_sequence_drop(kvd_client* client, kvd_sequence sequence, uint32_t flags,
                      kvd_request* later);

/* Converts UTF-8 text to tokens: *tokens becomes an array of *token_count tokens. Free *tokens with
 * kvd_free. flags: KVD_ADD_SPECIAL, KVD_PARSE_SPECIAL. Errors: KVD_NO_TOKENIZER. */
int kvd_tokenize(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                 kvd_token** tokens, size_t* token_count, kvd_request* later);

/* Sets all members of *params to their defaults. `size`: sizeof *params. */
void kvd_generate_params_init(kvd_generate_params* params, size_t size);
/* kvd_generate calls this function for every piece, in the thread that called kvd_generate. A
 * kvd_piece_function returns 0 to continue; any other value cancels the request. A
 * kvd_piece_function may call any function on this client but must not wait for the request whose
 * piece it receives. */
typedef int (*kvd_piece_function)(void* user, const kvd_piece* piece);
/* Appends the prompt, samples tokens, and passes pieces to `on_piece` (may be null) until the
 * generation ends; then *result (may be null) is written. With `later`, `on_piece` and `result`
 * must be null, and kvd_generate_next gives the pieces and the result. Errors: KVD_CANCELLED
 * (cancelled by `on_piece` or kvd_cancel; the computed tokens stay in the sequence, except those
 * whose cells it had given back for lack of room; or the sequence was dropped), KVD_NO_SPACE,
 * KVD_NUMERICAL (a value was not finite; the computed tokens of the answer stay), KVD_CONFLICT (see
 * KVD_RESUME_SAMPLER), KVD_INVALID_ARGUMENT (names the field of the parameters). If kvd_generate
 * fails with KVD_TIMEOUT, it cancels the request. */
int kvd_generate(kvd_client* client, kvd_sequence sequence, const kvd_generate_params* params,
                 kvd_piece_function on_piece, void* user, kvd_generate_result* result,
                 kvd_request* later);

/* ------------------------------------------------------------------------------ text in, text out
 *
 * These functions wait. The section "text" has chat templates. */

/* Appends a zero-terminated UTF-8 text to the sequence and draws no token. flags: KVD_ADD_SPECIAL,
 * for the first text of a sequence; KVD_PARSE_SPECIAL. *result may be null. Errors: those of
 * kvd_tokenize and kvd_generate; KVD_INVALID_ARGUMENT (the text has no tokens). */
int kvd_prompt(kvd_client* client, kvd_sequence sequence, const char* text, uint32_t flags,
               kvd_generate_result* result);
/* Appends a text as kvd_prompt does and continues it: `on_piece` (may be null) receives the pieces
 * of the answer as they are drawn. `params` may be null: the defaults; its members tokens and
 * token_count are not used. Errors: those of kvd_prompt. */
int kvd_generate_text(kvd_client* client, kvd_sequence sequence, const char* text, uint32_t flags,
                      const kvd_generate_params* params, kvd_piece_function on_piece, void* user,
                      kvd_generate_result* result);

/* --------------------------------------------------------------------------------------- requests
 *
 * Requests that were submitted with `later`. Many requests on many sequences may be in flight. */

/* Waits for the answer of a request of any verb except decode and generate, and writes the outputs
 * that were given to the verb's function. Errors: those of the verb, which end the request;
 * KVD_TIMEOUT, which does not end the request; KVD_NOT_FOUND (no request has this id, or the
 * request has ended). */
int kvd_finish(kvd_client* client, kvd_request request, int32_t timeout_ms);

/* Waits until one of the requests has an answer or a piece to take; *index becomes the index of
 * this request in `requests`. Errors: KVD_NOT_FOUND (none of the requests is in flight). */
int kvd_wait_any(kvd_client* client, const kvd_request* requests, size_t count, int32_t timeout_ms,
                 size_t* index);
/* Returns a descriptor for an event loop (poll, epoll, select; for reading), which replaces a
 * waiting thread. The descriptor becomes readable when a request may have an answer or a piece.
 * When the descriptor is readable, call kvd_wait_any with timeout 0 and take the result, and repeat
 * until kvd_wait_any returns KVD_TIMEOUT (or KVD_NOT_FOUND, if no request is in flight). Before the
 * first wait on the descriptor, also call kvd_wait_any with timeout 0 until it returns KVD_TIMEOUT
 * or KVD_NOT_FOUND. Use the descriptor of kvd_event_fd only for waiting: do not read from the
 * descriptor or close it. The descriptor stays the same when the connection is lost and restored
 * (while the library reconnects, kvd_wait_any may take 100 ms); kvd_close closes it. Errors:
 * KVD_IO. */
int kvd_event_fd(kvd_client* client, int* descriptor);
/* Cancels a request, from any thread: the request then fails with KVD_CANCELLED. *was_found (may be
 * null) becomes 1, or 0 if the request had already ended. */
int kvd_cancel(kvd_client* client, kvd_request target, int* was_found, kvd_request* later);
/* Cancels a request and discards its outputs: nothing is written to them after kvd_abandon.
 * kvd_abandon ignores unknown requests. */
void kvd_abandon(kvd_client* client, kvd_request request);

/* ----------------------------------------------------------------------------------- connection */

/* Returns the code of this thread's last error, or KVD_OK if no call of this thread has failed. */
int kvd_error_code(void);
/* Returns the protocol version that this library speaks. */
uint32_t kvd_protocol_version(void);
/* Returns the version of this library: "0.1.0". */
const char* kvd_version(void);

/* A member that is 0 or null has its default, also in a struct that kvd_connect_options_init has
 * not filled; only `size` must be set. */
struct kvd_connect_options {
  size_t size; /* sizeof(kvd_connect_options) */
  /* Path of the socket; null: $KVD_SOCKET, else the default path of daemon_name. */
  const char* socket_path;
  const char* daemon_name; /* name of the daemon; null: "default" */
  /* Name shown in lists; printable ASCII, at most 32 bytes; null: none. */
  const char* client_name;
  uint32_t submission_entries; /* capacity of the submission ring, a power of two 8..4096; 0: 256 */
  /* Capacity of the completion ring, at least 2 * submission_entries; 0: 2 * submission_entries. */
  uint32_t completion_entries;
  uint64_t request_arena_bytes; /* bytes for the arguments of calls; limits one call; 0: 1 MiB */
  uint64_t result_arena_bytes;  /* bytes for outputs that are not released; 0: 4 MiB */
  /* Time limit of kvd_connect; 0: 10,000; negative: no limit. Within connect_timeout_ms,
   * kvd_connect also retries if a daemon that is being restarted closes the connection before its
   * welcome. */
  int32_t connect_timeout_ms;
  /* Time limit of each call in milliseconds, of a generation: of the wait for each piece; 0 or
   * negative: no limit. */
  int32_t timeout_ms;
  uint32_t wants_map; /* 1: kvd_map_open will be called; default 0 */
  uint32_t no_prefix; /* 1: prompts reuse no prefix of other sequences; default 0 */
  /* Prompts reuse only prefixes of sequences with the same salt; default 0. */
  uint64_t cache_salt;
  /* How long the library tries to restore a lost connection; 0: 10,000; negative: not at all. */
  int32_t reconnect_timeout_ms;
  /* Seconds for which the daemon keeps the session after the connection is lost without kvd_close,
   * or after kvd_leave, also if this process has ended; at most 604,800. Another process resumes
   * the session with session_token. Requests in flight stop after the step in progress; the other
   * process continues a generation with kvd_generate_resume. Default 0: the session ends with this
   * process. */
  uint32_t outlive_seconds;
  /* The tenant to which the session belongs; all zero (default): the uid itself. The daemon accepts
   * tenants only from the uid of its flag --tenant-uid. */
  uint8_t tenant[16];
  /* The token of the session to resume (kvd_session_info); all zero (default): a new session. */
  uint8_t session_token[16];
};

/* Closes the connection without ending the session, so that another process can resume the session
 * with its token (outlive_seconds). Requests in flight stop after the step in progress. Received
 * outputs stay valid. Every later call on the client except kvd_close and kvd_renew fails with
 * KVD_DISCONNECTED; kvd_close then only frees the client, and kvd_renew opens a new session. */
int kvd_leave(kvd_client* client);
/* Replaces a session that has failed with KVD_DISCONNECTED or KVD_SESSION_LOST by a new one without
 * sequences. Requests in flight end with the code with which the session has failed. kvd_renew does
 * nothing if the session has not failed. Errors: those of kvd_connect. REQUIRES: no other thread is
 * in a call on the client. */
int kvd_renew(kvd_client* client);

typedef struct kvd_session_info {
  size_t size; /* sizeof(kvd_session_info), set by the caller */
  uint64_t session;
  uint64_t pool_cells;
  uint32_t vocab_size; /* number of floats in one row of logits */
  uint32_t daemon_pid;
  /* With this token another process may resume the session; all zero: it cannot be resumed. */
  uint8_t session_token[16];
} kvd_session_info;
/* Writes the values that the daemon sent when the session was opened to *info. kvd_session makes no
 * request. Errors: KVD_INVALID_ARGUMENT (info->size). */
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
  int32_t bos_token;         /* -1: none */
  int32_t eos_token;         /* -1: none */
  uint32_t requests_waiting; /* requests that have computed nothing yet */
  uint32_t requests_computing;
  uint32_t requests_parked; /* requests that wait for room in the pool */
  uint32_t reserved;
  /* Number of tokens whose cells were given back to make room for other requests. */
  uint64_t tokens_given_back;
} kvd_daemon_info;
/* Writes a description of the daemon's model, its pool and itself to *info; info->size is set
 * before the call. Errors: KVD_INVALID_ARGUMENT (info->size). */
int kvd_info(kvd_client* client, kvd_daemon_info* info, kvd_request* later);

/* ------------------------------------------------------------------------------------- live map */

/* A view of the daemon's live map: the sequences that this user may see, the blocks of the pool,
 * and totals. The daemon publishes the map at most 20 times a second; reading it makes no
 * request. One thread at a time may use a kvd_map. A kvd_map may be used until kvd_map_close, also
 * after kvd_close. */
typedef struct kvd_map kvd_map;

enum kvd_map_state {
  KVD_MAP_LIVE = 0,
  KVD_MAP_STOPPED = 1, /* the daemon has stopped, and the map is the last one that it published */
  KVD_MAP_KILLED = 2   /* the daemon has ended without marking the map as stopped */
};

typedef struct kvd_map_totals {
  size_t size; /* sizeof(kvd_map_totals), set by the caller */
  uint64_t live_cells;
  uint64_t tokens_computed;
  uint64_t tokens_sampled;
  uint64_t steps;
  uint32_t block_cells; /* number of cells of one block */
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
  uint32_t flags; /* enum kvd_sequence_flags */
  uint32_t cell_count;
  uint32_t shared_cells;
  uint32_t checkpoint_count;
  int32_t next_pos;
} kvd_map_sequence;

typedef struct kvd_map_block {
  /* a sequence that has cells in the block; 0: the block is free, or this user may not see the
   * sequences in it */
  kvd_sequence sequence;
  uint32_t used_cells;
  uint32_t shared_cells;
} kvd_map_block;

/* Opens the map. Errors: KVD_INVALID_ARGUMENT (wants_map was not set for kvd_connect), KVD_IO (no
 * free descriptor). */
int kvd_map_open(kvd_client* client, kvd_map** map);
/* Reads the last published map. `state` (may be null): enum kvd_map_state. */
int kvd_map_refresh(kvd_map* map, int* state);
/* The following functions return copies of the map as of the last refresh. Free lists with
 * kvd_free. */
int kvd_map_read_totals(const kvd_map* map, kvd_map_totals* totals);
int kvd_map_read_sequences(const kvd_map* map, kvd_map_sequence** sequences, size_t* count);
int kvd_map_read_blocks(const kvd_map* map, kvd_map_block** blocks, size_t* count);
/* `map` may be null. */
void kvd_map_close(kvd_map* map);

/* Measures one round trip. *nanoseconds (may be null) becomes its time, with `later` the time until
 * kvd_finish takes the answer. `payload_bytes`: at most 4096, sent in both directions. */
int kvd_ping(kvd_client* client, size_t payload_bytes, uint64_t* nanoseconds, kvd_request* later);

typedef struct kvd_defrag_report {
  uint64_t cells_moved;
  /* number of cells whose keys were rewritten at their effective positions, in sequences with many
   * shifts */
  uint64_t cells_settled;
  uint64_t blocks_freed;
  uint64_t bytes_returned; /* bytes returned to the operating system */
  uint64_t packing_ns;
  uint64_t returning_ns; /* time spent on returning bytes; not part of packing_ns */
  uint64_t settling_ns;
} kvd_defrag_report;
/* Defragments the pool between steps of other requests. *report (may be null) becomes what was
 * done. Errors: KVD_PERMISSION (the caller is not the daemon's user), KVD_BUSY (another
 * defragmentation is running), KVD_NO_SPACE (the defragmentation could not complete; the cells
 * moved so far stay moved). */
int kvd_defrag(kvd_client* client, kvd_defrag_report* report, kvd_request* later);

/* ------------------------------------------------------------------------------------- sequences
 *
 * A sequence is a list of tokens with their computed state. Ranges are half-open ranges of
 * positions [p0, p1); p1 < 0: to the end. */

/* Options of a new sequence: one that kvd_sequence_create creates, forks, or a snapshot. All
 * members but `size` may be 0. */
struct kvd_sequence_options {
  size_t size; /* sizeof(kvd_sequence_options) */
  /* KVD_EPHEMERAL: no prompt reuses the sequence's cells, except by a fork, and the sequence is
   * dropped when it is released. kvd_publish also takes KVD_PUBLIC and KVD_FORCE. */
  uint32_t flags;
  /* Seconds after which the daemon drops the sequence, at most 31,536,000; 0: it does not
   * expire. */
  uint32_t ttl_seconds;
};

struct kvd_fork_info {
  uint64_t engine_ns;  /* nanoseconds spent in the daemon's engine */
  uint64_t cell_count; /* number of cells of each fork */
  /* Number of tokens computed again, if a recurrent model has no checkpoint after cell_count
   * cells. */
  uint64_t tokens_replayed;
};
/* Copies a range into another sequence. *cells (may be null) becomes the number of copied cells,
 * *replayed (may be null) the number of tokens that a recurrent model computed again. Errors:
 * KVD_EXISTS (the destination has cells in that range), KVD_UNSUPPORTED (recurrent models: the
 * range does not start at the source's first cell, or the destination has cells). */
int kvd_sequence_copy(kvd_client* client, kvd_sequence source, kvd_sequence destination, int32_t p0,
                      int32_t p1, uint64_t* cells, uint64_t* replayed, kvd_request* later);
/* Removes a range. *cells (may be null) becomes the number of removed cells, *replayed (may be
 * null) the number of tokens that a recurrent model computed again. Errors: KVD_NO_SPACE (recurrent
 * models: no free state slot), KVD_WINDOW_LOST (sliding windows: the next token would attend to
 * cells that were dropped). */
int kvd_sequence_remove(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        uint64_t* cells, uint64_t* replayed, kvd_request* later);
/* Releases the sequence as at the end of the session: its pristine cells (computed in order from
 * position 0) stay as a prefix for later prompts of the same user and salt until the room is
 * needed; its other cells are removed. *is_retained (may be null) becomes 1, or 0 if the sequence
 * was dropped instead, because it has too few pristine cells or another retained sequence holds the
 * same tokens. flags: KVD_FORCE. */
int kvd_sequence_retain(kvd_client* client, kvd_sequence sequence, uint32_t flags, int* is_retained,
                        kvd_request* later);
/* Pins or unpins the sequence. A pinned sequence is never evicted. flags: KVD_FORCE. */
int kvd_sequence_pin(kvd_client* client, kvd_sequence sequence, int is_pinned, uint32_t flags,
                     kvd_request* later);
/* Sets the seconds after which the daemon drops the sequence, at most 31,536,000; 0: it does not
 * expire. flags: KVD_EPHEMERAL (no prompt reuses the sequence's cells, and the sequence is dropped
 * when it is released; forks inherit this, and it cannot be undone), KVD_FORCE. Errors:
 * KVD_INVALID_ARGUMENT (the range; KVD_EPHEMERAL for a retained sequence). */
int kvd_sequence_life(kvd_client* client, kvd_sequence sequence, uint32_t ttl_seconds,
                      uint32_t flags, kvd_request* later);
/* Drops this user's retained sequences. *count (may be null) becomes the number of dropped
 * sequences. flags: KVD_FORCE (also drops pinned ones). */
int kvd_drop_retained(kvd_client* client, uint32_t flags, uint64_t* count, kvd_request* later);
/* Drops all sequences of this session except `sequence`. */
int kvd_sequence_keep(kvd_client* client, kvd_sequence sequence, kvd_request* later);
/* Removes all cells of the sequence. */
int kvd_sequence_clear(kvd_client* client, kvd_sequence sequence, kvd_request* later);
/* Adds `delta` to the positions of a range. Errors: KVD_INVALID_ARGUMENT (the shift would make
 * positions overlap, change their order or go below 0). */
int kvd_sequence_add(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                     int32_t delta, kvd_request* later);
/* Divides the positions of a range by `divisor` (at least 1). *cells (may be null) becomes the
 * number of rewritten cells. Errors: KVD_INVALID_ARGUMENT (the divisor), KVD_NO_SPACE (the keys are
 * written to new cells), KVD_NUMERICAL (a rewritten key is not finite). */
int kvd_sequence_divide(kvd_client* client, kvd_sequence sequence, int32_t p0, int32_t p1,
                        int32_t divisor, uint64_t* cells, kvd_request* later);

enum kvd_sequence_flags {
  KVD_SEQUENCE_LIVE = 1,
  KVD_SEQUENCE_RETAINED = 2,
  KVD_SEQUENCE_PINNED = 4,
  KVD_SEQUENCE_PUBLISHED = 8,
  KVD_SEQUENCE_EDITED = 16,
  KVD_SEQUENCE_EPHEMERAL = 32
};
/* What the request does that computes on a sequence. */
enum kvd_request_state {
  KVD_REQUEST_NONE = 0,  /* no request computes on the sequence */
  KVD_REQUEST_WAITS = 1, /* it has computed nothing yet, and waits for its turn or a prefix */
  KVD_REQUEST_COMPUTES = 2,
  KVD_REQUEST_PARKED = 3 /* it waits for room in the pool (docs/scheduling.md) */
};

typedef struct kvd_sequence_info {
  kvd_sequence handle;
  uint64_t session;
  uint32_t owner_uid;
  uint32_t owner_pid; /* process that owns the sequence; 0: unknown */
  uint32_t flags;     /* kvd_sequence_flags */
  uint32_t cell_count;
  uint32_t shared_cells; /* number of cells that other sequences hold as well */
  uint32_t extent_count;
  uint32_t delta_count; /* number of distinct shifts */
  int32_t first_pos;
  int32_t next_pos;            /* position of the next token to append */
  uint32_t expires_in_seconds; /* rounded up; 0: the sequence does not expire */
  uint64_t age_ms;
  /* The request that computes on the sequence. Its tokens are those of its prompt and its answer.
   * request_tokens: how many it wants in all; 0: unknown, or there is no request. */
  uint32_t request_state; /* kvd_request_state */
  uint32_t request_tokens_done;
  uint32_t request_tokens;
  uint32_t parked_ms; /* how long the request has waited for room; 0 if it is not parked */
} kvd_sequence_info;
/* Writes a description of the sequence to *info. */
int kvd_sequence_query(kvd_client* client, kvd_sequence sequence, kvd_sequence_info* info,
                       kvd_request* later);
/* Lists all sequences that this user may see: *list becomes an array of *count entries. Free *list
 * with kvd_free. */
int kvd_list(kvd_client* client, kvd_sequence_info** list, size_t* count, kvd_request* later);

typedef struct kvd_token_at {
  kvd_token token;
  int32_t pos;
} kvd_token_at;
/* Reads `cell_count` (negative: all) cells from index `first_cell` on: *tokens becomes an array of
 * *token_count tokens with their positions. Free *tokens with kvd_free. */
int kvd_read_tokens(kvd_client* client, kvd_sequence sequence, int32_t first_cell,
                    int32_t cell_count, kvd_token_at** tokens, size_t* token_count,
                    kvd_request* later);
/* Gives the text of the sequence's tokens: *text becomes a zero-terminated text of *text_bytes
 * bytes without the zero; free *text with kvd_free. flags: KVD_SPECIAL. Errors: KVD_NO_TOKENIZER.
 * */
int kvd_read_text(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                  size_t* text_bytes, kvd_request* later);

/* ------------------------------------------------------------------------------------ computing */

enum kvd_logits_wanted { KVD_LOGITS_NONE = 0, KVD_LOGITS_LAST = 1, KVD_LOGITS_ALL = 2 };

/* A prompt for an empty sequence reuses the longest prefix that is already held by another sequence
 * of the same user and salt (live or retained), by a snapshot that this user may see, or by the
 * prompt cache on disk. The following two enums give the origin of the reused prefix and the reason
 * why no longer prefix was reused. */
enum kvd_prefix_origin {
  KVD_PREFIX_NOWHERE = 0,
  KVD_PREFIX_LIVE = 1,
  KVD_PREFIX_RETAINED = 2,
  KVD_PREFIX_SNAPSHOT = 3,
  KVD_PREFIX_DISK = 4
};
enum kvd_prefix_limit {
  KVD_PREFIX_NONE = 0, /* no cached sequence begins like the prompt */
  /* All tokens but the last were reused; the last token is computed for its logits. */
  KVD_PREFIX_COMPLETE = 1,
  KVD_PREFIX_NAMESPACE = 2, /* a longer prefix exists, but with another salt */
  /* A longer prefix exists, but its cells are not pristine, because the sequence was edited. */
  KVD_PREFIX_EDITED = 3,
  KVD_PREFIX_EVICTED = 4,       /* a longer prefix existed and was evicted */
  KVD_PREFIX_NO_CHECKPOINT = 5, /* a longer prefix exists, but without its recurrent state */
  KVD_PREFIX_WINDOW_LOST = 6,   /* a longer prefix exists, but its window's cells were dropped */
  KVD_PREFIX_TOO_SHORT = 7,     /* the prompt or the common prefix is too short */
  KVD_PREFIX_NOT_EMPTY = 8,     /* the sequence already had cells */
  KVD_PREFIX_ALL_LOGITS = 9,    /* logits of all tokens were requested */
  /* Reuse is switched off for the request, the session or the daemon. */
  KVD_PREFIX_OFF = 10,
  KVD_PREFIX_UNSUPPORTED = 11, /* the model also attends to an encoded text */
  /* The prompt cache has more tokens, but computing was expected to be faster. */
  KVD_PREFIX_ON_DISK = 12
};
/* Returns the name of a kvd_prefix_limit: "no-checkpoint" for KVD_PREFIX_NO_CHECKPOINT, "unknown"
 * for a number that is no kvd_prefix_limit. */
const char* kvd_prefix_limit_name(int limit);

/* A kvd_why_info has the number of tokens of a prompt that an empty sequence of this client could
 * reuse, and the first token that differs from the cached tokens. Only sequences from which such a
 * prompt may reuse a prefix are considered. */
typedef struct kvd_why_info {
  kvd_sequence source;    /* the sequence that holds the reusable prefix; 0: none */
  kvd_sequence nearest;   /* the sequence with the longest common prefix; 0: none */
  uint32_t prompt_tokens; /* number of tokens of the prompt */
  uint32_t reused;        /* number of tokens that could be reused; at most all but the last */
  uint32_t common;        /* length of the common prefix with `nearest` */
  /* Number of the prompt's tokens in the prompt cache, if more than `reused`; else 0. */
  uint32_t on_disk;
  /* The token of the prompt and the token of `nearest` at index `common`; -1: the prompt, or
   * `nearest`, has no more tokens. */
  kvd_token prompt_token;
  kvd_token cached_token;
  uint16_t shared_origin; /* kvd_prefix_origin */
  uint16_t share_limit;   /* kvd_prefix_limit: why no more tokens were reused */
  uint32_t reserved;
  /* The texts of prompt_token and cached_token and of the tokens after them, as far as they fit,
   * zero-terminated UTF-8; invalid bytes are shown as, for example, <0xE2>. Both texts are empty if
   * the model has no tokenizer. */
  char prompt_text[64];
  char cached_text[64];
} kvd_why_info;
/* Writes to *info what of a prompt could be reused. kvd_why computes no tokens and changes no
 * sequence. Errors: KVD_INVALID_ARGUMENT (no tokens). */
int kvd_why(kvd_client* client, const kvd_token* tokens, size_t token_count, kvd_why_info* info,
            kvd_request* later);

enum kvd_edit_kind {
  KVD_EDIT_REMOVED = 1,
  KVD_EDIT_COPIED = 2, /* cells were copied from another sequence */
  KVD_EDIT_SHIFTED = 3,
  KVD_EDIT_DIVIDED = 4
};
#define KVD_EDITS_KEPT 32

typedef struct kvd_edit {
  uint64_t unix_ms;
  /* Positions [p0, p1) of the cells before the edit; for copied cells, positions in the source. */
  int32_t p0;
  int32_t p1;
  int32_t delta; /* the distance of a shift, the divisor of a division; else 0 */
  uint16_t kind; /* kvd_edit_kind */
  uint16_t verb; /* the verb that made the edit (docs/verbs.md); 0: the daemon itself */
} kvd_edit;

typedef struct kvd_log_entry {
  kvd_sequence sequence;
  /* The sequence from which `sequence` was forked; the parent may have been dropped. 0: this
   * sequence is no fork, or this user may not read the parent. */
  kvd_sequence parent;
  uint64_t created_unix_ms;
  uint32_t parent_cells; /* number of cells taken from the parent */
  uint32_t owner_uid;
  uint32_t cell_count;
  uint32_t edit_count; /* number of edits since the sequence was created */
  /* The last min(edit_count, KVD_EDITS_KEPT) edits of the sequence, oldest first. */
  kvd_edit edits[KVD_EDITS_KEPT];
} kvd_log_entry;
/* Gives the ancestry of a sequence: *list becomes an array of *count entries, an entry for the
 * sequence, for its parent, for the parent's parent and so on, while the parent exists and this
 * user may read it, at most 64 entries. Free *list with kvd_free. */
int kvd_log(kvd_client* client, kvd_sequence sequence, kvd_log_entry** list, size_t* count,
            kvd_request* later);

/* Rows of logits, [row_count][row_floats], in shared memory of the daemon. */
typedef struct kvd_logits {
  const float* rows;   /* the rows of logits; null when row_count is 0 */
  uint32_t row_count;  /* number of rows in this piece */
  uint32_t row_floats; /* size of the vocabulary */
  uint64_t row_first;  /* index of rows[0] among all rows of the decode */
  uint64_t cell_count; /* number of cells of the sequence after this piece */
  int32_t has_more;    /* 1: kvd_decode_next returns further pieces */
  uint32_t reserved;
  kvd_request request;
  uint64_t ticket;        /* names the rows in kvd_release */
  uint32_t prompt_shared; /* tokens reused from another sequence */
  uint16_t shared_origin; /* kvd_prefix_origin */
  uint16_t share_limit;   /* kvd_prefix_limit: why no more tokens were reused */
} kvd_logits;

/* Appends tokens at position `pos`, which must be the sequence's next position (next_pos of
 * kvd_sequence_query; -1 stands for it), waits for the first piece of logits and writes it to
 * *logits. The first piece has all rows unless they exceed the output arena; if logits->has_more is
 * 1, kvd_decode_next gives the further pieces of logits->request. With `later`, `logits` is not
 * used and may be null, and kvd_decode_next gives all pieces. wanted: kvd_logits_wanted. Errors:
 * KVD_INVALID_ARGUMENT (`pos` is another position; the model needs a text of kvd_encode),
 * KVD_NO_SPACE (cells), KVD_NUMERICAL (a value
 * was not finite), KVD_CANCELLED (by kvd_cancel, or the sequence was dropped; the computed tokens
 * stay in the sequence). After another error the sequence is unchanged, unless the message says
 * that the appended tokens stay (because a sliding window or a recurrent state cannot be
 * rewound). */
int kvd_decode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, int32_t pos, int wanted, kvd_logits* logits, kvd_request* later);
/* Releases the rows; `logits->rows` becomes null. Rows may be released in any order; the daemon
 * reuses the room of the oldest rows first. Errors: KVD_NOT_FOUND (the rows were already
 * released). */
int kvd_release(kvd_client* client, kvd_logits* logits);

/* Waits for the next piece of a decode and writes it to *logits. Errors: those of kvd_decode, which
 * end the request; KVD_TIMEOUT, which does not end the request; KVD_NOT_FOUND (the last piece was
 * already taken). */
int kvd_decode_next(kvd_client* client, kvd_request request, int32_t timeout_ms,
                    kvd_logits* logits);

/* How the rows of a text's tokens become its embedding. */
enum kvd_pooling {
  KVD_POOLING_DEFAULT = -1, /* as the model's file declares */
  KVD_POOLING_NONE = 0,     /* a row for each token */
  KVD_POOLING_MEAN = 1,
  KVD_POOLING_CLS = 2,  /* the row of the first token */
  KVD_POOLING_LAST = 3, /* the row of the last token */
  KVD_POOLING_RANK = 4  /* the scores of a reranker's classifier */
};
/* The tokens of one text. */
typedef struct kvd_token_list {
  const kvd_token* tokens;
  size_t token_count; /* at least 1 */
} kvd_token_list;

/* Computes the embeddings of 1 to 4,096 texts with together at most 1,048,576 tokens. *values is
 * [row_count][row_floats], the rows of the texts one after the other: one row for each text, or
 * with KVD_POOLING_NONE one for each token. Free *values with kvd_free. The daemon does not store
 * the tokens. pooling: kvd_pooling. flags: KVD_NORMALIZE (without effect on scores). Errors:
 * KVD_UNSUPPORTED (the model has no embeddings, or cannot do the pooling), KVD_INVALID_ARGUMENT (a
 * text is longer than the model's context; the message names its index), KVD_TOO_LARGE (the output
 * arena), KVD_NUMERICAL. */
int kvd_embed(kvd_client* client, const kvd_token_list* texts, size_t text_count, int pooling,
              uint32_t flags, float** values, size_t* row_count, size_t* row_floats,
              kvd_request* later);

/* Computes how well each of 1 to 4,096 documents matches a query (rerankers). Query and documents
 * are UTF-8 texts of at most 262,144 bytes. scores[document_count]: a higher score is a better
 * match. Errors: KVD_UNSUPPORTED (the model is no reranker), KVD_NO_TOKENIZER,
 * KVD_INVALID_ARGUMENT (a pair is longer than the model's context, or a text is not UTF-8; the
 * message names the document's index), KVD_NUMERICAL. */
int kvd_rank(kvd_client* client, const char* query, const char* const* documents,
             size_t document_count, float* scores, kvd_request* later);

/* Sets the text that the sequence's decoder attends to (models with an encoder and a decoder, such
 * as t5). kvd_encode can set a text once per sequence, before the sequence's first token; forks
 * share the cells of the text. *start_token (may be null) becomes the token with which decoding
 * starts, or -1 if the model defines no such token. Errors: KVD_UNSUPPORTED (another kind of
 * model), KVD_EXISTS (the sequence already has a text), KVD_NO_SPACE, KVD_NUMERICAL. */
int kvd_encode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, kvd_token* start_token, kvd_request* later);

typedef struct kvd_logit_bias {
  kvd_token token;
  float bias; /* added to the token's logit, [-1000, 1000]; -infinity forbids the token */
} kvd_logit_bias;

enum kvd_generate_flags {
  KVD_IGNORE_EOS = 1,   /* the generation does not stop at end tokens */
  KVD_NO_TEXT = 2,      /* pieces contain no text; without a tokenizer, pieces never contain text */
  KVD_SHOW_SPECIAL = 4, /* special tokens appear in the text */
  /* The request has no prompt: the first token is sampled from the logits of the sequence's last
   * token. For recurrent models the logits of the last token are stored with the sequence; for
   * other models they are computed again. Error: KVD_UNSUPPORTED (the logits are not stored and
   * cannot be computed). */
  KVD_CONTINUE = 8,
  /* Resumes the sampler of the last generation that drew tokens for this sequence, or for the
   * sequence from which it was forked or loaded: the seed is the same, and the first draw is the
   * sampler's next draw. Temperature, top_k to repeat_last, top_n_sigma to dry_breakers, seed,
   * biases, KVD_IGNORE_EOS and KVD_LLAMA_DRAWS are those of the earlier generation; the values in
   * the request with KVD_RESUME_SAMPLER are ignored. A grammar is not kept: the request brings the
   * text and the triggers of the earlier generation again, and the grammar reads the tokens since
   * its beginning. Errors: KVD_NOT_FOUND (no generation has drawn tokens for the sequence),
   * KVD_INVALID_ARGUMENT (the grammar differs), KVD_CONFLICT (the tokens were edited and left the
   * grammar's language). With KVD_CONTINUE and KVD_RESUME_SAMPLER, a request produces the tokens
   * that the earlier generation would have produced next. */
  KVD_RESUME_SAMPLER = 16,
  /* Tokens are drawn as llama.cpp draws them, so that equal logits give llama.cpp's text of the
   * seed. The low 32 bits of the seed are llama.cpp's seed; llama.cpp's seed 0 is the seed
   * 0x100000000, because the seed 0 makes the daemon draw one. docs/sampling.md has the limits. */
  KVD_LLAMA_DRAWS = 64,
  /* The answer ends as soon as its last token is sampled: this token is not computed and does not
   * become part of the sequence (kvd_generate_result.skipped). Saves a forward pass; a prompt that
   * continues the answer has the token computed. After a cancellation too, a token that was not
   * computed is not part of the sequence. */
  KVD_SKIP_LAST = 128,
  /* The daemon sends a piece of KVD_PIECE_PARKING when the request begins or ends to wait for room
   * in the pool (docs/scheduling.md). */
  KVD_TELL_PARKING = 256
};

/* Starts a lazy grammar. The grammar reads the trigger itself: a text from its first byte on, even
 * if the text begins within a token. */
typedef struct kvd_grammar_trigger {
  const char* text; /* UTF-8, 1..256 bytes; NULL: the trigger is `token` */
  kvd_token token;
} kvd_grammar_trigger;

/* kvd_generate_params_init must fill the struct: 0 is a value of most members. A struct that it has
 * not filled is refused. */
struct kvd_generate_params {
  size_t size;             /* sizeof(kvd_generate_params) */
  const kvd_token* tokens; /* the prompt, which is appended before sampling; at least one token */
  size_t token_count;
  int32_t pos; /* position of the first token; negative (default): the sequence's next position */
  /* Number of tokens to sample; 0: only compute the prompt; -1 (default): until an end token. */
  int32_t predict_max;
  /* Temperature of the sampler; 0: the most likely token is drawn; default 0.8. */
  float temperature;
  int32_t top_k; /* number of most likely tokens that are kept; 0: all; default 40 */
  /* (0, 1]: the fewest most likely tokens with this total probability are kept; 1: all; default
   * 0.95. */
  float top_p;
  /* [0, 1]: tokens with at least this fraction of the top token's probability are kept; 0: all;
   * default 0.05. */
  float min_p;
  /* (0, 1]: the most typical tokens with this total probability are kept; 1 (default): all. */
  float typical_p;
  float repeat_penalty;    /* penalty for repeated tokens, > 0; 1 (default): no penalty */
  float presence_penalty;  /* subtracted from the logits of seen tokens, [-2, 2]; default 0 */
  float frequency_penalty; /* subtracted once for each occurrence of a token, [-2, 2]; default 0 */
  int32_t repeat_last;     /* number of last tokens that penalties apply to; -1: all; default 64 */
  uint32_t logprob_count;  /* number of top tokens reported with each token, 0..64 */
  /* Seed of the sampler; 0 (default): the daemon chooses a seed and reports that seed in the
   * result. */
  uint64_t seed;
  uint32_t flags; /* kvd_generate_flags */
  /* 1: the daemon sends pieces of KVD_PIECE_PROGRESS while it computes the prompt. */
  uint32_t wants_progress;
  const kvd_logit_bias* biases;
  size_t bias_count;        /* number of biases, at most 1024 */
  const char* const* stops; /* stop texts, UTF-8, 1..256 bytes each */
  size_t stop_count;        /* number of stop texts, at most 16 */
  uint32_t no_prefix;       /* 1: the prompt reuses no prefix of other sequences; default 0 */
  /* Time in ms that the request waits for room in the pool while no request of its owner
   * progresses. 0 (default): as the daemon's --room-wait-ms says. -1: it fails at once. */
  int32_t room_wait_ms;
  /* Tokens with a logit within this number of standard deviations of the largest one are kept; 0 or
   * less: all; default -1. */
  float top_n_sigma;
  float xtc_probability; /* [0, 1]: probability that XTC excludes the top choices; default 0: off */
  float xtc_threshold;   /* [0, 1]: probability of a top choice; above 0.5: off; default 0.1 */
  float dry_multiplier;  /* factor of DRY's penalty for repetitions, >= 0; default 0: off */
  float dry_base;        /* base of DRY's penalty, >= 1; default 1.75 */
  int32_t dry_allowed_length; /* length in tokens from which repetitions are penalised; default 2 */
  int32_t dry_penalty_last;   /* number of last tokens that DRY applies to; -1: all; default 64 */
  float dynatemp_range;       /* the temperature is within this range of `temperature`; default 0 */
  float dynatemp_exponent;    /* how the temperature follows the entropy, >= 0; default 1 */
  /* 1, 2: mirostat of this version replaces the samplers but the temperature; default 0: off. */
  int32_t mirostat;
  float mirostat_tau;    /* target surprise of mirostat in bits, [0, 1000]; default 5 */
  float mirostat_eta;    /* learning rate of mirostat, [0, 1000]; default 0.1 */
  float adaptive_target; /* probability that adaptive_p prefers, [-1, 1]; default -1: off */
  float adaptive_decay;  /* [0, 0.99]: weight of the past in adaptive_p's average; default 0.9 */
  /* The samplers in their order, names separated by ';'; a sampler that is not named is off. NULL
   * (default): "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature". The only
   * further name is "adaptive_p". */
  const char* samplers;
  /* Texts at which DRY stops looking for repetitions, UTF-8, 1..40 bytes each. NULL (default):
   * "\n", ":", "\"" and "*". Not NULL with a count of 0: none. */
  const char* const* dry_breakers;
  size_t dry_breaker_count; /* number of breakers, at most 16 */
  /* The answer is a sentence of this grammar, or the beginning of one: GBNF (docs/grammar.md) of at
   * most 1 MiB, zero-terminated UTF-8. NULL (default): none. The daemon streams several tokens in
   * one piece where the grammar leaves no choice. */
  const char* grammar;
  /* A JSON Schema (docs/structured_output.md), zero-terminated, in place of a grammar: the library
   * turns it into one. NULL (default): none. Not together with `grammar`. */
  const char* json_schema;
  /* The grammar begins at the first of these triggers; before it, every token may be drawn. */
  const kvd_grammar_trigger* grammar_triggers;
  size_t grammar_trigger_count; /* at most 64; 0 (default): the grammar begins at once */
};

typedef struct kvd_token_logprob {
  kvd_token token;
  float logprob;
} kvd_token_logprob;

enum kvd_piece_kind {
  KVD_PIECE_END = 0,
  KVD_PIECE_PROGRESS = 1,
  KVD_PIECE_TOKENS = 2,
  KVD_PIECE_PARKING = 3 /* only with KVD_TELL_PARKING */
};
struct kvd_piece {
  uint32_t kind; /* kvd_piece_kind */
  uint32_t token_count;
  const kvd_token* tokens;
  const char* text; /* text of the tokens, UTF-8, not zero-terminated */
  size_t text_bytes;
  /* for each token the logprob of the token itself, then those of the top logprob_count tokens */
  const kvd_token_logprob* logprobs;
  size_t logprob_count;
  /* progress: number of prompt tokens computed; parking: 1 if the request waits for room, else 0 */
  uint64_t done;
  uint64_t total; /* progress: number of prompt tokens */
  kvd_request request;
};

enum kvd_finish {
  KVD_FINISH_END = 1,    /* the model has produced an end token */
  KVD_FINISH_STOP = 2,   /* the generated text contains a stop text */
  KVD_FINISH_LENGTH = 3, /* predict_max tokens were sampled */
  KVD_FINISH_GRAMMAR = 4 /* the grammar allows no further token */
};
struct kvd_generate_result {
  uint64_t seed;            /* seed of the sampler */
  uint32_t finish;          /* kvd_finish */
  uint32_t prompt_reused;   /* number of cells that the sequence had before the request */
  uint32_t prompt_computed; /* number of prompt tokens that were computed, not reused */
  uint32_t predicted;       /* number of tokens of the answer; all but `skipped` are appended */
  uint64_t prompt_ns;
  uint64_t predict_ns;
  uint32_t prompt_shared; /* number of prompt tokens reused from another sequence */
  uint8_t shared_origin;  /* kvd_prefix_origin */
  uint8_t share_limit;    /* kvd_prefix_limit: why no more tokens were reused */
  uint8_t skipped; /* 1: the sequence lacks the last token (KVD_SKIP_LAST, is_full); else 0 */
  /* 1: the answer had no limit (predict_max -1) and ended with KVD_FINISH_LENGTH because its
   * sequence had all the room of the pool or of its owner; else 0. */
  uint8_t is_full;
};

/* Waits for the next piece of a generation and writes it to *piece, which is valid until the next
 * call for the request. KVD_PIECE_END is the last piece; with it, *result (may be null) is written.
 * Errors: those of kvd_generate, which end the request; KVD_TIMEOUT, which does not end the
 * request; KVD_NOT_FOUND (no generation in flight has this id). */
int kvd_generate_next(kvd_client* client, kvd_request request, int32_t timeout_ms, kvd_piece* piece,
                      kvd_generate_result* result);
/* Resumes a generation of an earlier process of this session; `client` was opened with the
 * session's token (docs/sessions.md). `request`, `sequence` and `params` are those of the earlier
 * process's kvd_generate with `later`. kvd_generate_resume does not wait. `received`: the number of
 * the answer's tokens that the caller keeps; `last`: the last of them, or any number if `received`
 * is 0. kvd_generate_next returns the pieces after these tokens and their text; with `received` 0
 * the whole answer is repeated. Errors: KVD_INVALID_ARGUMENT (the request is 0), KVD_CONFLICT (this
 * process already has the request in flight). kvd_generate_next returns KVD_CONFLICT also if the
 * sequence was edited or computed on since, if `received` is more than the daemon can have sent, or
 * if the log-probabilities of the first token are lost (KVD_CONTINUE with `received` 0). */
int kvd_generate_resume(kvd_client* client, kvd_request request, kvd_sequence sequence,
                        const kvd_generate_params* params, uint32_t received, kvd_token last);

/* ------------------------------------------------------------------------------------- snapshots
 *
 * A snapshot is a named, immutable sequence. Names match [A-Za-z0-9_-][A-Za-z0-9._-]{0,62}. */

/* Publishes the sequence in its present state; the snapshot exists until it is unpublished or
 * expires. options (may be null): flags KVD_PUBLIC, KVD_FORCE (replace an existing snapshot of this
 * name) and KVD_EPHEMERAL, ttl_seconds. *snapshot (may be null) becomes the handle of the immutable
 * published sequence. Errors: KVD_EXISTS, KVD_NO_SPACE, KVD_INVALID_ARGUMENT (the name, the
 * options). */
int kvd_publish(kvd_client* client, kvd_sequence sequence, const char* name,
                const kvd_sequence_options* options, kvd_sequence* snapshot, kvd_request* later);
/* Removes a snapshot of any session of this user; its forks stay. flags: 0; KVD_FORCE is allowed
 * and has no effect. Errors: KVD_NOT_FOUND, KVD_PERMISSION (a public snapshot of another user). */
int kvd_unpublish(kvd_client* client, const char* name, uint32_t flags, kvd_request* later);
/* Forks a snapshot: *sequence becomes the handle of the fork, *info (may be null) its description.
 * Errors: KVD_NOT_FOUND, KVD_NO_SPACE. */
int kvd_attach(kvd_client* client, const char* name, kvd_sequence* sequence, kvd_fork_info* info,
               kvd_request* later);

typedef struct kvd_snapshot_info {
  char name[72]; /* zero-terminated */
  kvd_sequence sequence;
  uint32_t owner_uid;
  uint8_t is_public;
  uint8_t is_own;        /* 1: of this user or tenant; tenants have the owner_uid of their user */
  uint16_t is_ephemeral; /* 1: no prompt reuses the snapshot's cells, except by a fork */
  uint32_t cell_count;
  uint32_t expires_in_seconds; /* rounded up; 0: the snapshot does not expire */
  uint64_t age_ms;
} kvd_snapshot_info;
/* Lists the snapshots that this user may see: *list becomes an array of *count entries. Free *list
 * with kvd_free. */
int kvd_snapshots(kvd_client* client, kvd_snapshot_info** list, size_t* count, kvd_request* later);

/* ---------------------------------------------------------------------------------- saved states
 *
 * A saved state is a file in the daemon's --store with one or several sequences. Names of saved
 * states follow the rules for names of snapshots. Errors of all calls on saved states:
 * KVD_UNSUPPORTED (the daemon has no store); of all but kvd_save_size: KVD_IO. */

enum {
  KVD_SAVE_NO_LOGITS = 1, /* the last row of logits, which recurrent models keep, is not saved */
  /* No cells are saved; loading computes the tokens again, at positions 0, 1, ... */
  KVD_SAVE_TOKENS_ONLY = 2,
  KVD_SAVE_UNPACKED = 4, /* the file is not compressed: larger and faster */
  KVD_SAVE_Q8_ROWS = 8,  /* K and V are converted to q8_0 */
  KVD_SAVE_REPLACE = 256 /* an existing saved state of the same name is replaced */
};

typedef struct kvd_save_info {
  uint64_t file_bytes;     /* size of the written file; kvd_save_size sets it to 0 */
  uint64_t unpacked_bytes; /* exact size of the file if it is not compressed */
  uint64_t cell_count;
} kvd_save_info;

/* Saves the sequence in its present state, while other requests continue. *info (may be null)
 * becomes the sizes of the file. Errors: KVD_EXISTS, KVD_NO_SPACE (the disk, or the user's byte
 * limit), KVD_INVALID_ARGUMENT, KVD_UNSUPPORTED and KVD_NUMERICAL (KVD_SAVE_Q8_ROWS: the size
 * of a head is no multiple of 32, or a value is too large). */
int kvd_save(kvd_client* client, kvd_sequence sequence, const char* name, uint32_t flags,
             kvd_save_info* info, kvd_request* later);
/* Saves all sequences of this session in one file; otherwise as kvd_save. Errors: also
 * KVD_NOT_FOUND (the session has no sequences). */
int kvd_save_all(kvd_client* client, const char* name, uint32_t flags, kvd_save_info* info,
                 kvd_request* later);
/* Writes the sizes of the file that kvd_save would write to *info (may be null). */
int kvd_save_size(kvd_client* client, kvd_sequence sequence, uint32_t flags, kvd_save_info* info,
                  kvd_request* later);

typedef struct kvd_loaded_sequence {
  kvd_sequence sequence;
  uint64_t cell_count;
  /* 1: the rows were converted from k_type and v_type to the types of the pool. */
  uint32_t is_converted;
  /* 1: only tokens were saved; a call of kvd_load that waits has computed their cells. */
  uint32_t is_tokens_only;
  char k_type[8]; /* zero-terminated */
  char v_type[8];
  uint32_t has_sampler; /* 1: a generation with KVD_RESUME_SAMPLER can resume the saved sampler */
  uint32_t reserved;
} kvd_loaded_sequence;
/* Loads all sequences of a file as new sequences of this session; on an error kvd_load creates no
 * sequence. *list becomes an array of *count entries; free *list with kvd_free. A call that waits
 * computes the cells of sequences that were saved as tokens only; `tokens` and `token_count` may
 * then be null, and become null and 0. With `later`, these sequences have no cells after
 * kvd_finish, and *tokens becomes the *token_count tokens of all such sequences in order,
 * cell_count tokens of each: decode them at positions 0, 1, ... Free *tokens with kvd_free. Errors:
 * KVD_NOT_FOUND, KVD_CORRUPT (the message names the damaged field), KVD_UNSUPPORTED (the file is of
 * another model; the message names the difference), KVD_NO_SPACE. */
int kvd_load(kvd_client* client, const char* name, kvd_loaded_sequence** list, size_t* count,
             kvd_token** tokens, size_t* token_count, kvd_request* later);

enum {
  KVD_SAVED_THIS_MODEL = 1,
  KVD_SAVED_DAMAGED = 2, /* the file is damaged, and its content is unknown */
  KVD_SAVED_TOKENS_ONLY = 4,
  KVD_SAVED_LOGITS = 8
};
typedef struct kvd_saved_info {
  char name[72]; /* zero-terminated */
  uint64_t file_bytes;
  uint64_t raw_bytes; /* size without compression */
  uint64_t cell_count;
  uint64_t age_ms;
  uint32_t sequence_count;
  uint32_t flags; /* KVD_SAVED_... */
  char k_type[8]; /* zero-terminated */
  char v_type[8];
  char architecture[32];
} kvd_saved_info;
/* Lists this user's saved states: *list becomes an array of *count entries. Free *list with
 * kvd_free. */
int kvd_saved(kvd_client* client, kvd_saved_info** list, size_t* count, kvd_request* later);
/* Deletes a saved state of this user. Errors: KVD_NOT_FOUND. */
int kvd_remove_saved(kvd_client* client, const char* name, kvd_request* later);

/* ------------------------------------------------------------------------------------------ text
 *
 * Errors of all these calls: KVD_NO_TOKENIZER. Text is UTF-8. *text becomes a zero-terminated
 * text of *text_bytes bytes without the zero; free *text with kvd_free. */

/* Converts tokens to text. token_count: at least 1 with `later`; a call that waits gives the text
 * "" for 0 tokens. flags: KVD_SPECIAL. Errors: KVD_INVALID_ARGUMENT (a token is not in the
 * vocabulary). */
int kvd_detokenize(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
                   char** text, size_t* text_bytes, kvd_request* later);

typedef struct kvd_chat_message {
  const char* role; /* "system", "user", "assistant", ... */
  const char* content;
} kvd_chat_message;
/* Formats a conversation as one prompt with the model's chat template, which runs in the caller's
 * process. A model without a template uses ChatML. Tokenize the prompt with KVD_PARSE_SPECIAL; it
 * begins with the model's begin token only if the template writes that token. flags:
 * KVD_ADD_ASSISTANT. Errors: KVD_INVALID_ARGUMENT (the template refuses the conversation: its own
 * message; or has an error: line and column), KVD_TOO_LARGE (a limit of docs/text.md). */
int kvd_chat(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
             uint32_t flags, char** text, size_t* text_bytes, kvd_request* later);
/* As kvd_chat, for a conversation in JSON: an array of messages in the form of OpenAI's chat
 * completions (role, content as text or parts, tool_calls, tool_call_id, name, reasoning_content),
 * or an object with "messages" and any of
 *   "tools", "documents"       what the model may use
 *   "add_generation_prompt"    default true: the prompt ends with the header of the answer
 *   "continue_final_message"   default false: the prompt ends with the content of the last message,
 *                              an assistant's, which the model continues
 *   "enable_thinking"          a variable of many templates
 *   "chat_template_kwargs"     an object with further variables of the template
 *   "chat_template"            a Jinja program, the name of one of the model's templates, or of a
 *                              format of kvd such as "chatml"; default: the model's template
 * Errors: as kvd_chat; KVD_INVALID_ARGUMENT (names the field or the place in the text),
 * KVD_UNSUPPORTED (a content part that is not text), KVD_NOT_FOUND (no template has the name). */
int kvd_chat_json(kvd_client* client, const char* json, size_t json_bytes, char** text,
                  size_t* text_bytes, kvd_request* later);
/* Gives the Jinja program of the model's template with a name; NULL: the default template.
 * Errors: KVD_NOT_FOUND (the model has no such template). */
int kvd_chat_template(kvd_client* client, const char* name, char** text, size_t* text_bytes,
                      kvd_request* later);

/* --------------------------------------------------------------------- llama.cpp's state verbs
 *
 * These functions convert sequences to and from state files of llama.cpp, in memory or on disk; the
 * names of the functions are derived from llama.cpp's. Written files have the layout that llama.cpp
 * of August 2026 reads, or with KVD_STATE_LAYOUT_2025 the layout that llama.cpp of February 2025
 * reads. kvd can read state files of either layout. A kvd_state_..._get_size function returns the
 * size of a state file that is written with the same flags.
 *
 * Each function returns the number of bytes (the size, the bytes written or the bytes read), or
 * 0 on failure: then kvd_error_message() returns the reason, kvd_error_code() its code, and
 * no sequence has changed. Reading a state file creates new sequences, which belong to this client,
 * and overwrites no sequence. The kvd_state_ functions with "seq" in their names handle a sequence
 * file. The other kvd_state_ functions handle a session file with all sequences of this client that
 * have cells; the sequence ids are 0, 1, ..., the oldest sequence first. At most one kvd_state_
 * function at a time may run on a client.
 *
 * Errors: KVD_NOT_FOUND, KVD_CORRUPT (the message names the field and its byte offset),
 * KVD_INVALID_ARGUMENT (the file is of another model, and the message names the difference; a
 * sequence without cells; streams that do not fit), KVD_UNSUPPORTED, KVD_NUMERICAL,
 * KVD_NO_SPACE, KVD_IO, KVD_PERMISSION (the file). */

enum {
  /* Get and save: the file is written for llama.cpp without flash attention. */
  KVD_STATE_V_TRANSPOSED = 1,
  /* The llama.cpp of 2026 that reads or has written the file does not rotate quantised heads. */
  KVD_STATE_UNROTATED = 2,
  /* Get and save: the file has the layout of February 2025 instead of August 2026. */
  KVD_STATE_LAYOUT_2025 = 4
};
/* Get and save: add KVD_STATE_STREAMS(count) to `flags` for a llama_context whose cache is not
 * unified and that has `count` (at most 256) sequences. KVD_STATE_STREAMS cannot be combined with
 * KVD_STATE_LAYOUT_2025. A context with a unified cache, or with a single sequence, reads files
 * that were written without KVD_STATE_STREAMS. */
#define KVD_STATE_STREAMS(count) ((uint32_t)(count) << 16)

/* Returns the size of the file that kvd_state_seq_get_data and kvd_state_seq_save_file write. */
size_t kvd_state_seq_get_size(kvd_client* client, kvd_sequence sequence, uint32_t flags);
/* Writes a sequence file to memory. Errors: also KVD_NO_SPACE (`size` is too small; the message has
 * both sizes). */
size_t kvd_state_seq_get_data(kvd_client* client, kvd_sequence sequence, void* data, size_t size,
                              uint32_t flags);
/* Creates a new sequence from a sequence file in memory, or from a session file with one
 * sequence. */
size_t kvd_state_seq_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                              kvd_sequence* sequence);
/* Writes a temporary file in the folder of `path`, syncs it, and renames it to `path`. */
size_t kvd_state_seq_save_file(kvd_client* client, kvd_sequence sequence, const char* path,
                               uint32_t flags);
size_t kvd_state_seq_load_file(kvd_client* client, const char* path, uint32_t flags,
                               kvd_sequence* sequence);

/* The following functions do the same as the functions above for session files with all sequences
 * of this client that have cells. */
size_t kvd_state_get_size(kvd_client* client, uint32_t flags);
size_t kvd_state_get_data(kvd_client* client, void* data, size_t size, uint32_t flags);
/* *sequences gets one handle for each sequence id of the file, in ascending order of the ids. Free
 * *sequences with kvd_free. */
size_t kvd_state_set_data(kvd_client* client, const void* data, size_t size, uint32_t flags,
                          kvd_sequence** sequences, size_t* sequence_count);
size_t kvd_state_save_file(kvd_client* client, const char* path, uint32_t flags);
size_t kvd_state_load_file(kvd_client* client, const char* path, uint32_t flags,
                           kvd_sequence** sequences, size_t* sequence_count);

#ifdef __cplusplus
}
#endif

#endif /* KVD_KVD_H_ */
