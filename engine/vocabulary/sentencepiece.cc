// All pairs of neighbours that form a token are queued in a heap, best score first and leftmost
// first among equal scores. A pair is merged when it reaches the top, unless one of its halves has
// been merged meanwhile. A merged half is detected because the number of bytes of the two symbols
// has changed since the pair was queued. A text of n characters takes at most n merges and 3n
// queued pairs, so the time is O(n log n).
//
// Words that merge independently of each other are merged one by one, and a word that comes again
// is not merged again. The heap of one word is small, where the heap of a text would not fit into
// the processor's cache.
#include "engine/vocabulary/sentencepiece.h"

#include <algorithm>
#include <queue>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/word_merger.h"

namespace kvd {
namespace {

struct Candidate {
  float score;
  std::int32_t left;
  std::int32_t right;
  std::uint32_t bytes;
  TokenId token;

  // The top of the heap is the candidate with the best score, and the leftmost of equal scores.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};

// Merger: the scratch memory of one call, which merges one word after another.
class Merger {
 public:
  Merger(const TokenTable& tokens, const ByteTokens& byte_tokens, WorkMeter& meter)
      : tokens_(tokens), byte_tokens_(byte_tokens), meter_(meter) {}

  Status Append(std::string_view word, std::vector<TokenId>& tokens) {
    text_ = word;
    KVD_CHECK_OK(AppendCharacters());
    KVD_CHECK_OK(Merge());
    return Output(tokens);
  }

 private:
  static constexpr std::size_t kCandidateUnits = 32;

  Status AppendCharacters() {
    chain_.Clear();
    std::size_t offset = 0;
    while (offset < text_.size()) {
      KVD_CHECK_OK(meter_.Spend(kCharacterUnits));
      std::size_t bytes = std::min(AnnouncedBytes(text_[offset]), text_.size() - offset);
      chain_.Append(static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(bytes),
                    tokens_.Find(text_.substr(offset, bytes)));
      offset += bytes;
    }
    return {};
  }

  Status Merge() {
    for (std::int32_t right = 1; right < chain_.symbol_count(); ++right) {
      KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
      Consider(right - 1, right);
    }
    while (!candidates_.empty()) {
      KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
      Candidate best = candidates_.top();
      candidates_.pop();
      const ChainSymbol& left = chain_[best.left];
      const ChainSymbol& right = chain_[best.right];
      if (left.bytes == 0 || right.bytes == 0 || left.bytes + right.bytes != best.bytes) continue;
      chain_.MergeIntoLeft(best.left, best.right, best.token);
      Consider(left.previous, best.left);
      Consider(best.left, left.next);
    }
    return {};
  }

  Status Output(std::vector<TokenId>& tokens) {
    std::int32_t index = chain_.symbol_count() > 0 ? 0 : -1;
    for (; index >= 0; index = chain_[index].next) {
      KVD_CHECK_OK(meter_.Spend(1));
      const ChainSymbol& symbol = chain_[index];
      if (symbol.id != kNoToken) {
        tokens.push_back(symbol.id);
        continue;
      }
      for (char byte : text_.substr(symbol.begin, symbol.bytes)) {
        TokenId token = byte_tokens_[static_cast<unsigned char>(byte)];
        if (token != kNoToken) tokens.push_back(token);
      }
    }
    return {};
  }

  void Consider(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    std::uint32_t bytes = chain_[left].bytes + chain_[right].bytes;
    TokenId token = tokens_.Find(text_.substr(chain_[left].begin, bytes));
    if (token != kNoToken) candidates_.push({tokens_.score(token), left, right, bytes, token});
  }

  const TokenTable& tokens_;
  const ByteTokens& byte_tokens_;
  WorkMeter& meter_;
  std::string_view text_;  // the word
  MergeChain chain_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace

SentencePiece::SentencePiece(const TokenTable& tokens, bool add_space_prefix, TokenId unk)
    : tokens_(tokens), add_space_prefix_(add_space_prefix), byte_tokens_(FindHexTokens(tokens)) {
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    TokenId& token = byte_tokens_[byte];
    if (token == kNoToken) {
      char raw = static_cast<char>(byte);
      token = tokens.Find(std::string_view(&raw, 1));
    }
    if (token == kNoToken) token = unk;
  }
  for (TokenId token = 0; tokens.Contains(token); ++token) boundaries_.Add(tokens.text(token));
}

Status SentencePiece::Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                             WorkControl& work) const {
  std::string escaped = EscapeSpaces(text, add_space_prefix_ && at_start);
  WorkMeter meter(work);
  Merger merger(tokens_, byte_tokens_, meter);
  WordMemo memo(escaped.size());
  for (std::string_view rest = escaped; !rest.empty();) {
    const std::string_view word = rest.substr(0, boundaries_.WordBytes(rest));
    rest.remove_prefix(word.size());
    KVD_CHECK_OK(meter.Spend(kWordUnits + word.size()));
    if (!WordMemo::Skips(word) && memo.Append(word, tokens)) continue;
    const std::size_t first = tokens.size();
    KVD_CHECK_OK(merger.Append(word, tokens));
    if (!WordMemo::Skips(word)) memo.Remember(word, first, tokens);
  }
  return {};
}

}  // namespace kvd
