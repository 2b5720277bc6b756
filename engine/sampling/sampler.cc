// Every step of the sampler reduces the same list of candidates, which is part of the thread's
// working memory.
//
// The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// 2014) used as a counter: draw n of a seed is Mix(seed + (n + 1) * golden gamma). The number of
// draws is therefore the whole state of the generator. Each token takes one draw; with temperature
// 0, a token takes no draw.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "engine/forward/compute/portable_exp.h"
#include "engine/sampling/candidates.h"
#include "shm/payload_codec.h"

namespace kvd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Status Refuse(std::string_view field, const std::string& value, std::string_view limit) {
  std::string message(field);
  message.append(": ").append(value).append(" given, must be ").append(limit);
  return Fail(Code::kInvalidArgument, std::move(message));
}

bool IsForbidding(float bias) { return bias == -kInfinity; }

Status ValidateBiases(std::span<const wire::LogitBias> biases, std::uint32_t vocab_size) {
  if (biases.size() > wire::kBiasesMax)
    return Refuse("logit biases", std::to_string(biases.size()),
                  Concat("at most ", wire::kBiasesMax));
  for (const wire::LogitBias& entry : biases)
    KVD_CHECK_OK(wire::ValidateLogitBias(entry, vocab_size));
  return {};
}

// Working memory of all samplers of one thread; grows to the largest vocabulary of these samplers.
struct Scratch {
  std::vector<float> logits;              // [vocab_size] adjusted logits
  std::vector<std::uint32_t> seen_count;  // [vocab_size] all zero between calls
  std::vector<TokenId> seen;
  std::vector<Candidate> candidates;
};
Scratch& ThreadScratch() {
  thread_local Scratch scratch;
  return scratch;
}

}  // namespace

Status ValidateSampler(const SamplerOptions& options, std::uint32_t vocab_size) {
  KVD_CHECK_OK(ValidateSampling(options.sampling));
  if (options.logprob_count > wire::kLogprobsMax)
    return Refuse("logprob_count", std::to_string(options.logprob_count),
                  Concat("at most ", wire::kLogprobsMax));
  return ValidateBiases(options.biases, vocab_size);
}

Result<Sampler> Sampler::Create(const SamplerOptions& options, std::uint32_t vocab_size,
                                std::span<const TokenId> end_tokens) {
  KVD_CHECK_OK(ValidateSampler(options, vocab_size));
  std::vector<TokenId> forbidden;
  if (options.ignore_eos) forbidden.assign(end_tokens.begin(), end_tokens.end());
  for (const TokenId token : forbidden)
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab_size)
      return std::unexpected(
          Refuse("end token", std::to_string(token), Concat("in [0, ", vocab_size, ")")).error());
  std::vector<TokenId> never = forbidden;
  for (const wire::LogitBias& entry : options.biases)
    if (IsForbidding(entry.bias)) never.push_back(entry.token);
  std::ranges::sort(never);
  never.erase(std::ranges::unique(never).begin(), never.end());
  if (never.size() == vocab_size)
    return Fail(Code::kInvalidArgument, "logit biases: all ", vocab_size, " tokens are forbidden");
  return Sampler(options, vocab_size, std::move(forbidden));
}

Sampler::Sampler(const SamplerOptions& options, std::uint32_t vocab_size,
                 std::vector<TokenId> forbidden)
    : options_(options), vocab_size_(vocab_size), forbidden_(std::move(forbidden)) {
  top_logprobs_.reserve(options_.logprob_count);
}

void Sampler::Accept(TokenId token) {
  KVD_ASSERT(token >= 0 && static_cast<std::uint32_t>(token) < vocab_size_);
  if (!Penalises(options_.sampling)) return;
  if (options_.sampling.repeat_last < 0 ||
      state_.history.size() < static_cast<std::size_t>(options_.sampling.repeat_last)) {
    state_.history.push_back(token);
    return;
  }
  state_.history[state_.history_begin] = token;
  state_.history_begin = (state_.history_begin + 1) % state_.history.size();
}

Result<SampledToken> Sampler::Sample(std::span<const float> logits) {
  KVD_ASSERT(logits.size() == vocab_size_);
  const float logit_max = MaxOrNan(logits);
  if (!(logit_max < kInfinity)) return Fail(Code::kNumerical, "logits: one is NaN or +infinity");
  if (!(logit_max > -kInfinity)) return Fail(Code::kNumerical, "logits: none is finite");
  KVD_TRY(const TokenId token, Draw(Adjust(logits)));
  const double log_total = logit_max + std::log(SumExp(logits, logit_max));
  const auto logprob = [&](float logit) { return static_cast<float>(logit - log_total); };
  top_logprobs_.clear();
  if (options_.logprob_count > 0) {
    std::vector<Candidate>& top = ThreadScratch().candidates;
    CollectTop(logits, options_.logprob_count, top);
    for (const Candidate& candidate : top)
      top_logprobs_.push_back({candidate.token, logprob(candidate.logit)});
  }
  return SampledToken{token, logprob(logits[static_cast<std::size_t>(token)])};
}

// Returns the logits after biases and penalties, or the given logits if there are no biases and no
// penalties.
std::span<const float> Sampler::Adjust(std::span<const float> logits) const {
  const bool penalised = Penalises(options_.sampling) && !state_.history.empty();
  if (options_.biases.empty() && forbidden_.empty() && !penalised) return logits;
  std::vector<float>& adjusted = ThreadScratch().logits;
  adjusted.assign(logits.begin(), logits.end());
  for (const wire::LogitBias& entry : options_.biases)
    adjusted[static_cast<std::size_t>(entry.token)] += entry.bias;
  for (const TokenId token : forbidden_) adjusted[static_cast<std::size_t>(token)] = -kInfinity;
  if (penalised) Penalise(adjusted);
  return adjusted;
}

void Sampler::Penalise(std::span<float> logits) const {
  Scratch& scratch = ThreadScratch();
  if (scratch.seen_count.size() < vocab_size_) scratch.seen_count.resize(vocab_size_);
  scratch.seen.clear();
  for (const TokenId token : state_.history)
    if (scratch.seen_count[static_cast<std::size_t>(token)]++ == 0) scratch.seen.push_back(token);
  for (const TokenId token : scratch.seen) {
    const auto index = static_cast<std::size_t>(token);
    const auto times = static_cast<float>(std::exchange(scratch.seen_count[index], 0));
    float& logit = logits[index];
    if (logit == -kInfinity) continue;
    logit = logit > 0 ? logit / options_.sampling.repeat_penalty
                      : logit * options_.sampling.repeat_penalty;
    logit -= times * options_.sampling.frequency_penalty + options_.sampling.presence_penalty;
    // A penalty near 0 may overflow the logit; the logit is then limited to the range of finite
    // floats.
    logit =
        std::clamp(logit, std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max());
  }
}

Result<TokenId> Sampler::Draw(std::span<const float> logits) {
  std::vector<Candidate>& candidates = ThreadScratch().candidates;
  const bool greedy = options_.sampling.temperature == 0;
  if (greedy)
    CollectTop(logits, 1, candidates);
  else if (options_.sampling.top_k > 0)
    CollectTop(logits, static_cast<std::size_t>(options_.sampling.top_k), candidates);
  else
    CollectAll(logits, candidates);
  if (candidates.empty())
    return Fail(Code::kNumerical, "logits: no allowed token has a finite logit");
  if (greedy) return candidates.front().token;
  if (options_.sampling.typical_p < 1) KeepTypical(candidates, options_.sampling.typical_p);
  if (options_.sampling.top_p < 1) KeepTop(candidates, options_.sampling.top_p);
  if (options_.sampling.min_p > 0) KeepMinShare(candidates, options_.sampling.min_p);
  return Pick(candidates, options_.sampling.temperature, NextUniform());
}

double Sampler::NextUniform() {
  std::uint64_t z = options_.seed + ++state_.draw_count * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

}  // namespace kvd
