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

// The grammar that held the draws, if there was one. Its text is not kept: a generation that
// resumes brings the text again, and runs the grammar over the tokens since `begin`.
struct KeptGrammar {
  std::uint64_t hash = 0;   // wire::GenerateRequest::grammar_hash; 0: no grammar
  std::uint32_t begin = 0;  // number of the sequence's cells before the grammar's first token
};

struct KeptSampler {
  SamplerOptions options;  // without logprob_count, which each request sets
  SamplerProgress progress;
  KeptGrammar grammar{};
};

// Converts to and from the record that `meta` keeps with a sequence. The record contains neither
// biases nor DRY's own breakers, only flags that the sampler had some. Errors: kCorrupt (names the
// field); kUnsupported (the sampler had biases or own breakers). REQUIRES: the record's flag
// kSamplerKept is set.
layout::SamplerRecord RecordOf(const SamplerOptions& options, const SamplerProgress& progress,
                               const KeptGrammar& grammar = {});
SamplerProgress ProgressOf(const layout::SamplerRecord& record);
Result<KeptSampler> SamplerOf(const layout::SamplerRecord& record, std::uint32_t vocab_size);

// The bytes have a version. DecodeSampler also reads the bytes of version 3, whose samplers have no
// grammar, and of version 2, which also have the default chain, DRY's default breakers and no
// adaptation. Errors: kCorrupt (names the field).
// Extra bytes are an error.
std::vector<std::byte> EncodeSampler(const KeptSampler& kept);
Result<KeptSampler> DecodeSampler(std::span<const std::byte> bytes, std::uint32_t vocab_size);

}  // namespace kvd
