// AcquiredSequence: a sequence that a verb is about to change. The verb takes a retained sequence
// over for its caller, so that the sequence is not evicted during the request. If the verb fails
// without an effect, the sequence is given back to its previous owner as a retained sequence.
//
// Owner: the verb's handler (io thread), then the verb's computing request (engine thread). The
// memory outlives the AcquiredSequence.
#pragma once

#include <utility>

#include "engine/memory/memory.h"

namespace kvd {

class AcquiredSequence {
 public:
  // Creates an AcquiredSequence for a sequence that was not retained: GiveBack then has no effect.
  AcquiredSequence() = default;
  // `before`: the record of the sequence as it was before the caller took the sequence over.
  AcquiredSequence(Memory& memory, const SequenceInfo& before)
      : memory_(&memory), before_(before) {}
  AcquiredSequence(AcquiredSequence&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), before_(other.before_) {}
  AcquiredSequence& operator=(AcquiredSequence&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(before_, other.before_);
    return *this;
  }
  ~AcquiredSequence() { GiveBack(); }

  // Keep is called when the verb has succeeded: the caller keeps the sequence.
  void Keep() { memory_ = nullptr; }
  // GiveBack is called when the verb has failed without changing the sequence: the sequence is
  // retained again for its previous owner.
  void GiveBack() {
    if (memory_ == nullptr) return;
    // SetOwner returns kNotFound if the sequence was dropped in the meantime.
    (void)memory_->sequences().SetOwner(before_.handle, before_.owner, layout::kSequenceRetained,
                                        0);
    memory_ = nullptr;
  }

 private:
  Memory* memory_ = nullptr;
  SequenceInfo before_;
};

}  // namespace kvd
