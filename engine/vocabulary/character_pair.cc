#include "engine/vocabulary/character_pair.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/well_formed_text.h"
#include "engine/vocabulary/word_memo.h"
#include "engine/vocabulary/word_merger.h"
#include "engine/vocabulary/work_units.h"

namespace kvd {
namespace {

Status AppendMerged(std::string_view word, const MergeRules& rules, WordMerger& merger,
                    WorkMeter& meter, std::vector<TokenId>& tokens) {
  MergeChain& chain = merger.chain();
  chain.Clear();
  for (std::size_t at = 0; at < word.size();) {
    KVD_CHECK_OK(meter.Spend(kCharacterUnits));
    const std::size_t bytes = std::max<std::size_t>(WellFormedBytes(word.substr(at, 4)), 1);
    chain.Append(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(bytes),
                 rules.SymbolOf(word.substr(at, bytes)));
    at += bytes;
  }
  KVD_CHECK_OK(merger.Merge());
  for (std::int32_t i = 0; i >= 0; i = chain[i].next) {
    KVD_CHECK_OK(meter.Spend(1));
    const ChainSymbol& symbol = chain[i];
    if (symbol.id == MergeRules::kNoSymbol) {
      rules.AppendBytes(word.substr(symbol.begin, symbol.bytes), tokens);
    } else {
      rules.AppendSymbol(symbol.id, tokens);
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<CharacterPair>> CharacterPair::Create(const TokenTable& tokens,
                                                             std::span<const std::string> merges,
                                                             const Pretokenizer& pretokenizer) {
  KVD_TRY(MergeRules rules, MergeRules::Create(tokens, merges, FindHexTokens(tokens)));
  KVD_TRY(WordSplitter splitter, WordSplitter::Create(pretokenizer.stages));
  SpaceBoundaries boundaries;
  for (std::string merged : merges) {
    merged.erase(merged.find(' ', 1), 1);
    boundaries.Add(merged);
  }
  return std::unique_ptr<CharacterPair>(new CharacterPair(
      tokens, std::move(rules), std::move(splitter), std::move(boundaries), pretokenizer));
}

bool CharacterPair::IsTakenWhole(std::string_view word) const {
  if (pretokenizer_.ignore_merges) return true;
  return pretokenizer_.joins_line_feeds && word.find_first_not_of('\n') == word.npos;
}

Status CharacterPair::Append(std::string_view text, bool, std::vector<TokenId>& tokens,
                             WorkControl& work) const {
  std::string escaped;
  if (pretokenizer_.spelling == Spelling::kEscapedCharacters) {
    escaped = EscapeSpaces(text, false);
    text = escaped;
  }
  WellFormedText well_formed(text);
  KVD_TRY(const std::vector<std::size_t> word_bytes, splitter_.Split(well_formed.view(), work));
  WorkMeter meter(work);
  WordMerger merger(rules_, meter);
  WordMemo memo(text.size());
  std::size_t view_end = 0;
  std::size_t begin = 0;
  for (const std::size_t bytes : word_bytes) {
    view_end += bytes;
    const std::size_t end = well_formed.OriginalOffset(view_end);
    std::string_view word = text.substr(begin, end - begin);
    begin = end;
    KVD_CHECK_OK(meter.Spend(kWordUnits));
    const TokenId whole = IsTakenWhole(word) ? tokens_.Find(word) : kNoToken;
    if (whole != kNoToken) {
      tokens.push_back(whole);
      continue;
    }
    while (!word.empty()) {
      const std::string_view part = word.substr(0, boundaries_.WordBytes(word));
      word.remove_prefix(part.size());
      KVD_CHECK_OK(meter.Spend(kWordUnits + part.size()));
      if (!WordMemo::Skips(part) && memo.Append(part, tokens)) continue;
      const std::size_t first = tokens.size();
      KVD_CHECK_OK(AppendMerged(part, rules_, merger, meter, tokens));
      if (!WordMemo::Skips(part)) memo.Remember(part, first, tokens);
    }
  }
  return {};
}

}  // namespace kvd
