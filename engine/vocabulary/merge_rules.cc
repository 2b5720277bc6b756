#include "engine/vocabulary/merge_rules.h"

#include <algorithm>
#include <array>

namespace kvd {
namespace {

struct MergeTexts {
  std::string_view left, right;
};

Result<MergeTexts> Split(std::string_view merge, std::size_t rank) {
  const std::size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size() ||
      merge.size() > 2 * TokenTable::kTokenBytesMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.merges: merge ", rank,
                " is not two texts separated by a space");
  }
  return MergeTexts{merge.substr(0, space), merge.substr(space + 1)};
}

}  // namespace

Result<MergeRules> MergeRules::Create(const TokenTable& tokens, std::span<const std::string> merges,
                                      const ByteTokens& byte_tokens) {
  if (merges.size() > kMergeCountMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.merges: ", merges.size(), " merges, the limit is ",
                kMergeCountMax);
  }
  MergeRules made(tokens, byte_tokens, merges.size());
  for (std::size_t first = 0; first < merges.size(); first += kPartSize) {
    const std::size_t count = std::min(kPartSize, merges.size() - first);
    KVD_CHECK_OK(made.AddPart(merges.subspan(first, count), first));
  }
  return made;
}

// Finding the texts of one merge after the other takes several times as long, because each search
// waits for memory.
Status MergeRules::AddPart(std::span<const std::string> merges, std::size_t first_rank) {
  std::array<std::string_view, 3 * kPartSize> texts;  // of each merge: left, right, both
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    KVD_TRY(const MergeTexts merge, Split(merges[i], first_rank + i));
    texts[3 * i] = merge.left;
    texts[3 * i + 1] = merge.right;
    bytes += merge.left.size() + merge.right.size();
  }
  std::string joined;
  joined.reserve(bytes);  // so that the texts stay where they are
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const std::size_t begin = joined.size();
    joined.append(texts[3 * i]).append(texts[3 * i + 1]);
    texts[3 * i + 2] = std::string_view(joined).substr(begin);
  }
  std::array<std::int32_t, 3 * kPartSize> symbols;
  const std::span used = std::span(texts).first(3 * merges.size());
  tokens_.FindMany(used, symbols);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (symbols[i] == kNoToken) symbols[i] = AddSymbol(used[i]);
    if (i % 3 == 2) rules_.Prefetch(symbols[i - 2], symbols[i - 1]);
  }
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto rank = static_cast<std::int32_t>(first_rank + i);
    rules_.Add(symbols[3 * i], symbols[3 * i + 1], {rank, symbols[3 * i + 2]});
  }
  return {};
}

std::int32_t MergeRules::SymbolOf(std::string_view text) const {
  const TokenId token = tokens_.Find(text);
  if (token != kNoToken || extra_symbols_.empty()) return token;
  const auto found = extra_symbols_.find(std::string(text));
  return found == extra_symbols_.end() ? kNoSymbol : found->second;
}

std::int32_t MergeRules::AddSymbol(std::string_view text) {
  const std::int32_t known = SymbolOf(text);
  if (known != kNoSymbol) return known;
  const auto added = static_cast<std::int32_t>(tokens_.token_count() + extra_symbols_.size());
  extra_symbols_.emplace(text, added);
  AppendBytes(text, extra_tokens_.emplace_back());
  return added;
}

void MergeRules::AppendSymbol(std::int32_t symbol, std::vector<TokenId>& tokens) const {
  const auto token_count = static_cast<std::int32_t>(tokens_.token_count());
  if (symbol < token_count) {
    tokens.push_back(symbol);
    return;
  }
  const std::vector<TokenId>& spelled =
      extra_tokens_[static_cast<std::size_t>(symbol - token_count)];
  tokens.insert(tokens.end(), spelled.begin(), spelled.end());
}

void MergeRules::AppendBytes(std::string_view text, std::vector<TokenId>& tokens) const {
  for (const char byte : text) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(byte)];
    if (token != kNoToken) tokens.push_back(token);
  }
}

}  // namespace kvd
