#include "engine/vocabulary/hybrid_dna.h"

#include <algorithm>

namespace kvd {
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
