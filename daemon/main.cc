// kvd: start, serve, stop. Exit status: 0 stopped as asked, 1 could not start or go on, 2 the
// command line is wrong.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <variant>

#include "daemon/asio_loop.h"
#include "daemon/listener.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/prompt_cache.h"
#include "daemon/sandbox.h"
#include "daemon/saved_states.h"
#include "daemon/scheduler.h"
#include "daemon/server.h"
#include "daemon/state_directory.h"
#include "daemon/thread_workers.h"
#include "engine/engine.h"
#include "engine/memory/memory_home.h"
#include "engine/model_config.h"
#include "shm/socket_address.h"

namespace kvd {
namespace {

// What the log still has is written before a fault ends the daemon, if its reader takes it so fast.
constexpr std::chrono::milliseconds kFlushAtFault{200};

// After it returns, abort() ends the process.
extern "C" void OnAbort(int) { FlushLog(kFlushAtFault); }

// Pages of tmpfs that cannot be had, or a file truncated by somebody with our uid: nothing can be
// saved, say so and go.
extern "C" void OnBusError(int) {
  static constexpr char kText[] = "kvd: a mapped file shrank or its memory ran out (SIGBUS)\n";
  FlushLog(kFlushAtFault);
  pollfd error_output{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&error_output, 1, 0) == 1) (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(1);
}

// SIGTERM, SIGINT and SIGHUP, blocked in every thread, arrive here.
Result<UniqueFd> OpenSignals() {
  sigset_t stops;
  ::sigemptyset(&stops);
  ::sigaddset(&stops, SIGTERM);
  ::sigaddset(&stops, SIGINT);
  ::sigaddset(&stops, SIGHUP);
  if (::pthread_sigmask(SIG_BLOCK, &stops, nullptr) != 0) return FailErrno("signals");
  UniqueFd signals(::signalfd(-1, &stops, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!signals) return FailErrno("signals");
  struct sigaction on_bus{};
  on_bus.sa_handler = OnBusError;
  ::sigaction(SIGBUS, &on_bus, nullptr);
  struct sigaction on_abort{};
  on_abort.sa_handler = OnAbort;
  ::sigaction(SIGABRT, &on_abort, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  // A file past RLIMIT_FSIZE is then EFBIG, an error with a name: clients' segments are files too.
  ::signal(SIGXFSZ, SIG_IGN);
  return signals;
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

constexpr id_t kThisThread = 0;  // of setpriority: Linux has a priority for each thread

// Metadata verbs wait for nobody's computing: where we may, the io thread goes before the compute
// threads.
void PreferThisThread() { (void)::setpriority(PRIO_PROCESS, kThisThread, -5); }

// Reading ahead and compressing what may be needed one day go behind what is asked for now.
void StandBack() { (void)::setpriority(PRIO_PROCESS, kThisThread, 5); }

// What other daemons put into the cache and take out of it. Null: nobody tells.
std::unique_ptr<IoLoop::Handle> WatchCache(IoLoop& loop, PromptCache* cache) {
  if (cache == nullptr) return nullptr;
  if (cache->store().changes_descriptor() >= 0) {
    return loop.WatchReadable(cache->store().changes_descriptor(),
                              [cache] { cache->store().Refresh(); });
  }
  Log(LogLevel::kWarning, "cache_not_watched",
      "entries that other daemons add are found at the next start: the system has no inotify "
      "instance left");
  return nullptr;
}

// A client that is served may read in the log how the daemon has started.
constexpr std::chrono::milliseconds kFlushAtStart{1000};

Result<StateDirectory> OpenState(const DaemonOptions& options) {
  if (options.state_directory) return StateDirectory::Open(*options.state_directory);
  // Slabs are reserved as they are needed: what must be there at the start is little.
  constexpr std::uint64_t kNeededBytes = 128u << 20;
  return StateDirectory::OpenDefault(options.name, kNeededBytes);
}

// What this daemon opens by name once it is in the sandbox. Directories are made beforehand: a rule
// needs one that exists.
SandboxPaths PathsOf(const DaemonOptions& options, const StateDirectory& state,
                     const std::string& socket_path) {
  SandboxPaths paths{.data = {state.path()}, .runtime = {}, .read_only = {}};
  for (const auto& directory : {options.store, options.cache_directory}) {
    if (!directory) continue;
    // Who opens it says what is wrong with it.
    (void)::mkdir(directory->c_str(), 0700);
    paths.data.push_back(*directory);
  }
  const std::size_t slash = socket_path.rfind('/');
  paths.runtime.push_back(slash == std::string::npos ? "." : socket_path.substr(0, slash + 1));
  if (!options.engine.model_path.empty()) paths.read_only.push_back(options.engine.model_path);
  return paths;
}

// REQUIRES: no thread has been started.
void EnterSandboxOf(const DaemonOptions& options, const StateDirectory& state,
                    const std::string& socket_path) {
  if (!options.is_sandboxed) {
    Log(LogLevel::kWarning, "sandbox", Sandbox{}.text() + " reason=\"--no-sandbox\"");
    return;
  }
  const Sandbox sandbox = EnterSandbox(PathsOf(options, state, socket_path));
  Log(LogLevel::kInfo, "sandbox", sandbox.text());
  for (const std::string& missing : sandbox.missing) {
    Log(LogLevel::kWarning, "sandbox_incomplete", "not restricted: " + Quoted(missing));
  }
}

std::string StartText(Engine& engine, const std::string& socket_path, const StateDirectory& state) {
  const PoolUsage usage = engine.memory().Usage();
  return "pid=" + std::to_string(::getpid()) + " socket=" + Quoted(socket_path) +
         " state=" + Quoted(state.path()) +
         " cells=" + std::to_string(std::uint64_t{usage.total_blocks} * layout::kBlockCells) +
         " vocab=" + std::to_string(engine.config().vocab_size) +
         " kernels=" + engine.kernels().name +
         " threads=" + std::to_string(engine.options().threads);
}

void LogMemoryStart(const MemoryStart& start) {
  for (const LostSequence& lost : start.lost) {
    Log(LogLevel::kWarning, "sequence_dropped",
        "sequence=" + std::to_string(static_cast<std::uint64_t>(lost.handle)) +
            (lost.snapshot.empty() ? "" : " snapshot=" + Quoted(lost.snapshot)) +
            " reason=" + Quoted(lost.reason));
  }
  if (start.is_warm) {
    Log(LogLevel::kInfo, "warm_start",
        "sequences=" + std::to_string(start.sequences) + " snapshots=" +
            std::to_string(start.snapshots) + " dropped=" + std::to_string(start.lost.size()) +
            (start.cells_checked ? " cells=checked" : " cells=not_checked (see --verify-pool)"));
  } else if (start.why_cold.empty()) {
    Log(LogLevel::kInfo, "cold_start", "nothing was kept");
  } else {
    Log(LogLevel::kWarning, "cold_start",
        "what was kept cannot be used, its meta is set aside: reason=" + Quoted(start.why_cold));
  }
}

Status Forget(const DaemonOptions& options) {
  KVD_TRY(const StateDirectory::Forgotten forgotten,
          StateDirectory::Forget(options.state_directory, options.name));
  for (const std::string& path : forgotten.removed) {
    std::printf("removed the state in %s\n", path.c_str());
  }
  for (const std::string& what : forgotten.passed_over) {
    std::printf("left alone: %s\n", Quoted(what).c_str());
  }
  if (forgotten.removed.empty()) std::puts("no state was kept");
  return {};
}

Status Serve(const DaemonOptions& options, int signals) {
  LogThread log_thread;
  KVD_TRY(StateDirectory state, OpenState(options));
  std::string socket_path = options.socket_path.value_or("");
  if (socket_path.empty()) {
    KVD_TRY(socket_path, MakeDefaultSocketPath(options.name));
  }
  KVD_TRY(auto listener, Listener::Create({.socket_path = socket_path,
                                           .allowed_uids = options.allowed_uids,
                                           .group = options.socket_group}));
  // Every thread begins below this call, and the model's bytes are read below it.
  EnterSandboxOf(options, state, socket_path);
  for (const std::string& what : state.passed_over()) {
    Log(LogLevel::kWarning, "state_directory_passed_over", Quoted(what));
  }
  log_thread.Start();
  EngineOptions engine_options = options.engine;
  engine_options.state_directory = state.descriptor();
  engine_options.state_outlives_boot = !state.on_tmpfs();
  KVD_TRY(const auto engine, Engine::Create(engine_options));
  if (!state.on_tmpfs()) {
    Log(LogLevel::kWarning, "state_not_in_memory",
        Quoted(state.path()) + " is not on tmpfs: the pool is written to a disk");
  }

  LogMemoryStart(engine->memory_start());

  Quotas quotas = options.quotas;
  quotas.prompt_cache_bytes = std::uint64_t{options.cache_mb} << 20;
  Shares shares(quotas, OwnerOf(::geteuid()), options.admits_others());
  AsioLoop loop;
  ThreadWorkers workers({.turns = options.workers});
  std::unique_ptr<SavedStates> saved_states;
  if (options.store) {
    KVD_TRY(saved_states, SavedStates::Open(*options.store, *engine));
  }
  AsioLoop cache_loads;
  AsioLoop cache_spills;
  std::unique_ptr<PromptCache> prompt_cache;
  if (options.cache_directory) {
    KVD_TRY(
        prompt_cache,
        PromptCache::Open(
            *engine,
            {.path = *options.cache_directory,
             .bytes_max = std::uint64_t{options.cache_mb} << 20,
             .tokens_min = options.cache_tokens_min,
             .shares = &shares},
            {.load = [&](std::function<void()> call) { cache_loads.Post(std::move(call)); },
             .spill = [&](std::function<void()> call) { cache_spills.Post(std::move(call)); }}));
  }
  Scheduler scheduler(*engine, engine->config().vocab_size,
                      {.prefill_chunk_tokens = options.prefill_chunk,
                       .step_seconds_max = options.max_step_ms / 1e3,
                       .defrag_threshold = options.defrag_threshold / 100.0,
                       .prompt_cache = prompt_cache.get()});
  if (prompt_cache) prompt_cache->OnLoaded([&scheduler] { scheduler.WakeUp(); });
  Server server(
      {.loop = loop,
       .workers = workers,
       .engine = *engine,
       .scheduler = scheduler,
       .shares = shares,
       .saved_states = saved_states.get(),
       .prompt_cache = prompt_cache.get()},
      {.hello_deadline = std::chrono::milliseconds(options.hello_timeout_ms),
       .reconnect_wait = std::chrono::milliseconds(options.reconnect_wait_ms),
       .restart_wait = std::chrono::seconds(options.restart_wait_s),
       .prefixes = {.is_shared = options.shares_prefixes, .retained_max = options.retained_max}});

  std::thread engine_thread([&scheduler] { scheduler.Run(); });
  const auto cache_changes = WatchCache(cache_spills, prompt_cache.get());
  std::thread load_thread([&cache_loads] { cache_loads.Run(); });
  std::thread spill_thread([&cache_spills] {
    StandBack();
    cache_spills.Run();
  });
  const auto on_signal = loop.WatchReadable(signals, [&] {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) return;
    Log(LogLevel::kInfo, "stopping",
        "signal=" + std::to_string(info.ssi_signo) + " from_pid=" + std::to_string(info.ssi_pid));
    loop.Stop();
  });
  const std::jthread weights([&engine](const std::stop_token& stop) {
    StandBack();
    engine->BringInWeights(stop);
  });
  Log(LogLevel::kInfo, "start", StartText(*engine, socket_path, state));
  FlushLog(kFlushAtStart);
  server.Start(std::move(listener));
  PreferThisThread();
  loop.Run();

  // No new clients; the requests that run end with kCancelled, which their clients still get, or
  // wait for the next daemon with clients that come back by themselves; then everybody goes.
  server.StopListening();
  scheduler.Stop();
  engine_thread.join();
  workers.Stop();
  if (prompt_cache) prompt_cache->Stop();
  cache_loads.Stop();
  load_thread.join();
  cache_spills.Stop();
  spill_thread.join();
  server.CloseAll();
  // An empty memory is not worth its room.
  if (engine->memory().Usage().live_sequences == 0 && engine->memory().sessions().List().empty()) {
    (void)state.RemoveState();
  }
  Log(LogLevel::kInfo, "stop", "pid=" + std::to_string(::getpid()));
  return {};
}

int Main(int argument_count, char** arguments) {
  // Before anything secret is read: a process of the same uid could open our memory through /proc.
  // Opened again once the command line has been read, if it says so.
  (void)::prctl(PR_SET_DUMPABLE, 0);
  (void)::umask(077);
  const auto parsed = ParseOptions(argument_count, arguments);
  if (!parsed) {
    std::fprintf(stderr, "kvd: %s\n", parsed.error().message.c_str());
    return 2;
  }
  if (const auto* const print = std::get_if<PrintAndExit>(&*parsed)) {
    std::fputs(print->text.c_str(), stdout);
    return 0;
  }
  const DaemonOptions& options = std::get<DaemonOptions>(*parsed);
  if (options.allow_debug) (void)::prctl(PR_SET_DUMPABLE, 1);
  SetLogLevel(options.log_level);
  RaiseDescriptorLimit();
  const Result<UniqueFd> signals = OpenSignals();
  const Status served = options.forgets ? Forget(options)
                        : signals       ? Serve(options, signals->get())
                                        : Status(std::unexpected(signals.error()));
  if (!served) {
    std::fprintf(stderr, "kvd: %s\n", served.error().message.c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kvd

int main(int argument_count, char** arguments) { return kvd::Main(argument_count, arguments); }
