// Penalties and DRY at the begin of the chain change a copy of the row. The first other sampler
// makes a list of candidates of the row, top-k without a list of all tokens; all further samplers
// change this list. Row and list are part of the thread's working memory.
//
// Samplers that are off are left out when the sampler is created. A temperature that is the last
// sampler is applied by the draw.
//
// The generator is SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
// 2014) used as a counter: draw n of a seed is Mix(seed + (n + 1) * golden gamma). The number of
// draws is therefore the whole state of the generator. Each token takes one draw; a greedy sampler
// takes none. XTC takes its random number from a second counter of the same seed, so that XTC does
// not change the number of draws.
//
// sampler_llama.cc has the other generator and chain, those of llama.cpp.
#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "engine/forward/compute/portable_math.h"
#include "engine/sampling/adaptive_draws.h"
#include "engine/sampling/candidates.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/sampler_steps.h"
#include "engine/sampling/sampler_working.h"

namespace kvd {
namespace {

bool IsForbidding(float bias) { return bias == -kInfinity; }

// Returns whether a sampler of the chain changes which token is drawn; false for adaptive-p, which
// draws the token itself.
bool IsOn(const SamplingParams& params, SamplerKind kind) {
  switch (kind) {
    case SamplerKind::kPenalties: return Penalises(params);
    case SamplerKind::kDry: return PenalisesRepetitions(params);
    case SamplerKind::kTopNSigma: return params.top_n_sigma > 0;
    case SamplerKind::kTopK: return params.top_k > 0;
    case SamplerKind::kTypicalP: return params.typical_p < 1;
    case SamplerKind::kTopP: return params.top_p < 1;
    case SamplerKind::kMinP: return params.min_p > 0;
    case SamplerKind::kXtc: return params.xtc_probability > 0 && params.xtc_threshold <= 0.5f;
    case SamplerKind::kTemperature: return params.temperature != 1 || params.dynatemp_range > 0;
    case SamplerKind::kAdaptiveP:
    case SamplerKind::kNone: return false;
  }
  return false;
}

// Of a greedy sampler, only penalties and DRY that precede the temperature have an effect.
SamplerChain ActiveSamplers(const SamplingParams& params, bool is_greedy) {
  SamplerChain active{};
  if (params.mirostat != 0) {
    if (params.temperature != 1 && !is_greedy) active.kinds[0] = SamplerKind::kTemperature;
    return active;
  }
  std::size_t count = 0;
  for (const SamplerKind kind : params.chain.kinds) {
    if (is_greedy && kind == SamplerKind::kTemperature) break;
    const bool changes_logits = kind == SamplerKind::kPenalties || kind == SamplerKind::kDry;
    if (IsOn(params, kind) && (changes_logits || !is_greedy)) active.kinds[count++] = kind;
  }
  return active;
}

// llama.cpp applies the whole chain at temperature 0 too. Without penalties, XTC and the typical
// sampler, its result is the most likely token.
bool TakesLikeliest(const SamplerOptions& options) {
  const SamplingParams& params = options.sampling;
  if (!options.llama_draws || !IsGreedy(params)) return IsGreedy(params);
  if (params.mirostat != 0) return true;
  return std::ranges::none_of(params.chain.kinds, [&params](SamplerKind kind) {
    return (kind == SamplerKind::kPenalties || kind == SamplerKind::kDry ||
            kind == SamplerKind::kXtc || kind == SamplerKind::kTypicalP) &&
           IsOn(params, kind);
  });
}

// SplitMix64's output for the state `z`, as a number in [0, 1).
double UniformOf(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}
constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;
// Added to the seed for XTC's numbers.
constexpr std::uint64_t kXtcStream = 0xd1342543de82ef95u;

}  // namespace

Result<Sampler> Sampler::Create(const SamplerOptions& options, std::uint32_t vocab_size,
                                std::span<const TokenId> end_tokens) {
  KVD_CHECK_OK(ValidateSampler(options, vocab_size));
  std::vector<TokenId> forbidden;
  if (options.ignore_eos) forbidden.assign(end_tokens.begin(), end_tokens.end());
  for (const TokenId token : forbidden)
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab_size)
      return Fail(Code::kInvalidArgument, "end token: ", token, " given, must be in [0, ",
                  vocab_size, ")");
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
    : options_(options),
      vocab_size_(vocab_size),
      forbidden_(std::move(forbidden)),
      is_greedy_(TakesLikeliest(options)),
      active_(ActiveSamplers(options.sampling, is_greedy_)),
      draws_(static_cast<std::uint32_t>(options.seed)),
      xtc_draws_(static_cast<std::uint32_t>(options.seed)) {
  state_.adaptation = state_.adaptation_before = InitialAdaptation(options.sampling);
  top_logprobs_.reserve(options_.logprob_count);
}

void Sampler::Accept(TokenId token) {
  KVD_ASSERT(token >= 0 && static_cast<std::uint32_t>(token) < vocab_size_);
  const std::int32_t wanted = HistoryWanted(options_.sampling);
  if (wanted == 0) return;
  if (wanted < 0 || state_.history.size() < static_cast<std::size_t>(wanted)) {
    state_.history.push_back(token);
    return;
  }
  state_.history[state_.history_begin] = token;
  state_.history_begin = (state_.history_begin + 1) % state_.history.size();
}

bool Sampler::ReadsOnly(const AllowedTokens* allowed) const {
  return allowed != nullptr && allowed->IsList() && options_.logprob_count == 0 &&
         !options_.llama_draws;
}

Status Sampler::CheckLogits(std::span<const float> logits, const AllowedTokens* allowed) const {
  if (ReadsOnly(allowed)) {
    for (const TokenId token : allowed->list)
      if (!(logits[static_cast<std::size_t>(token)] < kInfinity))
        return Fail(Code::kNumerical, "logits: one is NaN or +infinity");
    return {};
  }
  const float logit_max = MaxOrNan(logits);
  if (!(logit_max < kInfinity)) return Fail(Code::kNumerical, "logits: one is NaN or +infinity");
  return {};
}

Result<SampledToken> Sampler::Sample(std::span<const float> logits, const AllowedTokens* allowed) {
  KVD_ASSERT(logits.size() == vocab_size_);
  if (ReadsOnly(allowed)) {
    KVD_CHECK_OK(CheckLogits(logits, allowed));
    KVD_TRY(const TokenId token, Draw(logits, allowed));
    top_logprobs_.clear();
    return SampledToken{.token = token};
  }
  const float logit_max = MaxOrNan(logits);
  if (!(logit_max < kInfinity)) return Fail(Code::kNumerical, "logits: one is NaN or +infinity");
  if (!(logit_max > -kInfinity)) return Fail(Code::kNumerical, "logits: none is finite");
  KVD_TRY(const TokenId token, Draw(logits, allowed));
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

// Bits change a copy of the row; a list becomes the candidates.
Status Sampler::Restrict(Working& working) const {
  const AllowedTokens& allowed = *working.allowed;
  if (allowed.IsList() && working.llama != nullptr) {
    std::vector<float>& row = working.scratch.logits;
    row.assign(working.row.size(), -kInfinity);
    for (const TokenId token : allowed.list)
      row[static_cast<std::size_t>(token)] = working.row[static_cast<std::size_t>(token)];
    working.row = row;
    return {};
  }
  if (allowed.IsList()) {
    std::vector<Candidate>& candidates = working.candidates();
    candidates.clear();
    for (const TokenId token : allowed.list)
      candidates.push_back({working.row[static_cast<std::size_t>(token)], token});
    working.has_candidates = true;
    return {};
  }
  KVD_ASSERT(allowed.bits.size() == (std::size_t{vocab_size_} + 63) / 64);
  const std::span<float> row = working.OwnRow();
  for (std::size_t word = 0; word < allowed.bits.size(); ++word) {
    const std::uint64_t bits = allowed.bits[word];
    if (bits == ~std::uint64_t{0}) continue;
    const std::span<float> part =
        row.subspan(word * 64).first(std::min<std::size_t>(64, row.size() - word * 64));
    for (std::size_t bit = 0; bit < part.size(); ++bit)
      if ((bits >> bit & 1) == 0) part[bit] = -kInfinity;
  }
  return {};
}

void Sampler::Bias(Working& working) const {
  if (working.has_candidates) {
    // The list is in the order of the tokens until a sampler of the chain changes the order.
    std::vector<Candidate>& candidates = working.candidates();
    const auto find = [&](TokenId token) -> Candidate* {
      const auto found = std::ranges::lower_bound(candidates, token, {}, &Candidate::token);
      return found == candidates.end() || found->token != token ? nullptr : &*found;
    };
    for (const wire::LogitBias& entry : options_.biases)
      if (Candidate* const candidate = find(entry.token)) candidate->logit += entry.bias;
    for (const TokenId token : forbidden_)
      if (Candidate* const candidate = find(token)) candidate->logit = -kInfinity;
    std::erase_if(candidates, [](const Candidate& c) { return !(c.logit > -kInfinity); });
    return;
  }
  if (options_.biases.empty() && forbidden_.empty()) return;
  const std::span<float> row = working.OwnRow();
  for (const wire::LogitBias& entry : options_.biases)
    row[static_cast<std::size_t>(entry.token)] += entry.bias;
  for (const TokenId token : forbidden_) row[static_cast<std::size_t>(token)] = -kInfinity;
}

TokenId Sampler::Recent(std::size_t back) const {
  const std::size_t size = state_.history.size();
  return state_.history[(state_.history_begin + size - 1 - back) % size];
}

void Sampler::Penalise(Working& working) const {
  const SamplingParams& params = options_.sampling;
  TokenNumbers& numbers = working.scratch.numbers;
  numbers.Reserve(vocab_size_);
  std::size_t count = state_.history.size();
  if (params.repeat_last > 0) count = std::min(count, static_cast<std::size_t>(params.repeat_last));
  for (std::size_t back = 0; back < count; ++back) ++numbers.Touch(Recent(back));
  working.ChangeNumbered(
      [&](float logit, std::uint32_t times) { return PenalisedLogit(params, logit, times); });
}

void Sampler::PenaliseRepeated(Working& working) const {
  const SamplingParams& params = options_.sampling;
  SamplerScratch& scratch = working.scratch;
  scratch.numbers.Reserve(vocab_size_);
  std::size_t count = state_.history.size();
  if (params.dry_penalty_last > 0)
    count = std::min(count, static_cast<std::size_t>(params.dry_penalty_last));
  scratch.recent.resize(count);
  for (std::size_t back = 0; back < count; ++back) scratch.recent[back] = Recent(back);
  static const DryBreakers kNoBreakers;
  FindContinuations(params, breakers_ ? *breakers_ : kNoBreakers, scratch);
  working.ChangeNumbered([&](float logit, std::uint32_t number) {
    const double penalty = DryPenalty(params, number);
    const double changed = logit - (options_.llama_draws ? static_cast<float>(penalty) : penalty);
    return static_cast<float>(
        std::max(changed, static_cast<double>(std::numeric_limits<float>::lowest())));
  });
}

// A draw from the candidates' probabilities applies the temperature itself, which takes no pass
// over the candidates; mirostat and adaptive-p need scaled logits. Mirostat has no dynamic
// temperature.
void Sampler::ApplyTemperature(Working& working) const {
  const SamplingParams& params = options_.sampling;
  std::vector<Candidate>& candidates = working.candidates();
  const bool is_fixed = params.mirostat != 0;
  const float temperature =
      is_fixed ? params.temperature
               : DynamicTemperature(candidates, params.temperature, params.dynatemp_range,
                                    params.dynatemp_exponent);
  const auto place = std::ranges::find(active_.kinds, SamplerKind::kTemperature);
  const bool is_last = place + 1 == active_.kinds.end() || place[1] == SamplerKind::kNone;
  if (is_last && temperature > 0 && params.mirostat == 0 && !DrawsNear(params)) {
    working.temperature = temperature;
  } else {
    ScaleLogits(candidates, temperature);
  }
}

Status Sampler::Apply(SamplerKind kind, Working& working) const {
  const SamplingParams& params = options_.sampling;
  if (kind == SamplerKind::kPenalties) return Penalise(working), Status();
  if (kind == SamplerKind::kDry) return PenaliseRepeated(working), Status();
  const auto k = static_cast<std::size_t>(params.top_k);
  const bool is_row = !working.has_candidates;
  KVD_CHECK_OK(working.Collect(kind == SamplerKind::kTopK ? k : 0));
  std::vector<Candidate>& candidates = working.candidates();
  switch (kind) {
    case SamplerKind::kTopNSigma: KeepTopNSigma(candidates, params.top_n_sigma); break;
    case SamplerKind::kTopK:
      if (!is_row) KeepLikeliest(candidates, k);
      break;
    case SamplerKind::kTypicalP: KeepTypical(candidates, params.typical_p); break;
    case SamplerKind::kTopP: KeepTop(candidates, params.top_p); break;
    case SamplerKind::kMinP: KeepMinShare(candidates, params.min_p); break;
    case SamplerKind::kXtc:
      if (UniformOf(options_.seed + kXtcStream + (state_.draw_count + 1) * kGoldenGamma) <
          params.xtc_probability)
        ExcludeTopChoices(candidates, params.xtc_threshold);
      break;
    case SamplerKind::kTemperature: ApplyTemperature(working); break;
    default: break;
  }
  return {};
}

// Applies biases, the chain and mirostat's truncation. The candidates are those that may be drawn.
Status Sampler::Prepare(Working& working) const {
  const SamplingParams& params = options_.sampling;
  if (working.allowed != nullptr) KVD_CHECK_OK(Restrict(working));
  Bias(working);
  if (working.has_candidates) KVD_CHECK_OK(working.RequireCandidates());
  for (const SamplerKind kind : active_.kinds) {
    if (kind == SamplerKind::kNone) break;
    KVD_CHECK_OK(Apply(kind, working));
  }
  if (is_greedy_ && working.has_candidates) KeepLikeliest(working.candidates(), 1);
  KVD_CHECK_OK(working.Collect(is_greedy_ ? 1 : 0));
  if (is_greedy_) return {};
  const float mu = state_.adaptation.mirostat_mu;
  if (params.mirostat == 1) KeepZipf(working.candidates(), mu, vocab_size_);
  if (params.mirostat == 2) KeepSurprise(working.candidates(), mu);
  return {};
}

Result<TokenId> Sampler::Draw(std::span<const float> logits, const AllowedTokens* allowed) {
  if (draws_as_llama()) return DrawAsLlama(logits, allowed);
  Working working{.row = logits, .scratch = ThreadScratch(), .allowed = allowed};
  KVD_CHECK_OK(Prepare(working));
  const SamplingParams& params = options_.sampling;
  const std::vector<Candidate>& candidates = working.candidates();
  if (is_greedy_) return candidates.front().token;
  const double uniform = NextUniform();
  Picked picked;
  if (DrawsNear(params)) {
    const NearShares near(candidates, PreferredShare(params.adaptive_target, state_.adaptation));
    picked = PickBy(candidates, near, uniform);
    picked.share = near.Share(candidates[picked.index]);
  } else {
    picked = Pick(candidates, working.temperature, uniform);
  }
  Adapt(picked.share);
  return candidates[picked.index].token;
}

Result<std::vector<TokenShare>> Sampler::NextShares(std::span<const float> logits,
                                                    const AllowedTokens* allowed) const {
  KVD_ASSERT(logits.size() == vocab_size_);
  if (draws_as_llama()) return NextSharesAsLlama(logits, allowed);
  Working working{.row = logits, .scratch = ThreadScratch(), .allowed = allowed};
  KVD_CHECK_OK(Prepare(working));
  const SamplingParams& params = options_.sampling;
  std::vector<Candidate>& candidates = working.candidates();
  std::vector<TokenShare> shares;
  double total = 0;
  const auto add = [&](const auto& weight) {
    for (const Candidate& candidate : candidates) {
      shares.push_back({.token = candidate.token, .share = weight(candidate)});
      total += shares.back().share;
    }
  };
  if (DrawsNear(params)) {
    add(NearShares(candidates, PreferredShare(params.adaptive_target, state_.adaptation)));
  } else {
    ScaleLogits(candidates, working.temperature);
    const float logit_max = MaxLogit(candidates);
    add([=](const Candidate& candidate) { return Weight(candidate, logit_max); });
  }
  for (TokenShare& share : shares) share.share /= total;
  return shares;
}

Status Sampler::Adopt(std::span<const float> logits, TokenId token, const AllowedTokens* allowed) {
  KVD_ASSERT(logits.size() == vocab_size_);
  KVD_CHECK_OK(CheckLogits(logits, allowed));
  if (draws_as_llama()) {
    // The same row gives the same draws again.
    KVD_CHECK_OK(DrawAsLlama(logits, allowed));
    return {};
  }
  if (!Adapts(options_.sampling)) return SkipDraw(), Status();
  Working working{.row = logits, .scratch = ThreadScratch(), .allowed = allowed};
  KVD_CHECK_OK(Prepare(working));
  const std::vector<Candidate>& candidates = working.candidates();
  NextUniform();
  const auto found = std::ranges::find(candidates, token, &Candidate::token);
  if (found == candidates.end()) return {};
  const float logit_max = MaxLogit(candidates);
  const double weight = Weight(*found, logit_max);
  if (weight > 0) Adapt(weight / TotalWeight(candidates, logit_max));
  return {};
}

// `share`: the probability of the drawn token among the candidates.
void Sampler::Adapt(double share) {
  const SamplingParams& params = options_.sampling;
  SamplerAdaptation& adaptation = state_.adaptation;
  state_.adaptation_before = adaptation;
  if (params.mirostat != 0) {
    adaptation.mirostat_mu =
        AdaptedMu(adaptation.mirostat_mu, share, params.mirostat_tau, params.mirostat_eta);
  } else if (DrawsNear(params)) {
    adaptation = AdaptedAverage(adaptation, share, params.adaptive_decay);
  }
}

double Sampler::NextUniform() {
  return UniformOf(options_.seed + ++state_.draw_count * kGoldenGamma);
}

}  // namespace kvd
