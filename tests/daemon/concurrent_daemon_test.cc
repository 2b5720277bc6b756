// The daemon's classes on all of its threads at once, over a small real engine: steps, saves,
// restores, imports, defragmentation, publishing, the live map, lost and restored connections of
// four clients, and concurrent queries of the memory. In builds with ThreadSanitizer, this test
// detects data races. In other builds the test checks that no request is answered with an internal
// error, and that the daemon gives the same answers afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>

#include "client/client.h"
#include "daemon/process/io_loop.h"
#include "daemon/process/log.h"
#include "daemon/process/workers.h"
#include "daemon/requests/grammar_worker.h"
#include "daemon/server.h"
#include "daemon/stores/prompt_cache.h"
#include "daemon/stores/saved_states.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

constexpr std::uint32_t kCells = 4096;
constexpr int kClients = 4;
constexpr std::chrono::milliseconds kReconnectWait{100};

// The number of operations that each client performs.
int OperationCount() { return test::Scaled(400, 100); }

// The daemon's parts, put together as main.cc does. The engine outlives the daemon's other parts.
class Daemon {
 public:
  Daemon(Engine& engine, const std::filesystem::path& folder)
      : socket_path_((folder / "kvd.sock").string()), shares_({}, OwnerOf(::geteuid()), true) {
    auto saved = SavedStates::Open((folder / "store").string(), engine);
    EXPECT_TRUE(saved) << saved.error().message;
    saved_states_ = std::move(*saved);
    auto cache = PromptCache::Open(
        engine, {.path = (folder / "cache").string(), .bytes_max = 8u << 20, .tokens_min = 40},
        {.load = [this](std::function<void()> call) { loads_.Post(std::move(call)); },
         .spill = [this](std::function<void()> call) { spills_.Post(std::move(call)); }});
    EXPECT_TRUE(cache) << cache.error().message;
    cache_ = std::move(*cache);
    scheduler_.emplace(engine, engine.config().vocab_size,
                       SchedulerOptions{.defrag_threshold = 0.05, .prompt_cache = cache_.get()});
    cache_->OnLoaded([this] { scheduler_->WakeUp(); });
    grammars_.emplace(
        engine.vocabulary(), engine.config().vocab_size,
        [this](std::function<void()> call) { grammar_loop_.Post(std::move(call)); },
        [this] { scheduler_->WakeUp(); });
    server_.emplace(Server::Parts{.loop = io_,
                                  .workers = workers_,
                                  .engine = engine,
                                  .scheduler = *scheduler_,
                                  .shares = shares_,
                                  .saved_states = saved_states_.get(),
                                  .prompt_cache = cache_.get(),
                                  .grammars = &*grammars_},
                    ServerOptions{.reconnect_wait = kReconnectWait});
    auto listener =
        Listener::Create({.socket_path = socket_path_, .allowed_uids = {}, .group = {}});
    EXPECT_TRUE(listener) << listener.error().message;
    server_->Start(std::move(*listener));
    cache_changes_ = spills_.WatchReadable(cache_->store().changes_descriptor(),
                                           [this] { cache_->store().Refresh(); });
    weights_.Start(engine.weight_reader(), WeightThread::Priority::kLow);
    threads_.emplace_back([this] { scheduler_->Run(); });
    for (AsioLoop* const loop : {&loads_, &spills_, &grammar_loop_, &io_}) {
      threads_.emplace_back([loop] { loop->Run(); });
    }
  }
  // Stops the parts in the order of main.cc.
  ~Daemon() {
    io_.Stop();
    threads_.back().join();
    server_->StopListening();
    scheduler_->Stop();
    threads_.front().join();
    workers_.Stop();
    cache_->Stop();
    loads_.Stop();
    spills_.Stop();
    grammar_loop_.Stop();
    for (std::size_t i = 1; i + 1 < threads_.size(); ++i) threads_[i].join();
    server_->CloseAll();
    server_.reset();
  }

  Client Connect() const {
    auto client = Client::Connect({.socket_path = socket_path_, .wants_map = true});
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }

 private:
  const std::string socket_path_;
  Shares shares_;
  AsioLoop io_;
  ThreadWorkers workers_;
  AsioLoop loads_;
  AsioLoop spills_;
  AsioLoop grammar_loop_;
  std::unique_ptr<SavedStates> saved_states_;
  std::unique_ptr<PromptCache> cache_;
  std::unique_ptr<IoLoop::Handle> cache_changes_;
  std::optional<GrammarWorker> grammars_;
  std::optional<Scheduler> scheduler_;
  std::optional<Server> server_;
  std::vector<std::thread> threads_;
  WeightThread weights_;
};

std::vector<TokenId> Answer(const Client& client) {
  const auto sequence = client.NewSequence();
  EXPECT_TRUE(sequence) << sequence.error().message;
  std::vector<TokenId> tokens;
  if (!sequence) return tokens;
  const std::vector<TokenId> prompt = {10, 20, 30, 40};
  auto generation = sequence->Generate({.tokens = prompt,
                                        .predict_max = 8,
                                        .sampling = DefaultSamplingAt(0.0f),
                                        .flags = wire::kIgnoreEos});
  EXPECT_TRUE(generation) << generation.error().message;
  while (generation) {
    auto piece = generation->Next();
    EXPECT_TRUE(piece) << piece.error().message;
    if (!piece || !*piece) break;
    tokens.insert(tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
  }
  return tokens;
}

// One client. The client's seed determines its operations, which use the client's sequences and
// snapshots that other clients have published.
class Worker {
 public:
  Worker(const Daemon& daemon, std::uint32_t number)
      : daemon_(daemon), random_(number), name_("of-" + std::to_string(number)) {}

  void Work(int operations) {
    Client client = daemon_.Connect();
    for (int i = 0; i < operations; ++i) {
      if (sequences_.empty()) Create(client);
      kind_ = random_() % kKinds;
      switch (kind_) {
        case 0:
        case 1: Decode(client); break;
        case 2:
        case 3: Generate(client); break;
        case 4: Check(client.Save(Any(), name_, {.replaces = true})); break;
        case 5: Load(client); break;
        case 6: Import(client); break;
        case 7: Check(client.Call(wire::DefragArgs{})); break;
        case 8: Check(client.Publish(Any(), name_, wire::kFlagForce)); break;
        case 9: Attach(client); break;
        case 10: Keep(client.Fork(Any(), -1, 2)); break;
        case 11: Check(client.RemoveRange(Any(), {.begin = Pos{20}, .end = Pos{30}})); break;
        case 12: Check(client.Divide(Any(), {}, 2)); break;
        case 13: Release(client); break;
        case 14: Look(client); break;
        default:
          // Loses the connection during a step, without saying goodbye.
          if (const auto decoding = StartDecode(client); Check(decoding)) Lose(client);
          sequences_.clear();
          client = daemon_.Connect();
          break;
        case 16: ComeBack(client); break;
        case 17: SaveAll(client); break;
        case 18: Rearrange(client); break;
        case 19: SaveWhatGoes(client); break;
      }
      if (sequences_.size() > 6) Release(client);
    }
    (void)client.Unpublish(name_);
  }

  // The number of successful requests for each kind of operation.
  static constexpr std::size_t kKinds = 20;
  const std::array<std::size_t, kKinds>& done() const { return done_; }

 private:
  SequenceHandle Any() { return sequences_[random_() % sequences_.size()]; }

  // A refused request must have one of the error codes that the clients' concurrent operations can
  // cause.
  template <class T>
  bool Check(const Result<T>& result) {
    constexpr std::array kReasons = {
        Code::kInvalidArgument, Code::kNotFound, Code::kNoSpace,     Code::kBusy,
        Code::kExists,          Code::kConflict, Code::kUnsupported, Code::kCancelled};
    if (result) {
      ++done_[kind_];
      return true;
    }
    EXPECT_THAT(kReasons, ::testing::Contains(result.error().code)) << result.error().message;
    return false;
  }
  void Create(const Client& client) {
    const auto made = client.Create();
    if (Check(made)) sequences_.push_back(*made);
  }
  void Keep(const Result<std::vector<SequenceHandle>>& made) {
    if (Check(made)) sequences_.insert(sequences_.end(), made->begin(), made->end());
  }
  Result<Decoding> StartDecode(const Client& client) {
    const SequenceHandle sequence = Any();
    KVD_TRY(const wire::SequenceEntry entry, client.Query(sequence));
    // A prompt repeats one of 3 tokens, so that many prompts have a common prefix.
    std::vector<TokenId> tokens(1 + random_() % 120, static_cast<TokenId>(random_() % 3));
    return client.StartDecode(sequence, tokens, Pos{entry.next_pos}, wire::LogitsWanted::kLast);
  }
  void Decode(const Client& client) {
    auto decoding = StartDecode(client);
    if (Check(decoding)) Check(decoding->Next());
  }
  void Generate(const Client& client) {
    const std::vector<TokenId> prompt(1 + random_() % 60, 5);
    GenerateOptions options{
        .tokens = prompt, .predict_max = 20, .seed = 1, .flags = wire::kIgnoreEos};
    // Clients have the same grammars, whose states and masks all threads share.
    constexpr std::string_view kGrammars[] = {"", "root ::= ([a-m]{2,4} \" and \")+",
                                              "root ::= \"[\" [^\"]{1,9} (\",\" [0-9]+)* \"]\""};
    options.grammar = kGrammars[random_() % std::size(kGrammars)];
    auto generation = client.StartGenerate(Any(), options);
    if (!Check(generation)) return;
    if (random_() % 4 == 0) generation->Cancel();
    for (auto piece = generation->Next(); Check(piece) && *piece; piece = generation->Next()) {
    }
  }
  void Load(const Client& client) {
    const auto loaded = client.Load(name_);
    if (!Check(loaded)) return;
    for (const LoadedSequence& one : *loaded) sequences_.push_back(one.handle);
  }
  void Import(const Client& client) {
    const SequenceHandle sequence = Any();
    const auto file = client.ExportLlama({&sequence, 1});
    if (!Check(file)) return;
    const auto imported = client.ImportLlama(*file);
    if (!Check(imported)) return;
    for (const ImportedSequence& one : *imported) sequences_.push_back(one.handle);
  }
  void Attach(const Client& client) {
    const auto attached = client.Attach("of-" + std::to_string(random_() % kClients));
    if (Check(attached)) sequences_.push_back(*attached);
  }
  void Release(const Client& client) {
    std::ranges::swap(sequences_[random_() % sequences_.size()], sequences_.back());
    if (random_() % 2 == 0) {
      Check(client.Drop(sequences_.back()));
    } else {
      Check(client.Retain(sequences_.back()));
    }
    sequences_.pop_back();
  }
  // Loses the connection during a step. The client reconnects and its request is answered once,
  // unless the daemon has already dropped the session.
  void ComeBack(const Client& client) {
    auto decoding = StartDecode(client);
    if (!Check(decoding)) return;
    Lose(client);
    const auto answer = decoding->Next();
    if (!answer && answer.error().code == Code::kSessionLost) {
      EXPECT_TRUE(client.Renew());
      sequences_.clear();
    } else {
      Check(answer);
    }
  }
  void SaveAll(const Client& client) {
    const std::string name = name_ + "-all";
    Check(client.SaveAll(name, {.replaces = true}));
    Check(client.Saved());
    Check(client.RemoveSaved(name));
  }
  // Saves a long sequence in one thread and drops it in another, so that other sequences can take
  // its blocks during the save.
  void SaveWhatGoes(const Client& client) {
    const auto made = client.Create();
    if (!Check(made)) return;
    const std::vector<TokenId> tokens(300, static_cast<TokenId>(random_() % 90));
    auto decoding = client.StartDecode(*made, tokens, Pos{0}, wire::LogitsWanted::kNone);
    if (Check(decoding)) Check(decoding->Next());
    Result<SaveInfo> saved;
    {
      const std::jthread saving(
          [&] { saved = client.Save(*made, name_ + "-gone", {.replaces = true}); });
      std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 4));
      Check(client.Drop(*made));
      Decode(client);
    }
    Check(saved);
  }
  void Rearrange(const Client& client) {
    const SequenceHandle source = Any();
    Check(client.Call(wire::PinArgs{source, true}));
    Check(client.Add(source, {.begin = Pos{40}, .end = kPosEnd}, 4));
    if (const auto copy = client.Create(); Check(copy)) {
      sequences_.push_back(*copy);
      Check(client.CopyRange(source, *copy, {.begin = Pos{0}, .end = Pos{10}}));
    }
    Check(client.Call(wire::DropRetainedArgs{}));
    // A pinned sequence would keep its blocks after the session is lost.
    Check(client.Call(wire::PinArgs{source, false}));
  }
  void Look(const Client& client) {
    if (auto map = client.OpenMap(); Check(map)) Check(map->Refresh());
    Check(client.List());
    Check(client.Info());
    Check(client.Call(wire::CacheArgs{}));
    Check(client.Call(wire::ProfileArgs{}));
    Check(client.Snapshots());
    Check(client.ReadTokens(Any()));
  }
  static void Lose(const Client& client) {
    (void)::shutdown(client.connection()->socket_for_test(), SHUT_RDWR);
  }

  const Daemon& daemon_;
  std::mt19937 random_;
  const std::string name_;
  std::vector<SequenceHandle> sequences_;
  std::size_t kind_ = 0;
  std::array<std::size_t, kKinds> done_{};
};

// Queries the memory from a thread outside the daemon until `stop` is set.
void LookAt(Memory& memory, const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    const auto sequences = memory.sequences().List();
    for (const SequenceInfo& info : sequences) {
      (void)memory.sequences().QueryUse(info.handle);
      std::vector<TokenId> tokens;
      std::vector<Pos> positions;
      (void)memory.holds().ReadCells(info.handle, 0, info.cell_count, &tokens, &positions);
    }
    (void)memory.Usage();
    (void)memory.snapshots().List();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class ConcurrentDaemonTest : public ::testing::TestWithParam<bool> {};

TEST_P(ConcurrentDaemonTest, ConcurrentClientsGetTheRepliesThatTheyGetAlone) {
  SetLogLevel(LogLevel::kOff);
  const test::TemporaryFolder folder;
  ModelShape shape = test::TinyLlama();
  if (GetParam()) {
    shape.name = "tiny-recurrent";
    shape.architecture = Architecture::kLfm2;
  }
  const auto engine = test::MakeEngine(
      shape, {.cells = kCells, .state_slots = 64, .threads = 2, .deterministic = true},
      test::Tokenizer::kBundled);
  ASSERT_NE(engine, nullptr);
  Daemon daemon(*engine, folder.path());
  const std::vector<TokenId> right = Answer(daemon.Connect());
  ASSERT_EQ(right.size(), 8u);
  std::atomic<bool> stop = false;
  std::thread looker([&] { LookAt(engine->memory(), stop); });
  std::vector<Worker> workers;
  for (std::uint32_t number = 0; number < kClients; ++number) workers.emplace_back(daemon, number);
  {
    std::vector<std::jthread> clients;
    for (Worker& worker : workers) {
      clients.emplace_back([&worker] { worker.Work(OperationCount()); });
    }
  }
  stop = true;
  looker.join();
  // A lost session keeps its sequences for kReconnectWait.
  std::this_thread::sleep_for(2 * kReconnectWait);
  EXPECT_EQ(Answer(daemon.Connect()), right);
  for (std::size_t kind = 0; kind < Worker::kKinds; ++kind) {
    std::size_t done = 0;
    for (const Worker& worker : workers) done += worker.done()[kind];
    EXPECT_GT(done, 0u) << "nothing of kind " << kind << " was done";
  }
}

std::string ModelName(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Recurrent" : "Attention";
}
INSTANTIATE_TEST_SUITE_P(Models, ConcurrentDaemonTest, ::testing::Bool(), ModelName);

}  // namespace
}  // namespace kvd
