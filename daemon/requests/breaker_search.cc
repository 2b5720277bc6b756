#include "daemon/requests/breaker_search.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvd {
namespace {

// A tail ends after this number of tokens, as in llama.cpp, which bounds the time of a comparison.
constexpr std::size_t kTailTokensMax = 20;
constexpr std::size_t kCachedMax = 8;

}  // namespace

const std::vector<std::string>& DefaultBreakers() {
  static const std::vector<std::string> kBreakers = {"\n", ":", "\"", "*"};
  return kBreakers;
}

BreakerSearch::BreakerSearch(const Vocabulary& vocabulary, std::vector<std::string> breakers)
    : vocabulary_(vocabulary),
      breakers_(std::move(breakers)),
      token_count_(vocabulary.kind() == Vocabulary::Kind::kNone || breakers_.empty()
                       ? 0
                       : vocabulary.vocab_size()),
      whole_(token_count_) {}

void BreakerSearch::Advance(std::size_t tokens_max) {
  const std::size_t end = next_token_ + std::min(tokens_max, token_count_ - next_token_);
  for (; next_token_ < end; ++next_token_) LookAt(static_cast<TokenId>(next_token_));
}

// A token whose text is not available is no breaker.
void BreakerSearch::LookAt(TokenId token) {
  const auto word = vocabulary_.Detokenize({&token, 1}, {.unparse_special = true});
  if (!word || word->empty()) return;
  for (std::size_t i = 0; i < breakers_.size(); ++i) LookFor(i, token, *word);
}

void BreakerSearch::LookFor(std::size_t breaker, TokenId token, const std::string& word) {
  const std::string& text = breakers_[breaker];
  if (word.find(text) != std::string::npos) {
    whole_[static_cast<std::size_t>(token)] = true;
    return;
  }
  // `shared`: number of bytes with which the word ends and the text begins.
  for (std::size_t shared = std::min(word.size(), text.size() - 1); shared > 0; --shared) {
    if (!word.ends_with(std::string_view(text).substr(0, shared))) continue;
    const std::uint32_t tail = TailOf(breaker, shared);
    if (tails_[tail].empty()) {
      whole_[static_cast<std::size_t>(token)] = true;
    } else {
      heads_.push_back({.token = token, .tail = tail});
    }
  }
}

std::uint32_t BreakerSearch::TailOf(std::size_t breaker, std::size_t begin) {
  const auto [place, is_new] =
      tail_of_.try_emplace({breaker, begin}, static_cast<std::uint32_t>(tails_.size()));
  if (is_new) {
    auto tail = vocabulary_.Tokenize(std::string_view(breakers_[breaker]).substr(begin), {});
    if (tail && tail->size() > kTailTokensMax) tail->resize(kTailTokensMax);
    tails_.push_back(tail ? std::move(*tail) : std::vector<TokenId>());
  }
  return place->second;
}

std::shared_ptr<const DryBreakers> BreakerSearch::Take() {
  KVD_ASSERT(is_done());
  return std::make_shared<const DryBreakers>(std::move(whole_), std::move(heads_),
                                             std::move(tails_));
}

std::shared_ptr<const DryBreakers> BreakerCache::Find(const std::vector<std::string>& breakers) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(entries_, breakers, &Entry::breakers);
  if (found == entries_.end()) return nullptr;
  std::rotate(found, found + 1, entries_.end());
  return entries_.back().found;
}

void BreakerCache::Put(std::vector<std::string> breakers,
                       std::shared_ptr<const DryBreakers> found) {
  const MutexLock lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.breakers == breakers; });
  if (entries_.size() == kCachedMax) entries_.erase(entries_.begin());
  entries_.push_back({.breakers = std::move(breakers), .found = std::move(found)});
}

}  // namespace kvd
