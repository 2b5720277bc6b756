#include "tests/fuzz/http_world.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "http/api/routes.h"
#include "http/loop/turn_watch.h"
#include "tests/fuzz/http_reply_oracle.h"
#include "tests/fuzz/scripted_connection.h"
#include "tests/fuzz/scripted_daemon.h"
#include "tests/fuzz/virtual_time.h"

namespace kvd::test {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;

constexpr std::size_t kTurnsMax = 200'000;          // of one input
constexpr std::chrono::seconds kSilenceMax{1'000};  // in which a handler without a client ends
constexpr std::string_view kTenants[] = {"a", "b"};

template <class T>
T Must(Result<T> result) {
  if (!result) std::fprintf(stderr, "http_routes_fuzz: %s\n", result.error().message.c_str());
  KVD_ASSERT(result.has_value());
  return std::move(*result);
}

void LimitFiles(rlim_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
  KVD_ASSERT(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

void MakeFolders(const std::string& folder) {
  for (const char* const name : {"/responses", "/journals", "/slots"}) {
    fs::create_directories(folder + name);
  }
}

// The routes that the table lacks, or has and the gateway lacks.
std::string TableFault(const std::vector<http::Route>& routes) {
  const auto rows = RouteRows();
  for (const http::Route& route : routes) {
    const bool has_row = std::ranges::any_of(rows, [&](const RouteRow& row) {
      return row.method == route.method && row.pattern == route.pattern;
    });
    if (!has_row) return Concat("http_route_fields.cc lacks ", route.method, " ", route.pattern);
  }
  for (const RouteRow& row : rows) {
    const bool has_route = std::ranges::any_of(routes, [&](const http::Route& route) {
      return row.method == route.method && row.pattern == route.pattern;
    });
    if (!has_route) return Concat("http_route_fields.cc has ", row.method, " ", row.pattern);
  }
  return {};
}

// Emptying the folder takes longer than many an input.
bool MayHaveFiles(const HttpProgram& program) {
  if (program.keeps_journals || program.file_fault != FileFault::kNone) return true;
  return std::ranges::any_of(program.steps, [&](const HttpStep& step) {
    const std::string_view pattern = step.route->pattern;
    const bool may_store = pattern.ends_with("/responses") && program.stores_responses;
    return step.route->method == "POST" && (may_store || pattern == "/slots/{}");
  });
}

http::Await<void> Create(std::shared_ptr<http::DaemonSession> session,
                         const http::Settings& settings, std::string name,
                         std::optional<Result<std::unique_ptr<http::ServedModel>>>& made) {
  std::vector<std::string> names = {std::move(name)};
  made.emplace(co_await http::ServedModel::Create(*session, settings, std::move(names)));
}

}  // namespace

HttpWorld::Process::Process(http::Loop& loop, http::LoopWorkers& workers,
                            http::Settings settings_given, std::string folder_given,
                            bool keeps_journals)
    : folder(std::move(folder_given)),
      settings(std::move(settings_given)),
      jobs(Must(http::Jobs::Open(loop, keeps_journals ? folder + "/journals" : ""))),
      gateway(loop, workers, settings, *jobs) {
  if (!settings.slot_directory.empty()) settings.slot_directory = folder + "/slots";
}

HttpWorld::HttpWorld() {
  const char* const parent = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  folder_ = Concat(parent, "/http_routes_fuzz.", ::getpid());
  (void)std::signal(SIGXFSZ, SIG_IGN);
  setups_ = HttpSetups();
  Make();
  const std::string fault = TableFault(process_->router.routes());
  if (!fault.empty()) std::fprintf(stderr, "http_routes_fuzz: %s\n", fault.c_str());
  KVD_ASSERT(fault.empty());
}

HttpWorld::~HttpWorld() { fs::remove_all(folder_); }

std::vector<const ScriptedModel*> HttpWorld::ScriptedModels() const {
  return {&setup().model, &SecondModel()};
}

std::unique_ptr<http::ServedModel> HttpWorld::MakeModel(std::size_t number) {
  std::optional<Result<std::unique_ptr<http::ServedModel>>> made;
  auto session = Must(http::DaemonSession::Open(loop_, {.socket_path = std::to_string(number)}));
  asio::co_spawn(loop_, Create(session, setup().settings, ScriptedModels()[number]->name, made),
                 asio::detached);
  RunUntil([&] { return made.has_value(); });
  session.reset();
  RunUntilIdle();
  return Must(std::move(*made));
}

void HttpWorld::AddBackend(std::size_t number, const std::string& name) {
  auto backend = std::make_unique<http::Backend>();
  backend->daemon = name;
  backend->model = MakeModel(number);
  if (kind_.keeps_journals) {
    backend->slots_prefix = Concat(process_->folder, "/slots-", number, "-");
  }
  backend->open = [this, number](const std::string& tenant) {
    const std::pair key(number, tenant);
    ConnectOptions options{.socket_path = std::to_string(number)};
    if (const auto found = resumed_.find(key); found != resumed_.end()) {
      options.session_token = found->second;
    }
    auto opened = http::DaemonSession::Open(loop_, options);
    if (opened) sessions_[key] = (*opened)->session().session_token;
    return opened;
  };
  process_->gateway.Add(std::move(backend));
}

void HttpWorld::Make() {
  ScriptedDaemon::Get().Begin({}, ScriptedModels());
  const std::string folder = Concat(folder_, "/", kind_.setup, kind_.keeps_journals ? "j" : "",
                                    kind_.stores_responses ? "r" : "");
  MakeFolders(folder);
  std::unique_ptr<Process>& process = processes_[kind_];
  process =
      std::make_unique<Process>(loop_, workers_, setup().settings, folder, kind_.keeps_journals);
  process_ = process.get();
  process_->gateway.Keep(
      Must(http::ResponseStore::Open(kind_.stores_responses ? folder + "/responses" : "")));
  if (!setup().is_loading) AddBackend(0, setup().model.name);
  if (setup().has_second) AddBackend(1, SecondModel().name);
  http::AddRoutes(process_->gateway, process_->router);
}

void HttpWorld::EndSessions() {
  for (const auto& backend : process_->gateway.backends()) {
    backend->tenants.clear();
  }
  RunUntilIdle();
}

bool HttpWorld::Turn() {
  ++turns_;
  if (loop_.stopped()) loop_.restart();
  return watch_.PollOne();
}

void HttpWorld::HangUpLate() {
  for (const auto& call : calls_) {
    const auto& most = call->step->turns_max;
    if (most && turns_ - call->begun_at > *most) call->reply->HangUp();
  }
}

void HttpWorld::RunUntil(const std::function<bool()>& is_over) {
  std::chrono::nanoseconds silence{0};
  std::chrono::nanoseconds pause = std::chrono::milliseconds(10);
  while (!is_over()) {
    KVD_ASSERT(turns_ < kTurnsMax);
    HangUpLate();
    if (Turn()) continue;
    if (ScriptedDaemon::Get().Step()) continue;
    KVD_ASSERT(silence < kSilenceMax);  // else a coroutine waits for nothing
    AdvanceTime(pause);
    silence += pause;
    pause *= 2;
  }
}

void HttpWorld::RunUntilIdle() {
  while (Turn() || ScriptedDaemon::Get().Step()) KVD_ASSERT(turns_ < kTurnsMax);
}

bool HttpWorld::AreServed() const {
  return std::ranges::all_of(calls_, [](const auto& call) { return call->has_returned; });
}

http::Await<void> HttpWorld::Serve(const http::Handler& handler, Call& call) {
  co_await handler(call.request, call.parts, *call.reply);
  call.reply->OnGone(nullptr);
  call.has_returned = true;
}

void HttpWorld::Begin(const HttpStep& step, std::size_t number) {
  const auto& routes = process_->router.routes();
  const auto route = std::ranges::find_if(routes, [&](const http::Route& candidate) {
    return candidate.method == step.route->method && candidate.pattern == step.route->pattern;
  });
  if (route == routes.end()) return;  // of a setup without it
  auto call = std::make_unique<Call>();
  call->step = &step;
  call->request = {.method = std::string(step.route->method),
                   .path = std::string(step.route->pattern),
                   .query = step.query,
                   .headers = {},
                   .body = step.body,
                   .key = {},
                   .tenant = std::string(kTenants[step.tenant]),
                   .nonce = number + 1,
                   .unix_s = kStepUnixSeconds};
  if (!step.conversation.empty()) {
    call->request.headers.push_back({"X-Conversation-Id", step.conversation});
  }
  if (step.route->pattern.find('{') != std::string_view::npos) call->parts = {step.path_part};
  call->reply = std::make_unique<KeptReply>(step.writes_max, step.is_slow);
  call->begun_at = turns_;
  call->is_part = step.route->pattern == "/v1/stream" && step.query.size() > 1;
  calls_.push_back(std::move(call));
  asio::co_spawn(http::Labelled(loop_, &route->pattern), Serve(route->handler, *calls_.back()),
                 asio::detached);
}

http::Await<void> HttpWorld::Recover(bool& is_over) {
  auto used = process_->jobs->ReadJournals();
  for (const auto& backend : process_->gateway.backends()) {
    for (const auto& [key, token] : resumed_) {
      const auto tenant = process_->gateway.Find(key.second, backend->model->id());
      if (tenant) co_await (*tenant)->RetainUnused(used[key.second]);
    }
  }
  (void)co_await process_->jobs->Recover();
  is_over = true;
}

void HttpWorld::Restart() {
  const std::string& folder = process_->folder;
  const std::string left = folder + ".left";
  fs::remove_all(left);
  fs::copy(folder, left, fs::copy_options::recursive);
  const auto sessions = sessions_;
  ScriptedDaemon& daemon = ScriptedDaemon::Get();
  daemon.Keep();
  // What the old process does from here on is undone.
  for (const auto& call : calls_) call->reply->HangUp();
  RunUntil([this] { return AreServed(); });
  RunUntilIdle();
  ForgetJobs();
  LetSessionsOutlive(true);
  EndSessions();
  LetSessionsOutlive(false);
  ClearFiles();
  fs::copy(left, folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  fs::remove_all(left);
  daemon.Restore();
  resumed_ = sessions;
  bool is_over = false;
  asio::co_spawn(loop_, Recover(is_over), asio::detached);
  RunUntil([&] { return is_over; });
}

bool HttpWorld::IsForeign(const HttpStep& step) const {
  const auto ids = KnownIds().first(kStepsMax);
  const auto found = std::ranges::find(ids, std::string_view(step.path_part));
  if (found == ids.end()) return false;
  const auto number = static_cast<std::size_t>(found - ids.begin());
  return number < steps_.size() && steps_[number].tenant != step.tenant;
}

void HttpWorld::CheckReplies() const {
  for (const auto& call : calls_) {
    const KeptReply& kept = *call->reply;
    if (kept.is_gone()) continue;
    KVD_ASSERT(kept.has_ended());
    ReplyConditions conditions{
        .may_fail = ScriptedDaemon::Get().has_failed() || file_fault_ != FileFault::kNone,
        .is_loading = setup().is_loading,
        .is_part = call->is_part,
        .folder = folder_};
    conditions.is_foreign = IsForeign(*call->step);
    const std::string fault = FaultOf(kept.reply(), conditions);
    if (fault.empty()) continue;
    std::fprintf(stderr, "http_routes_fuzz: %s %s: %s\n%d %.*s\n", call->request.method.c_str(),
                 call->request.path.c_str(), fault.c_str(), kept.reply().status,
                 static_cast<int>(std::min<std::size_t>(kept.reply().body.size(), 4000)),
                 kept.reply().body.c_str());
    KVD_ASSERT(fault.empty());
  }
}

void HttpWorld::CheckTurns() const {
  const std::string fault = watch_.UnexplainedLongTurns();
  if (!fault.empty()) std::fprintf(stderr, "http_routes_fuzz: long turns: %s\n", fault.c_str());
  KVD_ASSERT(fault.empty());
}

void HttpWorld::ForgetJobs() {
  for (const std::string_view tenant : kTenants) {
    for (const std::string_view id : KnownIds()) {
      const auto job = process_->jobs->Find(std::string(tenant), std::string(id));
      if (!job) continue;
      KVD_ASSERT(job->completed_unix_s != 0 && job->buffer->is_over());
      process_->jobs->Remove(std::string(tenant), std::string(id));
    }
  }
}

void HttpWorld::CheckReleased() {
  const ScriptedDaemon& daemon = ScriptedDaemon::Get();
  KVD_ASSERT(daemon.in_flight() == 0);
  KVD_ASSERT(HeldOutputs() == 0);
  for (const auto& backend : process_->gateway.backends()) {
    for (const auto& [name, tenant] : backend->tenants) {
      KVD_ASSERT(tenant->slots().busy_count() == 0);
      KVD_ASSERT(tenant->slots().waiting_count() == 0);
      const auto session = tenant->session();
      if (!session || daemon.has_failed_release()) continue;
      for (const SequenceHandle handle : daemon.sequences().Own((*session)->session().session)) {
        const bool has_slot = std::ranges::any_of(
            tenant->slots().all(), [&](const auto& slot) { return slot.sequence == handle; });
        KVD_ASSERT(has_slot);
      }
    }
  }
}

void HttpWorld::ClearFiles() {
  if (file_fault_ != FileFault::kNone) LimitFiles(RLIM_INFINITY);
  if (file_fault_ == FileFault::kFolderGone) {
    // The process has the folders open that are gone.
    processes_.erase(kind_);
    process_ = nullptr;
    return;
  }
  for (const auto& entry : fs::directory_iterator(process_->folder)) {
    if (!entry.is_directory()) {
      fs::remove(entry.path());
      continue;
    }
    for (const auto& inside : fs::directory_iterator(entry.path())) fs::remove_all(inside.path());
  }
}

void HttpWorld::Run(const HttpProgram& program) {
  turns_ = 0;
  sessions_.clear();
  resumed_.clear();
  steps_ = program.steps;
  file_fault_ = program.file_fault;
  kind_ = {.setup = program.setup % setups_.size(),
           .keeps_journals = program.keeps_journals,
           .stores_responses = program.stores_responses};
  const auto made = processes_.find(kind_);
  if (made == processes_.end()) {
    Make();
  } else {
    process_ = made->second.get();
  }
  ScriptedDaemon::Get().Begin(program.script, ScriptedModels());
  if (file_fault_ == FileFault::kFolderGone) fs::remove_all(process_->folder);
  if (file_fault_ == FileFault::kNoBytes) LimitFiles(0);
  if (file_fault_ == FileFault::kFewBytes) LimitFiles(300);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const HttpStep& step = program.steps[i];
    const std::size_t begins_at = turns_ + step.turns_before;
    RunUntil([&] { return AreServed() || (!step.waits && turns_ >= begins_at); });
    if (step.restarts && file_fault_ == FileFault::kNone) Restart();
    Begin(step, i);
  }
  RunUntil([this] { return AreServed(); });
  RunUntilIdle();
  CheckReplies();
  CheckTurns();
  ForgetJobs();
  RunUntilIdle();
  CheckReleased();
  calls_.clear();
  EndSessions();
  // What is left on the loop are timers whose owners have ended.
  AdvanceTime(std::chrono::hours(1));
  RunUntilIdle();
  KVD_ASSERT(loop_.stopped());
  if (MayHaveFiles(program)) ClearFiles();
}

}  // namespace kvd::test
