// Runs operations of engine/memory one instruction at a time and recovers the memory after each
// instruction, like a process that starts after a SIGKILL at this instruction. Up to some
// instruction of an operation, the recovered state must be the state before the operation, and from
// that instruction on the state after the operation.
//
//   single_step [--boundaries N] [--per-kind N] [--expect-violations]
//
// A forked child runs the operations under ptrace; parent and child both map the segments. The
// parent recovers from a copy of `meta`, and only after instructions that have changed a byte of
// the segments, because equal bytes recover to the same state. Exit status: 0: as expected; 1:
// violations (with --expect-violations: none) were found; 2: bad usage; 77: the machine does not
// allow ptrace.
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "engine/memory/memory.h"
#include "tests/crash/operations.h"
#include "tests/crash/recovered_state.h"
#include "tests/support/test_scale.h"

namespace kvd::test {
namespace {

// watched bytes of the commit area; writing beyond them is a violation
constexpr std::size_t kRecordBytes = 16384;

struct Limits {
  std::uint64_t boundaries = 300'000;
  std::uint64_t per_kind = 10'000;
  bool expects_violations = false;
};

struct Counts {
  std::array<std::uint64_t, kOperationKinds> boundaries{};
  std::array<std::uint64_t, kOperationKinds> operations{};
  std::uint64_t total = 0;
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;

  bool Wants(OperationKind kind, const Limits& limits) const {
    return total < limits.boundaries ||
           boundaries[static_cast<std::size_t>(kind)] < limits.per_kind;
  }
};

struct Range {
  const std::byte* from = nullptr;
  std::size_t byte_count = 0;
};

// A copy of the segments' bytes as of the last call of TakeChanges.
class Shadow {
 public:
  explicit Shadow(Memory& memory)
      : memory_(memory),
        live_(memory.meta_bytes()),
        copy_(static_cast<std::byte*>(std::aligned_alloc(64, live_.size()))),
        scratch_(static_cast<std::byte*>(std::aligned_alloc(64, live_.size()))) {
    const MetaOffsets& offsets = memory.geometry().offsets;
    watched_ = {{live_.data(), sizeof(layout::MetaHeader)},
                {live_.data() + offsets.commit, kRecordBytes},
                {live_.data() + offsets.sequences, live_.size() - offsets.sequences}};
    const layout::MetaGeometry& geometry = memory.geometry().meta;
    for (std::uint32_t group = 0; group < geometry.group_count; ++group) {
      for (std::uint32_t block = 0; block < geometry.block_count[group]; ++block) {
        pool_.push_back({memory.BlockBytes(group, BlockId{block}),
                         memory.geometry().groups[group].block_bytes});
      }
    }
    for (std::uint32_t slot = 0; slot < geometry.state_slot_count; ++slot) {
      pool_.push_back({memory.StateBytes(slot), 64});
    }
    for (std::uint32_t slot = 0; slot < geometry.logits_row_count; ++slot) {
      pool_.push_back({memory.LogitsBytes(slot), 64});
    }
    for (const Range& range : pool_) pool_copy_.resize(pool_copy_.size() + range.byte_count);
    std::memcpy(copy_.get(), live_.data(), live_.size());
    std::memcpy(scratch_.get(), live_.data(), live_.size());
    (void)TakeChanges();
  }

  // Copies the watched bytes and the pool. Returns whether any byte has changed since the last
  // call.
  bool TakeChanges() {
    bool changed = false;
    for (const Range& range : watched_) changed |= Take(range, copy_.get() + OffsetOf(range));
    std::byte* to = pool_copy_.data();
    for (const Range& range : pool_) {
      changed |= Take(range, to);
      to += range.byte_count;
    }
    return changed;
  }
  RecoveredState Recover() {
    for (const Range& range : watched_) {
      const std::size_t offset = OffsetOf(range);
      std::memcpy(scratch_.get() + offset, copy_.get() + offset, range.byte_count);
    }
    return RecoverState(
        MetaView(scratch_.get(), memory_.geometry().offsets, memory_.geometry().meta), memory_);
  }
  // Returns whether all written bytes of `meta` are watched bytes.
  bool SawEverything() const { return std::memcmp(copy_.get(), live_.data(), live_.size()) == 0; }

 private:
  std::size_t OffsetOf(const Range& range) const {
    return static_cast<std::size_t>(range.from - live_.data());
  }
  static bool Take(const Range& range, std::byte* copy) {
    if (std::memcmp(copy, range.from, range.byte_count) == 0) return false;
    std::memcpy(copy, range.from, range.byte_count);
    return true;
  }
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };

  Memory& memory_;
  std::span<const std::byte> live_;
  std::unique_ptr<std::byte, Free> copy_;
  std::unique_ptr<std::byte, Free> scratch_;
  std::vector<Range> watched_;
  std::vector<Range> pool_;
  std::vector<std::byte> pool_copy_;
};

// Runs one child process with one memory and single-steps its operations.
class Episode {
 public:
  Episode(MemoryKind kind, std::uint64_t seed, const Limits& limits, Counts* counts)
      : kind_(kind), seed_(seed), limits_(limits), counts_(counts) {
    const Result<MemoryGeometry> geometry = ComputeGeometry(OptionsOf(kind));
    Result<MemorySegments> segments = MemorySegments::CreateAnonymous(*geometry);
    memory_ = Memory::Create(std::move(*segments));
    void* const shared = ::mmap(nullptr, 2 * sizeof(StepWindow), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) throw std::bad_alloc();
    window_ = new (shared) StepWindow();
  }
  ~Episode() { ::munmap(window_, 2 * sizeof(StepWindow)); }
  Episode(const Episode&) = delete;
  Episode& operator=(const Episode&) = delete;

  // Returns false if the machine does not allow ptrace.
  bool Run() {
    const pid_t child = ::fork();
    if (child == 0) Operate();
    child_ = child;
    if (child < 0) return false;
    int status = WaitForChild();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return false;
    (void)::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_EXITKILL);
    Shadow shadow(*memory_);
    while (!WIFEXITED(status) && !WIFSIGNALED(status)) {
      if (window_->is_open.load() != 0 && WSTOPSIG(status) == SIGTRAP) {
        status = StepThrough(shadow);
        if (!WIFSTOPPED(status)) break;
        if (limits_.expects_violations && counts_->violations != 0) {  // one violation is enough
          ::kill(child, SIGKILL);
          (void)WaitForChild();
          return true;
        }
      }
      Resume(PTRACE_CONT, status);
      status = WaitForChild();
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      Violation("the operations ended with status " + std::to_string(status) + ": " +
                window_->failure.data());
    }
    return true;
  }

 private:
  [[noreturn]] void Operate() {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    Operations operations(*memory_, kind_, seed_, *window_);
    for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
      const auto operation = static_cast<OperationKind>(kind);
      if (Has(kind_, operation) && counts_->Wants(operation, limits_)) operations.Run(operation);
    }
    ::_exit(0);
  }

  int WaitForChild() const {
    int status = 0;
    while (::waitpid(child_, &status, 0) != child_) {
      if (errno != EINTR) return 0x7f;
    }
    return status;
  }
  // Resumes the child and delivers its pending signal, except for SIGTRAP and SIGSTOP, which this
  // tool causes.
  void Resume(decltype(PTRACE_CONT) request, int status) const {
    const int signal = WSTOPSIG(status);
    const long passed = signal == SIGTRAP || signal == SIGSTOP ? 0 : signal;
    (void)::ptrace(request, child_, nullptr, passed);
  }

  int StepThrough(Shadow& shadow) {
    const OperationKind kind = window_->kind;
    const auto number = static_cast<std::size_t>(kind);
    (void)shadow.TakeChanges();
    const RecoveredState before = shadow.Recover();
    if (!before.problem.empty()) Violation("before the operation: " + before.problem);
    // the different states in the order of their occurrence
    std::vector<RecoveredState> found = {before};
    std::uint64_t boundary = 0;
    int status = SIGTRAP << 8 | 0x7f;
    while (true) {
      Resume(PTRACE_SINGLESTEP, status);
      status = WaitForChild();
      if (!WIFSTOPPED(status) || window_->is_open.load() == 0) break;
      ++boundary;
      if (!shadow.TakeChanges()) continue;
      ++counts_->recoveries;
      RecoveredState now = shadow.Recover();
      if (!now.problem.empty()) {
        Violation("after instruction " + std::to_string(boundary) + ": " + now.problem);
        continue;
      }
      if (now.text != found.back().text) found.push_back(std::move(now));
    }
    counts_->total += boundary;
    counts_->boundaries[number] += boundary;
    ++counts_->operations[number];
    (void)shadow.TakeChanges();
    const RecoveredState after = shadow.Recover();
    if (after.text != found.back().text)
      Violation("the last instruction of the operation changed the recovered state");
    if (window_->changes_something && after.text == before.text) {
      Violation("the operation succeeded, but the recovered state has not changed");
    }
    if (found.size() > 2) {
      Violation("a recovered state is neither that before nor that after the operation:\n" +
                found[1].text + "before:\n" + before.text + "after:\n" + after.text);
    }
    if (!shadow.SawEverything()) Violation("the operation wrote bytes that are not watched");
    return status;
  }

  void Violation(const std::string& what) {
    if (++counts_->violations > 3 && !limits_.expects_violations) return;
    if (counts_->violations > 3) return;
    std::printf("VIOLATION in %s (memory kind %d, seed %llu): %s\n", NameOf(window_->kind),
                static_cast<int>(kind_), static_cast<unsigned long long>(seed_), what.c_str());
  }

  const MemoryKind kind_;
  const std::uint64_t seed_;
  const Limits& limits_;
  Counts* const counts_;
  std::unique_ptr<Memory> memory_;
  StepWindow* window_ = nullptr;
  pid_t child_ = -1;
};

bool IsDone(const Counts& counts, const Limits& limits) {
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    if (counts.boundaries[kind] < limits.per_kind) return false;
  }
  return counts.total >= limits.boundaries;
}

int Run(const Limits& limits) {
  const auto start = std::chrono::steady_clock::now();
  Counts counts;
  for (std::uint64_t seed = 1; !IsDone(counts, limits); ++seed) {
    Episode episode(static_cast<MemoryKind>(seed % kMemoryKinds), seed, limits, &counts);
    if (!episode.Run()) {
      std::puts("skipped: this machine does not allow ptrace");
      return 77;
    }
    if (counts.violations != 0 && (limits.expects_violations || counts.violations > 3)) break;
  }
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind) {
    std::printf("%-14s %8llu boundaries in %4llu operations\n",
                NameOf(static_cast<OperationKind>(kind)),
                static_cast<unsigned long long>(counts.boundaries[kind]),
                static_cast<unsigned long long>(counts.operations[kind]));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%llu instruction boundaries, %llu recoveries, %llu violations, %.1f s\n",
              static_cast<unsigned long long>(counts.total),
              static_cast<unsigned long long>(counts.recoveries),
              static_cast<unsigned long long>(counts.violations), seconds.count());
  if (limits.expects_violations) std::puts("violations are expected: a broken commit is tested");
  return (counts.violations != 0) == limits.expects_violations ? 0 : 1;
}

std::optional<Limits> ParseLimits(std::span<char*> arguments) {
  Limits limits;
  if (const double scale = test::TestScale(); scale != 1.0) {
    limits.boundaries = static_cast<std::uint64_t>(300'000 * scale);
    limits.per_kind = static_cast<std::uint64_t>(10'000 * scale);
  }
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    if (name == "--expect-violations") {
      limits.expects_violations = true;
    } else if ((name == "--boundaries" || name == "--per-kind") && i + 1 < arguments.size()) {
      (name == "--boundaries" ? limits.boundaries : limits.per_kind) =
          std::strtoull(arguments[++i], nullptr, 10);
    } else {
      return std::nullopt;
    }
  }
  return limits;
}

}  // namespace
}  // namespace kvd::test

int main(int argument_count, char** arguments) {
  const auto limits = kvd::test::ParseLimits({arguments, static_cast<std::size_t>(argument_count)});
  if (!limits) {
    std::fputs("single_step [--boundaries N] [--per-kind N] [--expect-violations]\n", stderr);
    return 2;
  }
  return kvd::test::Run(*limits);
}
