#include "http/api/token_probs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "http/api/json_text.h"
#include "http/api/text_tokens.h"

namespace kvd::http {
namespace {

using Choice = DrawnToken::Choice;

// Probabilities of candidates whose numbers are logarithms, which need not be normalised.
std::vector<double> Softmax(const std::vector<Choice>& candidates) {
  std::vector<double> probs;
  double sum = 0;
  for (const Choice& choice : candidates) {
    probs.push_back(std::exp(choice.number - candidates.front().number));
    sum += probs.back();
  }
  for (double& prob : probs) prob /= sum;
  return probs;
}

void KeepTopP(std::vector<Choice>& candidates, double share) {
  const std::vector<double> probs = Softmax(candidates);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < probs.size() && sum < share) sum += probs[kept++];
  candidates.resize(std::max<std::size_t>(kept, 1));
}

void KeepMinP(std::vector<Choice>& candidates, double share) {
  const double least = candidates.front().number + std::log(share);
  std::erase_if(candidates, [&](const Choice& choice) { return choice.number < least; });
}

void KeepTypical(std::vector<Choice>& candidates, double share) {
  const std::vector<double> probs = Softmax(candidates);
  double entropy = 0;
  for (const double prob : probs) entropy -= prob > 0 ? prob * std::log(prob) : 0;
  std::vector<std::size_t> order(candidates.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::abs(-std::log(std::max(probs[i], 1e-300)) - entropy);
  });
  double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && sum < share) sum += probs[order[kept++]];
  order.resize(std::max<std::size_t>(kept, 1));
  std::ranges::sort(order);
  std::vector<Choice> typical;
  for (const std::size_t i : order) typical.push_back(candidates[i]);
  candidates = std::move(typical);
}

void Apply(SamplerKind kind, const SamplingParams& s, std::vector<Choice>& candidates) {
  switch (kind) {
    case SamplerKind::kTopK:
      if (s.top_k > 0 && candidates.size() > static_cast<std::size_t>(s.top_k)) {
        candidates.resize(static_cast<std::size_t>(s.top_k));
      }
      break;
    case SamplerKind::kTypicalP:
      if (s.typical_p < 1) KeepTypical(candidates, static_cast<double>(s.typical_p));
      break;
    case SamplerKind::kTopP:
      if (s.top_p < 1) KeepTopP(candidates, static_cast<double>(s.top_p));
      break;
    case SamplerKind::kMinP:
      if (s.min_p > 0) KeepMinP(candidates, static_cast<double>(s.min_p));
      break;
    case SamplerKind::kTemperature:
      for (Choice& choice : candidates) choice.number /= static_cast<double>(s.temperature);
      break;
    default: break;
  }
}

std::vector<Value> BytesOf(const std::string& text) {
  std::vector<Value> bytes;
  for (const char byte : text) bytes.push_back(Value::Int(static_cast<unsigned char>(byte)));
  return bytes;
}

Choice ChoiceOf(const wire::TokenLogprob& record) {
  return {record.token, static_cast<double>(record.logprob)};
}

void MakeSampled(const SamplingParams& sampling, std::uint32_t top_max, DrawnToken& token) {
  std::vector<Choice> candidates = token.top;
  if (std::ranges::find(candidates, token.drawn.token, &Choice::token) == candidates.end()) {
    candidates.push_back(token.drawn);
  }
  const double fallback = std::exp(token.drawn.number);
  token.top = SampledProbs(std::move(candidates), sampling);
  const auto drawn = std::ranges::find(token.top, token.drawn.token, &Choice::token);
  token.drawn.number = drawn != token.top.end() ? drawn->number : fallback;
  if (token.top.size() > top_max) token.top.resize(top_max);
}

}  // namespace

void PrepareProbs(const ServedModel& model, AnswerRequest& request, ReplyFields& reply) {
  reply.top_count = request.logprob_count;
  if (!reply.has_sampled_probs || !request.wants_logprobs) return;
  request.logprob_count = std::min(wire::kLogprobsMax, model.info().vocab_size);
}

std::vector<Choice> SampledProbs(std::vector<Choice> candidates, const SamplingParams& sampling) {
  std::erase_if(candidates, [](const Choice& choice) { return !std::isfinite(choice.number); });
  if (candidates.empty()) return candidates;
  std::ranges::stable_sort(candidates, std::greater(), &Choice::number);
  if (IsGreedy(sampling) || sampling.temperature == 0) {
    candidates.resize(1);
  } else if (sampling.mirostat != 0) {
    Apply(SamplerKind::kTemperature, sampling, candidates);
  } else {
    for (const SamplerKind kind : sampling.chain.kinds) Apply(kind, sampling, candidates);
  }
  const std::vector<double> probs = Softmax(candidates);
  for (std::size_t i = 0; i < probs.size(); ++i) candidates[i].number = probs[i];
  std::erase_if(candidates, [](const Choice& choice) { return choice.number <= 0; });
  return candidates;
}

std::vector<DrawnToken> ReadDrawnTokens(std::span<const wire::TokenLogprob> records,
                                        const AnswerRequest& request, bool is_sampled,
                                        std::uint32_t top_max) {
  std::vector<DrawnToken> tokens;
  const std::size_t each = 1 + request.logprob_count;
  for (; records.size() >= each; records = records.subspan(each)) {
    DrawnToken token{.drawn = ChoiceOf(records.front()), .top = {}};
    for (const wire::TokenLogprob& record : records.subspan(1, each - 1)) {
      token.top.push_back(ChoiceOf(record));
    }
    if (is_sampled) MakeSampled(request.sampling, top_max, token);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

Value TokenProbs::Entry(const Choice& choice, const std::vector<Choice>* top) const {
  const std::string& piece = pieces_.at(choice.token);
  // JSON has no minus infinity; llama-server writes the least float.
  constexpr double kLeast = -static_cast<double>(std::numeric_limits<float>::max());
  const double number = std::isfinite(choice.number) ? choice.number : kLeast;
  Object object;
  object.Set("id", Value::Int(choice.token))
      .Set("token", piece)
      .Set("bytes", Value::List(BytesOf(piece)))
      .Set(is_sampled_ ? "prob" : "logprob", Value::Float(number));
  if (top != nullptr) {
    std::vector<Value> entries;
    for (const Choice& other : *top) entries.push_back(Entry(other, nullptr));
    object.Set(is_sampled_ ? "top_probs" : "top_logprobs", Value::List(std::move(entries)));
  }
  return object.Take();
}

Await<Status> TokenProbs::Append(std::vector<DrawnToken> tokens, std::vector<Value>& objects) {
  std::vector<TokenId> unknown;
  const auto want = [&](TokenId token) {
    if (!pieces_.contains(token)) unknown.push_back(token);
  };
  for (const DrawnToken& token : tokens) {
    want(token.drawn.token);
    for (const Choice& choice : token.top) want(choice.token);
  }
  if (!unknown.empty()) {
    KVD_CO_TRY(auto pieces, co_await PiecesOf(*session_, std::move(unknown)));
    pieces_.merge(pieces);
  }
  for (const DrawnToken& token : tokens) objects.push_back(Entry(token.drawn, &token.top));
  co_return Status();
}

}  // namespace kvd::http
