// llama.cpp's draws: its random numbers, and the arithmetic of its candidates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/sampling/candidates.h"
#include "shm/sampling_params.h"

namespace kvd {

// MersenneStream: the outputs of std::mt19937 of a seed by their number, and the uniform numbers
// that libstdc++'s std::uniform_real_distribution makes of them, which are llama.cpp's draws.
//
// The number of an output is the whole state, so a stream resumes anywhere. An output that follows
// the last one takes constant time; a step ahead takes about a nanosecond for each output between,
// and a step back begins again at the seed. Not thread-safe. The generator has 5 KB and is made for
// the first output.
class MersenneStream {
 public:
  explicit MersenneStream(std::uint32_t seed) : seed_(seed) {}
  // A copy makes its own generator.
  MersenneStream(const MersenneStream& other) : seed_(other.seed_) {}
  MersenneStream& operator=(const MersenneStream& other) { return *this = MersenneStream(other); }
  MersenneStream(MersenneStream&&) noexcept = default;
  MersenneStream& operator=(MersenneStream&&) noexcept = default;
  ~MersenneStream() = default;

  // Output `number`, counted from 0.
  std::uint32_t Output(std::uint64_t number);

  // Number `draw` of uniform_real_distribution<double>(0, 1), in [0, 1): two outputs each.
  double Uniform(std::uint64_t draw);
  // Number `draw` of uniform_real_distribution<float>(0, 1), in [0, 1): one output each.
  float UniformFloat(std::uint64_t draw);

 private:
  std::uint32_t seed_;
  std::uint64_t next_ = 0;  // number of the generator's next output
  std::unique_ptr<std::mt19937> generator_;
};

// LlamaCandidates: the tokens that may still be drawn, with llama.cpp's arithmetic, so that equal
// logits and equal random numbers give llama.cpp's token (SamplerOptions::llama_draws).
//
// Logits, shares and their sums are floats, added in the order of the list; exponentials and
// logarithms are those of the machine's math library. Tokens that are excluded by the logit
// -infinity stay in the list with the share 0, where llama.cpp keeps them. The list is in the order
// of the ids until a sampler sorts it; among equal logits the lowest id comes first (in llama.cpp,
// the order of equal logits is that of its sorting algorithm).
//
// A LlamaCandidates is part of a thread's working memory.
struct LlamaCandidate {
  float logit;
  TokenId token;
  float share;        // probability among the candidates; set by SetShares and Pick
  float plain_share;  // adaptive-p: the share before PreferNear
};

class LlamaCandidates {
 public:
  // Replaces the list with all tokens of the row, or with its k likeliest ones. `working` is
  // overwritten. REQUIRES: k > 0.
  void TakeAll(std::span<const float> row);
  void TakeTop(std::span<const float> row, std::size_t k, std::vector<Candidate>& working);

  std::span<const LlamaCandidate> list() const { return list_; }
  // Calls change(candidate) for each candidate; the list then counts as unsorted.
  template <class Change>
  void ChangeLogits(const Change& change) {
    for (LlamaCandidate& candidate : list_) change(candidate);
    is_sorted_ = false;
  }
  // The largest logit; -infinity if no token may be drawn.
  float MaxLogit() const;

  // The samplers, with the parameters of SamplingParams. REQUIRES: the list is not empty.
  void KeepTopNSigma(float n);
  void KeepLikeliest(std::size_t k);
  void KeepTypical(float share);
  void KeepTop(float share);
  void KeepMinShare(float min_p);
  void ExcludeTopChoices(float threshold);
  void Scale(float temperature);
  void ScaleByEntropy(float temperature, float range, float exponent);
  // Mirostat 1 and 2; both set the shares.
  void KeepZipf(float mu, std::uint32_t vocab_size);
  void KeepSurprise(float mu);
  // Adaptive-p: sets plain_share, and the shares with which it draws. `preferred`: the share that
  // adaptive-p prefers.
  void PreferNear(float preferred);

  void SetShares(bool sorts);

  // Returns the index of the first candidate at which the sum of the weights e^(logit - largest
  // logit) reaches `uniform` times their total, and sets `share` to the weights.
  std::size_t Pick(double uniform);
  // Returns the index that std::discrete_distribution of the shares gives for `uniform`.
  std::size_t PickByShare(double uniform) const;

 private:
  // Sorts the k likeliest candidates to the front, and drops the others.
  void Sort(std::size_t k);

  std::vector<LlamaCandidate> list_;
  bool is_sorted_ = false;
};

}  // namespace kvd
