// A word starts as one symbol per byte. Every pair of neighbours that has a merge rule is queued in
// a heap, lowest rank first and leftmost first among equal ranks. A queued pair whose symbols have
// changed is skipped. A word of n bytes takes at most n merges and 3n queued pairs, so the time is
// O(n log n) for any word.
#include "engine/vocabulary/byte_pair.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/vocabulary/byte_alphabet.h"
#include "engine/vocabulary/merge_chain.h"
#include "engine/vocabulary/well_formed_text.h"

namespace kvd {
namespace {

std::uint64_t PairOf(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) |
         static_cast<std::uint32_t>(right);
}

struct Candidate {
  std::int32_t rank;
  std::int32_t left;
  std::int32_t right;
  std::int32_t left_symbol;
  std::int32_t right_symbol;
  std::int32_t merged;
};

// Returns true if `a` comes after `b`, so that the top of the heap is the candidate with the lowest
// rank, and the leftmost of equal ranks.
bool Later(const Candidate& a, const Candidate& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
}

}  // namespace

// The table is at most half full, so that searches are short.
MergeTable::MergeTable(std::size_t rule_count_max) : slots_(std::bit_ceil(2 * rule_count_max + 2)) {
  shift_ = 64 - std::countr_zero(slots_.size());
}

std::size_t MergeTable::SlotOf(std::uint64_t pair) const {
  std::size_t slot = (pair * 0x9e3779b97f4a7c15u) >> shift_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmpty)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void MergeTable::Add(std::int32_t left, std::int32_t right, MergeRule rule) {
  Slot& slot = slots_[SlotOf(PairOf(left, right))];
  if (slot.pair == kEmpty) slot = {PairOf(left, right), rule};
}

MergeRule MergeTable::Find(std::int32_t left, std::int32_t right) const {
  return slots_[SlotOf(PairOf(left, right))].rule;
}

// WordMerger: the scratch memory of one call, which merges one word after another and reuses its
// buffers.
class BytePair::WordMerger {
 public:
  WordMerger(const BytePair& owner, WorkControl& work) : owner_(owner), meter_(work) {}

  Status Append(std::string_view word, std::vector<TokenId>& tokens) {
    KVD_CHECK_OK(meter_.Spend(kWordUnits));
    if (owner_.ignore_merges_ && AppendWhole(word, tokens)) return {};
    chain_.Clear();
    candidates_.clear();
    for (std::size_t i = 0; i < word.size(); ++i) {
      KVD_CHECK_OK(meter_.Spend(1));
      chain_.Append(static_cast<std::uint32_t>(i), 1,
                    owner_.byte_symbols_[static_cast<unsigned char>(word[i])]);
    }
    for (std::int32_t right = 1; right < chain_.symbol_count(); ++right) {
      KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
      Consider(right - 1, right);
    }
    while (!candidates_.empty()) {
      KVD_CHECK_OK(meter_.Spend(kCandidateUnits));
      MergeNext();
    }
    for (std::int32_t i = 0; i >= 0; i = chain_[i].next) {
      KVD_CHECK_OK(meter_.Spend(1));
      owner_.AppendSymbol(chain_[i].id, tokens);
    }
    return {};
  }

 private:
  static constexpr std::size_t kWordUnits = 16;
  static constexpr std::size_t kCandidateUnits = 16;

  // Appends the word as one token if it is a token, and returns whether it is.
  bool AppendWhole(std::string_view word, std::vector<TokenId>& tokens) {
    if (word.size() > owner_.tokens_.text_bytes_max()) return false;
    encoded_.clear();
    for (char byte : word) encoded_.append(ByteCharacter(static_cast<std::uint8_t>(byte)));
    TokenId token = owner_.tokens_.Find(encoded_);
    if (token == kNoToken) return false;
    tokens.push_back(token);
    return true;
  }

  void MergeNext() {
    std::ranges::pop_heap(candidates_, Later);
    Candidate best = candidates_.back();
    candidates_.pop_back();
    const ChainSymbol& left = chain_[best.left];
    const ChainSymbol& right = chain_[best.right];
    bool stands = left.bytes > 0 && right.bytes > 0 && left.id == best.left_symbol &&
                  right.id == best.right_symbol;
    if (!stands) return;
    chain_.MergeIntoLeft(best.left, best.right, best.merged);
    Consider(left.previous, best.left);
    Consider(best.left, left.next);
  }

  void Consider(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    MergeRule rule = owner_.merges_.Find(chain_[left].id, chain_[right].id);
    if (rule.rank < 0) return;
    candidates_.push_back({rule.rank, left, right, chain_[left].id, chain_[right].id, rule.merged});
    std::ranges::push_heap(candidates_, Later);
  }

  const BytePair& owner_;
  WorkMeter meter_;
  MergeChain chain_;
  std::vector<Candidate> candidates_;
  std::string encoded_;
};

BytePair::BytePair(const TokenTable& tokens, WordSplitter splitter, bool ignore_merges,
                   std::size_t merge_count)
    : tokens_(tokens),
      splitter_(std::move(splitter)),
      ignore_merges_(ignore_merges),
      merges_(merge_count) {
  for (std::size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    byte_symbols_[byte] = SymbolOf(ByteCharacter(static_cast<std::uint8_t>(byte)));
  }
}

Result<std::unique_ptr<BytePair>> BytePair::Create(const TokenTable& tokens,
                                                   std::span<const std::string> merges,
                                                   const Pretokenizer& pretokenizer) {
  if (merges.empty()) return Fail(Code::kCorrupt, "tokenizer.ggml.merges: missing or empty");
  if (merges.size() > kMergeCountMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.merges: ", merges.size(), " merges, the limit is ",
                kMergeCountMax);
  }
  KVD_TRY(WordSplitter splitter, WordSplitter::Create(pretokenizer.expressions));
  std::unique_ptr<BytePair> made(
      new BytePair(tokens, std::move(splitter), pretokenizer.ignore_merges, merges.size()));
  KVD_CHECK_OK(made->AddMerges(merges));
  return made;
}

Status BytePair::AddMerges(std::span<const std::string> merges) {
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    std::string_view merge = merges[rank];
    std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size() ||
        merge.size() > 2 * TokenTable::kTokenBytesMax) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.merges: merge ", rank,
                  " is not two texts separated by a space");
    }
    std::string_view left = merge.substr(0, space);
    std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    merges_.Add(SymbolOf(left), SymbolOf(right),
                {static_cast<std::int32_t>(rank), SymbolOf(joined)});
  }
  return {};
}

std::int32_t BytePair::SymbolOf(std::string_view text) {
  TokenId token = tokens_.Find(text);
  if (token != kNoToken) return token;
  auto next = static_cast<std::int32_t>(tokens_.token_count() + extra_symbols_.size());
  auto [entry, added] = extra_symbols_.emplace(text, next);
  if (!added) return entry->second;
  // A text that is not a token is written as the tokens of the single bytes of its spelling; bytes
  // without a token are dropped.
  std::vector<TokenId>& spelled = extra_tokens_.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    TokenId byte_token = tokens_.Find(text.substr(i, 1));
    if (byte_token != kNoToken) spelled.push_back(byte_token);
  }
  return next;
}

void BytePair::AppendSymbol(std::int32_t symbol, std::vector<TokenId>& tokens) const {
  auto token_count = static_cast<std::int32_t>(tokens_.token_count());
  if (symbol < token_count) {
    tokens.push_back(symbol);
    return;
  }
  const std::vector<TokenId>& spelled =
      extra_tokens_[static_cast<std::size_t>(symbol - token_count)];
  tokens.insert(tokens.end(), spelled.begin(), spelled.end());
}

Status BytePair::Append(std::string_view text, bool, std::vector<TokenId>& tokens,
                        WorkControl& work) const {
  WellFormedText well_formed(text);
  KVD_TRY(std::vector<std::size_t> words, splitter_.Split(well_formed.view(), work));
  WordMerger merger(*this, work);
  std::size_t view_end = 0;
  std::size_t begin = 0;
  for (std::size_t word_bytes : words) {
    view_end += word_bytes;
    std::size_t end = well_formed.OriginalOffset(view_end);
    KVD_CHECK_OK(merger.Append(text.substr(begin, end - begin), tokens));
    begin = end;
  }
  return {};
}

}  // namespace kvd
