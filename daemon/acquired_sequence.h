// AcquiredSequence: a sequence that a verb is about to change. A retained one is its caller's from then
// on, so that it is not evicted meanwhile; if the verb fails it is what it was.
//
// Owner: the verb (io thread), then its computing request (engine thread). The memory outlives it.
#pragma once

#include <utility>

#include "engine/memory/memory.h"

namespace kvd {

class AcquiredSequence {
 public:
  AcquiredSequence() = default;  // of a sequence that was not retained: nothing is to be given back
  // It was like that before it was taken over.
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

  // The verb has succeeded.
  void Keep() { memory_ = nullptr; }
  // The verb has failed, and left nothing.
  void GiveBack() {
    if (memory_ == nullptr) return;
    // kNotFound: dropped meanwhile.
    (void)memory_->sequences().SetOwner(before_.handle, before_.owner, layout::kSequenceRetained,
                                        0);
    memory_ = nullptr;
  }

 private:
  Memory* memory_ = nullptr;
  SequenceInfo before_;
};

}  // namespace kvd
