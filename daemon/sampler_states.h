// SamplerStates: of each sequence the sampler that drew its last tokens, for generations that go on
// with it (wire::kResumeSampler) and for saved states.
//
// Owner: the service. Threads: any. A sequence's sampler is put here with each token that a
// generation has committed, goes on to its forks, and is forgotten some time after the sequence is
// gone. It does not outlive the daemon but in a saved state.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/sampler_state.h"

namespace kvd {

class SamplerStates {
 public:
  // The memory outlives it.
  explicit SamplerStates(const Memory& memory) : memory_(memory) {}

  void Put(SequenceHandle sequence, std::shared_ptr<const SamplingParams> params,
           std::uint64_t draw_count);
  std::optional<KeptSampler> Find(SequenceHandle sequence) const;
  // The forks of a sequence have what it has.
  void Inherit(SequenceHandle from, std::span<const SequenceHandle> forks);
  std::size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const SamplingParams> params;
    std::uint64_t draw_count = 0;
  };
  // REQUIRES: mutex_ held.
  void ForgetTheGone();

  const Memory& memory_;
  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<SequenceHandle, Entry> entries_;
  std::size_t forget_at_ = 64;  // entries
};

}  // namespace kvd
