// The main program of the daemon kvd. Exit status: 0: the daemon was stopped by a signal, or
// --help, --version, --describe or --forget is done; 1: the daemon could not start or continue; 2:
// the command line is wrong.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/text.h"
#include "daemon/options.h"
#include "daemon/process/io_loop.h"
#include "daemon/process/listener.h"
#include "daemon/process/log.h"
#include "daemon/process/process_signals.h"
#include "daemon/process/process_usage.h"
#include "daemon/process/sandbox.h"
#include "daemon/process/weight_reading.h"
#include "daemon/process/workers.h"
#include "daemon/requests/grammar_worker.h"
#include "daemon/schedule/idle_work.h"
#include "daemon/schedule/scheduler.h"
#include "daemon/server.h"
#include "daemon/sessions/client_process.h"
#include "daemon/sessions/resumption.h"
#include "daemon/start_log.h"
#include "daemon/stores/prompt_cache.h"
#include "daemon/stores/saved_states.h"
#include "daemon/stores/state_directory.h"
#include "engine/engine.h"
#include "engine/engine_parts.h"
#include "engine/model/gguf_parts.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/vocabulary/vocabulary.h"
#include "shm/socket_address.h"
#include "shm/state_places.h"

namespace kvd {
namespace {

void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

// The argument of setpriority that names the calling thread; Linux has a priority for each thread.
constexpr id_t kThisThread = 0;

// Raises the priority of the calling thread (the io thread) above the compute threads, so that
// metadata verbs do not wait for computing. Without the permission to raise priorities,
// PreferThisThread has no effect.
void PreferThisThread() { (void)::setpriority(PRIO_PROCESS, kThisThread, -5); }

// Lowers the priority of the calling thread. The thread that writes the prompt cache calls
// StandBack, so that it does not delay requests.
void StandBack() { (void)::setpriority(PRIO_PROCESS, kThisThread, 5); }

// Watches the cache directory for entries that other daemons add and remove. Returns null if the
// daemon has no prompt cache or the directory cannot be watched.
std::unique_ptr<IoLoop::Handle> WatchCache(IoLoop& loop, PromptCache* cache) {
  if (cache == nullptr) return nullptr;
  if (cache->store().changes_descriptor() >= 0) {
    return loop.WatchReadable(cache->store().changes_descriptor(),
                              [cache] { cache->store().Refresh(); });
  }
  Log(LogLevel::kWarning, "cache_not_watched",
      "entries that other daemons add are found only at the next start: the system has no free "
      "inotify instance");
  return nullptr;
}

// Longest time that the daemon waits, before it serves the first client, until the log lines of the
// start are written.
constexpr std::chrono::milliseconds kFlushAtStart{1000};

Result<StateDirectory> OpenState(const DaemonOptions& options) {
  if (options.state_directory) return StateDirectory::Open(*options.state_directory);
  // The free bytes that a tmpfs must have at the start. kNeededBytes is small, because the daemon
  // reserves memory in slabs when it needs the memory.
  constexpr std::uint64_t kNeededBytes = 128u << 20;
  return StateDirectory::OpenDefault(options.name, kNeededBytes);
}

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Returns the paths that the daemon opens by name after EnterSandbox. PathsOf creates missing
// directories, because a Landlock rule needs an existing directory.
SandboxPaths PathsOf(const DaemonOptions& options, const StateDirectory& state,
                     const std::string& socket_path) {
  SandboxPaths paths{.data = {state.path()}, .runtime = {}, .emptied = {}, .read_only = {}};
  if (!options.state_directory) paths.emptied.push_back(DirectoryOf(state.path()));
  for (const auto& directory : {options.store, options.cache_directory}) {
    if (!directory) continue;
    // An error of mkdir is ignored, because the code that opens the directory later reports the
    // error.
    (void)::mkdir(directory->c_str(), 0700);
    paths.data.push_back(*directory);
  }
  paths.runtime.push_back(DirectoryOf(socket_path));
  if (!options.engine.model_path.empty()) paths.read_only = ModelPaths(options.engine.model_path);
  // SIGHUP reads the tenants' file again, which may have been replaced by another file of the same
  // name. A Landlock rule for the file itself would not apply to the new file.
  if (options.tenants_path) paths.read_only.push_back(DirectoryOf(*options.tenants_path));
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

void SaveTuning(int directory, const TuningKey& key, const Tuning& measured) {
  const Status saved = WriteTuningFile(directory, FormatTuning(key, measured));
  if (saved) {
    Log(LogLevel::kInfo, "tuning_saved", Concat("types=", measured.types.size()));
  } else {
    Log(LogLevel::kWarning, "tuning_not_saved", "reason=" + Quoted(saved.error().message));
  }
}

// Locks the weights if that is wanted, and decides when they are read. `lock_limit`:
// LockLimitBytes.
WeightReading PrepareWeights(const DaemonOptions& options, const Engine& engine,
                             std::optional<std::uint64_t> lock_limit) {
  bool is_locked = false;
  if (options.locks_weights) {
    const Status locked = engine.LockWeights();
    is_locked = locked.has_value();
    if (!locked) {
      Log(LogLevel::kWarning, "weights_not_locked", NotLockedText(locked.error(), lock_limit));
    }
  }
  const std::uint64_t free_bytes = FreeMemoryBytes();
  const WeightReading reading =
      ChooseReading(options.prefetch, is_locked, engine.weight_bytes(), free_bytes);
  if (reading == WeightReading::kOnUse && options.prefetch == Prefetch::kAuto) {
    Log(LogLevel::kInfo, "weights_read_on_use",
        Concat("weight_bytes=", engine.weight_bytes(), " free_bytes=", free_bytes));
  }
  if (reading == WeightReading::kBeforeServing && engine.weight_bytes() > free_bytes) {
    Log(LogLevel::kWarning, "weights_exceed_memory",
        Concat("weight_bytes=", engine.weight_bytes(), " free_bytes=", free_bytes));
  }
  return reading;
}

Status Forget(const DaemonOptions& options) {
  KVD_TRY(const StateDirectory::Forgotten forgotten,
          StateDirectory::Forget(options.state_directory, options.name, options.forgets_only));
  for (const StoredState& removed : forgotten.removed) {
    std::printf("removed the state in %s\n", removed.text().c_str());
  }
  for (const std::string& what : forgotten.passed_over) {
    std::printf("left alone: %s\n", Quoted(what).c_str());
  }
  if (forgotten.removed.empty()) std::puts("no state was kept");
  return {};
}

// Names the model's file in an error of its content. `path`: empty for the bundled model.
std::unexpected<Error> OfModel(const std::string& path, const Error& error) {
  const bool is_of_content = error.code == Code::kNotFound || error.code == Code::kCorrupt ||
                             error.code == Code::kUnsupported;
  if (!is_of_content || path.empty() || error.message.find(path) != std::string::npos) {
    return std::unexpected(error);
  }
  return FailWithin(path, error);
}

// Prints one line for each fact, NAME=VALUE.
Status Describe(const DaemonOptions& options) {
  const auto described = DescribeModel(options.engine);
  if (!described) return OfModel(options.engine.model_path, described.error());
  const ModelDescription& model = *described;
  std::fputs(Concat("name=", model.name, "\ncontext=", model.context_length,
                    "\ncell_bytes=", model.cell_bytes, "\nstate_bytes=", model.state_bytes,
                    "\nweight_bytes=", model.weight_bytes, "\n")
                 .c_str(),
             stdout);
  return {};
}

// Listens on the socket that a service manager passes, or else on a socket that the daemon creates.
Result<std::unique_ptr<Listener>> Listen(const DaemonOptions& options) {
  ListenerOptions listening{.socket_path = options.socket_path.value_or(""),
                            .allowed_uids = options.allowed_uids,
                            .group = options.socket_group};
  KVD_TRY(std::optional<InheritedSocket> inherited, TakeInheritedSocket());
  if (inherited) {
    if (options.socket_path && *options.socket_path != inherited->path) {
      return Fail(Code::kInvalidArgument, "--socket: ", Quoted(*options.socket_path),
                  ", but the inherited socket is ", Quoted(inherited->path));
    }
    return Listener::Adopt(listening, std::move(*inherited));
  }
  if (listening.socket_path.empty()) {
    KVD_TRY(listening.socket_path, MakeDefaultSocketPath(options.name));
    listening.makes_directory = true;
  }
  return Listener::Create(listening);
}

// Replaces the tenants' limits by those of the file. A file with an error changes nothing.
void ReadTenantsAgain(const std::string& path, Shares& shares) {
  Result<Tenants> tenants = ReadTenants(path, shares.other_limits());
  if (!tenants) {
    return Log(LogLevel::kError, "tenants_refused", Quoted(tenants.error().message));
  }
  const std::size_t count = tenants->by_id.size();
  shares.SetTenants(std::move(*tenants));
  Log(LogLevel::kInfo, "tenants_read", Concat("tenants=", count));
}

Status Serve(const DaemonOptions& options, int signals) {
  LogThread log_thread;
  KVD_TRY(StateDirectory state, OpenState(options));
  // The sandbox hides the default places that are not used.
  const std::vector<StoredState> stored_states = options.state_directory
                                                     ? std::vector<StoredState>()
                                                     : StateDirectory::FindStates(options.name);
  KVD_TRY(auto listener, Listen(options));
  const std::string socket_path = listener->path();
  const std::optional<std::uint64_t> lock_limit =
      LockLimitBytes();  // the sandbox refuses getrlimit
  // The daemon starts all threads and reads the model after this call.
  EnterSandboxOf(options, state, socket_path);
  for (const std::string& what : state.passed_over()) {
    Log(LogLevel::kWarning, "state_directory_passed_over", Quoted(what));
  }
  log_thread.Start();
  EngineOptions engine_options = options.engine;
  engine_options.state_outlives_boot = !state.on_tmpfs();
  engine_options.open_state = [&state](const ModelFingerprint& model) -> Result<int> {
    KVD_CHECK_OK(state.EnterModel(StateDirectory::ModelId(model.words)));
    return state.descriptor();
  };
  engine_options.may_return = [](const SessionEntry& entry) {
    const StoredSession session = SessionOf(entry);
    return session.outlive_seconds > 0 || !FindProcess(session.process).is_gone;
  };
  WeightThread weights;
  if (!options.locks_weights) {
    // The second processor reads while this thread makes the vocabulary and the memory.
    engine_options.on_weights = [&options, &weights](const WeightReader& reader) {
      if (ChooseReading(options.prefetch, false, reader.byte_count(), FreeMemoryBytes()) ==
          WeightReading::kInBackground) {
        weights.Start(reader, WeightThread::Priority::kLow);
      }
    };
  }
  Result<std::unique_ptr<Engine>> created = Engine::Create(engine_options);
  if (!created && created.error().code == Code::kNoSpace) {
    created.error().message += OtherStatesText(options.name, stored_states, state.path());
  }
  if (!created) return OfModel(engine_options.model_path, created.error());
  const std::unique_ptr<Engine> engine = std::move(*created);
  if (!state.on_tmpfs()) {
    Log(LogLevel::kWarning, "state_not_in_memory",
        Quoted(state.path()) + " is not on tmpfs: the pool is written to disk");
  }

  const std::string& model_name = engine->config().name;
  const StateNote note{.daemon = options.name,
                       .model = model_name.empty() ? options.engine.model_path : model_name,
                       .folder = state.model_folder()};
  if (const Status written = WriteStateNote(state.daemon_descriptor(), note); !written) {
    Log(LogLevel::kWarning, "state_note_not_written", Quoted(written.error().message));
  }
  LogMemoryStart(*engine, state);
  LogOtherStates(options.name, stored_states, state);

  Quotas quotas = options.quotas;
  quotas.prompt_cache_bytes = std::uint64_t{options.cache_mb} << 20;
  Shares shares(quotas, OwnerOf(::geteuid()), options.admits_others(), options.tenant_uid);
  if (options.tenants_path) {
    KVD_TRY(Tenants tenants, ReadTenants(*options.tenants_path, quotas.others));
    shares.SetTenants(std::move(tenants));
  }
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
  LogTuningStart(engine->tuning());
  IdleTuning tuning(*engine, options.retunes || engine->tuning().source == ChoiceSource::kDefaults,
                    [&](const Tuning& measured) {
                      cache_spills.Post([&engine, &state, measured] {
                        SaveTuning(state.descriptor(), engine->tuning().key, measured);
                      });
                    });
  Scheduler scheduler(*engine, engine->config().vocab_size,
                      {.prefill_chunk_tokens = options.prefill_chunk,
                       .step_seconds_max = options.max_step_ms / 1e3,
                       .defrag_threshold = options.defrag_threshold / 100.0,
                       .prompt_cache = prompt_cache.get(),
                       .room_wait = std::chrono::milliseconds(options.room_wait_ms),
                       .idle_work = &tuning});
  if (prompt_cache) prompt_cache->OnLoaded([&scheduler] { scheduler.WakeUp(); });
  AsioLoop grammar_loop;
  GrammarWorker grammars(
      engine->vocabulary(), engine->config().vocab_size,
      [&grammar_loop](std::function<void()> call) { grammar_loop.Post(std::move(call)); },
      [&scheduler] { scheduler.WakeUp(); });
  Server server(
      {.loop = loop,
       .workers = workers,
       .engine = *engine,
       .scheduler = scheduler,
       .shares = shares,
       .saved_states = saved_states.get(),
       .prompt_cache = prompt_cache.get(),
       .grammars = &grammars,
       .tuning = &tuning,
       .weights = &weights},
      {.hello_deadline = std::chrono::milliseconds(options.hello_timeout_ms),
       .reconnect_wait = std::chrono::milliseconds(options.reconnect_wait_ms),
       .restart_wait = std::chrono::seconds(options.restart_wait_s),
       .prefixes = {.is_shared = options.shares_prefixes, .retained_max = options.retained_max}});

  // Until the server starts, connections of clients wait in the socket's queue. The server starts
  // when nothing is left that is done before.
  std::size_t left_before_serving = options.retunes ? 1 : 0;
  const auto start_when_ready = [&] {
    if (left_before_serving == 0) server.Start(std::move(listener));
  };
  const auto one_is_done = [&] {
    --left_before_serving;
    start_when_ready();
  };
  std::thread engine_thread([&] {
    if (options.retunes) {
      tuning.MeasureNow();
      loop.Post(one_is_done);
    }
    scheduler.Run();
  });
  const auto cache_changes = WatchCache(cache_spills, prompt_cache.get());
  std::thread load_thread([&cache_loads] { cache_loads.Run(); });
  std::thread grammar_thread([&grammar_loop] { grammar_loop.Run(); });
  std::thread spill_thread([&cache_spills] {
    StandBack();
    cache_spills.Run();
  });
  const auto on_signal = loop.WatchReadable(signals, [&] {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) return;
    if (info.ssi_signo == SIGHUP && options.tenants_path) {
      return ReadTenantsAgain(*options.tenants_path, shares);
    }
    Log(LogLevel::kInfo, "stopping", Concat("signal=", info.ssi_signo, " from_pid=", info.ssi_pid));
    loop.Stop();
  });
  LogStart(*engine, socket_path, state);
  const Vocabulary& vocabulary = engine->vocabulary();
  if (vocabulary.kind() != Vocabulary::Kind::kNone && vocabulary.chat_templates().empty()) {
    Log(LogLevel::kInfo, "no_chat_template", Quoted("clients format chats as ChatML"));
  }
  const WeightReading reading = weights.has_started()
                                    ? WeightReading::kInBackground
                                    : PrepareWeights(options, *engine, lock_limit);
  FlushLog(kFlushAtStart);
  if (reading == WeightReading::kBeforeServing) {
    ++left_before_serving;
    weights.Start(engine->weight_reader(), WeightThread::Priority::kNormal,
                  [&] { loop.Post(one_is_done); });
  }
  start_when_ready();
  PreferThisThread();
  loop.Run();
  weights.Stop();  // no longer reads, and no longer starts the server

  // First, the daemon refuses new clients. Then running requests end with kCancelled, and their
  // clients still receive this answer; requests of clients with kHelloReturns get no answer,
  // because such clients resume their requests with the next daemon. Finally the daemon closes all
  // connections.
  server.StopListening();
  tuning.Cancel();
  scheduler.Stop();
  engine_thread.join();
  workers.Stop();
  if (prompt_cache) prompt_cache->Stop();
  cache_loads.Stop();
  load_thread.join();
  cache_spills.Stop();
  spill_thread.join();
  grammar_loop.Stop();
  grammar_thread.join();
  server.CloseAll();
  // If the memory holds no sequences and no sessions, the daemon removes the files of its state.
  if (engine->memory().Usage().live_sequences == 0 && engine->memory().sessions().List().empty()) {
    (void)state.RemoveState();
    state.RemoveDirectory();
  }
  Log(LogLevel::kInfo, "stop", Concat("pid=", ::getpid()));
  return {};
}

int Main(int argument_count, char** arguments) {
  // This call prevents other processes of the same uid from reading the daemon's memory through
  // /proc, and comes before the daemon reads any private data. With the flag --allow-debug, a later
  // call of prctl undoes PR_SET_DUMPABLE 0.
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
  const Status served = options.describes ? Describe(options)
                        : options.forgets ? Forget(options)
                        : signals         ? Serve(options, signals->get())
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
