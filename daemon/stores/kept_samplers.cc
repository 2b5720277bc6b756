// Dropping a sequence does not remove the sequence's entry. Handles are never reused, so the entry
// of a dropped sequence only uses memory. Entries of dropped sequences are removed when the number
// of entries is at least 64 and has doubled since the last removal.
#include "daemon/stores/kept_samplers.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvd {

void KeptSamplers::Put(SequenceHandle sequence, std::shared_ptr<const SamplerOptions> options,
                       const SamplerProgress& progress) {
  const MutexLock lock(mutex_);
  entries_.insert_or_assign(sequence, Entry{.options = std::move(options), .progress = progress});
  ForgetTheGone();
}

Status KeptSamplers::PutLoaded(SequenceHandle sequence, KeptSampler kept) {
  KVD_CHECK_OK(memory_.sequences().SetSampler(sequence,
                                              RecordOf(kept.options, kept.progress, kept.grammar)));
  Put(sequence, std::make_shared<const SamplerOptions>(std::move(kept.options)), kept.progress);
  return {};
}

Result<KeptSampler> KeptSamplers::Find(SequenceHandle sequence) const {
  KVD_TRY(const SequenceInfo info, memory_.sequences().Query(sequence));
  {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(sequence);
    if (found != entries_.end()) {
      return KeptSampler{
          .options = *found->second.options,
          .progress = found->second.progress,
          .grammar = {.hash = info.sampler.grammar_hash, .begin = info.sampler.grammar_begin}};
    }
  }
  if (info.sampler.flags != 0) return SamplerOf(info.sampler, vocab_size_);
  return Fail(Code::kNotFound, "no generation has drawn from sequence ",
              static_cast<std::uint64_t>(sequence));
}

void KeptSamplers::Inherit(SequenceHandle from, std::span<const SequenceHandle> forks) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(from);
  if (found == entries_.end()) return;
  const Entry entry = found->second;
  for (const SequenceHandle fork : forks) entries_.insert_or_assign(fork, entry);
  ForgetTheGone();
}

std::size_t KeptSamplers::size() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

void KeptSamplers::ForgetTheGone() {
  if (entries_.size() < forget_at_) return;
  std::erase_if(entries_,
                [this](const auto& entry) { return !memory_.sequences().Query(entry.first); });
  forget_at_ = std::max<std::size_t>(64, 2 * entries_.size());
}

}  // namespace kvd
