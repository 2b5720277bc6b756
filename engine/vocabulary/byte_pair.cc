#include "engine/vocabulary/byte_pair.h"

#include <utility>

#include "engine/vocabulary/byte_alphabet.h"
#include "engine/vocabulary/well_formed_text.h"
#include "engine/vocabulary/word_memo.h"
#include "engine/vocabulary/word_merger.h"
#include "engine/vocabulary/work_units.h"

namespace kvd {
// Words: the scratch memory of one call, which appends the tokens of one word after another.
class BytePair::Words {
 public:
  Words(const BytePair& owner, std::size_t text_bytes, WorkControl& work)
      : owner_(owner), meter_(work), merger_(owner.rules_, meter_), memo_(text_bytes) {}

  Status Append(std::string_view word, std::vector<TokenId>& tokens) {
    KVD_CHECK_OK(meter_.Spend(kWordUnits));
    if (WordMemo::Skips(word)) return AppendNew(word, tokens);
    if (memo_.Append(word, tokens)) return {};
    const std::size_t first = tokens.size();
    KVD_CHECK_OK(AppendNew(word, tokens));
    memo_.Remember(word, first, tokens);
    return {};
  }

 private:
  Status AppendNew(std::string_view word, std::vector<TokenId>& tokens) {
    if (owner_.ignore_merges_ && AppendWhole(word, tokens)) return {};
    MergeChain& chain = merger_.chain();
    chain.Clear();
    for (std::size_t i = 0; i < word.size(); ++i) {
      KVD_CHECK_OK(meter_.Spend(1));
      chain.Append(static_cast<std::uint32_t>(i), 1,
                   owner_.byte_symbols_[static_cast<unsigned char>(word[i])]);
    }
    KVD_CHECK_OK(merger_.Merge());
    for (std::int32_t i = 0; i >= 0; i = chain[i].next) {
      KVD_CHECK_OK(meter_.Spend(1));
      owner_.rules_.AppendSymbol(chain[i].id, tokens);
    }
    return {};
  }

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

  const BytePair& owner_;
  WorkMeter meter_;
  WordMerger merger_;
  WordMemo memo_;
  std::string encoded_;
};

BytePair::BytePair(const TokenTable& tokens, MergeRules rules, WordSplitter splitter,
                   bool ignore_merges)
    : tokens_(tokens),
      rules_(std::move(rules)),
      splitter_(std::move(splitter)),
      ignore_merges_(ignore_merges) {
  for (std::size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
    byte_symbols_[byte] = rules_.AddSymbol(ByteCharacter(static_cast<std::uint8_t>(byte)));
  }
}

Result<std::unique_ptr<BytePair>> BytePair::Create(const TokenTable& tokens,
                                                   std::span<const std::string> merges,
                                                   const Pretokenizer& pretokenizer) {
  // A symbol that is no token is written as the tokens of the single bytes of its spelling in the
  // byte alphabet.
  ByteTokens byte_tokens;
  for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte) {
    const char spelled = static_cast<char>(byte);
    byte_tokens[byte] = tokens.Find(std::string_view(&spelled, 1));
  }
  KVD_TRY(MergeRules rules, MergeRules::Create(tokens, merges, byte_tokens));
  KVD_TRY(WordSplitter splitter, WordSplitter::Create(pretokenizer.stages));
  return std::unique_ptr<BytePair>(
      new BytePair(tokens, std::move(rules), std::move(splitter), pretokenizer.ignore_merges));
}

Status BytePair::Append(std::string_view text, bool, std::vector<TokenId>& tokens,
                        WorkControl& work) const {
  WellFormedText well_formed(text);
  KVD_TRY(std::vector<std::size_t> word_bytes, splitter_.Split(well_formed.view(), work));
  Words words(*this, text.size(), work);
  std::size_t view_end = 0;
  std::size_t begin = 0;
  for (std::size_t bytes : word_bytes) {
    view_end += bytes;
    std::size_t end = well_formed.OriginalOffset(view_end);
    KVD_CHECK_OK(words.Append(text.substr(begin, end - begin), tokens));
    begin = end;
  }
  return {};
}

}  // namespace kvd
