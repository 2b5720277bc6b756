#include "engine/grammar/grammar_vocabulary.h"

#include <algorithm>
#include <utility>

namespace kvd {

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
