#include "engine/vocabulary/simple_tokenizers.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/unicode_tables.h"
#include "base/utf8.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/well_formed_text.h"

namespace kvd {

// ---- blank separated

namespace {

// The tokenizer of the words counts the work of a word from zero, so that short words never add up
// to a step; the characters are therefore counted here with the work for them.
constexpr std::size_t kUnitsPerCharacter = 64;
constexpr std::size_t kUnitsPerWord = 512;

}  // namespace

Status BlankSeparated::Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                              WorkControl& work) const {
  WorkMeter meter(work);
  std::string word;
  auto end_word = [&]() -> Status {
    if (word.empty()) return {};
    KVD_CHECK_OK(meter.Spend(kUnitsPerWord));
    KVD_CHECK_OK(words_->Append(word, at_start, tokens, work));
    word.clear();
    return {};
  };
  while (!text.empty()) {
    KVD_CHECK_OK(meter.Spend(kUnitsPerCharacter));
    const std::size_t bytes = WellFormedBytes(text.substr(0, 4));
    const std::string_view character = text.substr(0, bytes == 0 ? 1 : bytes);
    text.remove_prefix(character.size());
    if (bytes == 0) {
      word.append(character);
      continue;
    }
    const std::uint32_t code_point = CodePointOf(character);
    if (IsUnicodeWhiteSpace(code_point)) {
      KVD_CHECK_OK(end_word());
    } else if (lowercase_) {
      AppendUtf8(LowerCase(code_point), word);
    } else {
      word.append(character);
    }
  }
  return end_word();
}

// ---- longest match

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

// ---- hybrid dna

namespace {

constexpr std::string_view kBeginText = "<dna>";
constexpr std::string_view kEndText = "</dna>";
constexpr std::string_view kUnknownGroupText = "<oov>";
constexpr std::string_view kGroupMark = "\xee\x80\x80";  // U+E000
constexpr std::size_t kGroupBases = 6;
constexpr char kFiller = 'A';
constexpr std::size_t kGroupUnits = 64;
constexpr std::size_t kTextUnits =
    512;  // work units of a text between sequences, whatever its length

}  // namespace

HybridDna::HybridDna(const TokenTable& tokens, std::unique_ptr<const TextTokenizer> words)
    : tokens_(tokens),
      words_(std::move(words)),
      begin_(tokens.Find(kBeginText)),
      end_(tokens.Find(kEndText)),
      unknown_group_(tokens.Find(kUnknownGroupText)) {}

Status HybridDna::Append(std::string_view text, bool at_start, std::vector<TokenId>& tokens,
                         WorkControl& work) const {
  const bool has_groups = begin_ != kNoToken && end_ != kNoToken && unknown_group_ != kNoToken;
  if (!has_groups) return words_->Append(text, at_start, tokens, work);
  WorkMeter meter(work);
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find(kBeginText), text.size());
    KVD_CHECK_OK(meter.Spend(kTextUnits + begin));
    if (begin > 0) KVD_CHECK_OK(words_->Append(text.substr(0, begin), at_start, tokens, work));
    if (begin == text.size()) return {};
    text.remove_prefix(begin + kBeginText.size());
    tokens.push_back(begin_);
    const std::size_t end = text.find(kEndText);
    KVD_CHECK_OK(AppendGroups(text.substr(0, end), tokens, meter));
    if (end == text.npos) return {};
    text.remove_prefix(end + kEndText.size());
    tokens.push_back(end_);
  }
  return {};
}

Status HybridDna::AppendGroups(std::string_view bases, std::vector<TokenId>& tokens,
                               WorkMeter& meter) const {
  std::string group;
  while (!bases.empty()) {
    KVD_CHECK_OK(meter.Spend(kGroupUnits));
    group.assign(bases.substr(0, kGroupBases));
    bases.remove_prefix(group.size());
    for (char& base : group) {
      if (base >= 'a' && base <= 'z') base = static_cast<char>(base - 'a' + 'A');
    }
    group.resize(kGroupBases, kFiller);
    const TokenId token = tokens_.Find(group.append(kGroupMark));
    tokens.push_back(token == kNoToken ? unknown_group_ : token);
  }
  return {};
}

std::string_view WithoutGroupMark(const TokenTable& tokens, TokenId token) {
  std::string_view text = tokens.text(token);
  const TokenId unknown_group = tokens.Find(kUnknownGroupText);
  const bool has_mark = text.size() > kGroupMark.size() && text.ends_with(kGroupMark);
  if (unknown_group != kNoToken && token > unknown_group && has_mark) {
    text.remove_suffix(kGroupMark.size());
  }
  return text;
}

}  // namespace kvd
