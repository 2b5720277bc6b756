// SamplerStates: of each sequence the sampler that drew its last tokens, for generations that go on
// with it (wire::kResumeSampler) and for saved states.
//
// Owner: the service. Threads: any. A sequence's sampler is kept in the memory, in the commit of each
// token that a generation draws, and goes on to its forks. Here are those of this daemon, with the
// biases that have no room there: they do not outlive it but in a saved state.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/sampler_state.h"
#include "shm/mutex.h"

namespace kvd {

class SamplerStates {
 public:
  // The memory outlives it.
  SamplerStates(Memory& memory, std::uint32_t vocab_size)
      : memory_(memory), vocab_size_(vocab_size) {}

  void Put(SequenceHandle sequence, std::shared_ptr<const SamplerOptions> options,
           std::uint64_t draw_count);
  // Also in the memory, where no step has committed it.
  Status PutLoaded(SequenceHandle sequence, KeptSampler kept);
  // Errors: kNotFound (no generation has drawn from it), those of SamplerOf.
  Result<KeptSampler> Find(SequenceHandle sequence) const;
  // The forks of a sequence have what it has.
  void Inherit(SequenceHandle from, std::span<const SequenceHandle> forks);
  std::size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const SamplerOptions> options;
    std::uint64_t draw_count = 0;
  };
  void ForgetTheGone() KVD_REQUIRES(mutex_);

  Memory& memory_;
  const std::uint32_t vocab_size_;
  mutable Mutex mutex_;
  std::unordered_map<SequenceHandle, Entry> entries_ KVD_GUARDED_BY(mutex_);
  std::size_t forget_at_ KVD_GUARDED_BY(mutex_) = 64;  // entries
};

}  // namespace kvd
