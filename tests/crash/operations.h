// Operations: every kind of change that a memory knows, each on sequences that it makes for it and
// drops again, with the instructions of the change itself inside a window that a tracer sees.
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

// Cells in attention alone; in a window, with recurrent states, checkpoints and logits; with the
// cells of an encoded text.
enum class MemoryKind : std::uint8_t { kAttention, kHybrid, kEncoder };
inline constexpr std::size_t kMemoryKinds = 3;
MemoryOptions OptionsOf(MemoryKind kind);
bool Has(MemoryKind memory, OperationKind kind);

// Lies in memory that tracer and traced share. The traced process writes it.
struct StepWindow {
  std::atomic<std::uint32_t> is_open;  // the next instructions are those of an operation
  OperationKind kind;
  bool changes_something;         // it will, if all is right
  std::array<char, 200> failure;  // what an operation answered that it should not have
};

class Operations {
 public:
  Operations(Memory& memory, MemoryKind kind, std::uint64_t seed, StepWindow& window);

  // Ends the process (status 3, words in the window) where an operation is refused.
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
  // The next edit takes the place of one that is committed.
  void FillHistory(SequenceHandle handle);
  std::vector<TokenId> Tokens(std::size_t count);
  void Append(SequenceHandle handle, std::size_t count, std::uint32_t key_form = 0);
  void Encode(SequenceHandle handle);
  void Fill(const StepSequence& part);
  // The cells of a restore, without its state and logits.
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
  SequenceHandle base_{};  // always there
  std::vector<TokenId> base_tokens_;
  std::uint64_t last_request_ = 0;
  TokenId last_token_ = 0;
};

}  // namespace kvd::test
