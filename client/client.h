// Client: a session with a kvd daemon, with one function for each verb of the protocol.
//
//   KVD_TRY(kvd::Client client, kvd::Client::Connect());
//   KVD_TRY(kvd::Sequence sequence, client.NewSequence());
//   KVD_TRY(auto tokens, client.Tokenize("Once upon a time", kvd::wire::kFlagAddSpecial));
//   KVD_TRY(auto generation, sequence.Generate({.tokens = tokens, .predict_max = 32}));
//   for (;;) { KVD_TRY(auto piece, generation.Next()); if (!piece) break; Show(piece->text); }
//
// For the programs of this tree: it changes with them and is not installed. Programs of users have
// kvd.h (C) and kvd.hpp (C++).
//
// Caveats, as in kvd.h:
//
// - A forked child must not use the parent's Client.
// - Threads may share a Client.
// - Sequences are private to the session and end with it, unless they are published. After the end
//   of a session, the daemon retains the pristine cells of its sequences as a prefix for later
//   prompts, until the room is needed.
// - Logits and pieces that are not released occupy this session's output arena and delay its own
//   answers.
//
// When the connection is lost, also because the daemon was killed and started again, a call that
// waits tries to reconnect for ConnectOptions::reconnect_timeout at most. Requests in flight
// resume, and each request is applied once.
//
// A Client is a handle: copies share one session. The session ends when the last copy of its Client
// and the last Sequence, Logits and Generation made from these copies are destroyed.
//
// Errors of every call, in addition to the errors named at the call: kTimeout (the call's timeout
// has passed; the request may still be applied), kDisconnected, kCorrupt (the daemon broke the
// protocol), kInvalidArgument (a forked child, or a number out of range), kTooLarge (a payload
// larger than the request arena).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "client/connection.h"
#include "client/in_flight.h"
#include "client/live_map.h"
#include "client/types.h"
#include "shm/payload_codec.h"
#include "shm/verb_table.h"
#include "text/chat/chat_texts.h"

namespace kvd {

class LlamaSink;
class Sequence;

// Converts the daemon's answer. Errors: kCorrupt: the answer is not a sequence of records.
Result<ChatTexts> ChatTextsFrom(const wire::ChatTemplatesReply& reply);
// The payloads of embed and rank. The spans must outlive the payloads.
Payload TokenListsPayload(const std::span<const std::span<const TokenId>>& texts);
Payload TextsPayload(const std::span<const std::string_view>& texts);
// Checks that the reply has one row for each text, or one for each token. Errors: kCorrupt (also:
// the number of values is not rows * width).
Status CheckEmbedding(const wire::EmbedReply& reply, std::size_t text_count,
                      std::size_t token_count);
// Returns the embedding of each text. Errors: those of CheckEmbedding.
Result<std::vector<TextEmbedding>> EmbeddingsFrom(const wire::EmbedReply& reply,
                                                  std::span<const std::span<const TokenId>> texts);
// Checks that the reply has one score for each document. Errors: kCorrupt.
Status CheckScores(const wire::RankReply& reply, std::size_t document_count);
// Checks the reply of a fork. Errors: kCorrupt (the reply does not have `count` forks).
Status CheckForkCount(const wire::ForkReply& reply, std::uint32_t count);

class Client {
 public:
  // Errors: those of ShakeHands.
  static Result<Client> Connect(const ConnectOptions& options = {});

  const SessionInfo& session() const { return connection_->info(); }
  const std::shared_ptr<Connection>& connection() const { return connection_; }

  // Renew replaces a session that has failed with kDisconnected or kSessionLost by a new session
  // without sequences. See Connection::Renew.
  Status Renew() const { return connection_->Renew(); }
  // Leaves the session so that another process can resume it, see Connection::Leave and
  // docs/sessions.md. Sequences of this session are not dropped by their destructors afterwards.
  Status Leave() const { return connection_->Leave(); }

  // --------------------------------------------------------------------------- any verb, typed
  // Calls any verb and waits for its reply: the type of `args` selects the verb.
  // shm/verb_table.h has the types of arguments and replies, the flags and the errors; kvd.h says
  // what each verb does. `payload`: the payload that the verb's row describes. Example:
  //
  //   client.Call(wire::PinArgs{.sequence = handle, .is_pinned = true}, {}, wire::kFlagForce)
  //
  // The further functions below call verbs whose payload they build, whose arguments they check, or
  // whose reply they convert.
  template <wire::VerbArguments Args>
  Result<wire::ReplyOf<Args>> Call(const Args& args, const Payload& payload = {},
                                   std::uint16_t flags = 0) const {
    using Reply = wire::ReplyOf<Args>;
    std::vector<std::byte> output;
    KVD_TRY(const wire::Completion completion,
            connection_->Call(wire::MakeSubmission(args, flags), payload,
                              wire::HasOutput<Reply> ? &output : nullptr));
    return wire::ReadReply<Reply>(wire::kRowOf<Args>.name, completion, output);
  }
  // Submits the request without waiting for room in the ring or for the answer. Errors: those of
  // Call except kTimeout.
  template <wire::VerbArguments Args>
  Result<Started<Args>> Start(const Args& args, const Payload& payload = {},
                              std::uint16_t flags = 0) const {
    KVD_TRY(const RequestId request,
            connection_->Submit(wire::MakeSubmission(args, flags), payload, OutputMode::kCollect));
    return Started<Args>(connection_, request);
  }

  // ------------------------------------------------------------------------------- the daemon
  // Measures one round trip: sends `payload_bytes` bytes (at most 4096), receives them and compares
  // them.
  Result<RoundTrip> Ping(std::size_t payload_bytes = 0) const;
  Result<wire::InfoReply> Info() const;
  // Returns the sequences and the snapshots that this user may see.
  Result<std::vector<wire::SequenceEntry>> List() const;
  Result<std::vector<Snapshot>> Snapshots() const;

  // Opens the daemon's live map of the sequences that this user may see, and waits for its first
  // publication. Reading the live map makes no request. Errors: kInvalidArgument
  // (ConnectOptions::wants_map was not set).
  Result<LiveMap> OpenMap() const { return LiveMap::Open(connection_); }

  // --------------------------------------------------------------------- sequences that clean up
  // Errors: kNoSpace (too many sequences).
  Result<Sequence> NewSequence() const;
  // Forks a published snapshot. Errors: kNotFound, kNoSpace.
  Result<Sequence> AttachSnapshot(std::string_view name, ForkInfo* info = nullptr) const;

  // ---------------------------------------------------------------------- sequences by handle
  // Errors of all functions that take a sequence's handle: kNotFound (no sequence has the handle,
  // or this user may not see the sequence), kPermission (the sequence belongs to another session),
  // kBusy (a request computes on the sequence).
  //
  // cache_salt: the salt of the new sequence's namespace; 0: the session's salt.
  Result<SequenceHandle> Create(std::uint64_t cache_salt = 0,
                                const SequenceLifetime& life = {}) const;
  Result<SequenceHandle> Attach(std::string_view name, ForkInfo* info = nullptr) const;
  // Creates `count` forks (1..kForksMax), each with the first `cell_count` cells (negative: all) of
  // the source.
  Result<std::vector<SequenceHandle>> Fork(SequenceHandle source, std::int32_t cell_count,
                                           std::uint32_t count, ForkInfo* info = nullptr,
                                           const SequenceLifetime& life = {}) const;
  Status Drop(SequenceHandle sequence, Force force = Force::kNo) const;
  // Submits the drop and does not wait for the answer.
  void DropLater(SequenceHandle sequence) const;
  // CopyRange, RemoveRange and Divide return the number of cells copied, removed or rewritten.
  // Ranges are half-open ranges of positions. `replayed` (may be null): the number of tokens that a
  // recurrent model computed again.
  Result<std::uint64_t> CopyRange(SequenceHandle source, SequenceHandle destination, PosRange range,
                                  std::uint64_t* replayed = nullptr) const;
  Result<std::uint64_t> RemoveRange(SequenceHandle sequence, PosRange range,
                                    std::uint64_t* replayed = nullptr) const;
  // Releases a sequence as at the end of the session: its pristine cells stay as a prefix for later
  // prompts until the room is needed. Returns false if the sequence was dropped instead.
  Result<bool> Retain(SequenceHandle sequence, Force force = Force::kNo) const;
  // Drops all sequences of this session except `sequence`.
  Status Keep(SequenceHandle sequence) const;
  Status Clear(SequenceHandle sequence) const;
  // Errors: kInvalidArgument (the shift would make positions overlap, change order or go below 0).
  Status Add(SequenceHandle sequence, PosRange range, std::int32_t delta) const;
  Result<std::uint64_t> Divide(SequenceHandle sequence, PosRange range, std::int32_t divisor) const;
  Result<wire::SequenceEntry> Query(SequenceHandle sequence) const;
  Result<std::vector<TokenAt>> ReadTokens(SequenceHandle sequence, std::int32_t first_cell = 0,
                                          std::int32_t cell_count = -1) const;
  // Errors: kNoTokenizer. flags: kFlagSpecial.
  Result<std::string> ReadText(SequenceHandle sequence, std::uint16_t flags = 0) const;

  // --------------------------------------------------------------------------------- computing
  // Appends tokens at `pos`, which must be the sequence's next position (else kInvalidArgument). A
  // prompt for an empty sequence may reuse a prefix of other sequences, except with
  // LogitsWanted::kAll. Errors: kNoSpace (cells), kNumerical, kConflict, kBusy. flags:
  // kFlagNoPrefix (reuse no prefix).
  Result<Decoding> StartDecode(SequenceHandle sequence, std::span<const TokenId> tokens, Pos pos,
                               wire::LogitsWanted wanted, std::uint16_t flags = 0) const;
  Result<Generation> StartGenerate(SequenceHandle sequence, const GenerateOptions& options) const;
  // Resumes the generation `request` (Generation::request) of an earlier process of this session,
  // which was opened with the session's token (docs/sessions.md). `options` must be those of the
  // earlier process. `received`: the number of the answer's tokens that the caller keeps; `last`:
  // the last of them. The pieces begin after these tokens and their text; with `received` 0 the
  // whole answer is repeated. Does not wait. Errors: those of StartGenerate, kInvalidArgument (the
  // request is 0), kConflict (this process already has the request in flight). Errors of the
  // generation: also kConflict (the sequence was edited or computed on since; `received` is more
  // than the daemon can have sent; or the log-probabilities of the first token are lost, which
  // happens with kContinue and `received` 0).
  Result<Generation> ResumeGenerate(RequestId request, SequenceHandle sequence,
                                    const GenerateOptions& options, std::uint32_t received,
                                    TokenId last) const;
  // Returns the embedding of a text with the pooling that the model's file declares. The daemon
  // does not store the tokens. flags: kFlagNormalize (scale rows to length 1). Errors: kUnsupported
  // (the model has no embeddings), kInvalidArgument (the text is too long), kTooLarge (the rows
  // exceed the output arena), kNumerical.
  Result<TextEmbedding> Embed(std::span<const TokenId> tokens, std::uint16_t flags = 0) const;
  // Returns the embedding of each of 1 to kEmbedTextsMax texts with a pooling; nullopt: that of the
  // model's file. The texts have together at most kEmbedTokensMax tokens. kRank: the scores of the
  // model's classifier, a row of one or more. Errors: as above; kUnsupported also if the model
  // cannot do the pooling. An error of a text names its index.
  Result<std::vector<TextEmbedding>> Embed(std::span<const std::span<const TokenId>> texts,
                                           std::optional<wire::PoolingChoice> pooling,
                                           std::uint16_t flags = 0) const;
  // Returns the score of each of 1 to kRankDocumentsMax documents for the query, each text valid
  // UTF-8 of at most kRankTextBytesMax bytes; a higher score is a better match. Errors:
  // kUnsupported (the model is no reranker), kNoTokenizer, kInvalidArgument (a text is too long;
  // names the document), kNumerical.
  Result<std::vector<float>> Rank(std::string_view query,
                                  std::span<const std::string_view> documents) const;
  // Sets the text that the sequence's decoder attends to. Encode may be called once per sequence,
  // before the sequence has tokens. Forks share the cells of the text. Errors: kUnsupported (the
  // model does not have both an encoder and a decoder), kExists, kInvalidArgument (the sequence has
  // tokens), kNoSpace, kNumerical.
  Result<EncodedText> Encode(SequenceHandle sequence, std::span<const TokenId> tokens) const;
  // Cancels a request. Returns false if the request had already ended.
  Result<bool> Cancel(RequestId request) const { return connection_->Cancel(request); }

  // --------------------------------------------------------------------------------- snapshots
  // flags: kFlagPublic, kFlagForce (replace an existing snapshot). Errors: kExists,
  // kInvalidArgument (name), kNoSpace.
  Result<SequenceHandle> Publish(SequenceHandle sequence, std::string_view name,
                                 std::uint16_t flags = 0, const SequenceLifetime& life = {}) const;
  Status Unpublish(std::string_view name, Force force = Force::kNo) const;

  // ------------------------------------------------------------------------------ saved states
  // Saved states are files in the daemon's --store; the rules for their names are those of
  // snapshots. Errors of all functions for saved states: kUnsupported (the daemon has no store),
  // kIo.
  //
  // Saves the sequence in its present state, while other requests continue. Errors: kExists,
  // kNoSpace (the disk, or the user's byte limit), kInvalidArgument (name).
  Result<SaveInfo> Save(SequenceHandle sequence, std::string_view name,
                        const SaveOptions& options = {}) const;
  // Saves all sequences of this session in one file.
  Result<SaveInfo> SaveAll(std::string_view name, const SaveOptions& options = {}) const;
  // Returns the sizes of the file that Save would write; the sizes are exact if
  // SaveOptions::is_packed is false.
  Result<SaveInfo> SaveSize(SequenceHandle sequence, const SaveOptions& options = {}) const;
  // Loads all sequences of a file as new sequences of this session; on an error Load creates no
  // sequence. Errors: kNotFound, kCorrupt (the message names the damaged field), kUnsupported (the
  // file is of another model; the message names the difference), kNoSpace.
  Result<std::vector<LoadedSequence>> Load(std::string_view name) const;
  Result<std::vector<wire::SavedEntry>> Saved() const;
  Status RemoveSaved(std::string_view name) const;

  // -------------------------------------------------------------------------------------- text
  // Errors: kNoTokenizer, kInvalidArgument (text that is not UTF-8). flags: kFlagAddSpecial,
  // kFlagParseSpecial.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, std::uint16_t flags) const;
  Result<std::string> Detokenize(std::span<const TokenId> tokens, std::uint16_t flags = 0) const;
  // Returns the model's chat templates and special tokens, with which text/chat/chat_formatter.h
  // formats chats.
  Result<ChatTexts> ChatTemplates() const;
  // -------------------------------------------------------------------- state files of llama.cpp
  // Returns the bytes of a state file of llama.cpp. In a session file the sequence ids are 0, 1, …
  // in the order of `sequences`. If `sequences` is empty, all sequences of this session that have
  // cells are exported. Errors: kNotFound, kInvalidArgument (a sequence without cells, several
  // sequences in a sequence file, an unknown type, streams that do not fit the layout or the
  // sequences), kNoSpace (more than the daemon's limit), kUnsupported (a type that the model's
  // heads cannot have).
  Result<std::vector<std::byte>> ExportLlama(std::span<const SequenceHandle> sequences,
                                             const LlamaFileOptions& options = {}) const;
  // Writes the bytes of the state file to a sink; returns the file's size. Errors: those of the
  // other ExportLlama, and those of the sink. After an error the sink holds an incomplete file.
  Result<std::uint64_t> ExportLlama(std::span<const SequenceHandle> sequences,
                                    const LlamaFileOptions& options, LlamaSink& sink) const;
  // Returns the size of the file that ExportLlama writes.
  Result<std::uint64_t> LlamaBytes(std::span<const SequenceHandle> sequences,
                                   const LlamaFileOptions& options = {}) const;
  // Creates new sequences from a file's bytes, in either layout. Only one import at a time may run
  // in a session. ImportLlama creates no sequence if it returns an error. Errors: kCorrupt (the
  // message names the field and its byte offset), kInvalidArgument (the file is of another model;
  // the message names the difference), kUnsupported, kNumerical, kNoSpace.
  Result<std::vector<ImportedSequence>> ImportLlama(std::span<const std::byte> file,
                                                    const LlamaReadOptions& options = {}) const;

 private:
  Result<Generation> SendGenerate(SequenceHandle sequence, const GenerateOptions& options,
                                  const EarlierAttempt* earlier) const;
  template <wire::VerbArguments Args>
  Status CallForNothing(const Args& args, const Payload& payload = {},
                        std::uint16_t flags = 0) const {
    KVD_CHECK_OK(Call(args, payload, flags));
    return {};
  }
  explicit Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  std::shared_ptr<Connection> connection_;
};

// A Sequence owns a sequence of the daemon: the destructor drops that sequence, unless Detach was
// called. A Sequence is move-only and is used by one thread at a time. If a request computes on the
// sequence when the destructor runs, the sequence stays until the session ends.
class Sequence {
 public:
  Sequence(Client client, SequenceHandle handle) : client_(std::move(client)), handle_(handle) {}
  Sequence(Sequence&& other) noexcept
      : client_(std::move(other.client_)),
        handle_(std::exchange(other.handle_, SequenceHandle::kNone)) {}
  Sequence& operator=(Sequence&& other) noexcept;
  ~Sequence();

  SequenceHandle handle() const { return handle_; }
  const Client& client() const { return client_; }
  // Gives up ownership and returns the handle: the sequence exists until the session ends or the
  // sequence is dropped by its handle.
  [[nodiscard]] SequenceHandle Detach() { return std::exchange(handle_, SequenceHandle::kNone); }

  // The following functions of Sequence call the functions of Client of the same names and return
  // their errors.
  Result<Sequence> Fork(std::int32_t cell_count = -1, ForkInfo* info = nullptr) const;
  Result<std::vector<Sequence>> ForkMany(std::uint32_t count, std::int32_t cell_count = -1,
                                         ForkInfo* info = nullptr) const;
  Result<std::uint64_t> CopyRangeTo(const Sequence& destination, PosRange range,
                                    std::uint64_t* replayed = nullptr) const;
  Result<std::uint64_t> RemoveRange(PosRange range, std::uint64_t* replayed = nullptr) const;
  Status Keep() const;
  Status Clear() const;
  Status Add(PosRange range, std::int32_t delta) const;
  Result<std::uint64_t> Divide(PosRange range, std::int32_t divisor) const;
  Result<wire::SequenceEntry> Query() const;
  Result<std::string> ReadText(std::uint16_t flags = 0) const;
  Result<SequenceHandle> Publish(std::string_view name, std::uint16_t flags = 0) const;
  // Decodes the tokens and waits for all rows of logits. Errors: those of StartDecode, and kNoSpace
  // (the rows exceed the output arena; use StartDecode instead).
  Result<Logits> Decode(std::span<const TokenId> tokens, Pos pos,
                        wire::LogitsWanted wanted = wire::LogitsWanted::kLast) const;
  Result<Decoding> StartDecode(std::span<const TokenId> tokens, Pos pos,
                               wire::LogitsWanted wanted) const;
  Result<Generation> Generate(const GenerateOptions& options) const;
  Result<EncodedText> Encode(std::span<const TokenId> tokens) const;

 private:
  Client client_;
  SequenceHandle handle_;
};

}  // namespace kvd
