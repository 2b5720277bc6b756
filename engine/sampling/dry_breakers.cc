#include "engine/sampling/dry_breakers.h"

#include <algorithm>
#include <cstddef>

namespace kvd {

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

}  // namespace kvd
