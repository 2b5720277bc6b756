#include "tests/http/kill/resumed_stream.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/http/serve/raw_client.h"
#include "text/json.h"
#include "text/value.h"

namespace kvd::http::test {
namespace {

constexpr std::string_view kId = "\"resp_";
constexpr std::size_t kIdBytes = 37;

std::string ResponseIdIn(const std::string& text) {
  const std::size_t at = text.find(kId);
  return at == std::string::npos || text.size() < at + 1 + kIdBytes ? ""
                                                                    : text.substr(at + 1, kIdBytes);
}

std::size_t CountEvents(const std::string& bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = bytes.find("\n\n", at)) != std::string::npos; at += 2) ++count;
  return count;
}

// Whether a member may differ between two runs of one request.
bool IsOfTheRun(std::string_view name) {
  constexpr std::array<std::string_view, 10> kNames = {
      "id",      "item_id", "call_id", "created", "created_at",
      "timings", "cache",   "usage",   "id_slot", "prompt_progress"};
  return std::ranges::find(kNames, name) != kNames.end();
}

Value Stripped(const Value& value) {
  if (value.is_list()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) items.push_back(Stripped(item));
    return Value::List(std::move(items));
  }
  if (!value.is_dict()) return value;
  Dict kept;
  for (const auto& [key, member] : value.dict().items()) {
    if (!IsOfTheRun(key.view())) kept.Set(key, Stripped(member));
  }
  return Value::Of(std::move(kept));
}

// Calls `call` with the data of each event.
template <class Call>
void ForEachData(const std::string& bytes, Call call) {
  constexpr std::string_view kData = "data: ";
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = std::string_view(bytes).substr(at, end - at);
    if (line.starts_with(kData)) call(line.substr(kData.size()));
    at = end + 1;
  }
}

}  // namespace

std::string ResumedStream::Target(std::size_t received) const {
  if (question_.kind == StreamQuestion::Kind::kConversation) {
    return "/v1/stream?conv_id=" + conversation_ + "&from=" + std::to_string(received);
  }
  const std::size_t events = received == 0 ? 0 : CountEvents(bytes_.substr(0, received));
  std::string target = "/v1/responses/" + response_ + "?stream=true";
  if (events != 0) target += "&starting_after=" + std::to_string(events - 1);
  return target;
}

void ResumedStream::DropPartOfEvent() {
  if (question_.kind == StreamQuestion::Kind::kConversation) return;
  const std::size_t end = bytes_.rfind("\n\n");
  bytes_.resize(end == std::string::npos ? 0 : end + 2);
}

bool ResumedStream::Attempt(std::uint16_t port) {
  using Kind = StreamQuestion::Kind;
  RawClient client(port);
  if (!client.is_connected()) return false;
  const bool knows_name = question_.kind == Kind::kConversation || !response_.empty();
  const bool asks = !has_asked_ || !knows_name;
  if (asks) {
    has_asked_ = true;
    std::string headers = "Content-Type: application/json\r\n";
    if (question_.kind == Kind::kConversation) {
      headers += "X-Conversation-Id: " + conversation_ + "\r\n";
    }
    if (!client.SendRequest("POST", question_.path, headers, question_.body)) return false;
  } else if (!client.SendRequest("GET", Target(bytes_.size()))) {
    return false;
  }
  const ReceivedReply reply = client.ReadReply();
  // No reply, "Loading model", or a request that the killed process has not read.
  if (reply.status == 0 || reply.status == 503) {
    if (asks && reply.status == 503) has_asked_ = false;
    return false;
  }
  if (reply.status == 404 && bytes_.empty() && !asks) {
    has_asked_ = false;
    response_.clear();
    return false;
  }
  if (reply.status != 200) {
    failure_ = "status " + std::to_string(reply.status) + ": " + reply.body;
    return true;
  }
  if (question_.kind == Kind::kBackground && response_.empty()) {
    response_ = ResponseIdIn(reply.body);
    return false;
  }
  bytes_ += reply.body;
  if (response_.empty()) response_ = ResponseIdIn(bytes_);
  if (!reply.is_whole) DropPartOfEvent();
  return reply.is_whole;
}

void ResumedStream::Follow(const std::atomic<std::uint16_t>& port) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!Attempt(port)) {
    if (std::chrono::steady_clock::now() > until) {
      failure_ = "no end after two minutes";
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string ResumedStream::ReadAgain(std::uint16_t port) const {
  RawClient client(port);
  if (!client.is_connected() || !client.SendRequest("GET", Target(0))) return {};
  return client.ReadReply().body;
}

std::vector<std::string> ResumedStream::Events() const {
  std::vector<std::string> events;
  ForEachData(bytes_, [&events](std::string_view data) {
    const auto value = ParseJson(std::string(data));
    const auto text = value ? WriteJson(Stripped(*value)) : Result<std::string>(std::string(data));
    events.push_back(text ? *text : text.error().message);
  });
  return events;
}

std::size_t ResumedStream::CountIds() const {
  std::set<std::string> ids;
  ForEachData(bytes_, [&ids](std::string_view data) {
    const auto value = ParseJson(std::string(data));
    const Value id = value ? value->dict().Find("id") : Value();
    if (id.is_string()) ids.emplace(id.view());
  });
  return ids.size();
}

}  // namespace kvd::http::test
