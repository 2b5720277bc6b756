#include "engine/vocabulary/merge_rules.h"

namespace kvd {

Result<MergeRules> MergeRules::Create(const TokenTable& tokens, std::span<const std::string> merges,
                                      const ByteTokens& byte_tokens) {
  if (merges.size() > kMergeCountMax) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.merges: ", merges.size(), " merges, the limit is ",
                kMergeCountMax);
  }
  MergeRules made(tokens, byte_tokens, merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size() ||
        merge.size() > 2 * TokenTable::kTokenBytesMax) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.merges: merge ", rank,
                  " is not two texts separated by a space");
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    made.rules_.Add(made.AddSymbol(left), made.AddSymbol(right),
                    {static_cast<std::int32_t>(rank), made.AddSymbol(joined)});
  }
  return made;
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
