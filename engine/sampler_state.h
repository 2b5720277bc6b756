// What a sequence keeps of the sampler that drew its last tokens, and its bytes in a saved state.
//
// A generation can go on with it: same parameters, same seed, next draw. The tokens that penalties
// look back at are no part of it: they are the sequence's own last ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampler.h"
#include "shm/error.h"
#include "shm/segment_layout.h"

namespace kvd {

struct KeptSampler {
  SamplerOptions options;  // without logprob_count, which is each request's own
  std::uint64_t draw_count = 0;
};

// As it is kept with a sequence in `meta`, but for its biases, and back. Errors: kCorrupt, naming
// the field; kUnsupported (its biases are not there). REQUIRES: the record is kept.
layout::SamplerRecord RecordOf(const SamplerOptions& options, std::uint64_t draw_count);
Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size);

std::vector<std::byte> EncodeSampler(const KeptSampler& kept);
// Errors: kCorrupt, naming the field; all of the bytes are looked at.
Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size);

}  // namespace kvd
