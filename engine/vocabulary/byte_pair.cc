#include "engine/vocabulary/byte_pair.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/text_tokenizer.h"
#include "engine/vocabulary/well_formed_text.h"
#include "engine/vocabulary/word_merger.h"

namespace kvd {

// ---- byte alphabet

namespace {

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<std::int16_t, 0x144> bytes;  // by code point; -1 if the code point represents no byte
};

bool Prints(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet made;
    made.bytes.fill(-1);
    std::uint32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::uint32_t code_point = Prints(byte) ? byte : next++;
      AppendUtf8(code_point, made.characters[byte]);
      made.bytes[code_point] = static_cast<std::int16_t>(byte);
    }
    return made;
  }();
  return alphabet;
}

}  // namespace

std::string_view ByteCharacter(std::uint8_t byte) { return TheAlphabet().characters[byte]; }

void AppendDecodedBytes(std::string_view text, std::string& bytes) {
  const Alphabet& alphabet = TheAlphabet();
  while (!text.empty()) {
    std::size_t character_bytes = WellFormedBytes(text);
    std::uint32_t code_point = static_cast<unsigned char>(text[0]);
    if (character_bytes == 2) {
      code_point = ((code_point & 0x1f) << 6) | (static_cast<unsigned char>(text[1]) & 0x3f);
    }
    bool known = (character_bytes == 1 || character_bytes == 2) &&
                 code_point < alphabet.bytes.size() && alphabet.bytes[code_point] >= 0;
    if (character_bytes == 0) character_bytes = 1;
    if (known) {
      bytes.push_back(static_cast<char>(alphabet.bytes[code_point]));
    } else {
      bytes.append(text.substr(0, character_bytes));
    }
    text.remove_prefix(character_bytes);
  }
}

// ---- byte pair

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

// ---- character pair

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
