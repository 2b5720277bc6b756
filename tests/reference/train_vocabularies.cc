#include "tests/reference/train_vocabularies.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/reference/characters.h"
#include "tests/reference/tokenizers.h"

namespace kvd::reference {
namespace {

constexpr std::size_t kMergeCount = 220;
constexpr std::size_t kPieceCount = 300;
constexpr std::size_t kPieceCharactersMax = 8;

void Add(VocabularyData& data, std::string text, GgufTokenType type, float score = 0) {
  data.tokens.push_back(std::move(text));
  data.token_types.push_back(static_cast<std::int32_t>(type));
  data.scores.push_back(score);
}

using Symbols = std::vector<std::string>;
using Pair = std::pair<std::string, std::string>;

// Returns the most frequent pair with its count; of equally frequent pairs, the first one in byte
// order.
std::pair<Pair, std::size_t> MostFrequentPair(const std::vector<Symbols>& words) {
  std::map<Pair, std::size_t> counts;
  for (const Symbols& word : words) {
    for (std::size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
  }
  return *std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
}

void Merge(const Pair& pair, Symbols& word) {
  for (std::size_t i = 0; i + 1 < word.size(); ++i) {
    if (word[i] != pair.first || word[i + 1] != pair.second) continue;
    word[i] += word[i + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

// Counts all substrings of up to kPieceCharactersMax characters.
void CountPieces(const std::string& text, std::map<std::string, std::size_t>& counts) {
  const std::vector<char32_t> characters = CodePoints(text);
  for (std::size_t begin = 0; begin < characters.size(); ++begin) {
    std::string piece;
    const std::size_t end = std::min(characters.size(), begin + kPieceCharactersMax);
    for (std::size_t i = begin; i < end; ++i) ++counts[piece += Utf8(characters[i])];
  }
}

// Returns whether a piece is a single character, not counting a leading U+2581.
bool IsCharacter(const std::string& piece) {
  std::vector<char32_t> characters = CodePoints(piece);
  if (characters.front() == 0x2581) characters.erase(characters.begin());
  return characters.size() <= 1;
}

// Returns the pieces that occur at least twice: all single characters, followed by the kPieceCount
// other pieces that cover the most bytes.
std::vector<std::pair<std::string, std::size_t>> BestPieces(
    const std::map<std::string, std::size_t>& counts) {
  constexpr std::size_t kCountMin = 2;
  std::vector<std::pair<std::string, std::size_t>> characters, pieces;
  for (const auto& entry : counts) {
    if (entry.second >= kCountMin)
      (IsCharacter(entry.first) ? characters : pieces).emplace_back(entry);
  }
  // Pieces that cover equally many bytes are ordered by their own bytes.
  std::ranges::sort(pieces, [](const auto& a, const auto& b) {
    const std::size_t covers_a = a.second * a.first.size(), covers_b = b.second * b.first.size();
    return covers_a != covers_b ? covers_a > covers_b : a.first < b.first;
  });
  pieces.resize(std::min(pieces.size(), kPieceCount));
  characters.insert(characters.end(), pieces.begin(), pieces.end());
  return characters;
}

}  // namespace

VocabularyData TrainBytePair(const std::vector<std::string>& texts) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    Add(data, ByteCharacterOf(static_cast<unsigned char>(byte)), GgufTokenType::kNormal);
  }
  std::vector<Symbols> words;
  for (const std::string& text : texts) {
    for (const std::string& word : Gpt2Words(text)) {
      Symbols& symbols = words.emplace_back();
      for (const char byte : word) {
        symbols.push_back(ByteCharacterOf(static_cast<unsigned char>(byte)));
      }
    }
  }
  while (data.merges.size() < kMergeCount) {
    const Pair pair = MostFrequentPair(words).first;
    for (Symbols& word : words) Merge(pair, word);
    data.merges.push_back(pair.first + " " + pair.second);
    Add(data, pair.first + pair.second, GgufTokenType::kNormal);
  }
  Add(data, "<|end|>", GgufTokenType::kControl);
  data.bos = data.eos = static_cast<std::uint32_t>(data.tokens.size() - 1);
  return data;
}

VocabularyData TrainUnigram(const std::vector<std::string>& texts) {
  VocabularyData data;
  data.model = "t5";
  data.add_space_prefix = true;
  data.remove_extra_whitespaces = true;
  Add(data, "<pad>", GgufTokenType::kControl);
  Add(data, "</s>", GgufTokenType::kControl);
  Add(data, "<unk>", GgufTokenType::kUnknown);
  data.pad = 0;
  data.eos = 1;
  data.unk = 2;
  std::map<std::string, std::size_t> counts;
  std::size_t total = 0;
  for (const std::string& text : texts) {
    const std::string normalized = UnigramNormalized(text);
    CountPieces(normalized, counts);
    total += CodePoints(normalized).size();
  }
  // The removed characters are no tokens, but longer pieces contain them, so that the score of the
  // unknown token affects how a word is divided.
  for (const char* character : {"k", "w", "o"}) counts.erase(character);
  for (const auto& [piece, count] : BestPieces(counts)) {
    const double share = static_cast<double>(count) / static_cast<double>(total);
    Add(data, piece, GgufTokenType::kNormal, static_cast<float>(std::log(share)));
  }
  return data;
}

VocabularyData TrainWordPiece(const std::vector<std::string>& texts) {
  VocabularyData data;
  data.model = "bert";
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) {
    Add(data, text, GgufTokenType::kControl);
  }
  data.pad = 0;
  data.unk = 1;
  data.bos = 2;
  data.sep = 3;
  data.mask = 4;
  std::map<std::string, std::size_t> counts;
  for (const std::string& text : texts) {
    for (const std::string& word : BertWords(text)) CountPieces("\u2581" + word, counts);
  }
  counts.erase("\u2581");
  for (const auto& [piece, count] : BestPieces(counts)) {
    Add(data, piece, GgufTokenType::kNormal);
  }
  return data;
}

}  // namespace kvd::reference
