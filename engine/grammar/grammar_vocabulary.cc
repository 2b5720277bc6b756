#include "engine/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace kvd {

// ---- vocabulary trie
// The sorted texts, each compared with the one before, give the nodes in depth-first order: a text
// opens a node for each byte after the common prefix, and closes the nodes of the earlier text that
// are deeper than the common prefix.

namespace {

using ByteGroups = VocabularyTrie::ByteGroups;

// Each printable character and each of \t \n \r is a group of its own, except that the letters a to
// z, the letters A to Z, the digits, and the other control characters each form one group.
std::array<ByteGroups, 128> MakeAsciiGroups() {
  std::array<ByteGroups, 128> groups{};
  unsigned next = 4;
  for (unsigned byte = 0; byte < 128; ++byte) {
    const char c = static_cast<char>(byte);
    unsigned group = 0;
    if (c >= 'a' && c <= 'z') {
      group = 1;
    } else if (c >= 'A' && c <= 'Z') {
      group = 2;
    } else if (c >= '0' && c <= '9') {
      group = 3;
    } else if (byte >= 0x20 || c == '\t' || c == '\n' || c == '\r') {
      group = next++;
    }
    groups[byte] = ByteGroups{1} << group;
  }
  return groups;
}

}  // namespace

const std::array<ByteGroups, 128>& VocabularyTrie::AsciiGroups() {
  static const std::array<ByteGroups, 128> groups = MakeAsciiGroups();
  return groups;
}

Result<VocabularyTrie> VocabularyTrie::Create(std::vector<Entry> entries) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    const int order = a.text.compare(b.text);
    return order < 0 || (order == 0 && a.token < b.token);
  });
  VocabularyTrie made;
  made.nodes_.push_back({});
  std::vector<std::uint32_t> open{0};  // by depth: the node of the present prefix
  std::string_view before;
  const auto close = [&](std::size_t depth) {
    for (; open.size() > depth + 1; open.pop_back())
      made.nodes_[open.back()].skip = static_cast<std::uint32_t>(made.nodes_.size());
  };
  for (const Entry& entry : entries) {
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(before, entry.text).in1 - before.begin());
    close(common);
    if (made.nodes_.size() + entry.text.size() - common > kNodesMax)
      return Fail(Code::kUnsupported, "vocabulary: its tokens have more than ", kNodesMax,
                  " prefixes");
    for (std::size_t i = common; i < entry.text.size(); ++i) {
      open.push_back(static_cast<std::uint32_t>(made.nodes_.size()));
      made.nodes_.push_back({.token = static_cast<std::uint32_t>(made.tokens_.size()),
                             .depth = static_cast<std::uint16_t>(i + 1),
                             .byte = static_cast<std::uint8_t>(entry.text[i])});
    }
    made.depth_max_ = std::max(made.depth_max_, static_cast<std::uint32_t>(entry.text.size()));
    made.tokens_.push_back(entry.token);
    before = entry.text;
  }
  close(0);
  made.nodes_[0].skip = static_cast<std::uint32_t>(made.nodes_.size());
  made.nodes_.push_back({.token = static_cast<std::uint32_t>(made.tokens_.size())});
  made.FindGroups(entries);
  made.FindHeights();
  return made;
}

// Backwards, so that a node's children precede it; `heights` has the heights by depth of the
// children seen since the last node of the depth above.
void VocabularyTrie::FindHeights() {
  std::vector<std::uint32_t> heights(depth_max_ + 2);
  for (std::uint32_t node = node_count(); node-- > 1;) {
    const std::uint32_t below = std::exchange(heights[depth(node) + 1], 0);
    const std::uint32_t own = std::min(below + 1, kHeightMax);
    nodes_[node].height = static_cast<std::uint8_t>(own);
    heights[depth(node)] = std::max(heights[depth(node)], own);
  }
}

// For each token and each node on its path: the groups of the bytes from the node's byte on. A
// suffix of the text has kBrokenGroup unless it consists of whole characters.
void VocabularyTrie::FindGroups(std::span<const Entry> entries) {
  groups_.assign(nodes_.size(), 0);
  std::vector<ByteGroups> suffixes;
  std::vector<std::uint32_t> path(depth_max_ + 1);
  std::uint32_t node = 0;
  for (const Entry& entry : entries) {
    const std::string_view text = entry.text;
    // suffixes[i]: the groups of text.substr(i).
    suffixes.assign(text.size() + 1, 0);
    for (std::size_t i = text.size(); i-- > 0;) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      if (byte < 0x80) {
        suffixes[i] = suffixes[i + 1] | AsciiGroups()[byte];
        continue;
      }
      const std::size_t bytes = WellFormedBytes(text.substr(i));
      suffixes[i] = bytes == 0 ? kBrokenGroup : suffixes[i + bytes] | kCharacterGroup;
    }
    // The nodes that this token opens follow the nodes of the tokens before it.
    while (node + 1 < node_count() &&
           nodes_[node + 1].token < static_cast<std::uint32_t>(&entry - entries.data()) + 1) {
      ++node;
      path[nodes_[node].depth] = node;
    }
    for (std::size_t i = 0; i < text.size(); ++i) groups_[path[i + 1]] |= suffixes[i];
  }
}

// ---- grammar vocabulary
Result<std::shared_ptr<const GrammarVocabulary>> GrammarVocabulary::Create(
    const Vocabulary& vocabulary, std::uint32_t row_size) {
  const std::uint32_t vocab_size = vocabulary.vocab_size();
  if (row_size < vocab_size)
    return Fail(Code::kInvalidArgument, "row_size: ", row_size, ", the vocabulary has ", vocab_size,
                " tokens");
  std::string texts;
  std::vector<std::uint32_t> text_ends;
  std::unordered_map<std::string, TokenId> bracketed;
  std::vector<std::uint64_t> named((std::size_t{row_size} + 63) / 64), with_text(named.size());
  for (TokenId token = 0; vocabulary.Contains(token); ++token) {
    KVD_TRY(const std::string_view text, vocabulary.Piece(token, false));
    KVD_TRY(const std::string_view name, vocabulary.Piece(token, true));
    const bool ends = vocabulary.IsEndOfGeneration(token);
    if (!ends) texts.append(text);
    text_ends.push_back(static_cast<std::uint32_t>(texts.size()));
    if (name.size() > 2 && name.starts_with('<') && name.ends_with('>'))
      bracketed.try_emplace(std::string(name), token);
    const auto bit = static_cast<std::size_t>(token);
    if (!ends && !name.empty()) named[bit / 64] |= std::uint64_t{1} << (bit % 64);
    if (!ends && !text.empty()) with_text[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
  std::vector<VocabularyTrie::Entry> entries;
  for (std::size_t token = 0; token < text_ends.size(); ++token) {
    const std::size_t begin = token == 0 ? 0 : text_ends[token - 1];
    const std::string_view text = std::string_view(texts).substr(begin, text_ends[token] - begin);
    if (!text.empty()) entries.push_back({text, static_cast<TokenId>(token)});
  }
  KVD_TRY(VocabularyTrie trie, VocabularyTrie::Create(std::move(entries)));
  const std::shared_ptr<GrammarVocabulary> made(new GrammarVocabulary(std::move(trie)));
  made->row_size_ = row_size;
  made->texts_ = std::move(texts);
  made->text_ends_ = std::move(text_ends);
  const auto ends = vocabulary.end_of_generation();
  made->end_of_generation_.assign(ends.begin(), ends.end());
  made->bracketed_ = std::move(bracketed);
  made->named_tokens_ = std::move(named);
  made->text_tokens_ = std::move(with_text);
  return std::shared_ptr<const GrammarVocabulary>(made);
}

bool GrammarVocabulary::IsEndOfGeneration(TokenId token) const {
  return std::ranges::binary_search(end_of_generation_, token);
}

TokenId GrammarVocabulary::FindBracketed(std::string_view text) const {
  const auto found = bracketed_.find(std::string(text));
  return found == bracketed_.end() ? kNoToken : found->second;
}

std::size_t GrammarVocabulary::held_bytes() const {
  std::size_t bytes = sizeof(*this) + texts_.capacity() + trie_.held_bytes() +
                      text_ends_.capacity() * sizeof(std::uint32_t) +
                      (named_tokens_.capacity() + text_tokens_.capacity()) * sizeof(std::uint64_t);
  for (const auto& [text, token] : bracketed_)
    bytes += sizeof(std::pair<std::string, TokenId>) + text.capacity() + 16;
  return bytes;
}

}  // namespace kvd
