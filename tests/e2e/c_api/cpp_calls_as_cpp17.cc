// A user of kvd.hpp in C++17, which has no std::expected.
#include <kvd.hpp>

#include <string>
#include <string_view>
#include <utility>

static_assert(__cplusplus == 201703L);

std::string AnswerInCpp17(const char* socket_path, const char* text);
int CodeInCpp17(const char* socket_path, const char* text);
int ConnectCodeInCpp17(const char* socket_path);

namespace {

kvd::api::Result<kvd::api::Client> ConnectTo(const char* socket_path) {
  kvd_connect_options options{};
  options.socket_path = socket_path;
  return kvd::api::Client::Connect(options);
}

}  // namespace

// Returns the answer to the text, or the message of an error.
std::string AnswerInCpp17(const char* socket_path, const char* text) {
  const auto client = ConnectTo(socket_path);
  if (!client) return client.error().message;
  auto sequence = client->NewSequence();
  if (!sequence.has_value()) return sequence.error().message;
  kvd_generate_params params = kvd::api::DefaultParams();
  params.temperature = 0;
  params.predict_max = 8;
  params.flags = KVD_IGNORE_EOS;
  std::string pieces;
  const auto answer =
      sequence->Complete(text, 0, [&](std::string_view piece) { pieces += piece; }, params);
  if (!answer) return answer.error().message;
  if (const auto published = sequence->Publish("in-cpp17"); !published) return "publish";
  if (const auto removed = client->Unpublish("in-cpp17"); !removed) return removed.error().message;
  return pieces == (*answer).text ? pieces : "the pieces differ from the answer";
}

// Returns the code of a prompt with the text.
int CodeInCpp17(const char* socket_path, const char* text) {
  auto client = ConnectTo(socket_path);
  if (!client) return client.error().code;
  kvd::api::Client owned = *std::move(client);
  auto sequence = owned.NewSequence();
  if (!sequence) return sequence.error().code;
  const auto prompted = sequence->Prompt(text);
  return prompted ? KVD_OK : prompted.error().code;
}

int ConnectCodeInCpp17(const char* socket_path) {
  const auto client = ConnectTo(socket_path);
  return client ? KVD_OK : client.error().code;
}
