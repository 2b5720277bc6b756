// DaemonSession: a session with a daemon, used by the coroutines of one event loop.
//
// A DaemonSession is to the event loop what kvd::Client is to threads: each function makes one
// request and waits for its answer without blocking the loop. All answers arrive through the
// session's event descriptor. A DaemonSession is shared by its coroutines and watches the
// descriptor until Close or until the session has failed. The pieces of generations are taken from
// the daemon's output arena as they arrive, so a slow consumer of one generation delays no other
// one.
//
// A lost connection is restored by the client library. When the daemon does not know the session
// any more (kSessionLost) or does not come back in time (kDisconnected), every call fails with this
// error, is_failed() is true, and on_failed is called; the owner then opens another DaemonSession.
//
// Functions that are rare and long (state files) use client() on a worker thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "http/backend/answer_piece.h"
#include "http/backend/text_cache.h"
#include "http/loop/await.h"

namespace kvd::http {

class DaemonSession;

// A generation in flight. Its destructor cancels the request if it has not ended. The tokens that
// were sampled until then stay in the sequence.
class GenerationStream {
 public:
  GenerationStream(std::shared_ptr<DaemonSession> session, Generation generation);
  ~GenerationStream();
  GenerationStream(const GenerationStream&) = delete;
  GenerationStream& operator=(const GenerationStream&) = delete;

  // Waits for the next piece; nullopt: the generation has ended, and result() is set. Errors: those
  // of kvd::Generation::Next, without kTimeout.
  Await<Result<std::optional<AnswerPiece>>> Next();
  // Calls `call` with true when the generation begins to wait for room in the pool, and with false
  // when it has room again or has ended. The call before this one, if there was one, gets false if
  // it had true last. REQUIRES: the options had the flag wire::kTellParking.
  void OnParking(std::function<void(bool)> call);
  // Asks the daemon to stop: Next returns the remaining pieces, then kCancelled. Does not wait.
  void Cancel();
  const wire::GenerateResult& result() const { return generation_.result(); }
  // The request's id, with which another process may resume the generation.
  RequestId request() const { return generation_.request(); }

 private:
  friend class DaemonSession;
  void TakePieces();
  void SetParked(bool is_parked);

  std::shared_ptr<DaemonSession> session_;
  Generation generation_;
  std::deque<AnswerPiece> pieces_;
  std::optional<Error> error_;  // that ended the generation; Next returns it after the pieces
  bool is_over_ = false;
  bool is_parked_ = false;
  std::function<void(bool)> on_parking_;
  Signal changed_;
};

class DaemonSession : public std::enable_shared_from_this<DaemonSession> {
 public:
  // Connects; blocks the loop for the time of a handshake. Errors: those of Client::Connect.
  static Result<std::shared_ptr<DaemonSession>> Open(Loop& loop, const ConnectOptions& options);
  DaemonSession(Loop& loop, Client client);
  ~DaemonSession();

  // Stops watching. Requests in flight fail.
  void Close();

  const Client& client() const { return client_; }
  const SessionInfo& session() const { return client_.session(); }
  // Tells sessions apart, without telling their tokens. Not 0.
  std::uint64_t mark() const;
  Loop& loop() { return loop_; }
  bool is_failed() const { return failure_.has_value(); }
  void OnFailed(std::function<void(const Error&)> call) { on_failed_ = std::move(call); }

  // Calls any verb (shm/verb_table.h). The payload must live until the first suspension of the
  // returned coroutine, so use it in the same expression: co_await session.Call(args, payload).
  template <wire::VerbArguments Args>
  Await<Result<wire::ReplyOf<Args>>> Call(Args args, Payload payload = {},
                                          std::uint16_t flags = 0) {
    const auto self = shared_from_this();
    KVD_CO_CHECK_OK(CheckOpen());
    auto started = client_.Start(args, payload, flags);
    if (!started) co_return std::unexpected(std::move(started).error());
    co_await Answered(started->request());
    co_return started->Finish(Connection::Timeout{0});
  }

  // The following functions are those of kvd::Client with the same names.
  Await<Result<wire::InfoReply>> Info();
  Await<Result<ChatTexts>> ChatTemplates();
  // The answers of Tokenize and Detokenize are cached (text_cache.h).
  Await<Result<std::vector<TokenId>>> Tokenize(std::string_view text, std::uint16_t flags);
  Await<Result<std::string>> Detokenize(std::span<const TokenId> tokens, std::uint16_t flags);
  Await<Result<SequenceHandle>> Create(std::uint64_t cache_salt = 0, SequenceLifetime life = {});
  Await<Result<SequenceHandle>> Fork(SequenceHandle source, std::int32_t cell_count,
                                     SequenceLifetime life = {});
  Await<Result<std::vector<SequenceHandle>>> ForkMany(SequenceHandle source, std::uint32_t count);
  Await<Result<SequenceHandle>> Attach(std::string_view name);
  Await<Result<SequenceHandle>> Publish(SequenceHandle sequence, std::string_view name,
                                        std::uint16_t flags, SequenceLifetime life);
  Await<Status> Unpublish(std::string_view name);
  Await<Status> RemoveRange(SequenceHandle sequence, PosRange range);
  Await<Status> Shift(SequenceHandle sequence, PosRange range, std::int32_t delta);
  Await<Result<std::vector<wire::SequenceEntry>>> List();
  Await<Result<wire::SequenceEntry>> Query(SequenceHandle sequence);
  Await<Result<std::vector<TokenId>>> ReadTokens(SequenceHandle sequence, std::int32_t first_cell,
                                                 std::int32_t cell_count);
  Await<Result<std::vector<TextEmbedding>>> Embed(std::vector<std::vector<TokenId>> texts,
                                                  std::optional<wire::PoolingChoice> pooling,
                                                  std::uint16_t flags);
  Await<Result<std::vector<float>>> Rank(std::string query, std::vector<std::string> documents);
  // Submit the verb and do not wait for the answer. The daemon executes it before every request
  // that is made afterwards, unless it fails.
  void DropLater(SequenceHandle sequence);
  void RetainLater(SequenceHandle sequence);
  void RemoveRangeLater(SequenceHandle sequence, PosRange range);

  Result<std::unique_ptr<GenerationStream>> Generate(SequenceHandle sequence,
                                                     const GenerateOptions& options);
  // Continues the generation of an earlier process of this session (Client::ResumeGenerate).
  Result<std::unique_ptr<GenerationStream>> ResumeGenerate(RequestId request,
                                                           SequenceHandle sequence,
                                                           const GenerateOptions& options,
                                                           std::uint32_t received, TokenId last);

 private:
  friend class GenerationStream;

  Status CheckOpen() const;
  // Waits until the request has an answer, or the session has failed.
  Await<void> Answered(RequestId request);
  static Await<void> Watch(std::weak_ptr<DaemonSession> weak, int descriptor, Loop& loop);
  // What has an answer or pieces: no request, requests of this loop, or only requests that calls of
  // other threads wait for.
  enum class Delivery : unsigned char { kNone, kOwn, kOfOtherThreads };
  // Wakes the coroutines whose answers have arrived, and takes the pieces of generations.
  Delivery Deliver();
  void Fail(const Error& error);
  void Forget(RequestId request) { streams_.erase(request); }

  Loop& loop_;
  Client client_;
  std::optional<Error> failure_;
  std::function<void(const Error&)> on_failed_;
  std::map<RequestId, Signal*> calls_;  // requests that a coroutine waits for
  std::map<RequestId, GenerationStream*> streams_;
  TextCache texts_;
};

}  // namespace kvd::http
