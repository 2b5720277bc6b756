// Calls the routes of the gateway with any body, query and path part, behind a real daemon with the
// bundled model, which the target starts once. The bytes up to the routes are covered by
// http_request_fuzz.
//
// An input is: a byte that chooses the route, a byte of options (kIsResumable), the text that
// stands for "{}" in the path, with the query behind a '?', a newline, and the body.
//
// Oracle, in addition to the sanitizers: a handler sends one reply, whole or in pieces; its status
// is one that docs/http.md lists, and never 500; the body is JSON or, in a stream, events of JSON;
// an error has a message; a handler whose client has vanished ends. The daemon lives until the end.
// Seeds: make_corpus http_routes FOLDER.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "http/answer/gateway.h"
#include "http/api/routes.h"
#include "http/serve/request_target.h"
#include "http/serve/router.h"
#include "text/json.h"
#include "tools/daemon_process/daemon_process.h"

namespace {

using namespace kvd;
using namespace kvd::http;
using Clock = std::chrono::steady_clock;

constexpr std::uint8_t kIsResumable = 1;
constexpr std::size_t kBytesMax = 64u << 10;         // of a reply, then the client hangs up
constexpr std::chrono::milliseconds kPatience{300};  // then the client hangs up
constexpr std::chrono::seconds kEndTime{8};          // in which a handler without a client ends

// Keeps the reply of a handler.
class KeptReply final : public Responder {
 public:
  Await<bool> Send(Reply reply) override {
    KVD_ASSERT(!has_begun_);
    has_begun_ = has_ended_ = true;
    reply_ = std::move(reply);
    co_return !is_gone_;
  }
  Await<bool> Begin(Reply head) override {
    KVD_ASSERT(!has_begun_);
    has_begun_ = is_stream_ = true;
    reply_ = std::move(head);
    reply_.body.clear();
    co_return !is_gone_;
  }
  Await<bool> Write(std::string bytes) override {
    KVD_ASSERT(is_stream_ && !has_ended_);
    if (!is_gone_) reply_.body += bytes;
    if (reply_.body.size() > kBytesMax) HangUp();
    co_return !is_gone_;
  }
  Await<bool> End() override {
    KVD_ASSERT(is_stream_ && !has_ended_);
    has_ended_ = true;
    co_return !is_gone_;
  }
  bool is_gone() const override { return is_gone_; }
  void OnGone(std::function<void()> call) override {
    on_gone_ = std::move(call);
    if (is_gone_ && on_gone_) std::exchange(on_gone_, nullptr)();
  }

  void HangUp() {
    if (std::exchange(is_gone_, true)) return;
    if (on_gone_) std::exchange(on_gone_, nullptr)();
  }
  const Reply& reply() const { return reply_; }
  bool is_stream() const { return is_stream_; }
  bool is_complete() const { return has_ended_ && !is_gone_; }

 private:
  Reply reply_;
  bool has_begun_ = false;
  bool is_stream_ = false;
  bool has_ended_ = false;
  bool is_gone_ = false;
  std::function<void()> on_gone_;
};

template <class T>
T Must(Result<T> result) {
  if (!result) std::fprintf(stderr, "http_routes_fuzz: %s\n", result.error().message.c_str());
  KVD_ASSERT(result.has_value());
  return std::move(*result);
}

Settings FuzzSettings() {
  Settings settings;
  settings.slot_count = 2;
  settings.serves_metrics = settings.changes_props = true;
  settings.is_reranker = true;  // and its embeddings, beside completions
  settings.pooling = "mean";
  settings.defaults.predict_max = 4;
  return settings;
}

std::string KvdPath() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin/kvd")
      .string();
}

class Served {
 public:
  Served() {
    Must(AddBackend());
    gateway_.Keep(Must(ResponseStore::Open(daemon_.folder() + "/responses")));
    AddRoutes(gateway_, router_);
  }

  const std::vector<Route>& routes() const { return router_.routes(); }

  void Serve(const Route& route, const Request& request, const std::vector<std::string>& parts,
             KeptReply& kept) {
    bool has_returned = false;
    boost::asio::co_spawn(loop_, Run(route.handler, request, parts, kept, has_returned),
                          boost::asio::detached);
    const auto begin = Clock::now();
    while (!has_returned) {
      const auto passed = Clock::now() - begin;
      if (passed > kPatience) kept.HangUp();
      KVD_ASSERT(passed < kPatience + kEndTime);
      loop_.run_one_for(std::chrono::milliseconds(20));
      if (loop_.stopped()) loop_.restart();
    }
  }

 private:
  static Await<void> Run(const Handler& handler, const Request& request,
                         const std::vector<std::string>& parts, KeptReply& kept,
                         bool& has_returned) {
    co_await handler(request, parts, kept);
    has_returned = true;
  }
  static Await<void> Make(DaemonSession& session, const Settings& settings,
                          std::optional<Result<std::unique_ptr<Model>>>& made) {
    made.emplace(co_await Model::Create(session, settings, {"bundled"}));
  }
  Result<bool> AddBackend() {
    const auto open = [this](const std::string&) {
      return DaemonSession::Open(loop_, {.socket_path = daemon_.socket_path()});
    };
    KVD_TRY(const auto session, open(""));
    std::optional<Result<std::unique_ptr<Model>>> made;
    boost::asio::co_spawn(loop_, Make(*session, settings_, made), boost::asio::detached);
    while (!made) loop_.run_one();
    loop_.restart();
    auto backend = std::make_unique<Backend>();
    KVD_TRY(backend->model, std::move(*made));
    backend->open = open;
    gateway_.Add(std::move(backend));
    return true;
  }

  DaemonProcess daemon_ = Must(DaemonProcess::Start(
      {.kvd_path = KvdPath(), .arguments = {"-c", "4096", "-t", "1", "--deterministic"}}));
  const Settings settings_ = FuzzSettings();
  Loop loop_;
  Workers workers_;
  std::unique_ptr<Jobs> jobs_ = Must(Jobs::Open(loop_, {}));
  Gateway gateway_{loop_, workers_, settings_, *jobs_};
  Router router_;
};

bool IsKnownStatus(int status) {
  constexpr int kStatuses[] = {200, 204, 400, 403, 404, 409, 413, 429, 501, 503};
  return std::ranges::find(kStatuses, status) != std::end(kStatuses);
}

void CheckJson(std::string_view text) {
  const auto value = ParseJson(text);
  if (!value) std::fprintf(stderr, "not JSON: %.*s\n", static_cast<int>(text.size()), text.data());
  KVD_ASSERT(value.has_value());
}

void CheckError(const Reply& reply) {
  const auto value = ParseJson(reply.body);
  KVD_ASSERT(value && value->is_dict());
  const Value* const error = value->dict().Find("error");
  KVD_ASSERT(error != nullptr && error->is_dict());
  const Value* const message = error->dict().Find("message");
  KVD_ASSERT(message != nullptr && message->is_string() && !message->view().empty());
}

void CheckEvents(std::string_view body) {
  constexpr std::string_view kData = "data: ";
  while (!body.empty()) {
    const std::size_t end = std::min(body.find('\n'), body.size());
    const std::string_view line = body.substr(0, end);
    body.remove_prefix(std::min(end + 1, body.size()));
    if (line.starts_with(kData) && line != "data: [DONE]") CheckJson(line.substr(kData.size()));
  }
}

void CheckReply(const KeptReply& kept) {
  const Reply& reply = kept.reply();
  if (!IsKnownStatus(reply.status)) {
    std::fprintf(stderr, "status %d: %s\n", reply.status, reply.body.c_str());
  }
  KVD_ASSERT(IsKnownStatus(reply.status));
  if (reply.status >= 400) {
    CheckError(reply);
  } else if (reply.content_type == kEventStreamType) {
    CheckEvents(reply.body);
  } else if (reply.content_type == kJsonType && !reply.body.empty()) {
    CheckJson(reply.body);
  }
}

// The target of a route, with `part` where its pattern has "{}" or "{*}".
std::string TargetOf(std::string_view pattern, std::string_view line) {
  const std::size_t query = std::min(line.find('?'), line.size());
  const std::string_view part = query == 0 ? "0" : line.substr(0, query);
  std::string target(pattern);
  for (const std::string_view place : {"{*}", "{}"}) {
    for (std::size_t at = target.find(place); at != std::string::npos;
         at = target.find(place, at + part.size())) {
      target.replace(at, place.size(), part);
    }
  }
  return target + std::string(line.substr(query));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count < 2) return 0;
  static Served served;
  const Route& route = served.routes()[data[0] % served.routes().size()];
  std::string_view rest(reinterpret_cast<const char*>(data) + 2, byte_count - 2);
  const std::size_t line_bytes = std::min(rest.find('\n'), rest.size());
  auto target = ReadRequestTarget(TargetOf(route.pattern, rest.substr(0, line_bytes)));
  rest.remove_prefix(std::min(line_bytes + 1, rest.size()));
  if (!target) return 0;
  Request request{.method = route.method,
                  .path = std::move(target->path),
                  .query = std::move(target->query),
                  .headers = {},
                  .body = std::string(rest),
                  .key = {},
                  .tenant = {}};
  if ((data[1] & kIsResumable) != 0) request.headers.push_back({"X-Conversation-Id", "a"});
  Router only;
  only.Add(route);
  const Router::Match match = only.Find(request.method, request.path);
  if (match.route == nullptr) return 0;
  KeptReply kept;
  served.Serve(*match.route, request, match.parts, kept);
  if (kept.is_complete()) CheckReply(kept);
  return 0;
}
