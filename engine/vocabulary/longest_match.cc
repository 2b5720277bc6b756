#include "engine/vocabulary/longest_match.h"

#include <unordered_map>
#include <utility>

#include "engine/vocabulary/work_units.h"

namespace kvd {
namespace {

// The value of a hexadecimal digit; -1 for any other character.
int ValueOfHexDigit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

Result<std::string> UnescapeBytes(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      bytes.push_back(text[at]);
      continue;
    }
    if (++at == text.size()) return Fail(Code::kCorrupt, "ends with a backslash");
    switch (text[at]) {
      case 't': bytes.push_back('\t'); break;
      case 'n': bytes.push_back('\n'); break;
      case 'r': bytes.push_back('\r'); break;
      case 'x': {
        const int high = at + 1 < text.size() ? ValueOfHexDigit(text[at + 1]) : -1;
        const int low = at + 2 < text.size() ? ValueOfHexDigit(text[at + 2]) : -1;
        if (high < 0 || low < 0) return Fail(Code::kCorrupt, "has \\x without two digits");
        bytes.push_back(static_cast<char>(high * 16 + low));
        at += 2;
        break;
      }
      default: bytes.push_back(text[at]);
    }
  }
  return bytes;
}

Result<std::unique_ptr<LongestMatch>> LongestMatch::Create(const TokenTable& tokens, TokenId unk) {
  std::unordered_map<std::string, TokenId> ids;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    Result<std::string> bytes = UnescapeBytes(tokens.text(token));
    if (!bytes) {
      return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: the text of token ", token, " ",
                  bytes.error().message);
    }
    ids[std::move(*bytes)] = token;
  }
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(ids.size());
  for (const auto& [bytes, token] : ids) entries.push_back({bytes, token});
  KVD_TRY(TokenTrie trie, TokenTrie::Create(std::move(entries)));
  return std::unique_ptr<LongestMatch>(new LongestMatch(std::move(trie), unk));
}

Status LongestMatch::Append(std::string_view text, bool, std::vector<TokenId>& tokens,
                            WorkControl& work) const {
  WorkMeter meter(work);
  while (!text.empty()) {
    const TokenTrie::Match match = trie_.LongestPrefix(text);
    KVD_CHECK_OK(meter.Spend(kMatchUnits + kNodeUnits * match.visited));
    const TokenId token = match.bytes > 0 ? match.token : unk_;
    if (token != kNoToken) tokens.push_back(token);
    text.remove_prefix(match.bytes > 0 ? match.bytes : 1);
  }
  return {};
}

}  // namespace kvd
