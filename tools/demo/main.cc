// kvd-demo: eight processes share one context, and each gets the right answer to its own question.
//
// Starts a private kvd with the bundled model (or the bundled hybrid, or a file), runs the
// demonstration once or for several seeds, checks the numbers that it prints, and removes all its
// files. Exit codes: 0 success, 1 failure, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tools/daemon_process/daemon_process.h"
#include "tools/demo/child_process.h"
#include "tools/demo/notebook.h"
#include "tools/demo/roles.h"

namespace kvd::demo {
namespace {

constexpr std::size_t kFactCount = 16;
constexpr std::size_t kAskerCount = 8;
constexpr double kRightShareMin = 0.9;
constexpr auto kCellsBackMax = std::chrono::seconds(5);
using Child = ChildProcess<Report>;

struct Flags {
  std::uint64_t seed = 1;
  std::uint64_t seed_count = 1;
  std::string kvd_path = BinaryFolder() + "/kvd";
  // Empty: the bundled model; "hybrid": the bundled hybrid model; otherwise the path of a model.
  std::string model;
};

// Returns the path of the model; an empty path stands for the model in the daemon's binary.
std::string ModelPath(const Flags& flags) {
  return flags.model == "hybrid" ? KVD_HYBRID_MODEL : flags.model;
}

struct Score {
  std::size_t right = 0;
  std::size_t asked = 0;
};

// Returns the number of cells that are free or that eviction can free.
std::uint64_t RoomOf(const wire::InfoReply& info) {
  return info.free_cells + info.reclaimable_cells;
}

double Mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }
double Micro(std::uint64_t ns) { return static_cast<double>(ns) / 1e3; }
double Milli(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

std::uint64_t ResidentBytes(const wire::InfoReply& info) {
  return info.resident_anonymous_bytes + info.resident_shared_bytes;
}

// Runs the demonstration once, with one seed and a running daemon.
class Demonstration {
 public:
  Demonstration(const std::string& socket_path, const Client& client, std::uint64_t seed)
      : socket_path_(socket_path),
        client_(client),
        seed_(seed),
        facts_(DrawFacts(seed, kFactCount)) {}

  Status Run(Score* score) {
    KVD_CHECK_OK(WaitForSteps());
    KVD_TRY(const wire::InfoReply start, client_.Info());
    KVD_TRY(const Report notebook, ReadInAnotherProcess());
    KVD_TRY(const wire::InfoReply before, client_.Info());
    std::printf(
        "seed %llu: one process read %u tokens of notebook in %.1f ms, published them, and ended\n",
        static_cast<unsigned long long>(seed_), notebook.computed, Milli(notebook.total_ns));
    KVD_TRY(std::uint64_t computed, AskAll(before, score));
    computed += notebook.computed;
    KVD_TRY(const wire::InfoReply after, client_.Info());
    if (after.tokens_computed - start.tokens_computed != computed) {
      return Fail(Code::kInternal, "kvd computed ", after.tokens_computed - start.tokens_computed,
                  " tokens; notebook, questions and answers are ", computed);
    }
    std::printf("  checked: %llu tokens computed = notebook %u + questions and answers %llu\n",
                static_cast<unsigned long long>(computed), notebook.computed,
                static_cast<unsigned long long>(computed - notebook.computed));
    KVD_CHECK_OK(KillOne());
    return client_.Unpublish(kSnapshotName);
  }

 private:
  // Starts a child process that opens its own connection.
  template <class Work>
  Result<Child> StartChild(const Work& work) {
    return Child::Start([this, &work](const Child::Side& side) {
      const auto client = Client::Connect({.socket_path = socket_path_, .client_name = "kvd-demo"});
      if (!client) return side.Send(FailedReport(client.error()));
      work(*client, side);
    });
  }

  static Result<Report> ReceiveFrom(Child& child) {
    KVD_TRY(const Report report, child.Receive());
    if (report.failed) return Fail(Code::kInternal, report.text);
    return report;
  }

  Result<Report> ReadInAnotherProcess() {
    KVD_TRY(Child reader, StartChild([this](const Client& client, const Child::Side& side) {
              const auto report = ReadNotebook(client, NotebookText(seed_, facts_));
              side.Send(report ? *report : FailedReport(report.error()));
            }));
    reader.Go();
    KVD_TRY(const Report report, ReceiveFrom(reader));
    reader.LetGo();
    return report;
  }

  // Runs eight processes at the same time. Returns the number of tokens of the questions and
  // answers of all eight processes.
  Result<std::uint64_t> AskAll(const wire::InfoReply& before, Score* score) {
    std::vector<Question> questions;
    std::vector<Child> askers;
    for (std::size_t i = 0; i < kAskerCount; ++i)
      questions.push_back(DrawQuestion(seed_, facts_, i));
    for (std::size_t i = 0; i < kAskerCount; ++i) {
      KVD_TRY(Child asker,
              StartChild([&questions, i](const Client& client, const Child::Side& side) {
                const auto answered = Ask(client, questions[i]);
                side.Send(answered ? answered->report : FailedReport(answered.error()));
                side.Hold();
              }));
      askers.push_back(std::move(asker));
    }
    for (Child& asker : askers) asker.Go();
    std::uint64_t computed = 0, reused = 0;
    std::size_t right = 0;
    for (std::size_t i = 0; i < kAskerCount; ++i) {
      KVD_TRY(const Report report, ReceiveFrom(askers[i]));
      const bool is_right = report.text == questions[i].answer;
      std::printf(
          "  %zu %-28s %-46s %s  reused %u, computed %2u, fork %5.1f us (seen by the process: %.0f "
          "us)\n",
          i + 1, questions[i].text.c_str(), report.text, is_right ? "right" : "WRONG",
          report.reused, report.computed, Micro(report.fork_ns), Micro(report.attach_ns));
      right += is_right;
      computed += report.computed;
      reused = report.reused;
    }
    KVD_TRY(const wire::InfoReply after, client_.Info());
    const std::uint64_t own_cells = after.live_cells - before.live_cells;
    const std::uint64_t separate_cells = kAskerCount * reused + own_cells;
    std::printf(
        "  cells: %llu before, %llu with eight processes (eight separate caches: %llu); of %llu "
        "bytes "
        "each\n",
        static_cast<unsigned long long>(before.live_cells),
        static_cast<unsigned long long>(after.live_cells),
        static_cast<unsigned long long>(separate_cells),
        static_cast<unsigned long long>(after.cell_bytes));
    std::printf(
        "  kvd's resident memory without the model file: %.2f MiB before, %.2f MiB with eight "
        "processes;\n"
        "  eight caches and eight copies of the weights would be %.2f MiB\n",
        Mib(ResidentBytes(before)), Mib(ResidentBytes(after)),
        Mib(separate_cells * after.cell_bytes + kAskerCount * after.weight_bytes));
    for (Child& asker : askers) asker.LetGo();
    score->right += right;
    score->asked += kAskerCount;
    return computed;
  }

  // Kills one more process in the middle of its answer; its cells become available again.
  Status KillOne() {
    KVD_TRY(const wire::InfoReply before, SettledInfo());
    KVD_TRY(Child talker, StartChild([](const Client& client, const Child::Side& side) {
              const Status status = Ramble(client, [&side] { side.Send(Report{}); });
              if (!status) side.Send(FailedReport(status.error()));
            }));
    talker.Go();
    KVD_TRY([[maybe_unused]] const Report started, ReceiveFrom(talker));
    KVD_TRY(const wire::InfoReply talking, client_.Info());
    const auto start = std::chrono::steady_clock::now();
    talker.Kill();
    for (;;) {
      KVD_TRY(const wire::InfoReply now, client_.Info());
      const auto waited = std::chrono::steady_clock::now() - start;
      // The killed process's computed tokens are retained as a prefix until the room is needed.
      if (RoomOf(now) == RoomOf(before)) {
        std::printf(
            "  one more was killed (SIGKILL) in the middle of its answer with %llu cells of its "
            "own: their room was available again after %.1f ms\n",
            static_cast<unsigned long long>(talking.live_cells - before.live_cells),
            std::chrono::duration<double, std::milli>(waited).count());
        return {};
      }
      if (waited > kCellsBackMax) {
        return Fail(Code::kInternal, "the killed process's room is not available again: room for ",
                    RoomOf(before), " cells before, for ", RoomOf(now), " now");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The last step of a killed process may run after the process has ended, and its tokens are
  // counted at the end of the step. WaitForSteps submits a token and waits for it, because that
  // token is computed in a later step.
  Status WaitForSteps() const {
    KVD_TRY(const Sequence sequence, client_.NewSequence());
    const TokenId token = 0;
    KVD_TRY([[maybe_unused]] const auto logits, sequence.Decode({&token, 1}, Pos{0}));
    return {};
  }

  // Reads the info when the sessions of the asking processes have ended.
  Result<wire::InfoReply> SettledInfo() {
    const auto deadline = std::chrono::steady_clock::now() + kCellsBackMax;
    for (;;) {
      KVD_TRY(const wire::InfoReply info, client_.Info());
      if (info.sessions == 1) return info;
      if (std::chrono::steady_clock::now() > deadline)
        return Fail(Code::kInternal, "the sessions of the asking processes did not end");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  const std::string& socket_path_;
  const Client& client_;
  const std::uint64_t seed_;
  const std::vector<Fact> facts_;
};

Status RunAll(const Flags& flags) {
  DaemonProcess::Options options{.kvd_path = flags.kvd_path, .arguments = {"-c", "16384"}};
  const std::string model = ModelPath(flags);
  if (!model.empty()) options.arguments.insert(options.arguments.end(), {"-m", model});
  KVD_TRY(DaemonProcess daemon, DaemonProcess::Start(options));
  std::printf("kvd %d serves %s in %s\n", static_cast<int>(daemon.pid()),
              model.empty() ? "its bundled model" : model.c_str(), daemon.folder().c_str());
  Score score;
  {
    KVD_TRY(const Client client,
            Client::Connect({.socket_path = daemon.socket_path(), .client_name = "kvd-demo"}));
    for (std::uint64_t seed = flags.seed; seed < flags.seed + flags.seed_count; ++seed) {
      std::fflush(stdout);  // without this call the children would print the buffered text again
      KVD_CHECK_OK(Demonstration(daemon.socket_path(), client, seed).Run(&score));
    }
  }
  KVD_CHECK_OK(daemon.Stop());
  const double share = static_cast<double>(score.right) / static_cast<double>(score.asked);
  std::printf(
      "%zu of %zu answers right (exact match); kvd has stopped and its directory is removed\n",
      score.right, score.asked);
  // A single seed asks too few questions for a limit of 90 % to be meaningful: one wrong answer is
  // allowed.
  const double wanted = flags.seed_count == 1 ? 1.0 - 1.0 / kAskerCount : kRightShareMin;
  if (share < wanted) return Fail(Code::kInternal, "too few right answers");
  return {};
}

}  // namespace
}  // namespace kvd::demo

int main(int argument_count, char** arguments) {
  // Without SIG_IGN, LetGo of a child that has already ended would end this process.
  ::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Eight processes share one context of a private kvd"};
  kvd::demo::Flags flags;
  app.add_option("--seed", flags.seed, "seed of the notebook and the questions")
      ->capture_default_str();
  app.add_option("--seeds", flags.seed_count, "number of seeds to run, starting with --seed")
      ->check(CLI::PositiveNumber);
  app.add_option("--kvd", flags.kvd_path, "the daemon to start");
  app.add_option("-m,--model", flags.model,
                 "hybrid (the bundled model with recurrent layers) or a file");
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  }
  const kvd::Status status = kvd::demo::RunAll(flags);
  if (status) return 0;
  std::fprintf(stderr, "kvd-demo: %s\n", status.error().message.c_str());
  return 1;
}
