// What a generation starts from: the draws of an earlier attempt, or the last row of its sequence.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "engine/memory/memory.h"

namespace kvd {

// ResumedDraws: the tokens that an earlier attempt of a generation has drawn, which the retried
// generation reads again one after the other.
//
// Invariant: at most as many tokens were received as were drawn. All tokens are committed, except
// the last one if is_last_open() is true; the client has then received all of them, and at most one
// committed token is removed.
//
// Owner: the generation. Only the engine thread uses a ResumedDraws.

// The point from which a retried generation resumes: the tokens that the earlier attempt has
// committed, and the number of these tokens that the client has received.
struct GenerationResumption {
  std::size_t prompt_done = 0;
  // The tokens that the earlier attempt has drawn, in order. All tokens of `drawn` are committed,
  // except the last one if is_last_drawn is true.
  std::vector<TokenId> drawn;
  bool is_last_drawn = false;
  std::size_t streamed = 0;  // number of tokens of `drawn` that the client has received
  // The number of last cells that are computed again, because the logits after their tokens were
  // lost. With is_last_drawn: at most 1, and the sampler adapts to the last token of `drawn`.
  std::size_t take_back = 0;
  // True: the last committed token has no cell, because the sequence has given it back, and is
  // computed with its row of logits; take_back is 0.
  bool lacks_last = false;
};

class ResumedDraws {
 public:
  explicit ResumedDraws(GenerationResumption from) : from_(std::move(from)) {
    KVD_ASSERT(from_.streamed <= from_.drawn.size());
    KVD_ASSERT(
        !from_.is_last_drawn ||
        (!from_.drawn.empty() && from_.streamed == from_.drawn.size() && from_.take_back <= 1));
  }

  struct Draw {
    TokenId token = 0;
    bool is_open = false;      // the token is not committed
    bool is_received = false;  // the client has received the token
  };
  bool has_next() const { return read_ < from_.drawn.size(); }
  // Returns the next token. REQUIRES: has_next().
  Draw Next() {
    KVD_ASSERT(has_next());
    const TokenId token = from_.drawn[read_++];
    return {.token = token,
            .is_open = from_.is_last_drawn && !has_next(),
            .is_received = read_ <= from_.streamed};
  }
  // Returns whether the last token was drawn and received, but not committed.
  bool is_last_open() const { return from_.is_last_drawn; }
  // Returns the last drawn token. REQUIRES: is_last_open().
  TokenId last() const { return from_.drawn.back(); }
  // Returns the last drawn token that is committed; nullopt: there is none.
  std::optional<TokenId> last_committed() const {
    const std::size_t committed = from_.drawn.size() - (from_.is_last_drawn ? 1 : 0);
    if (committed == 0) return std::nullopt;
    return from_.drawn[committed - 1];
  }
  // Returns the number of last cells that are removed and computed again.
  std::size_t take_back() const { return from_.take_back; }
  bool lacks_last() const { return from_.lacks_last; }

 private:
  const GenerationResumption from_;
  std::size_t read_ = 0;  // number of tokens that Next has returned
};

// LastRow: the row of logits after the last token of a sequence, for a generation that draws its
// first token from it: the row is kept, or computed again on a fork of the sequence.
//
// Owner: the generation. Only the engine thread uses a LastRow, after the handler has made it.
// Invariant: a LastRow does not change the sequence; it has either a kept row, or a fork without
// the sequence's last token, or nothing.

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
