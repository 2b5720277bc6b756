// Kills recovery before and after each system call that touches a file, then kills the recovery of
// that, and lets the third one end. After that no stream is lost, except by the rules.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/http/jobs/stream_folder.h"
#include "tests/http/jobs/traced_child.h"
#include "tests/support/test_scale.h"

namespace kvd::test {
namespace {

namespace fs = std::filesystem;
using http::Request;
using http::Responder;

constexpr int kDied = 9;  // the exit status of a process that its request has ended

// What the processes count; shared by them.
struct Counts {
  std::atomic<int> poison_runs = 0;
};

class RecoveryKillTest : public ::testing::Test {
 protected:
  RecoveryKillTest() {
    void* const shared =
        ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(shared, MAP_FAILED);
    counts_ = new (shared) Counts();
  }
  ~RecoveryKillTest() override { ::munmap(counts_, sizeof(Counts)); }

  // The folder as the first start finds it: streams in flight and waiting, one whose request ends
  // the process, one that has ended it twice, one that is over, and damaged files.
  void Prepare() {
    folder_.Clear();
    counts_->poison_runs = 0;
    folder_.Put({.id = "flight", .pieces = 1, .is_started = true});
    folder_.Put({.id = "blamed", .pieces = 2, .attempts = 1, .is_started = true});
    folder_.Put({.id = "waiting"});
    folder_.Put({.id = "torn", .pieces = 1});
    folder_.PutBytes(fs::path(folder_.PathOf("torn")).filename().string(), "the start of a rec");
    folder_.Put({.id = "poison", .path = "/poison"});
    folder_.Put({.id = "bad", .path = "/poison", .attempts = 2});
    folder_.Put({.id = "over", .pieces = 3, .is_over = true});
    folder_.PutBytes("cut.journal", "no");
  }

  // The work of a process: recovers everything.
  int Recover() const {
    (void)::dup2(null_.get(), STDERR_FILENO);  // the log of thousands of processes
    JobsProcess process(folder_.path());
    process.Add(
        "/poison",
        [this](const Request&, const std::vector<std::string>&, Responder&) -> http::Await<void> {
          ++counts_->poison_runs;
          ::_exit(kDied);
        });
    process.Recover();
    return 0;
  }
  TracedEnd Run(std::optional<std::size_t> kill_at) {
    return RunTraced([this] { return Recover(); }, kill_at);
  }
  // Starts until a process has recovered everything. Returns the number of starts.
  int RunToTheEnd() {
    for (int starts = 1; starts < 10; ++starts) {
      const int status = RunForked([this] { return Recover(); });
      if (status == 0) return starts;
      EXPECT_EQ(status, kDied);
    }
    return -1;
  }

  // `kills`: how many there were.
  void CheckStreams(int kills) {
    for (const std::string id : {"flight", "blamed", "waiting", "torn", "over"}) {
      SCOPED_TRACE(id);
      EXPECT_NE(folder_.Has(id), folder_.Has(id, "bad"));
      if (folder_.Has(id)) {
        EXPECT_EQ(folder_.ReplyIn(id), StreamFolder::kReply);
        continue;
      }
      // Only kills that hit its own attempts may cost a stream.
      EXPECT_EQ(folder_.Read(id, "bad")->attempts(), 2u);
      EXPECT_GE(kills, id == "blamed" ? 1 : 2);
      EXPECT_NE(id, "over");
    }
    for (const std::string id : {"poison", "bad"}) {
      SCOPED_TRACE(id);
      EXPECT_FALSE(folder_.Has(id));
      EXPECT_TRUE(folder_.Has(id, "bad"));
      EXPECT_EQ(folder_.Read(id, "bad")->attempts(), 2u);
    }
    EXPECT_LE(counts_->poison_runs, 2);
    EXPECT_EQ(folder_.Files().size(), 7u);
    for (const std::string& name : folder_.Files()) {
      EXPECT_TRUE(name.ends_with(".journal") || name.ends_with(".bad")) << name;
    }
  }
  // Kills at the boundaries in turn, and recovers. Returns false if a process came to its end
  // before its boundary.
  bool KillAndCheck(const std::vector<std::size_t>& boundaries) {
    Prepare();
    std::string trace = "killed at";
    for (const std::size_t boundary : boundaries) {
      trace += " " + std::to_string(boundary);
      if (!Run(boundary).is_killed) return false;
    }
    SCOPED_TRACE(trace);
    EXPECT_GT(RunToTheEnd(), 0);
    CheckStreams(static_cast<int>(boundaries.size()));
    return true;
  }

  StreamFolder folder_;
  UniqueFd null_{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Counts* counts_ = nullptr;
};

TEST_F(RecoveryKillTest, ARequestThatEndsTheProcessTwiceIsSetAsideAtTheThirdStart) {
  Prepare();
  if (!Run(std::nullopt).is_allowed) GTEST_SKIP() << "this machine does not allow ptrace";
  Prepare();
  EXPECT_EQ(RunToTheEnd(), 3);
  EXPECT_EQ(counts_->poison_runs, 2);
  CheckStreams(0);
}

TEST_F(RecoveryKillTest, EachKillLosesAtMostTheRunningStream) {
  Prepare();
  const TracedEnd whole = Run(std::nullopt);
  if (!whole.is_allowed) GTEST_SKIP() << "this machine does not allow ptrace";
  EXPECT_GT(whole.boundaries, 100u);
  std::size_t kills = 0;
  for (std::size_t n = 0; !HasFailure(); n += Stride(7)) {
    if (!KillAndCheck({n})) break;
    ++kills;
  }
  EXPECT_GE(kills * Stride(7) + 8, whole.boundaries);
  RecordProperty("kills", static_cast<int>(kills));
}

TEST_F(RecoveryKillTest, AKillDuringRecoveryLosesNoFurtherStream) {
  Prepare();
  const TracedEnd whole = Run(std::nullopt);
  if (!whole.is_allowed) GTEST_SKIP() << "this machine does not allow ptrace";
  std::mt19937_64 random(Seed());
  const auto draw = [&] { return static_cast<std::size_t>(random() % whole.boundaries); };
  const int rows = Scaled(1);
  for (int i = 0; i < rows && !HasFailure(); ++i) {
    const std::size_t first = draw();
    const std::size_t second = draw();
    for (std::size_t m = 0; m < whole.boundaries && !HasFailure(); m += Stride(9)) {
      (void)KillAndCheck({first, m});
      (void)KillAndCheck({m, second});
    }
  }
  for (int i = 0; i < Scaled(150) && !HasFailure(); ++i) (void)KillAndCheck({draw(), draw()});
}

}  // namespace
}  // namespace kvd::test
