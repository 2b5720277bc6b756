// Vocabularies hold thousands of special tokens, and a text few of them. So the text's runs of four
// bytes are put into a bitmap first, and only tokens all of whose runs are in it are searched for.
#include "engine/vocabulary/special_partition.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>

namespace kvd {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// Whether a text may contain another: never denies one that it does contain.
class RunFilter {
 public:
  explicit RunFilter(std::string_view text) {
    for (std::size_t i = 0; i + kRunBytes <= text.size(); ++i) runs_.set(Hash(text.substr(i)));
  }

  bool MayContain(std::string_view part) const {
    for (std::size_t i = 0; i + kRunBytes <= part.size(); ++i) {
      if (!runs_.test(Hash(part.substr(i)))) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kRunBytes = 4;
  static constexpr int kHashBits = 16;

  static std::uint32_t Hash(std::string_view run) {
    std::uint32_t bytes;
    std::memcpy(&bytes, run.data(), sizeof bytes);
    return (bytes * 0x9e3779b1u) >> (32 - kHashBits);
  }

  std::bitset<1u << kHashBits> runs_;
};

}  // namespace

SpecialPartition::SpecialPartition(const TokenTable& tokens) : tokens_(tokens) {
  constexpr std::uint8_t special = token_attribute::kHidden | token_attribute::kUserDefined;
  for (TokenId token = 0; tokens.Contains(token); ++token) {
    if ((tokens.attributes(token) & special) != 0) searched_.push_back(token);
  }
  std::ranges::stable_sort(searched_, std::ranges::greater(),
                           [&tokens](TokenId token) { return tokens.text(token).size(); });
}

std::vector<TextFragment> SpecialPartition::Cut(std::string_view text, bool parse_special) const {
  std::vector<TextFragment> fragments;
  if (text.empty()) return fragments;
  fragments.push_back({kNoToken, text});
  if (searched_.empty()) return fragments;
  RunFilter filter(text);
  std::vector<TextFragment> scratch;
  for (TokenId token : searched_) {
    bool hidden = (tokens_.attributes(token) & token_attribute::kHidden) != 0;
    if (hidden && !parse_special) continue;
    if (tokens_.text(token).size() > text.size() || !filter.MayContain(tokens_.text(token)))
      continue;
    CutAt(token, fragments, scratch);
  }
  return fragments;
}

void SpecialPartition::CutAt(TokenId token, std::vector<TextFragment>& fragments,
                             std::vector<TextFragment>& scratch) const {
  std::string_view text = tokens_.text(token);
  std::uint8_t attributes = tokens_.attributes(token);
  scratch.clear();
  for (const TextFragment& fragment : fragments) {
    if (fragment.token != kNoToken) {
      scratch.push_back(fragment);
      continue;
    }
    std::string_view rest = fragment.text;
    for (std::size_t at = rest.find(text); at != rest.npos; at = rest.find(text)) {
      std::string_view left = rest.substr(0, at);
      if ((attributes & token_attribute::kStripLeft) != 0)
        left = left.substr(0, left.find_last_not_of(kWhiteSpace) + 1);
      if (!left.empty()) scratch.push_back({kNoToken, left});
      scratch.push_back({token, {}});
      rest.remove_prefix(at + text.size());
      if ((attributes & token_attribute::kStripRight) != 0) {
        rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
      }
    }
    if (!rest.empty()) scratch.push_back({kNoToken, rest});
  }
  fragments.swap(scratch);
}

}  // namespace kvd
