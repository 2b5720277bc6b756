#include "http/program/program.h"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "http/api/routes.h"
#include "http/backend/child_process.h"
#include "http/backend/daemon_plan.h"
#include "http/loop/turn_watch.h"
#include "http/serve/ip_address.h"
#include "http/serve/request.h"
#include "shm/socket_address.h"

namespace kvd::http {
namespace {

namespace asio = boost::asio;

// How long replies may go on after a signal. llama-server's callers wait 5 seconds for the end.
constexpr std::chrono::milliseconds kGrace{1'500};

// Between two attempts to reach a daemon that is started again.
constexpr std::chrono::milliseconds kPause{50};

void Say(std::string_view text) {
  std::fprintf(stderr, "kvd-http: %.*s\n", static_cast<int>(text.size()), text.data());
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Program::Program(Settings settings)
    : settings_(std::move(settings)), signals_(loop_, SIGTERM, SIGINT) {
  // nohup ignores SIGHUP.
  struct sigaction present{};
  const bool is_ignored =
      ::sigaction(SIGHUP, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
  if (!settings_.tenants_path.empty() || !is_ignored) signals_.add(SIGHUP);
}

Program::~Program() = default;

Result<std::unique_ptr<Program>> Program::Create(Settings settings) {
  std::unique_ptr<Program> program(new Program(std::move(settings)));
  KVD_CHECK_OK(program->OpenFiles());
  KVD_CHECK_OK(program->Listen());
  return program;
}

std::vector<Program::Served> Program::WantedDaemons() const {
  std::vector<Served> wanted;
  if (settings_.daemons.empty() || !settings_.model_path.empty()) {
    Served own{.daemon = DaemonName(settings_), .names = settings_.aliases, .is_own = true};
    if (own.names.empty() && !settings_.hub_repository.empty()) {
      own.names.push_back(settings_.hub_repository);
    }
    if (own.names.empty() && !settings_.model_path.empty()) {
      own.names.push_back(FileName(settings_.model_path));
    }
    wanted.push_back(std::move(own));
  }
  for (const NamedDaemon& daemon : settings_.daemons) {
    Served served{.daemon = daemon.name};
    if (wanted.empty()) served.names = settings_.aliases;
    if (!daemon.alias.empty()) served.names.push_back(daemon.alias);
    served.names.push_back(daemon.name);
    wanted.push_back(std::move(served));
  }
  return wanted;
}

Status Program::OpenFiles() {
  KVD_TRY(GatewayDirectory directory,
          GatewayDirectory::Open(settings_.state_directory, WantedDaemons().front().daemon));
  directory_ = std::make_unique<GatewayDirectory>(std::move(directory));
  settings_.state_directory = directory_->path();
  if (!settings_.tenants_path.empty()) {
    KVD_TRY(TenantTable tenants, TenantTable::Read(settings_.tenants_path));
    tenants_ = std::make_shared<const TenantTable>(std::move(tenants));
  }
  sessions_ = std::make_unique<SessionStore>(loop_, directory_->PathOf("sessions"));
  const JobLimits job_limits = tenants_ != nullptr ? JobLimits::ForTenants() : JobLimits();
  KVD_TRY(jobs_, Jobs::Open(loop_, directory_->PathOf("streams"), job_limits));
  gateway_ = std::make_unique<Gateway>(loop_, workers_, settings_, *jobs_);
  gateway_->Watch(watch_);
  if (tenants_ != nullptr) {
    gateway_->UseRecords([this](const std::string& name) { return tenants_->FindName(name); });
  }
  KVD_TRY(auto responses, ResponseStore::Open(directory_->PathOf("responses")));
  gateway_->Keep(std::move(responses));
  Router routes;
  AddRoutes(*gateway_, routes);
  AddGuarded(routes);
  return {};
}

void Program::AddGuarded(const Router& routes) {
  for (Route route : routes.routes()) {
    route.pattern.insert(0, settings_.path_prefix);
    route.handler = [this, handler = std::move(route.handler)](
                        const Request& request, const std::vector<std::string>& parts,
                        Responder& responder) -> Await<void> {
      if (!is_ready_) {
        co_await responder.Send(ErrorReply(503, "Loading model"));
      } else if (settings_.path_prefix.empty()) {
        co_await handler(request, parts, responder);
      } else {
        // Handlers know their paths without the prefix.
        Request inner = request;
        inner.path.erase(0, settings_.path_prefix.size());
        co_await handler(inner, parts, responder);
      }
    };
    router_.Add(std::move(route));
  }
}

AccessOptions Program::MakeAccessOptions(const ListenAddress& address) const {
  AccessOptions options{.check_key = nullptr,
                        .is_loopback = address.is_loopback(),
                        .host = settings_.host,
                        .cors_origins = settings_.cors_origins};
  if (tenants_ != nullptr) {
    options.check_key = [this](std::string_view key) -> Result<KeyOwner> {
      const TenantRecord* const tenant = tenants_->FindKey(key);
      if (tenant == nullptr) return Fail(Code::kPermission, "Invalid API Key");
      return KeyOwner{.tenant = tenant->name};
    };
  } else if (!settings_.api_keys.empty()) {
    options.check_key = CheckKeyList(settings_.api_keys, "");
  }
  return options;
}

Status Program::Listen() {
  KVD_TRY(const ListenAddress address, ResolveListenAddress(settings_.host, settings_.port));
  AccessOptions access = MakeAccessOptions(address);
  KVD_CHECK_OK(CheckExposure(address, access.check_key != nullptr, settings_.no_auth));
  access_ = std::make_unique<AccessRules>(std::move(access));
  ListenOptions options{.address = address};
  if (!settings_.key_file.empty()) {
    options.tls = TlsFiles{.certificate = settings_.certificate_file, .key = settings_.key_file};
  }
  // --timeout is the longest time without progress; the server's own limits are shorter, and a
  // shorter --timeout replaces them.
  options.limits.ShortenTo(settings_.io_timeout);
  for (const std::string& network : settings_.trusted_proxies) {
    KVD_TRY(const AddressRange range, AddressRange::Read(network));
    options.trusted_proxies.push_back(range);
  }
  KVD_TRY(listener_, HttpListener::Create(loop_, options, router_, *access_));
  return {};
}

int Program::Run() {
  listener_->Start();
  std::fprintf(stderr, "listening on %s\n", listener_->url().c_str());
  asio::co_spawn(loop_, WatchSignals(), asio::detached);
  static const std::string start(kStartLabel);
  asio::co_spawn(Labelled(loop_, &start), StartBackends(), asio::detached);
  watch_.Run();
  return status_;
}

Await<void> Program::StartBackends() {
  const Status started = co_await StartAll();
  if (is_stopping_) co_return;
  if (!started) {
    Say(started.error().message);
    co_await Stop(1);
    co_return;
  }
  co_await Recover();
  is_ready_ = true;
  Say("ready");
}

Await<void> Program::Recover() {
  auto used = jobs_->ReadJournals();
  for (const auto& backend : gateway_->backends()) {
    for (const std::string& name : sessions_->TenantsOf(backend->daemon)) {
      // A tenant that is not served any more has no session.
      const auto tenant = gateway_->Find(name, backend->model->id());
      if (!tenant) continue;
      std::set<SequenceHandle> own = std::move(used[name]);
      co_await (*tenant)->RetainUnused(std::move(own));
    }
  }
  const std::size_t count = co_await jobs_->Recover();
  if (count != 0) Say(Concat("resumed ", count, count == 1 ? " stream" : " streams"));
}

Await<Status> Program::StartAll() {
  for (Served& served : WantedDaemons()) {
    if (served.is_own) {
      KVD_CO_TRY(served.daemon, co_await StartOwn());
    }
    KVD_CO_CHECK_OK(co_await AddBackend(std::move(served)));
  }
  co_return Status();
}

Status Program::WriteLimits() const {
  if (tenants_ == nullptr) return {};
  return ReplaceFile(directory_->PathOf("tenants"), tenants_->LimitsText());
}

Await<Result<std::string>> Program::StartOwn() {
  KVD_CO_TRY(const std::string program, FindDaemonProgram());
  std::vector<std::string> describe = ModelArguments(settings_);
  describe.emplace_back("--describe");
  auto described = co_await workers_.Run([&] { return RunProgram(program, describe); });
  if (!described) co_return std::unexpected(std::move(described).error());
  KVD_CO_TRY(const ModelFacts facts, ReadModelFacts(*described));
  DaemonPlan plan = PlanDaemon(settings_, facts, MemoryBytes());
  for (const std::string& note : plan.notes) Say(note);
  const auto serves = [&] { return UserDaemonServes(settings_, plan.cells_needed); };
  if (co_await workers_.Run(serves)) {
    Say("uses the running daemon \"default\", which serves this model");
    co_return std::string(kDefaultDaemonName);
  }
  KVD_CO_CHECK_OK(WriteLimits());
  DaemonLaunch launch{.program = program,
                      .name = DaemonName(settings_),
                      .arguments = std::move(plan.arguments),
                      .log_path = directory_->PathOf("daemon.log")};
  std::vector<std::string> files = {"--store", directory_->PathOf("store")};
  if (tenants_ != nullptr) {
    files.insert(files.end(), {"--tenants", directory_->PathOf("tenants")});
  }
  launch.arguments.insert(launch.arguments.begin(), files.begin(), files.end());
  keeper_ = std::make_shared<DaemonKeeper>(loop_, workers_, launch);
  Status started = co_await keeper_->Start();
  if (!started && started.error().code == Code::kExists) {
    Say(started.error().message);
    launch.name = SizedDaemonName(settings_);
    keeper_ = std::make_shared<DaemonKeeper>(loop_, workers_, std::move(launch));
    started = co_await keeper_->Start();
  }
  KVD_CO_CHECK_OK(std::move(started));
  const DaemonProcess& process = keeper_->process();
  Say(Concat(process.was_started() ? "started" : "found", " the daemon ", process.name(), ", pid ",
             process.pid()));
  // A daemon that was found has read the limits of an earlier start.
  if (!process.was_started() && tenants_ != nullptr) process.SendReload();
  asio::co_spawn(loop_, DaemonKeeper::Keep(keeper_), asio::detached);
  co_return process.name();
}

Result<std::shared_ptr<DaemonSession>> Program::OpenSession(const Served& served,
                                                            const std::string& tenant_name) {
  if (tenants_ == nullptr) return sessions_->Open(served.daemon, TenantRecord{});
  const TenantRecord* const tenant = tenants_->FindName(tenant_name);
  if (tenant == nullptr) {
    return Fail(Code::kPermission, "the tenant \"", tenant_name, "\" is not served any more");
  }
  if (!tenant->MayUse(served.names)) {
    return Fail(Code::kPermission, "model: the tenant \"", tenant_name, "\" may not use \"",
                served.names.front(), "\"");
  }
  return sessions_->Open(served.daemon, *tenant);
}

Await<Result<std::shared_ptr<DaemonSession>>> Program::OpenFirstSession(Served served) {
  const ConnectOptions options{.daemon_name = served.daemon,
                               .client_name = "kvd-http",
                               .reconnect_timeout = TenantSession::kDaemonTime};
  asio::steady_timer timer(loop_);
  const auto until = std::chrono::steady_clock::now() + TenantSession::kDaemonTime;
  for (;;) {
    auto session = DaemonSession::Open(loop_, options);
    if (session || !served.is_own || is_stopping_) co_return session;
    const Code code = session.error().code;
    const bool may_come = code == Code::kDisconnected || code == Code::kTimeout;
    if (!may_come || std::chrono::steady_clock::now() > until) co_return session;
    timer.expires_after(kPause);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

Await<Status> Program::AddBackend(Served served) {
  KVD_CO_TRY(const auto session, co_await OpenFirstSession(served));
  if (served.names.empty()) {
    KVD_CO_TRY(const wire::InfoReply info, co_await session->Info());
    served.names.emplace_back(info.model_name);
    if (served.names.front().empty()) served.names.front() = "model";
  }
  auto backend = std::make_unique<Backend>();
  auto model = co_await ServedModel::Create(*session, settings_, served.names);
  session->Close();
  if (!model) co_return std::unexpected(std::move(model).error());
  backend->model = std::move(*model);
  backend->daemon = served.daemon;
  backend->slots_prefix = directory_->PathOf("slots-" + served.daemon + "-");
  backend->open = [this, served](const std::string& tenant) { return OpenSession(served, tenant); };
  gateway_->Add(std::move(backend));
  co_return Status();
}

Await<void> Program::WatchSignals() {
  while (true) {
    const auto [error, number] = co_await signals_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (number == SIGHUP && !settings_.tenants_path.empty()) {
      ReadTenantsAgain();
    } else if (is_stopping_) {
      ::_exit(1);  // the second signal; the daemon lives on
    } else {
      asio::co_spawn(loop_, Stop(0), asio::detached);
    }
  }
}

void Program::ReadTenantsAgain() {
  Result<TenantTable> tenants = TenantTable::Read(settings_.tenants_path);
  if (!tenants) return Say("the tenants stay as they are: " + tenants.error().message);
  tenants_ = std::make_shared<const TenantTable>(std::move(*tenants));
  if (const Status written = WriteLimits(); !written) return Say(written.error().message);
  if (keeper_) keeper_->process().SendReload();
  Say(Concat("read ", tenants_->tenants().size(), " tenants"));
}

Await<void> Program::Stop(int status) {
  is_stopping_ = true;
  status_ = status;
  jobs_->EndAttempts();
  co_await listener_->Stop(kGrace);
  if (keeper_) {
    // After an error of the start the state stays, because the next start may succeed.
    const bool forgets = !settings_.keeps_state && status == 0;
    const auto stopped = co_await keeper_->Stop(forgets);
    if (!stopped) {
      Say(stopped.error().message);
    } else if (*stopped == DaemonProcess::Stopped::kUsedByOthers) {
      Say("another kvd-http uses the daemon, which lives on");
    } else if (forgets) {
      sessions_->Forget(keeper_->process().name());
    }
  }
  loop_.stop();
}

}  // namespace kvd::http
