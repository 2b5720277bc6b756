#include "engine/sampling/dry.h"

#include <algorithm>
#include <cstddef>

#include "engine/forward/compute/portable_math.h"

namespace kvd {

// ---- dry breakers
DryBreakers::DryBreakers(std::vector<bool> whole, std::vector<Head> heads,
                         std::vector<std::vector<TokenId>> tails)
    : whole_(std::move(whole)), heads_(std::move(heads)), tails_(std::move(tails)) {
  std::ranges::sort(heads_);
  heads_.erase(std::ranges::unique(heads_).begin(), heads_.end());
}

std::size_t DryBreakers::TokensSince(std::span<const TokenId> recent) const {
  for (std::size_t place = 0; place < recent.size(); ++place) {
    const std::ptrdiff_t tail = TailAt(recent, place);
    if (tail >= 0) return place - static_cast<std::size_t>(tail);
  }
  return recent.size();
}

std::ptrdiff_t DryBreakers::TailAt(std::span<const TokenId> recent, std::size_t place) const {
  const TokenId head = recent[place];
  std::ptrdiff_t longest = IsBreaker(head) ? 0 : -1;
  const auto first = std::ranges::lower_bound(heads_, head, {}, &Head::token);
  for (auto found = first; found != heads_.end() && found->token == head; ++found) {
    const std::vector<TokenId>& tail = tails_[found->tail];
    const auto length = static_cast<std::ptrdiff_t>(tail.size());
    if (length <= longest || tail.size() > place) continue;
    // The tokens after the head are earlier in `recent`, in reversed order.
    const auto after = recent.subspan(place - tail.size(), tail.size());
    if (std::equal(tail.rbegin(), tail.rend(), after.begin())) longest = length;
  }
  return longest;
}

// ---- dry

// [begin, end) is the match that reaches farthest: recent[begin + i] == recent[i] up to `end`. A
// place inside it begins like place - begin, whose length is known. Each comparison of the inner
// loop either ends the loop or raises `end`, so there are at most 2 * recent.size() comparisons.
void FindRepetitions(std::span<const TokenId> recent, std::vector<std::uint32_t>& lengths) {
  const std::size_t count = recent.size();
  lengths.assign(count, 0);
  if (count == 0) return;
  lengths[0] = static_cast<std::uint32_t>(count);
  std::size_t begin = 0;
  std::size_t end = 0;
  for (std::size_t place = 1; place < count; ++place) {
    std::size_t length = 0;
    if (place < end) length = std::min<std::size_t>(lengths[place - begin], end - place);
    while (place + length < count && recent[place + length] == recent[length]) ++length;
    lengths[place] = static_cast<std::uint32_t>(length);
    if (place + length > end) {
      begin = place;
      end = place + length;
    }
  }
}

void FindContinuations(const SamplingParams& params, const DryBreakers& breakers,
                       SamplerScratch& scratch) {
  const std::span<const TokenId> recent = scratch.recent;
  const auto allowed = static_cast<std::size_t>(params.dry_allowed_length);
  if (recent.size() <= allowed) return;
  const std::size_t longest = breakers.TokensSince(recent);
  if (longest < allowed) return;
  FindRepetitions(recent, scratch.repeated);
  for (std::size_t place = 1; place < recent.size(); ++place) {
    const std::size_t length = std::min<std::size_t>(scratch.repeated[place], longest);
    if (length < allowed) continue;
    // The token that followed the earlier occurrence would continue the repetition.
    const TokenId next = recent[place - 1];
    if (breakers.IsBreaker(next)) continue;
    std::uint32_t& number = scratch.numbers.Touch(next);
    number = std::max(number, static_cast<std::uint32_t>(length) + 1);
  }
}

double DryPenalty(const SamplingParams& params, std::uint32_t number) {
  constexpr float kFloatMaxLog = 88.7228391f;
  double exponent = static_cast<double>(number) - 1 - params.dry_allowed_length;
  if (params.dry_base > 1.000001f) {
    const auto base_log = static_cast<float>(PortableLog(double{params.dry_base}));
    const auto largest = static_cast<std::int32_t>(kFloatMaxLog / base_log);
    if (largest > 0) exponent = std::min<double>(exponent, largest);
  }
  return params.dry_multiplier * PortablePow(double{params.dry_base}, exponent);
}

}  // namespace kvd
