#include "tests/engine/vocabulary/small_models.h"

#include <string>
#include <string_view>
#include <utility>

#include "engine/vocabulary/byte_pair.h"

namespace kvd::test {
namespace {

void Add(VocabularyData& data, std::string text, GgufTokenType type = GgufTokenType::kNormal,
         float score = 0) {
  data.tokens.push_back(std::move(text));
  data.token_types.push_back(static_cast<std::int32_t>(type));
  data.scores.push_back(score);
}

std::string HexText(unsigned byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
}

void AddBytes(VocabularyData& data) {
  for (unsigned byte = 0; byte < 256; ++byte) Add(data, HexText(byte), GgufTokenType::kByte);
}

}  // namespace

VocabularyData SmallLinesData() {
  VocabularyData data;
  data.model = "gemma4";
  AddBytes(data);
  for (const char* text :
       {"\u2581", "h", "e", "l", "o", "he", "ll", "\u2581h", "hell", "\n", "\n\n", "\u00e9"}) {
    Add(data, text);
  }
  Add(data, "<bos>", GgufTokenType::kControl);
  Add(data, "<user>", GgufTokenType::kUserDefined);
  // The result of the last merge is no token.
  data.merges = {"h e", "l l", "\u2581 h", "he ll", "o \u00e9"};
  data.bos = 268;
  return data;
}

VocabularyData SmallBlankSeparatedData() {
  VocabularyData data;
  data.model = "whitespace";
  data.pre = "whitespace";
  Add(data, "<s>", GgufTokenType::kControl);
  for (const char* text : {"h", "e", "l", "o", "he", "lo", "\u00e9", "H"}) Add(data, text);
  Add(data, "<0xC3>", GgufTokenType::kByte);
  data.merges = {"h e", "l o"};
  data.bos = data.eos = 0;
  return data;
}

VocabularyData SmallDnaData() {
  VocabularyData data;
  data.model = "hybriddna";
  data.pre = "gpt-2";
  for (unsigned byte = 0; byte < 256; ++byte) {
    Add(data, std::string(ByteCharacter(static_cast<std::uint8_t>(byte))));
  }
  for (const char* text :
       {"ac", "<dna>", "</dna>", "<oov>", "ACGTAC\ue000", "AAAAAA\ue000", "GTAAAA\ue000"}) {
    Add(data, text);
  }
  data.merges = {"a c"};
  return data;
}

VocabularyData SmallLongestMatchData() {
  VocabularyData data;
  data.model = "rwkv";
  Add(data, "<s>", GgufTokenType::kControl);
  for (unsigned byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789abcdef";
    const bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '\\';
    Add(data, is_plain ? std::string(1, static_cast<char>(byte))
                       : std::string("\\x") + digits[byte / 16] + digits[byte % 16]);
  }
  for (const char* text : {"he", "hell", "hello wor", "\\r\\n", "\\xe4\\xbd", "\\'"}) {
    Add(data, text);
  }
  Add(data, "unused", GgufTokenType::kUnused);
  return data;
}

VocabularyData SmallReverseUnigramData() {
  VocabularyData data;
  data.model = "plamo2";
  for (const char* text : {"<|unk|>", "<|bos|>", "<|eos|>", "<|pad|>"}) {
    Add(data, text, GgufTokenType::kControl);
  }
  AddBytes(data);
  const std::pair<const char*, float> scored[] = {{"a", -1.f},     {"b", -1.f},      {"ab", -1.5f},
                                                  {"abc", -9.f},   {"\u00e9", -2.f}, {" ", -1.f},
                                                  {"bb", -1000.f}, {"aa", -3000.f}};
  for (const auto& [text, score] : scored) Add(data, text, GgufTokenType::kNormal, score);
  Add(data, "<user>", GgufTokenType::kUserDefined);
  return data;
}

}  // namespace kvd::test
