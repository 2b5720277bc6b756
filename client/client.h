// Client: a session with a kvd daemon, and every verb of the protocol as one function.
//
//   KVD_TRY(kvd::Client client, kvd::Client::Connect());
//   KVD_TRY(kvd::Sequence sequence, client.NewSequence());
//   KVD_TRY(auto tokens, client.Tokenize("Once upon a time", kvd::wire::kFlagAddSpecial));
//   KVD_TRY(auto generation, sequence.Generate({.tokens = tokens, .predict_max = 32}));
//   for (;;) { KVD_TRY(auto piece, generation.Next()); if (!piece) break; Show(piece->text); }
//
// Caveats, the same as in kvd.h: use nothing of it in a forked child; threads may share a Client;
// sequences are private to the session and out of reach when it ends, unless published (what they
// hold of plain text then stays as a prefix for later prompts, until room is needed); logits and pieces
// that are not let go fill this session's own output arena and stall its own answers.
//
// A connection that is lost, and a daemon that was killed and started again, are waited for while a
// call waits (ConnectOptions::reconnect_timeout); requests in flight go on and are applied once.
//
// A Client is a handle: copies share one session, which ends with the last of them and of the
// sequences, logits and generations made from it.
//
// Errors of every call, beside those named: kTimeout (the call's time is over; it may still be
// applied), kDisconnected, kCorrupt (the daemon broke the protocol), kInvalidArgument (a forked
// child, or a number out of range), kNoSpace (a payload larger than the request arena).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/connection.h"
#include "client/generation.h"
#include "client/live_map.h"
#include "client/logits.h"
#include "client/started.h"
#include "client/types.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "shm/payload_codec.h"
#include "shm/verb_table.h"

namespace kvd {

class LlamaSink;
class Sequence;

// Of a kChat; `turns` (the span itself) must outlive the call.
Payload ChatPayload(const std::span<const wire::ChatTurn>& turns);
// kCorrupt: the reply has not the rows that it says.
Status CheckEmbedding(const wire::EmbedReply& reply);
// kCorrupt: the reply has another number of forks.
Status CheckForkCount(const wire::ForkReply& reply, std::uint32_t count);

class Client {
 public:
  // Errors: ShakeHands'.
  static Result<Client> Connect(const ConnectOptions& options = {});

  const SessionInfo& session() const { return connection_->info(); }
  const std::shared_ptr<Connection>& connection() const { return connection_; }

  // After kDisconnected or kSessionLost: goes on as a new session, without sequences. See
  // Connection::Renew.
  Status Renew() const { return connection_->Renew(); }

  // ------------------------------------------------------------------- any verb, typed
  // Every verb is a call with the type of its arguments (shm/verb_table.h); the functions below are
  // such calls with the arguments as C++ has them. `payload`: what the row says that it carries.
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
  // The same without waiting: neither for room nor for the answer. Errors: as Call, but kTimeout.
  template <wire::VerbArguments Args>
  Result<Started<Args>> Start(const Args& args, const Payload& payload = {},
                              std::uint16_t flags = 0) const {
    KVD_TRY(const RequestId request,
            connection_->Submit(wire::MakeSubmission(args, flags), payload, OutputMode::kCollect));
    return Started<Args>(connection_, request);
  }

  // ------------------------------------------------------------------------------- the daemon
  // One round trip with `payload_bytes` (at most 4096) there and back, compared.
  Result<RoundTrip> Ping(std::size_t payload_bytes = 0) const;
  Result<wire::InfoReply> Info() const;
  // Where the time of the daemon's steps went since it started.
  Result<wire::ProfileReply> Profile() const;
  // Of the prompt cache on disk; is_on is 0 where there is none.
  Result<wire::CacheReply> CacheInfo() const;
  // Sequences that this user may see, and snapshots.
  Result<std::vector<wire::SequenceEntry>> List() const;
  Result<std::vector<Snapshot>> Snapshots() const;

  // The daemon's live map of what this user may see; waits for its first publication. Reading it
  // makes no request. Errors: kInvalidArgument (ConnectOptions::wants_map was not set).
  Result<LiveMap> OpenMap() const { return LiveMap::Open(connection_); }

  // --------------------------------------------------------------------- sequences that clean up
  // Errors: kNoSpace (too many sequences).
  Result<Sequence> NewSequence() const;
  // A fork of a published snapshot. Errors: kNotFound, kNoSpace.
  Result<Sequence> AttachSnapshot(std::string_view name, ForkInfo* info = nullptr) const;

  // ---------------------------------------------------------------------- sequences by handle
  // Errors of all: kNotFound (no such handle, or not one that this user may see), kPermission (it
  // is another session's), kBusy (it is being computed).
  // cache_salt: of its namespace; 0: the session's.
  Result<SequenceHandle> Create(std::uint64_t cache_salt = 0) const;
  Result<SequenceHandle> Attach(std::string_view name, ForkInfo* info = nullptr) const;
  // `count` forks (1..kForksMax) of the first `cell_count` cells (negative: all).
  Result<std::vector<SequenceHandle>> Fork(SequenceHandle source, std::int32_t cell_count,
                                           std::uint32_t count, ForkInfo* info = nullptr) const;
  Status Drop(SequenceHandle sequence, Force force = Force::kNo) const;
  void DropLater(SequenceHandle sequence) const;  // without waiting for the answer
  // Cells copied, removed, rewritten. Ranges are half-open positions. `replayed` (may be null):
  // tokens that a recurrent model computed again to arrive there.
  Result<std::uint64_t> CopyRange(SequenceHandle source, SequenceHandle destination, PosRange range,
                                  std::uint64_t* replayed = nullptr) const;
  Result<std::uint64_t> RemoveRange(SequenceHandle sequence, PosRange range,
                                    std::uint64_t* replayed = nullptr) const;
  // Lets a sequence go as if the session had ended: what it holds of plain text stays as a prefix
  // for others until room is needed. Returns whether it stays; if not, it is dropped.
  Result<bool> Retain(SequenceHandle sequence, Force force = Force::kNo) const;
  // A pinned one is never evicted.
  Status Pin(SequenceHandle sequence, bool is_pinned, Force force = Force::kNo) const;
  // Drops this user's retained sequences; by force the pinned ones too. Returns how many.
  Result<std::uint64_t> DropRetained(Force force = Force::kNo) const;
  Status Keep(SequenceHandle sequence) const;  // drops this session's others
  Status Clear(SequenceHandle sequence) const;
  // A shift that would overlap, reorder or go below 0 is refused (kInvalidArgument).
  Status Add(SequenceHandle sequence, PosRange range, std::int32_t delta) const;
  Result<std::uint64_t> Divide(SequenceHandle sequence, PosRange range, std::int32_t divisor) const;
  Result<wire::SequenceEntry> Query(SequenceHandle sequence) const;
  // What it was forked from and how it was edited: itself, its parent and so on.
  Result<std::vector<wire::LogRecord>> Log(SequenceHandle sequence) const;
  Result<std::vector<TokenAt>> ReadTokens(SequenceHandle sequence, std::int32_t first_cell = 0,
                                          std::int32_t cell_count = -1) const;
  // Errors: kNoTokenizer. flags: kFlagSpecial.
  Result<std::string> ReadText(SequenceHandle sequence, std::uint16_t flags = 0) const;

  // --------------------------------------------------------------------------------- computing
  // Tokens go to the end of the sequence: any other position than its next is refused
  // (kInvalidArgument). Errors: kNoSpace (cells), kNumerical, kConflict, kBusy. An empty sequence may
  // begin with what others hold, but not where all rows are wanted. flags: kFlagNoPrefix (no).
  Result<Decoding> StartDecode(SequenceHandle sequence, std::span<const TokenId> tokens, Pos pos,
                               wire::LogitsWanted wanted, std::uint16_t flags = 0) const;
  Result<Generation> StartGenerate(SequenceHandle sequence, const GenerateOptions& options) const;
  // The embedding of a text, which is read at once and kept nowhere. flags: kFlagNormalize (rows of
  // length 1; else as they are). Errors: kUnsupported (the model embeds no texts), kNoSpace (the
  // rows exceed the output arena), kNumerical.
  Result<TextEmbedding> Embed(std::span<const TokenId> tokens, std::uint16_t flags = 0) const;
  // The text that the sequence's decoder attends to; once, before its first token. Forks share what
  // is kept of it. Errors: kUnsupported (the model has no encoder with a decoder behind it), kExists,
  // kInvalidArgument (the sequence has tokens), kNoSpace, kNumerical.
  Result<EncodedText> Encode(SequenceHandle sequence, std::span<const TokenId> tokens) const;
  // False: that request had ended.
  Result<bool> Cancel(RequestId request) const { return connection_->Cancel(request); }

  // --------------------------------------------------------------------------------- snapshots
  // flags: kFlagPublic, kFlagForce (replace). Errors: kExists, kInvalidArgument (name), kNoSpace.
  Result<SequenceHandle> Publish(SequenceHandle sequence, std::string_view name,
                                 std::uint16_t flags = 0) const;
  Status Unpublish(std::string_view name, Force force = Force::kNo) const;

  // ------------------------------------------------------------------------------ saved states
  // Files in the daemon's --store, by names as of snapshots. Errors of all: kUnsupported (there is
  // no store), kIo.
  // The sequence as it is now, while it and others go on. Errors: kExists, kNoSpace (the disk, the
  // user's bytes), kInvalidArgument (name).
  Result<SaveInfo> Save(SequenceHandle sequence, std::string_view name,
                        const SaveOptions& options = {}) const;
  // All sequences of this session in one file.
  Result<SaveInfo> SaveAll(std::string_view name, const SaveOptions& options = {}) const;
  // What Save would write, exact if nothing is packed.
  Result<SaveInfo> SaveSize(SequenceHandle sequence, const SaveOptions& options = {}) const;
  // In fresh sequences of this session. Errors: kNotFound, kCorrupt (what is damaged), kUnsupported
  // (another model; what differs), kNoSpace. None of them is there then.
  Result<std::vector<LoadedSequence>> Load(std::string_view name) const;
  Result<std::vector<wire::SavedEntry>> Saved() const;
  Status RemoveSaved(std::string_view name) const;

  // -------------------------------------------------------------------------------------- text
  // Errors: kNoTokenizer, kInvalidArgument (text that is not UTF-8).
  // flags: kFlagAddSpecial, kFlagParseSpecial.
  Result<std::vector<TokenId>> Tokenize(std::string_view text, std::uint16_t flags) const;
  Result<std::string> Detokenize(std::span<const TokenId> tokens, std::uint16_t flags = 0) const;
  // The prompt text of a conversation by the model's own template; tokenize it with
  // kFlagParseSpecial. flags: kFlagAddAssistant.
  Result<std::string> Chat(std::span<const wire::ChatTurn> turns, std::uint16_t flags) const;
  // -------------------------------------------------------------------- state files of llama.cpp
  // Sequences as the bytes of a file; a session's ids are 0, 1, … in this order. None named: all of
  // this session that have cells. Errors: kNotFound, kInvalidArgument (one without cells, several in
  // a sequence file, a type that is none, streams that the layout or the sequences do not fit),
  // kNoSpace (more than the daemon's limit), kUnsupported (a type that the model's heads cannot
  // have).
  Result<std::vector<std::byte>> ExportLlama(std::span<const SequenceHandle> sequences,
                                             const LlamaFileOptions& options = {}) const;
  // The same into a sink; returns the file's size. Errors: also the sink's; what it has is of no
  // use then.
  Result<std::uint64_t> ExportLlama(std::span<const SequenceHandle> sequences,
                                    const LlamaFileOptions& options, LlamaSink& sink) const;
  // The size of that file.
  Result<std::uint64_t> LlamaBytes(std::span<const SequenceHandle> sequences,
                                   const LlamaFileOptions& options = {}) const;
  // New sequences of a file's bytes, in either layout. Of one session one import at a time. Errors,
  // none is made then: kCorrupt (the field and its byte), kInvalidArgument (the file is of another
  // model, with what differs), kUnsupported, kNumerical, kNoSpace.
  Result<std::vector<ImportedSequence>> ImportLlama(std::span<const std::byte> file,
                                                    const LlamaReadOptions& options = {}) const;

  // Packs the pool between the steps of others. Errors: kPermission (another uid than the daemon's),
  // kBusy (one is going on), kNoSpace (it gave up; what was done stays).
  Result<wire::DefragReply> Defrag() const;

 private:
  template <wire::VerbArguments Args>
  Status CallForNothing(const Args& args, const Payload& payload = {},
                        std::uint16_t flags = 0) const {
    KVD_CHECK_OK(Call(args, payload, flags));
    return {};
  }
  explicit Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  std::shared_ptr<Connection> connection_;
};

// A sequence that is dropped with its object, unless detached. Move-only; one thread at a time.
// A sequence that is still being computed when it is dropped stays until the session ends.
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
  // The handle lives on, until the session ends or someone drops it.
  [[nodiscard]] SequenceHandle Detach() { return std::exchange(handle_, SequenceHandle::kNone); }

  // Client's calls of the same names, with their errors.
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
  // Waits for all rows. Errors: also kNoSpace (they exceed the output arena: StartDecode).
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
