// KeptSampler: the state of the sampler that drew a sequence's last tokens, as it is kept with the
// sequence and in a saved state.
//
// A later generation that resumes with this state has the same parameters and the same seed, and
// continues with the next draw and the adaptation of mirostat and adaptive-p. The tokens that
// penalties and DRY consider are not part of the state, because they are the sequence's last
// tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/sampling/sampler.h"
#include "shm/segment_layout.h"

namespace kvd {

struct KeptSampler {
  SamplerOptions options;  // without logprob_count, which each request sets
  SamplerProgress progress;
};

// Converts to and from the record that `meta` keeps with a sequence. The record contains neither
// biases nor DRY's own breakers, only flags that the sampler had some. Errors: kCorrupt (names the
// field); kUnsupported (the sampler had biases or own breakers). REQUIRES: the record's flag
// kSamplerKept is set.
layout::SamplerRecord RecordOf(const SamplerOptions& options, const SamplerProgress& progress);
Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size);

// The bytes have a version. DecodeSampler also reads the bytes of version 2, whose samplers have
// the default chain, DRY's default breakers and no adaptation. Errors: kCorrupt (names the field).
// Extra bytes are an error.
std::vector<std::byte> EncodeSampler(const KeptSampler& kept);
Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size);

}  // namespace kvd
