// A stream that outlives its client: its bytes, and what continues it after its end.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "http/answer/job_shares.h"
#include "http/loop/await.h"
#include "http/serve/request.h"
#include "text/tool_calls/answer_parser.h"
#include "text/value.h"

namespace kvd::http {

// EndedStream: what a later request needs to continue a stream that has ended (fork_from with an
// X-Conversation-Id). The stream's first answer fills it; the stream's job keeps it.
struct EndedStream {
  // Of the prompt and the answer; empty: the answer has not ended, or its context was shifted.
  std::vector<TokenId> tokens;
  std::string model;  // that the tokens are of
  // Of a chat: the messages before the answer and the tools in OpenAI's format, and the answer;
  // missing: the stream is no chat.
  Value messages;
  Value tools;
  ParsedAnswer answer;
};

class AnswerJournal;

// StreamBuffer: a Responder that keeps the reply in memory, so that the reply outlives its client
// and any number of clients can read it from any byte on.
//
// A buffer is used by one handler, which writes, and by coroutines that follow it. When the reply
// grows beyond kBytesMax, or beyond the share of its tenant, its first bytes are dropped; a reader
// that needs them is told so.
//
// With a journal every byte is logged before a reader sees it. A buffer whose journal was written
// by an earlier process begins with that reply; the handler, which runs again, writes the same
// texts again, and they are ignored: a text with timings would differ.
class StreamBuffer final : public Responder {
 public:
  static constexpr std::size_t kBytesMax = 16u << 20;
  // As many of the last bytes stay when the tenant's share is used up, so that a client that reads
  // as fast as the handler writes loses nothing.
  static constexpr std::size_t kBytesLeast = 64u << 10;

  // `journal` (may be null): of the answer that the handler makes. `share` (may be null): where the
  // bytes are counted.
  StreamBuffer(Loop& loop, std::shared_ptr<AnswerJournal> journal,
               std::shared_ptr<JobShare> share = nullptr);

  Await<bool> Send(GatewayReply reply) override;
  Await<bool> Begin(GatewayReply head) override;
  Await<bool> Write(std::string bytes) override;
  Await<bool> End() override;
  bool is_gone() const override { return is_cancelled_; }
  void OnGone(std::function<void()> call) override;

  const std::shared_ptr<AnswerJournal>& journal() const { return journal_; }
  const std::shared_ptr<EndedStream>& conversation() const { return conversation_; }
  bool is_over() const { return is_over_; }
  // Whether the handler has sent a reply in one piece, as it does for errors.
  bool is_whole() const { return is_whole_; }
  std::size_t byte_count() const { return dropped_ + bytes_.size(); }
  std::size_t dropped_bytes() const { return dropped_; }

  // Ends the reply: the handler finds its client gone.
  void Cancel();
  // The handler has returned. A reply without an end gets one.
  void Finish();
  // As Finish, for a handler that has failed: the reply becomes an error (500), or the stream that
  // it has begun ends with an event of the error.
  Await<void> EndWithError(std::string_view why);

  // Sends the reply from byte `from` on, and what is written later, until it ends or the client is
  // gone. Error replies: 400 if bytes from `from` on were dropped.
  Await<void> Follow(std::size_t from, Responder& client);
  // As Follow, from the event with this number on, counted from 0. Waits until the event exists.
  Await<void> FollowEvents(std::size_t first, Responder& client);

 private:
  // The first byte of an event; nullopt: it is not written yet.
  std::optional<std::size_t> OffsetOfEvent(std::size_t number) const;
  void Append(const std::string& bytes);
  // Drops the first bytes, until `kept` are left.
  void KeepLast(std::size_t kept);
  // Counts what is held now.
  void Count();

  std::shared_ptr<AnswerJournal> journal_;
  std::shared_ptr<JobShare> share_;
  std::shared_ptr<EndedStream> conversation_;
  std::optional<GatewayReply> head_;
  std::string bytes_;
  std::size_t dropped_ = 0;
  std::size_t repeated_texts_ = 0;  // of the journal, which the handler writes again
  bool is_whole_ = false;
  bool is_over_ = false;
  bool is_cancelled_ = false;
  std::function<void()> on_gone_;
  Signal changed_;
};

// The journal of a handler's reply; null: the reply ends with its client.
std::shared_ptr<AnswerJournal> JournalOf(const Responder& responder);
// The conversation of a handler's reply; null: no later request finds it.
std::shared_ptr<EndedStream> EndedStreamOf(const Responder& responder);

}  // namespace kvd::http
