// LastRow: the row of logits after the last token of a sequence, for a generation that draws its
// first token from it: the row is kept, or computed again on a fork of the sequence.
//
// Owner: the generation. Only the engine thread uses a LastRow, after the handler has made it.
// Invariant: a LastRow does not change the sequence; it has either a kept row, or a fork without
// the sequence's last token, or nothing.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "engine/engine.h"
#include "engine/memory/memory.h"

namespace kvd {

// A ScratchSequence owns a sequence that is dropped when the ScratchSequence is destroyed.
class ScratchSequence {
 public:
  ScratchSequence() = default;
  // The memory outlives the ScratchSequence.
  ScratchSequence(Memory& memory, SequenceHandle handle) : memory_(&memory), handle_(handle) {}
  ScratchSequence(ScratchSequence&& other) noexcept
      : memory_(other.memory_), handle_(std::exchange(other.handle_, SequenceHandle::kNone)) {}
  ScratchSequence& operator=(ScratchSequence&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~ScratchSequence() { Drop(); }

  // Returns the sequence; kNone: there is no sequence.
  SequenceHandle handle() const { return handle_; }
  void Drop() {
    const SequenceHandle handle = std::exchange(handle_, SequenceHandle::kNone);
    if (handle != SequenceHandle::kNone) (void)memory_->sequences().Drop(handle);
  }

 private:
  Memory* memory_ = nullptr;
  SequenceHandle handle_ = SequenceHandle::kNone;
};

class LastRow {
 public:
  LastRow() = default;  // has nothing
  // `kept`: the row. REQUIRES: it is not empty.
  explicit LastRow(std::vector<float> kept) : kept_(std::move(kept)) {}
  // `fork`: the sequence without its last token, `token`, which has the position `pos`.
  LastRow(ScratchSequence fork, TokenId token, Pos pos)
      : fork_(std::move(fork)), token_(token), pos_(pos) {}

  bool exists() const { return is_kept() || is_on_fork(); }
  bool is_kept() const { return !kept_.empty(); }
  // Returns whether the last token must be computed on the fork.
  bool is_on_fork() const { return fork_.handle() != SequenceHandle::kNone; }
  // Takes the kept row. REQUIRES: is_kept().
  std::vector<float> Take() { return std::exchange(kept_, {}); }
  // Sets the sequence, the token and the position of the item that computes the row. REQUIRES:
  // is_on_fork(); the LastRow outlives the step.
  void Fill(StepItem& item) const {
    item.sequence = fork_.handle();
    item.pos = pos_;
    item.tokens = std::span(&token_, 1);
  }
  // Drops the fork, after its step.
  void DropFork() { fork_.Drop(); }

 private:
  std::vector<float> kept_;
  ScratchSequence fork_;
  TokenId token_ = 0;
  Pos pos_{};
};

}  // namespace kvd
