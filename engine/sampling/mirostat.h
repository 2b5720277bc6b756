// Mirostat (Basu et al. 2021): draws tokens so that their mean surprise, -log2 p, approaches a
// target. `mu`, the largest surprise that is allowed, follows the surprise of the drawn tokens and
// is kept with the sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sampling/candidates.h"

namespace kvd {

// Version 1: estimates the exponent s of the candidates' Zipf distribution from the 100 most likely
// ones, and keeps the k most likely candidates (at least one, most likely first) with
// k = (e * 2^mu / (1 - vocab_size^-e))^(1/s) and e = s - 1.
// REQUIRES: candidates is not empty; mu is finite.
void KeepZipf(std::vector<Candidate>& candidates, float mu, std::uint32_t vocab_size);

// Version 2: keeps the candidates whose surprise is at most `mu`, and at least the most likely one.
// REQUIRES: candidates is not empty; mu is finite.
void KeepSurprise(std::vector<Candidate>& candidates, float mu);

// Returns mu after a token was drawn with probability `share` of the kept candidates:
// mu - eta * (-log2 share - tau). REQUIRES: share > 0.
float AdaptedMu(float mu, double share, float tau, float eta);

}  // namespace kvd
