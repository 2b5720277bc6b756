// Sending the answers of a group: as a stream of events, or as one reply.
//
// A writer makes the texts of one API from the events of the group:
//   Await<Result<std::string>> Take(index, source, piece)  the events of a piece, or ""
//   Await<Result<std::string>> End(index, source)          the events of an end, or ""
//   std::string Last()                                     what follows the last event
//   Value Whole()                                          the reply without a stream
// In a reply without a stream the texts of Take and End are not used.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "base/error.h"
#include "http/answer/answer_group.h"
#include "http/api/error_of.h"
#include "http/api/json_text.h"
#include "http/api/reply_fields.h"
#include "http/api/silence_comments.h"
#include "http/loop/await.h"
#include "http/serve/request.h"

namespace kvd::http {

// A stream of events, which begins with the first text, so that an error before it is a reply.
class EventStream {
 public:
  explicit EventStream(Responder& responder) : responder_(responder) {}

  // Each returns false if the client is gone.
  Await<bool> Send(std::string text);
  // An error: a reply of its own, or an event that ends the stream.
  Await<bool> Fail(Error error);
  Await<bool> End(std::string text);

 private:
  Await<bool> Begin();

  Responder& responder_;
  bool has_begun_ = false;
};

// "data: JSON\n\n"
std::string DataEvent(const Value& data);

// Takes the next event of the group into the writer. Returns the text of the writer's events.
template <class Source, class Writer>
Await<Result<std::string>> TakeEvent(typename AnswerGroup<Source>::Event event, Writer& writer) {
  if (event.error) co_return std::unexpected(std::move(*event.error));
  if (event.piece) co_return co_await writer.Take(event.index, *event.source, *event.piece);
  co_return co_await writer.End(event.index, *event.ended);
}

template <class Source, class Writer>
Await<void> SendStream(AnswerGroup<Source>& group, Writer& writer, Responder& responder,
                       std::chrono::seconds ping_time) {
  EventStream stream(responder);
  while (!group.is_over()) {
    auto event = co_await group.Next(ping_time);
    if (group.is_cancelled()) co_return;
    if (!event) {
      const bool goes_on = co_await stream.Send(":\n\n");
      if (!goes_on) co_return;
      continue;
    }
    Result<std::string> text = co_await TakeEvent<Source>(std::move(*event), writer);
    if (!text) {
      co_await stream.Fail(std::move(text).error());
      co_return;
    }
    if (text->empty()) continue;
    const bool goes_on = co_await stream.Send(std::move(*text));
    if (!goes_on) co_return;
  }
  co_await stream.End(writer.Last());
}

template <class Source, class Writer>
Await<void> SendWhole(AnswerGroup<Source>& group, Writer& writer, Responder& responder) {
  GatewayReply reply;
  while (!group.is_over()) {
    auto event = co_await group.Next();
    if (!event) co_return;
    Result<std::string> text = co_await TakeEvent<Source>(std::move(*event), writer);
    if (text) continue;
    reply = ReplyOf(text.error());
    co_await responder.Send(std::move(reply));
    co_return;
  }
  reply.body = JsonText(writer.Whole());
  co_await responder.Send(std::move(reply));
}

// Sends the answers, and cancels them when the client is gone.
template <class Source, class Writer>
Await<void> SendAnswers(AnswerGroup<Source>& group, Writer& writer, const ReplyFields& fields,
                        Responder& responder) {
  responder.OnGone([&group] { group.Cancel(); });
  if (fields.is_stream) {
    co_await SendStream(group, writer, responder, CommentTime(fields, responder));
  } else {
    co_await SendWhole(group, writer, responder);
  }
  responder.OnGone(nullptr);
}

}  // namespace kvd::http
