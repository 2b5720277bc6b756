// KeptSamplers: for each sequence, the sampler that drew its last tokens. Generations that resume
// with that sampler (wire::kResumeSampler) and saved states use it.
//
// Owner: the service. Any number of threads may use the KeptSamplers. The memory records a
// sequence's sampler with the commit of each drawn token, and forks inherit it. A KeptSamplers
// holds the samplers that were used since the daemon's start, with their logit biases and DRY's own
// breakers, for which the memory's records have no room. Both therefore survive the daemon only in
// saved states.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "engine/memory/memory.h"
#include "engine/sampling/kept_sampler.h"

namespace kvd {

class KeptSamplers {
 public:
  // The memory outlives the KeptSamplers.
  KeptSamplers(Memory& memory, std::uint32_t vocab_size)
      : memory_(memory), vocab_size_(vocab_size) {}

  void Put(SequenceHandle sequence, std::shared_ptr<const SamplerOptions> options,
           const SamplerProgress& progress);
  // Stores a sampler that was loaded from a saved state, both in this object and in the memory's
  // record of the sequence.
  Status PutLoaded(SequenceHandle sequence, KeptSampler kept);
  // The grammar is that of the memory's record, which follows the edits of the sequence. Errors:
  // kNotFound (no generation has drawn tokens of the sequence), and the errors of SamplerOf.
  Result<KeptSampler> Find(SequenceHandle sequence) const;
  // Gives the forks the sampler of the sequence `from`.
  void Inherit(SequenceHandle from, std::span<const SequenceHandle> forks);
  std::size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const SamplerOptions> options;
    SamplerProgress progress;
  };
  void ForgetTheGone() KVD_REQUIRES(mutex_);

  Memory& memory_;
  const std::uint32_t vocab_size_;
  mutable Mutex mutex_;
  std::unordered_map<SequenceHandle, Entry> entries_ KVD_GUARDED_BY(mutex_);
  // number of entries at which the entries of dropped sequences are removed next
  std::size_t forget_at_ KVD_GUARDED_BY(mutex_) = 64;
};

}  // namespace kvd
