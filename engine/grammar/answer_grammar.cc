#include "engine/grammar/answer_grammar.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kvd {
namespace {

// Number of forced bytes that ForcedTokens looks at; longer runs take several calls.
constexpr std::size_t kForcedBytes = 512;

struct LongestToken {
  TokenId token = kNoToken;  // kNoToken: no token is a prefix of the text
  std::size_t byte_count = 0;
  bool may_be_longer = false;  // longer tokens begin with the whole text
};

LongestToken FindLongest(const VocabularyTrie& trie, std::string_view text) {
  LongestToken longest;
  std::uint32_t node = 0;
  for (std::size_t i = 0;; ++i) {
    const std::uint32_t end = trie.skip(node);
    std::uint32_t child = node + 1;
    if (i == text.size()) {
      longest.may_be_longer = child < end;
      return longest;
    }
    const auto byte = static_cast<std::uint8_t>(text[i]);
    while (child < end && trie.byte(child) != byte) child = trie.skip(child);
    if (child >= end) return longest;
    node = child;
    const std::span<const TokenId> tokens = trie.TokensAt(node);
    if (!tokens.empty()) {
      longest = {.token = std::ranges::min(tokens), .byte_count = i + 1, .may_be_longer = false};
    }
  }
}

}  // namespace

AnswerGrammar::AnswerGrammar(std::shared_ptr<Grammar> grammar, std::vector<GrammarTrigger> triggers,
                             const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary),
      matcher_(std::move(grammar)),
      triggers_(std::move(triggers)),
      has_begun_(triggers_.empty()) {
  for (const GrammarTrigger& trigger : triggers_) {
    trigger_bytes_max_ = std::max(trigger_bytes_max_, trigger.text.size());
  }
}

Status AnswerGrammar::Accept(TokenId token) {
  return has_begun_ ? matcher_.Accept(token) : AcceptWaiting(token);
}

Status AnswerGrammar::AcceptWaiting(TokenId token) {
  const bool is_trigger = std::ranges::any_of(
      triggers_, [&](const GrammarTrigger& trigger) { return trigger.token == token; });
  if (is_trigger) {
    KVD_CHECK_OK(matcher_.Accept(token));
    has_begun_ = true;
    return {};
  }
  if (!vocabulary_->Contains(token)) return {};
  KVD_TRY(const std::string_view piece, vocabulary_->Piece(token, true));
  std::string text = tail_;
  text += piece;
  std::size_t begin = std::string::npos;
  for (const GrammarTrigger& trigger : triggers_) {
    if (!trigger.text.empty()) begin = std::min(begin, text.find(trigger.text));
  }
  if (begin != std::string::npos) {
    KVD_CHECK_OK(matcher_.AcceptText(std::string_view(text).substr(begin)));
    has_begun_ = true;
    tail_.clear();
    return {};
  }
  if (trigger_bytes_max_ > 0 && text.size() >= trigger_bytes_max_) {
    text.erase(0, text.size() - (trigger_bytes_max_ - 1));
  }
  tail_ = trigger_bytes_max_ > 0 ? std::move(text) : std::string();
  return {};
}

std::vector<TokenId> AnswerGrammar::ForcedTokens(std::size_t tokens_max) const {
  std::vector<TokenId> tokens;
  if (!has_begun_) return tokens;
  const std::string forced = matcher_.ForcedText(kForcedBytes);
  std::string_view left = forced;
  const VocabularyTrie& trie = matcher_.grammar()->vocabulary().trie();
  while (tokens.size() < std::min(tokens_max, kForcedTokensMax)) {
    const LongestToken longest = FindLongest(trie, left);
    // A longer token may begin with all of the bytes that are left, so the next token is not known.
    if (longest.may_be_longer || longest.token == kNoToken) break;
    tokens.push_back(longest.token);
    left.remove_prefix(longest.byte_count);
  }
  return tokens;
}

}  // namespace kvd
