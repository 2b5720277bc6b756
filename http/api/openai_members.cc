#include "http/api/openai_members.h"

#include <cstddef>
#include <string_view>

namespace kvd::http {
namespace {

std::string_view Terminated(const char* text, std::size_t bytes_max) {
  const std::string_view all(text, bytes_max);
  return all.substr(0, all.find('\0'));
}

// SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t NextOf(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

}  // namespace

std::string IdText(std::uint64_t nonce) {
  constexpr std::string_view kIdDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string text;
  for (int i = 0; i < 24; ++i) text += kIdDigits[NextOf(nonce) % kIdDigits.size()];
  return text;
}

std::string_view FinishReason(const AnswerEnd& end) {
  return end.stop_type == StopType::kLimit ? "length" : "stop";
}

OpenAiMembers::OpenAiMembers(const ServedModel& given_model, const Request& request)
    : id("chatcmpl-" + IdText(request.nonce)),
      created(request.unix_s),
      model(given_model.id()),
      fingerprint("b0-kvd-") {
  const auto& info = given_model.info();
  fingerprint += Terminated(info.version, sizeof info.version);
}

Object OpenAiMembers::With(Value choices, std::string_view object) const {
  Object reply;
  reply.Set("choices", std::move(choices))
      .Set("created", Value::Int(created))
      .Set("id", id)
      .Set("model", model)
      .Set("system_fingerprint", fingerprint)
      .Set("object", object);
  return reply;
}

}  // namespace kvd::http
