#include "http/answer/stream_buffer.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "http/answer/answer_journal.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

// The most bytes that Follow gives to a client's connection at once.
constexpr std::size_t kPortion = 64u << 10;

// The event that ends a stream with the error of a whole reply, in the format of the stream's
// events.
std::string ErrorEvent(const std::string& events, const std::string& body) {
  const bool are_named = events.starts_with("event:");
  return Concat(are_named ? "event: error\n" : "", "data: ", body, "\n\n");
}

}  // namespace

StreamBuffer::StreamBuffer(Loop& loop, std::shared_ptr<AnswerJournal> journal,
                           std::shared_ptr<JobShare> share)
    : journal_(std::move(journal)),
      share_(std::move(share)),
      conversation_(std::make_shared<EndedStream>()),
      changed_(loop) {
  if (!journal_) return;
  is_over_ = journal_->is_over();
  auto logged = journal_->TakeReply();
  if (!logged) return;
  head_ = std::move(logged->head);
  is_whole_ = logged->is_whole;
  repeated_texts_ = logged->texts.size();
  for (const std::string& text : logged->texts) Append(text);
  is_over_ = is_over_ || is_whole_;
}

void StreamBuffer::Append(const std::string& bytes) {
  const std::size_t needed = bytes_.size() + bytes.size();
  // A string that grows doubles its space.
  const std::size_t space =
      needed <= bytes_.capacity() ? bytes_.capacity() : std::max(needed, 2 * bytes_.capacity());
  const bool has_share = !share_ || share_->CheckMemory(space - bytes_.capacity());
  // Half is dropped at once, so that a long reply moves each byte once on the average.
  if (!has_share) KeepLast(std::max(kBytesLeast, bytes_.size() / 2));
  bytes_ += bytes;
  if (bytes_.size() > kBytesMax) KeepLast(kBytesMax / 2);
  Count();
}

void StreamBuffer::KeepLast(std::size_t kept) {
  if (bytes_.size() <= kept) return;
  const std::size_t dropped = bytes_.size() - kept;
  bytes_ = bytes_.substr(dropped);  // a new string, which gives the space back
  dropped_ += dropped;
}

void StreamBuffer::Count() {
  if (!share_) return;
  std::size_t bytes = bytes_.capacity();
  if (is_over_) bytes += conversation_->tokens.size() * sizeof(TokenId);
  share_->SetReply(bytes);
}

Await<bool> StreamBuffer::Send(GatewayReply reply) {
  if (is_over_) co_return !is_cancelled_;  // as an earlier process has sent it
  if (head_) {
    // The stream that an earlier process has begun cannot be continued.
    repeated_texts_ = 0;
    std::string event = ErrorEvent(bytes_, reply.body);
    const bool goes_on = co_await Write(std::move(event));
    if (goes_on) co_await End();
    co_return goes_on;
  }
  bytes_ = std::exchange(reply.body, {});
  if (journal_) journal_->PutHead(reply, true, bytes_);
  head_ = std::move(reply);
  is_whole_ = is_over_ = true;
  Count();
  changed_.Notify();
  co_return !is_cancelled_;
}

Await<bool> StreamBuffer::Begin(GatewayReply head) {
  if (head_) co_return !is_cancelled_;
  head.body.clear();
  if (journal_) journal_->PutHead(head, false, {});
  head_ = std::move(head);
  changed_.Notify();
  co_return !is_cancelled_;
}

Await<bool> StreamBuffer::Write(std::string bytes) {
  if (is_cancelled_) co_return false;
  if (repeated_texts_ > 0) {
    --repeated_texts_;
    co_return true;
  }
  if (journal_) journal_->PutText(bytes);
  Append(bytes);
  changed_.Notify();
  co_return true;
}

Await<bool> StreamBuffer::End() {
  Finish();
  co_return !is_cancelled_;
}

void StreamBuffer::OnGone(std::function<void()> call) {
  on_gone_ = std::move(call);
  if (is_cancelled_ && on_gone_) std::exchange(on_gone_, nullptr)();
}

void StreamBuffer::Cancel() {
  if (is_over_ || is_cancelled_) return;
  is_cancelled_ = true;
  changed_.Notify();
  if (on_gone_) std::exchange(on_gone_, nullptr)();
}

void StreamBuffer::Finish() {
  is_over_ = true;
  Count();
  changed_.Notify();
}

Await<void> StreamBuffer::EndWithError(std::string_view why) {
  on_gone_ = nullptr;  // it may refer to what the handler had
  GatewayReply reply = ErrorReply(500, why);
  co_await Send(std::move(reply));
  Finish();
}

Await<void> StreamBuffer::Follow(std::size_t from, Responder& client) {
  // The client's disappearance wakes this coroutine, which otherwise waits for the handler.
  client.OnGone([this] { changed_.Notify(); });
  while (!head_ && !is_over_ && !is_cancelled_ && !client.is_gone()) co_await changed_.Wait();
  if (client.is_gone()) co_return;
  if (!head_) {
    GatewayReply reply = ErrorReply(409, "the stream was cancelled or replaced before it began");
    co_await client.Send(std::move(reply));
    co_return;
  }
  if (from < dropped_) {
    GatewayReply reply = ErrorReply(400, "Stream offset lost, please restart");
    co_await client.Send(std::move(reply));
    co_return;
  }
  if (is_whole_) {
    GatewayReply reply = *head_;
    reply.body = bytes_;
    co_await client.Send(std::move(reply));
    co_return;
  }
  GatewayReply head = *head_;
  if (!co_await client.Begin(std::move(head))) co_return;
  std::size_t at = from;
  for (;;) {
    if (at < dropped_) co_return;  // a reader that is too slow; its connection is closed
    if (at < byte_count()) {
      std::string portion = bytes_.substr(at - dropped_, kPortion);
      at += portion.size();
      if (!co_await client.Write(std::move(portion))) co_return;
      continue;
    }
    if (is_over_ || is_cancelled_) break;
    if (client.is_gone()) co_return;
    co_await changed_.Wait();
  }
  co_await client.End();
}

std::optional<std::size_t> StreamBuffer::OffsetOfEvent(std::size_t number) const {
  if (dropped_ != 0) return dropped_;  // Follow then sends what is left
  std::size_t at = 0;
  for (std::size_t i = 0; i < number; ++i) {
    const std::size_t end = bytes_.find("\n\n", at);
    if (end == std::string::npos) return std::nullopt;
    at = end + 2;
  }
  return at;
}

Await<void> StreamBuffer::FollowEvents(std::size_t first, Responder& client) {
  client.OnGone([this] { changed_.Notify(); });
  for (;;) {
    const auto offset = OffsetOfEvent(first);
    const bool is_final = is_over_ || is_cancelled_;
    if (offset || is_final) co_return co_await Follow(offset.value_or(byte_count()), client);
    if (client.is_gone()) co_return;
    co_await changed_.Wait();
  }
}

std::shared_ptr<AnswerJournal> JournalOf(const Responder& responder) {
  const auto* const buffer = dynamic_cast<const StreamBuffer*>(&responder);
  return buffer == nullptr ? nullptr : buffer->journal();
}

std::shared_ptr<EndedStream> EndedStreamOf(const Responder& responder) {
  const auto* const buffer = dynamic_cast<const StreamBuffer*>(&responder);
  return buffer == nullptr ? nullptr : buffer->conversation();
}

}  // namespace kvd::http
