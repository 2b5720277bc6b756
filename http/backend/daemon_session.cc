// Watch waits for the event descriptor and calls Deliver, which asks the connection for all
// requests with an answer: a call's coroutine is woken and takes the answer itself, a generation's
// pieces are moved into its queue. After a failure every coroutine is woken and finds the error.
#include "http/backend/daemon_session.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/siphash.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

// How long Watch waits before it looks again at an answer that another thread has not taken yet.
constexpr std::chrono::milliseconds kOtherThread{1};

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint16_t EphemeralFlag(const SequenceLifetime& life) {
  return FlagIf(life.is_ephemeral, wire::kFlagEphemeral);
}

std::optional<std::uint32_t> CellsOrAll(std::int32_t cell_count) {
  if (cell_count < 0) return std::nullopt;
  return static_cast<std::uint32_t>(cell_count);
}

// Waits for a verb whose reply has no value for the caller.
template <class Reply>
Status StatusOf(const Result<Reply>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace

GenerationStream::GenerationStream(std::shared_ptr<DaemonSession> session, Generation generation)
    : session_(std::move(session)), generation_(std::move(generation)), changed_(session_->loop_) {
  session_->streams_.emplace(generation_.request(), this);
}

GenerationStream::~GenerationStream() {
  session_->Forget(generation_.request());
  SetParked(false);
}

void GenerationStream::OnParking(std::function<void(bool)> call) {
  SetParked(false);
  on_parking_ = std::move(call);
}

void GenerationStream::SetParked(bool is_parked) {
  if (std::exchange(is_parked_, is_parked) != is_parked && on_parking_) on_parking_(is_parked);
}

void GenerationStream::TakePieces() {
  while (!is_over_) {
    Result<std::optional<wire::PieceView>> next = generation_.Next(Connection::Timeout{0});
    if (!next) {
      if (next.error().code == Code::kTimeout) break;
      error_ = std::move(next).error();
      is_over_ = true;
    } else if (!*next) {
      is_over_ = true;
    } else if ((*next)->kind == wire::kPieceParking) {
      SetParked((*next)->done != 0);
    } else {
      const wire::PieceView& view = **next;
      SetParked(false);
      pieces_.push_back({.tokens = {view.tokens.begin(), view.tokens.end()},
                         .text = std::string(view.text),
                         .logprobs = {view.logprobs.begin(), view.logprobs.end()},
                         .is_progress = view.kind == wire::kPieceProgress,
                         .done = view.done,
                         .total = view.total});
    }
  }
  if (is_over_) {
    session_->Forget(generation_.request());
    SetParked(false);
  }
  changed_.Notify();
}

Await<Result<std::optional<AnswerPiece>>> GenerationStream::Next() {
  while (pieces_.empty() && !is_over_) co_await changed_.Wait();
  if (!pieces_.empty()) {
    AnswerPiece piece = std::move(pieces_.front());
    pieces_.pop_front();
    co_return std::optional(std::move(piece));
  }
  if (error_) co_return std::unexpected(*error_);
  co_return std::nullopt;
}

void GenerationStream::Cancel() {
  if (is_over_) return;
  session_->client_.connection()->SubmitAndForget(
      wire::MakeSubmission(wire::CancelArgs{generation_.request()}), {});
}

Result<std::shared_ptr<DaemonSession>> DaemonSession::Open(Loop& loop,
                                                           const ConnectOptions& options) {
  KVD_TRY(Client client, Client::Connect(options));
  KVD_TRY(const int descriptor, client.connection()->OpenEventDescriptor());
  auto session = std::make_shared<DaemonSession>(loop, std::move(client));
  asio::co_spawn(loop, Watch(session, descriptor, loop), asio::detached);
  return session;
}

DaemonSession::DaemonSession(Loop& loop, Client client) : loop_(loop), client_(std::move(client)) {}

DaemonSession::~DaemonSession() = default;

std::uint64_t DaemonSession::mark() const {
  const auto& token = session().session_token;
  return SipHash24(11, 12, {reinterpret_cast<const char*>(token.data()), token.size()}) | 1;
}

void DaemonSession::Close() { Fail(Error{Code::kCancelled, "the session was closed"}); }

Status DaemonSession::CheckOpen() const {
  if (failure_) return std::unexpected(*failure_);
  return {};
}

void DaemonSession::Fail(const Error& error) {
  if (failure_) return;
  failure_ = error;
  for (const auto& [request, signal] : calls_) signal->Notify();
  // Each stream finds the session's error, or this one after Close.
  const auto streams = streams_;
  for (const auto& [request, stream] : streams) {
    stream->TakePieces();
    if (stream->is_over_) continue;
    stream->error_ = error;
    stream->is_over_ = true;
  }
  streams_.clear();
  if (on_failed_) on_failed_(error);
}

Await<void> DaemonSession::Answered(RequestId request) {
  Signal answered(loop_);
  calls_.emplace(request, &answered);
  if (!failure_) co_await answered.Wait();
  calls_.erase(request);
}

DaemonSession::Delivery DaemonSession::Deliver() {
  auto ready = client_.connection()->TakeReady();
  if (!ready) {
    Fail(ready.error());
    return Delivery::kNone;
  }
  Delivery delivery = ready->empty() ? Delivery::kNone : Delivery::kOfOtherThreads;
  for (const RequestId request : *ready) {
    if (const auto call = calls_.find(request); call != calls_.end()) {
      call->second->Notify();
      calls_.erase(call);
      delivery = Delivery::kOwn;
    } else if (const auto stream = streams_.find(request); stream != streams_.end()) {
      stream->second->TakePieces();
      delivery = Delivery::kOwn;
    }
  }
  return delivery;
}

Await<void> DaemonSession::Watch(std::weak_ptr<DaemonSession> weak, int descriptor, Loop& loop) {
  // The connection owns the descriptor, so this watches a copy, which it closes.
  asio::posix::stream_descriptor events(loop, ::dup(descriptor));
  asio::steady_timer timer(loop);
  for (;;) {
    Delivery delivery = Delivery::kNone;
    {
      const std::shared_ptr<DaemonSession> session = weak.lock();
      if (!session || session->failure_) co_return;
      delivery = session->Deliver();
      if (session->failure_) co_return;
    }
    if (delivery == Delivery::kOwn) {
      // The coroutines that were woken run before this one continues, and take their answers.
      co_await asio::post(loop, asio::use_awaitable);
      continue;
    }
    if (delivery == Delivery::kOfOtherThreads) {
      timer.expires_after(kOtherThread);
      co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
      continue;
    }
    const auto [error] = co_await events.async_wait(asio::posix::stream_descriptor::wait_read,
                                                    asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
  }
}

Await<Result<wire::InfoReply>> DaemonSession::Info() {
  KVD_CO_TRY(const auto reply, co_await Call(wire::InfoArgs{}));
  co_return reply.record;
}

Await<Result<ChatTexts>> DaemonSession::ChatTemplates() {
  KVD_CO_TRY(const auto reply, co_await Call(wire::ChatTemplatesArgs{}));
  co_return ChatTextsFrom(reply);
}

Await<Result<std::vector<TokenId>>> DaemonSession::Tokenize(std::string_view text,
                                                            std::uint16_t flags) {
  KVD_CO_CHECK_OK(CheckOpen());
  const auto bytes = BytesOf(text);
  const std::string key = TextCache::KeyOf(wire::Verb::kTokenize, flags, bytes);
  if (const auto* const kept = texts_.Find(key)) {
    std::vector<TokenId> tokens(kept->size() / sizeof(TokenId));
    std::ranges::copy(*kept, std::as_writable_bytes(std::span(tokens)).begin());
    co_return tokens;
  }
  KVD_CO_TRY(auto reply, co_await Call(wire::TokenizeArgs{}, PayloadOf(bytes), flags));
  texts_.Put(key, std::as_bytes(std::span(reply.tokens)));
  co_return std::move(reply.tokens);
}

Await<Result<std::string>> DaemonSession::Detokenize(std::span<const TokenId> tokens,
                                                     std::uint16_t flags) {
  if (tokens.empty()) co_return std::string();
  KVD_CO_CHECK_OK(CheckOpen());
  const auto bytes = std::as_bytes(tokens);
  const std::string key = TextCache::KeyOf(wire::Verb::kDetokenize, flags, bytes);
  if (const auto* const kept = texts_.Find(key)) co_return TextOf(*kept);
  KVD_CO_TRY(const auto reply, co_await Call(wire::DetokenizeArgs{}, PayloadOf(bytes), flags));
  texts_.Put(key, reply.text);
  co_return TextOf(reply.text);
}

Await<Result<SequenceHandle>> DaemonSession::Create(std::uint64_t cache_salt,
                                                    SequenceLifetime life) {
  const wire::CreateArgs args{.cache_salt = cache_salt, .ttl_seconds = life.ttl_seconds};
  KVD_CO_TRY(const auto reply, co_await Call(args, {}, EphemeralFlag(life)));
  co_return reply.sequence;
}

Await<Result<SequenceHandle>> DaemonSession::Fork(SequenceHandle source, std::int32_t cell_count,
                                                  SequenceLifetime life) {
  const wire::ForkArgs args{.sequence = source,
                            .cells = CellsOrAll(cell_count),
                            .count = 1,
                            .ttl_seconds = life.ttl_seconds};
  KVD_CO_TRY(const auto reply, co_await Call(args, {}, EphemeralFlag(life)));
  KVD_CO_CHECK_OK(CheckForkCount(reply, 1));
  co_return reply.handles.front();
}

Await<Result<std::vector<SequenceHandle>>> DaemonSession::ForkMany(SequenceHandle source,
                                                                   std::uint32_t count) {
  const wire::ForkArgs args{.sequence = source, .cells = {}, .count = count, .ttl_seconds = 0};
  KVD_CO_TRY(auto reply, co_await Call(args));
  KVD_CO_CHECK_OK(CheckForkCount(reply, count));
  co_return std::move(reply.handles);
}

Await<Result<SequenceHandle>> DaemonSession::Attach(std::string_view name) {
  const auto bytes = BytesOf(name);
  KVD_CO_TRY(const auto reply, co_await Call(wire::AttachArgs{}, PayloadOf(bytes)));
  co_return reply.sequence;
}

Await<Result<SequenceHandle>> DaemonSession::Publish(SequenceHandle sequence, std::string_view name,
                                                     std::uint16_t flags, SequenceLifetime life) {
  const auto bytes = BytesOf(name);
  const auto all_flags = static_cast<std::uint16_t>(flags | EphemeralFlag(life));
  const wire::PublishArgs args{sequence, life.ttl_seconds};
  KVD_CO_TRY(const auto reply, co_await Call(args, PayloadOf(bytes), all_flags));
  co_return reply.sequence;
}

Await<Status> DaemonSession::Unpublish(std::string_view name) {
  const auto bytes = BytesOf(name);
  co_return StatusOf(co_await Call(wire::UnpublishArgs{}, PayloadOf(bytes)));
}

Await<Status> DaemonSession::RemoveRange(SequenceHandle sequence, PosRange range) {
  co_return StatusOf(co_await Call(wire::RemoveRangeArgs{sequence, range}));
}

Await<Status> DaemonSession::Shift(SequenceHandle sequence, PosRange range, std::int32_t delta) {
  co_return StatusOf(co_await Call(wire::AddArgs{sequence, range, delta}));
}

Await<Result<std::vector<wire::SequenceEntry>>> DaemonSession::List() {
  KVD_CO_TRY(auto reply, co_await Call(wire::ListArgs{}));
  co_return std::move(reply.entries);
}

Await<Result<wire::SequenceEntry>> DaemonSession::Query(SequenceHandle sequence) {
  KVD_CO_TRY(const auto reply, co_await Call(wire::QueryArgs{sequence}));
  co_return reply.entry;
}

Await<Result<std::vector<TokenId>>> DaemonSession::ReadTokens(SequenceHandle sequence,
                                                              std::int32_t first_cell,
                                                              std::int32_t cell_count) {
  const wire::ReadTokensArgs args{
      .sequence = sequence, .first_cell = first_cell, .count = CellsOrAll(cell_count)};
  KVD_CO_TRY(const auto reply, co_await Call(args));
  std::vector<TokenId> tokens;
  tokens.reserve(reply.cells.size());
  for (const wire::TokenAndPosition& cell : reply.cells) tokens.push_back(cell.token);
  co_return tokens;
}

Await<Result<std::vector<TextEmbedding>>> DaemonSession::Embed(
    std::vector<std::vector<TokenId>> texts, std::optional<wire::PoolingChoice> pooling,
    std::uint16_t flags) {
  const std::vector<std::span<const TokenId>> views(texts.begin(), texts.end());
  const std::span<const std::span<const TokenId>> lists(views);
  const wire::EmbedArgs args{.pooling = pooling};
  KVD_CO_TRY(const auto reply, co_await Call(args, TokenListsPayload(lists), flags));
  co_return EmbeddingsFrom(reply, lists);
}

Await<Result<std::vector<float>>> DaemonSession::Rank(std::string query,
                                                      std::vector<std::string> documents) {
  std::vector<std::string_view> texts = {query};
  texts.insert(texts.end(), documents.begin(), documents.end());
  const std::span<const std::string_view> views(texts);
  KVD_CO_TRY(auto reply, co_await Call(wire::RankArgs{}, TextsPayload(views)));
  KVD_CO_CHECK_OK(CheckScores(reply, documents.size()));
  co_return std::move(reply.scores);
}

void DaemonSession::DropLater(SequenceHandle sequence) {
  if (!failure_) client_.DropLater(sequence);
}

void DaemonSession::RetainLater(SequenceHandle sequence) {
  if (failure_) return;
  client_.connection()->SubmitAndForget(wire::MakeSubmission(wire::RetainArgs{sequence}), {});
}

void DaemonSession::RemoveRangeLater(SequenceHandle sequence, PosRange range) {
  if (failure_) return;
  client_.connection()->SubmitAndForget(
      wire::MakeSubmission(wire::RemoveRangeArgs{sequence, range}), {});
}

Result<std::unique_ptr<GenerationStream>> DaemonSession::Generate(SequenceHandle sequence,
                                                                  const GenerateOptions& options) {
  KVD_CHECK_OK(CheckOpen());
  KVD_TRY(Generation generation, client_.StartGenerate(sequence, options));
  return std::make_unique<GenerationStream>(shared_from_this(), std::move(generation));
}

Result<std::unique_ptr<GenerationStream>> DaemonSession::ResumeGenerate(
    RequestId request, SequenceHandle sequence, const GenerateOptions& options,
    std::uint32_t received, TokenId last) {
  KVD_CHECK_OK(CheckOpen());
  KVD_TRY(Generation generation,
          client_.ResumeGenerate(request, sequence, options, received, last));
  return std::make_unique<GenerationStream>(shared_from_this(), std::move(generation));
}

}  // namespace kvd::http
