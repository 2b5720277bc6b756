#include "tests/fuzz/http_reply_oracle.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/text.h"
#include "base/utf8.h"
#include "http/answer/chat_plan.h"
#include "text/json.h"

namespace kvd::test {
namespace {

constexpr std::string_view kData = "data: ";
constexpr std::string_view kDone = "[DONE]";

// Missing if there is no such member. Of a doubled member, the last one counts.
Value MemberOf(const Value& value, std::string_view name) {
  Value found;
  if (!value.is_dict()) return found;
  for (const auto& [key, member] : value.dict().items()) {
    if (key.is_string() && key.view() == name) found = member;
  }
  return found;
}

bool IsKnown(int status) {
  constexpr int kStatuses[] = {200, 204, 400, 403, 404, 409, 413, 422, 429, 500, 501, 503, 507};
  return std::ranges::find(kStatuses, status) != std::end(kStatuses);
}

// A status of 5xx is right only if the daemon or a file has failed, or if the message says what
// kvd does not support.
std::string StatusFault(std::int64_t status, std::string_view message,
                        const ReplyConditions& conditions) {
  if (status < 500 || conditions.may_fail) return {};
  const auto says = [&](std::string_view text) { return message.find(text) != message.npos; };
  if (status == 501 && (says("support") || says("Start it with"))) return {};
  // llama-server's status for images.
  if (status == 500 && message == http::kNoImages) return {};
  if (status == 503 && (conditions.is_loading || message == "no slot available")) return {};
  return Concat("status ", status, " for an input");
}

std::string ErrorFault(const Value& error, const ReplyConditions& conditions) {
  if (error.is_string()) return {};
  const Value message = MemberOf(error, "message");
  if (!message.is_string() || message.view().empty()) return "an error without a message";
  const Value code = MemberOf(error, "code");
  return code.is_int() ? StatusFault(code.integer(), message.view(), conditions) : std::string();
}

std::string JsonFault(std::string_view text, const ReplyConditions& conditions) {
  // A reply may repeat a part of the request some levels deeper.
  const auto value = ParseJson(text, {.nesting_max = 160});
  if (!value) return Concat("not JSON: ", value.error().message);
  // JsonText writes null for a value that cannot be written.
  if (!value->is_dict() && !value->is_list()) return "neither an object nor a list";
  const Value error = MemberOf(*value, "error");
  if (error.is_missing() || error.is_none()) return {};
  return ErrorFault(error, conditions);
}

std::string EventsFault(std::string_view body, const ReplyConditions& conditions) {
  bool is_done = false;
  while (!body.empty()) {
    const std::size_t end = body.find('\n');
    if (end == body.npos) return "a stream that ends inside a line";
    const std::string_view line = body.substr(0, end);
    body.remove_prefix(end + 1);
    if (is_done && !line.empty() && !line.starts_with(':')) return "an event after [DONE]";
    if (line.empty() || line.starts_with(':') || line.starts_with("event: ")) continue;
    if (!line.starts_with(kData)) return Concat("a line of no event: ", line.substr(0, 60));
    const std::string_view data = line.substr(kData.size());
    is_done = data == kDone;
    if (is_done) continue;
    std::string fault = JsonFault(data, conditions);
    if (!fault.empty()) return fault;
  }
  return {};
}

std::string BodyFault(const http::GatewayReply& reply, const ReplyConditions& conditions) {
  if (reply.status >= 400) {
    const auto value = ParseJson(reply.body);
    if (!value) return "an error that is not JSON";
    const Value error = MemberOf(*value, "error");
    std::string fault = ErrorFault(error, conditions);
    if (!fault.empty()) return fault;
    const Value message = MemberOf(error, "message");
    return StatusFault(reply.status, message.is_string() ? message.view() : "", conditions);
  }
  if (reply.content_type == http::kEventStreamType) {
    return conditions.is_part ? std::string() : EventsFault(reply.body, conditions);
  }
  if (reply.content_type == http::kJsonType && !conditions.is_part) {
    return JsonFault(reply.body, conditions);
  }
  return {};
}

}  // namespace

std::string FaultOf(const http::GatewayReply& reply, const ReplyConditions& conditions) {
  if (!IsKnown(reply.status)) return Concat("status ", reply.status);
  if (!conditions.is_part && !IsValidUtf8(reply.body)) return "a body that is not UTF-8";
  if (reply.body.find(conditions.folder) != std::string::npos) return "the gateway's folder";
  if (reply.body.find("\"pid\"") != std::string::npos) return "a number of a process";
  if (conditions.is_foreign && reply.status != 404) return "another tenant's object";
  return BodyFault(reply, conditions);
}

}  // namespace kvd::test
