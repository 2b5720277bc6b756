#include "http/api/error_of.h"

#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "http/answer/chat_plan.h"
#include "http/api/json_text.h"
#include "http/serve/request.h"
#include "shm/wire_generate.h"

namespace kvd::http {
namespace {

constexpr std::chrono::seconds kLogPause{1};

// An error of the system is "WHAT: errno text", where WHAT may be a path.
std::string_view BehindLastColon(std::string_view text) {
  const std::size_t colon = text.rfind(": ");
  return colon == std::string_view::npos ? std::string_view() : text.substr(colon + 2);
}

// The numbers of the daemon's pool are those of all tenants, so only the number of tokens is shown.
std::string RoomText(const std::string& message) {
  if (message.starts_with(wire::kNoRoomPrefix)) {
    return Concat(message.substr(0, message.find(':')),
                  ": the server's memory is in use. Try again later, shorten the prompt, lower "
                  "max_tokens, or wait longer (room_wait_ms)");
  }
  const bool is_of_machine = message.find('/') != std::string::npos;
  return is_of_machine ? "the server has no room for this request" : message;
}

std::string TextForClients(const Error& error) {
  switch (error.code) {
    case Code::kIo: {
      const std::string_view why = BehindLastColon(error.message);
      const std::string text = "the server cannot read or write a file";
      return why.empty() || why.find('/') != why.npos ? text : Concat(text, ": ", why);
    }
    case Code::kNoSpace: return RoomText(error.message);
    case Code::kDisconnected: return "the daemon of this model does not answer";
    case Code::kTimeout: return "the daemon of this model has not answered in time";
    case Code::kVersionMismatch: return "the daemon of this model speaks another protocol version";
    case Code::kInternal: return "the server has failed to handle the request";
    default: return error.message;
  }
}

// At most one line in kLogPause, so that a client cannot fill the log.
void Log(const std::string& message) {
  static std::chrono::steady_clock::time_point logged_at{};
  const auto now = std::chrono::steady_clock::now();
  if (now - logged_at < kLogPause) return;
  logged_at = now;
  std::fprintf(stderr, "kvd-http: %s\n", message.c_str());
}

}  // namespace

int StatusOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalidArgument:
    case Code::kTooLarge:
    case Code::kExists: return 400;
    case Code::kPermission: return 403;
    case Code::kNotFound: return 404;
    case Code::kUnsupported: return error.message == kNoImages ? 500 : 501;
    case Code::kNoTokenizer: return 501;
    case Code::kNoSpace:
    case Code::kBusy:
    case Code::kTimeout:
    case Code::kDisconnected:
    case Code::kSessionLost:
    case Code::kCancelled:
    case Code::kWindowLost: return 503;
    default: return 500;
  }
}

std::string PublicText(const Error& error) {
  const std::string text = TextForClients(error);
  if (text != error.message) Log(error.message);
  return text;
}

std::string ErrorBody(const Error& error) { return ErrorJson(StatusOf(error), PublicText(error)); }

GatewayReply ReplyOf(const Error& error) {
  GatewayReply reply;
  reply.status = StatusOf(error);
  reply.body = ErrorBody(error);
  return reply;
}

std::string TooLongBody(const TooLong& numbers) {
  Object error;
  error.Set("code", Value::Int(400))
      .Set("message", TooLongText(numbers))
      .Set("type", "exceed_context_size_error")
      .Set("n_prompt_tokens", CountValue(numbers.prompt_tokens))
      .Set("n_ctx", CountValue(numbers.context_tokens));
  return JsonText(Object().Set("error", error.Take()).Take());
}

GatewayReply TooLongReply(const TooLong& numbers) {
  GatewayReply reply;
  reply.status = 400;
  reply.body = TooLongBody(numbers);
  return reply;
}

}  // namespace kvd::http
