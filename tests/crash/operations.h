// Operations: runs every kind of change of a memory, for single_step. Each operation creates the
// sequences that it needs and drops them afterwards. A flag in shared memory (StepWindow) tells the
// tracer which instructions belong to the change itself.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/memory/memory.h"

namespace kvd::test {

enum class OperationKind : std::uint8_t {
  kCreate,
  kFork,
  kDrop,
  kDropAll,
  kKeep,
  kRemove,
  kClear,
  kCopy,
  kShift,
  kDivide,
  kSettle,
  kChangeForm,
  kDefragment,
  kSetOwner,
  kPublish,
  kReplace,
  kUnpublish,
  kReserve,
  kCommit,
  kEncode,
  kCheckpoint,
  kLogits,
  kRewind,
  kRestore,
  kOpenSession,
  kCloseSession,
  kRemember,
  kTakePrefix,
  kRetain,
  kEvict,
};
inline constexpr std::size_t kOperationKinds = 30;
const char* NameOf(OperationKind kind);

// kAttention: one full-attention group. kHybrid: full attention, a window group, recurrent states,
// checkpoints and logits. kEncoder: full attention and encoded texts.
enum class MemoryKind : std::uint8_t { kAttention, kHybrid, kEncoder };
inline constexpr std::size_t kMemoryKinds = 3;
MemoryOptions OptionsOf(MemoryKind kind);
bool Has(MemoryKind memory, OperationKind kind);

// Tells the tracer what the traced process does. A StepWindow is in memory that the tracer and the
// traced process share; only the traced process writes it.
struct StepWindow {
  std::atomic<std::uint32_t> is_open;  // 1: the next instructions belong to an operation
  OperationKind kind;
  bool changes_something;         // a successful operation changes the recovered state
  std::array<char, 200> failure;  // error message of a failed operation; empty: none
};

class Operations {
 public:
  Operations(Memory& memory, MemoryKind kind, std::uint64_t seed, StepWindow& window);

  // Runs one operation of the kind. If a call fails, writes the error to the window and exits the
  // process with status 3.
  void Run(OperationKind kind);

 private:
  template <class Change>
  void Step(OperationKind kind, Change change, bool changes_something = true);
  void Must(const Status& status);
  template <class T>
  T Must(Result<T> result);

  std::uint32_t In(std::uint32_t least, std::uint32_t most);
  RequestTag Applied();
  layout::SamplerRecord Sampler();
  SequenceHandle Make(std::size_t cells, std::uint32_t key_form = 0);
  SequenceHandle ForkOf(SequenceHandle source, SequenceOwner owner);
  // Edits the sequence until its history is full, so that the next edit overwrites a committed one.
  void FillHistory(SequenceHandle handle);
  std::vector<TokenId> Tokens(std::size_t count);
  void Append(SequenceHandle handle, std::size_t count, std::uint32_t key_form = 0);
  void Encode(SequenceHandle handle);
  void Fill(const StepSequence& part);
  // Writes the bytes of the restored cells, but not those of the state and the logits.
  void FillRestored(const Restore& restore, std::span<const TokenId> tokens,
                    std::span<const TokenId> cross);
  void Forget(std::span<const SequenceHandle> handles);
  void Forget(SequenceHandle handle) { Forget({&handle, 1}); }

  void RunRemove();
  void RunCopy();
  Result<std::uint32_t> DivideInSlices(SequenceHandle sequence, CellRotator& rotator,
                                       const RequestTag& applied);
  void RunDivide();
  void RunDefragment();
  void RunAppend();
  void RunTakePrefix();
  void RunRetained();
  void RunRewind();
  void RunRestore();

  Memory& memory_;
  const MemoryKind kind_;
  std::mt19937_64 random_;
  StepWindow& window_;
  SequenceHandle base_{};  // a sequence of 70 cells that is never changed or dropped
  std::vector<TokenId> base_tokens_;
  std::uint64_t last_request_ = 0;
  TokenId last_token_ = 0;
};

}  // namespace kvd::test
