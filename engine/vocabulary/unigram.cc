// The tokenizer runs Viterbi's search from left to right: for every character boundary, the search
// keeps the best sequence of tokens that ends there, and extends this sequence by each token that
// begins there. The search reaches every boundary, if necessary by unknown tokens. Sums of scores
// are computed in double, as in SentencePiece.
#include "engine/vocabulary/unigram.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/work_units.h"

namespace kvd {
namespace {

constexpr float kUnknownPenalty = 10.0f;

// The best sequence of tokens that ends at a position in the text: its last token, the position
// where that token begins, and the sum of scores.
struct Step {
  TokenId token;
  std::uint32_t begin;
  double score = -std::numeric_limits<double>::max();
};

void Offer(Step& best, TokenId token, std::size_t begin, double score) {
  if (score > best.score) best = {token, static_cast<std::uint32_t>(begin), score};
}

}  // namespace

Result<std::unique_ptr<Unigram>> Unigram::Create(const TokenTable& tokens, TokenId unk,
                                                 std::optional<PrecompiledCharsmap> charsmap,
                                                 UnigramOptions options) {
  constexpr std::uint8_t searched =
      token_attribute::kNormal | token_attribute::kUserDefined | token_attribute::kUnused;
  std::vector<TokenId> ids;
  std::vector<TokenId> user_defined;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    if ((attributes & searched) != 0) ids.push_back(token);
    if ((attributes & token_attribute::kUserDefined) != 0) user_defined.push_back(token);
  }
  KVD_TRY(TokenTrie trie, TokenTrie::Create(tokens, ids));
  KVD_TRY(TokenTrie kept, TokenTrie::Create(tokens, user_defined));
  return std::unique_ptr<Unigram>(
      new Unigram(tokens, std::move(trie), std::move(kept), unk, std::move(charsmap), options));
}

Unigram::Unigram(const TokenTable& tokens, TokenTrie trie, TokenTrie kept, TokenId unk,
                 std::optional<PrecompiledCharsmap> charsmap, UnigramOptions options)
    : trie_(std::move(trie)),
      kept_(std::move(kept)),
      unk_(unk),
      charsmap_(std::move(charsmap)),
      options_(options) {
  float worst = std::numeric_limits<float>::max();
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    const std::uint8_t attributes = tokens.attributes(token);
    const bool is_user_defined = (attributes & token_attribute::kUserDefined) != 0;
    scores_.push_back(is_user_defined ? 0 : tokens.score(token));
    if ((attributes & token_attribute::kNormal) != 0) worst = std::min(worst, tokens.score(token));
  }
  unknown_score_ = worst - kUnknownPenalty;
}

// Only whole characters are kept; llama.cpp also keeps the first bytes of a character, and replaces
// its other bytes by U+FFFD.
std::size_t Unigram::KeptBytes(std::string_view text) const {
  std::size_t kept_bytes = 0;
  std::uint32_t node = TokenTrie::kRoot;
  for (;;) {
    const std::size_t bytes = WellFormedBytes(text.substr(kept_bytes, 4));
    if (bytes == 0) return kept_bytes;
    for (const char byte : text.substr(kept_bytes, bytes)) {
      node = kept_.Child(node, byte);
      if (node == TokenTrie::kRoot) return kept_bytes;
    }
    kept_bytes += bytes;
  }
}

Result<std::string> Unigram::Normalize(std::string_view text, WorkMeter& meter) const {
  std::string normalized;
  bool in_word = false;
  bool prefix_due = options_.add_space_prefix;
  while (!text.empty()) {
    PrecompiledCharsmap::Match rule;
    rule.bytes = KeptBytes(text);
    rule.replacement = text.substr(0, rule.bytes);
    if (rule.bytes == 0 && charsmap_) rule = charsmap_->LongestPrefix(text);
    if (rule.bytes == 0) {
      std::size_t bytes = WellFormedBytes(text);
      rule.bytes = std::max<std::size_t>(bytes, 1);
      rule.replacement = bytes == 0 ? kReplacementCharacter : text.substr(0, bytes);
    }
    text.remove_prefix(rule.bytes);
    KVD_CHECK_OK(meter.Spend(kCharacterUnits + rule.replacement.size()));
    for (char byte : rule.replacement) {
      if (byte == ' ') {
        in_word = false;
        if (!options_.remove_extra_whitespaces) normalized.append(kEscapedSpace);
        continue;
      }
      if (!in_word && (prefix_due || options_.remove_extra_whitespaces)) {
        normalized.append(kEscapedSpace);
        prefix_due = false;
      }
      in_word = true;
      normalized.push_back(byte);
    }
    if (normalized.size() > kNormalizedBytesMax) {
      return Fail(Code::kInvalidArgument, "text: longer than the limit of ", kNormalizedBytesMax,
                  " bytes when normalised");
    }
  }
  return normalized;
}

Status Unigram::Append(std::string_view text, bool /*at_start*/, std::vector<TokenId>& tokens,
                       WorkControl& work) const {
  WorkMeter meter(work);
  KVD_TRY(std::string normalized, Normalize(text, meter));
  if (normalized.empty()) return {};
  std::vector<Step> best(normalized.size() + 1, Step{unk_, 0});
  best[0].score = 0;
  for (std::size_t begin = 0; begin < normalized.size();) {
    std::size_t character_bytes =
        std::min(AnnouncedBytes(normalized[begin]), normalized.size() - begin);
    bool is_token = false;
    std::uint32_t node = TokenTrie::kRoot;
    for (std::size_t end = begin; end < normalized.size();) {
      node = trie_.Child(node, normalized[end++]);
      if (node == TokenTrie::kRoot) break;
      KVD_CHECK_OK(meter.Spend(kNodeUnits));
      TokenId token = trie_.TokenAt(node);
      if (token == kNoToken) continue;
      is_token = is_token || end - begin == character_bytes;
      Offer(best[end], token, begin, best[begin].score + scores_[static_cast<std::size_t>(token)]);
    }
    KVD_CHECK_OK(meter.Spend(kCharacterUnits));
    if (!is_token)
      Offer(best[begin + character_bytes], unk_, begin, best[begin].score + unknown_score_);
    begin += character_bytes;
  }
  // Tokens are collected from the end and then reversed.
  auto first = static_cast<std::ptrdiff_t>(tokens.size());
  bool after_unknown = false;
  std::size_t end = normalized.size();
  do {
    KVD_CHECK_OK(meter.Spend(1));
    const Step& step = best[end];
    bool unknown = step.token == unk_;
    bool silent = unknown && (after_unknown || unk_ == kNoToken);
    if (!silent) tokens.push_back(step.token);
    after_unknown = unknown;
    end = step.begin;
  } while (end != 0);
  std::reverse(tokens.begin() + first, tokens.end());
  return {};
}

}  // namespace kvd
