// The requests of a session are executed in their order: while one waits, those behind it wait too.
// A cancellation is executed at once.
#include "tests/fuzz/scripted_daemon.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tests/fuzz/scripted_vocabulary.h"

namespace kvd::test {
namespace {

constexpr std::string_view kScriptedMessage = "scripted: the script says so";

Error Cancelled() { return {Code::kCancelled, "the request was cancelled"}; }

std::vector<std::byte> BytesOf(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

ScriptedDaemon& ScriptedDaemon::Get() {
  static ScriptedDaemon daemon;
  return daemon;
}

void ScriptedDaemon::Begin(DaemonScript script, std::span<const ScriptedModel* const> models) {
  for (auto& [number, session] : state_.sessions) {
    if (session.events >= 0) ::close(session.events);
  }
  script_ = std::move(script);
  models_.assign(models.begin(), models.end());
  state_ = {};
  kept_.reset();
  counts_.clear();
  running_.clear();
  upload_.clear();
  generations_ = 0;
  opened_ = 0;
  has_failed_ = has_failed_release_ = false;
  // A snapshot that an operator has published.
  const SequenceHandle made = state_.sequences.Create(0);
  const auto found = state_.sequences.Find(0, made);
  static const std::vector<TokenId> tokens = ScriptedTokens("<s>a snapshot", true);
  (*found)->Append(tokens);
  KVD_ASSERT(state_.sequences.Publish(0, made, "snapshot", false).has_value());
  KVD_ASSERT(state_.sequences.Drop(0, made).has_value());
}

Result<SessionInfo> ScriptedDaemon::Open(const ConnectOptions& options) {
  ++opened_;
  if (script_.refused_open != 0 && opened_ == script_.refused_open) {
    has_failed_ = true;
    return Fail(script_.open_code, std::string(kScriptedMessage));
  }
  const auto model = static_cast<std::size_t>(options.socket_path.front() - '0');
  KVD_ASSERT(model < models_.size());
  std::uint64_t number = 0;
  for (const auto& [known, session] : state_.sessions) {
    if (session.token == options.session_token && !session.failure) number = known;
  }
  if (number == 0) {
    number = opened_;
    Session& session = state_.sessions[number];
    session.token.fill(static_cast<std::uint8_t>(number));
    session.model = models_[model];
  }
  Session& session = At(number);
  if (session.events < 0) session.events = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return SessionInfo{.session = number,
                     .session_token = session.token,
                     .vocab_size = 0,
                     .daemon_pid = 1,
                     .pool_cells = 1u << 16,
                     .last_request = session.last_request,
                     .socket_path = options.socket_path};
}

void ScriptedDaemon::Close(std::uint64_t number, bool outlives) {
  Session& session = At(number);
  // The reader of the descriptor wakes and finds that the session is gone.
  Ring(session);
  for (Running& running : running_) {
    if (running.session == number) Finish(running, nullptr);
  }
  std::erase_if(running_, [&](const Running& running) { return running.session == number; });
  session.ready.clear();
  session.waiting.clear();
  ::close(std::exchange(session.events, -1));
  session.is_rung = false;
  if (outlives) return;
  state_.sequences.End(number);
  state_.sessions.erase(number);
}

int ScriptedDaemon::EventDescriptor(std::uint64_t session) {
  Ring(At(session));
  return At(session).events;
}

void ScriptedDaemon::Ring(Session& session) {
  if (session.events < 0 || std::exchange(session.is_rung, true)) return;
  KVD_ASSERT(::eventfd_write(session.events, 1) == 0);
}

void ScriptedDaemon::Quiet(std::uint64_t number) {
  Session& session = At(number);
  if (session.failure || !session.ready.empty() || !std::exchange(session.is_rung, false)) return;
  eventfd_t count = 0;
  KVD_ASSERT(::eventfd_read(session.events, &count) == 0);
}

std::optional<Error> ScriptedDaemon::Failure(std::uint64_t session) const {
  return state_.sessions.at(session).failure;
}

std::optional<ScriptedCompletion> ScriptedDaemon::Take(std::uint64_t number) {
  std::deque<ScriptedCompletion>& ready = At(number).ready;
  if (ready.empty()) return std::nullopt;
  ScriptedCompletion completion = std::move(ready.front());
  ready.pop_front();
  return completion;
}

ScriptRule ScriptedDaemon::TakeRule(std::uint16_t verb) {
  const std::uint32_t number = counts_[verb]++;
  const std::uint32_t of_all = counts_[0]++;
  for (const ScriptRule& rule : script_.rules) {
    if (rule.verb == 0 ? rule.number == of_all : rule.verb == verb && rule.number == number) {
      return rule;
    }
  }
  return {};
}

void ScriptedDaemon::Submit(std::uint64_t number, const wire::Submission& submission,
                            std::vector<std::byte> payload) {
  Session& session = At(number);
  KVD_ASSERT(!session.failure);
  session.last_request = std::max(session.last_request, submission.request);
  Request request{number, submission, std::move(payload), {}};
  if (submission.verb == static_cast<std::uint16_t>(wire::Verb::kCancel)) return Execute(request);
  request.rule = TakeRule(submission.verb);
  if (session.waiting.empty() && request.rule.delay == 0) return Execute(request);
  session.waiting.push_back(std::move(request));
}

bool ScriptedDaemon::Step() {
  bool has_stepped = false;
  std::vector<std::uint64_t> waiting;
  for (const auto& [number, session] : state_.sessions) {
    if (!session.waiting.empty()) waiting.push_back(number);
  }
  for (const std::uint64_t number : waiting) {
    has_stepped = true;
    std::deque<Request>& requests = At(number).waiting;
    if (requests.front().rule.delay != 0 && --requests.front().rule.delay != 0) continue;
    while (!requests.empty() && requests.front().rule.delay == 0) {
      const Request request = std::move(requests.front());
      requests.pop_front();
      Execute(request);
    }
  }
  for (std::size_t i = 0; i < running_.size();) {
    has_stepped = true;
    if (running_[i].is_cancelled) {
      const Error cancelled = Cancelled();
      Finish(running_[i], &cancelled);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (Advance(running_[i])) {
      ++i;
    } else {
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return has_stepped;
}

std::size_t ScriptedDaemon::in_flight() const {
  std::size_t count = running_.size();
  for (const auto& [number, session] : state_.sessions) count += session.waiting.size();
  return count;
}

void ScriptedDaemon::FailSession(std::uint64_t number, Error error) {
  Session& session = At(number);
  for (Running& running : running_) {
    if (running.session == number) Finish(running, nullptr);
  }
  std::erase_if(running_, [&](const Running& running) { return running.session == number; });
  session.waiting.clear();
  session.failure = std::move(error);
  state_.sequences.End(number);
  Ring(session);
}

void ScriptedDaemon::Push(const Request& request, wire::Completion completion,
                          std::vector<std::byte> output) {
  Session& session = At(request.session);
  completion.request = request.submission.request;
  completion.verb = request.submission.verb;
  if (request.rule.is_cut && output.size() >= 2 && completion.code == 0) {
    const auto middle = output.begin() + static_cast<std::ptrdiff_t>(output.size() / 2);
    wire::Completion more = completion;
    more.flags |= wire::kMore;
    more.output_bytes = static_cast<std::uint32_t>(middle - output.begin());
    session.ready.push_back({more, {output.begin(), middle}});
    output.erase(output.begin(), middle);
  }
  completion.output_bytes = static_cast<std::uint32_t>(output.size());
  session.ready.push_back({completion, std::move(output)});
  Ring(session);
}

void ScriptedDaemon::PushError(const Request& request, const Error& error) {
  wire::Completion completion{};
  completion.code = static_cast<std::uint8_t>(error.code);
  Push(request, completion, BytesOf(error.message));
}

template <class Args>
bool ScriptedDaemon::DoIf(const Request& request) {
  if (request.submission.verb != static_cast<std::uint16_t>(wire::kRowOf<Args>.verb)) return false;
  auto reply = Do(request, wire::ReadArguments<Args>(request.submission));
  if (!reply) {
    PushError(request, reply.error());
    return true;
  }
  wire::Completion completion{};
  wire::PutReply(*reply, &completion);
  Push(request, completion, wire::TakeOutput(*reply));
  return true;
}

void ScriptedDaemon::Execute(const Request& request) {
  const Code code = request.rule.code;
  if (code != Code::kOk) {
    has_failed_ = true;
    const auto verb = static_cast<wire::Verb>(request.submission.verb);
    if (verb == wire::Verb::kDrop || verb == wire::Verb::kRetain) has_failed_release_ = true;
    const bool ends = code == Code::kDisconnected || code == Code::kSessionLost;
    const Error error{code, std::string(kScriptedMessage)};
    return ends ? FailSession(request.session, error) : PushError(request, error);
  }
  if (request.submission.verb == static_cast<std::uint16_t>(wire::Verb::kGenerate)) {
    return Generate(request);
  }
  const bool is_known = DoIf<wire::InfoArgs>(request) || DoIf<wire::ChatTemplatesArgs>(request) ||
                        DoIf<wire::TokenizeArgs>(request) || DoIf<wire::DetokenizeArgs>(request) ||
                        DoIf<wire::CreateArgs>(request) || DoIf<wire::ForkArgs>(request) ||
                        DoIf<wire::DropArgs>(request) || DoIf<wire::RetainArgs>(request) ||
                        DoIf<wire::RemoveRangeArgs>(request) || DoIf<wire::AddArgs>(request) ||
                        DoIf<wire::QueryArgs>(request) || DoIf<wire::ReadTokensArgs>(request) ||
                        DoIf<wire::ListArgs>(request) || DoIf<wire::PublishArgs>(request) ||
                        DoIf<wire::UnpublishArgs>(request) || DoIf<wire::AttachArgs>(request) ||
                        DoIf<wire::SnapshotsArgs>(request) || DoIf<wire::WhyArgs>(request) ||
                        DoIf<wire::EmbedArgs>(request) || DoIf<wire::RankArgs>(request) ||
                        DoIf<wire::CancelArgs>(request) || DoIf<wire::ExportStateArgs>(request) ||
                        DoIf<wire::UploadStateArgs>(request) ||
                        DoIf<wire::ImportStateArgs>(request) || DoIf<wire::SetLifeArgs>(request);
  KVD_ASSERT(is_known);  // else the gateway uses a verb that this daemon lacks
}

bool ScriptedDaemon::Cancel(std::uint64_t session, std::uint64_t number) {
  std::deque<Request>& waiting = At(session).waiting;
  for (auto i = waiting.begin(); i != waiting.end(); ++i) {
    if (i->submission.request != number) continue;
    PushError(*i, Cancelled());
    waiting.erase(i);
    return true;
  }
  for (Running& running : running_) {
    if (running.session != session || running.submission.request != number) continue;
    running.is_cancelled = true;
    return true;
  }
  return false;
}

void ScriptedDaemon::Keep() { kept_ = state_; }

void ScriptedDaemon::Restore() {
  KVD_ASSERT(kept_.has_value() && running_.empty());
  state_ = std::move(*kept_);
  kept_.reset();
  for (auto& [number, session] : state_.sessions) {
    session.events = -1;
    session.is_rung = false;
    session.ready.clear();
    session.waiting.clear();
  }
  state_.sequences.StopComputing();
}

}  // namespace kvd::test
