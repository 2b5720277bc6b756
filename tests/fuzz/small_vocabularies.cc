#include "tests/fuzz/small_vocabularies.h"

#include <cstdint>
#include <string_view>

#include "engine/vocabulary/byte_pair.h"
#include "tests/engine/vocabulary/charsmap_bytes.h"
#include "tests/engine/vocabulary/small_models.h"

namespace kvd::test {
namespace {

// Pretokenizers whose expressions all differ (engine/vocabulary/pretokenizers.cc).
constexpr std::string_view kPretokenizers[] = {
    "default", "gpt-2", "starcoder", "llama3", "qwen2", "deepseek-llm", "falcon", "deepseek-coder"};
constexpr std::string_view kMorePretokenizers[] = {
    "qwen35", "minicpm5", "laguna",   "jais-2", "seed-coder", "exaone-moe",
    "gpt-4o", "tekken",   "tiny_aya", "youtu",  "kimi-k2",    "deepseek-v3",
    "afmoe",  "superbpe", "bloom",    "viking", "chameleon",  "granite-embed-multi-97m"};

void Add(VocabularyData& data, std::string text, GgufTokenType type, float score = 0) {
  data.tokens.push_back(std::move(text));
  data.token_types.push_back(static_cast<std::int32_t>(type));
  data.scores.push_back(score);
}

VocabularyData BytePair(std::string_view pre) {
  VocabularyData data;
  data.model = "gpt2";
  data.pre = pre;
  for (unsigned byte = 0; byte < 256; ++byte) {
    Add(data, std::string(ByteCharacter(static_cast<std::uint8_t>(byte))), GgufTokenType::kNormal);
  }
  for (const char* text : {"he", "ll", "hell", "hello", "\u0120hello", "00", "\u0120\u0120"}) {
    Add(data, text, GgufTokenType::kNormal);
  }
  Add(data, "<|end|>", GgufTokenType::kControl);
  Add(data, "<user>", GgufTokenType::kUserDefined);
  Add(data, "<unk>", GgufTokenType::kUnknown);
  // The results of the last two merges, "ab" and "abc", are not in the vocabulary.
  data.merges = {"h e", "l l",           "he ll", "hell o", "\u0120 hello",
                 "0 0", "\u0120 \u0120", "a b",   "ab c"};
  data.bos = data.eos = 263;
  data.unk = 265;
  return data;
}

VocabularyData SentencePiece(bool has_prefix, bool has_bytes) {
  VocabularyData data;
  data.model = "llama";
  Add(data, "<unk>", GgufTokenType::kUnknown);
  Add(data, "<s>", GgufTokenType::kControl);
  Add(data, "</s>", GgufTokenType::kControl);
  for (unsigned byte = 0; has_bytes && byte < 256; ++byte) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    Add(data, std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">",
        GgufTokenType::kByte);
  }
  float score = 0;
  for (const char* text : {"\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello",
                           "\u00e9", "\u2581\u2581"}) {
    Add(data, text, GgufTokenType::kNormal, score);
    score -= 1;
  }
  Add(data, "<user>", GgufTokenType::kUserDefined);
  data.add_space_prefix = has_prefix;
  data.add_eos = !has_prefix;
  return data;
}

// Returns a vocabulary with special tokens that overlap and that remove white space before or after
// them.
VocabularyData OverlappingSpecials(bool strips_left) {
  VocabularyData data = SentencePiece(true, false);
  for (const char* text : {"<a", "<ab>", "ab><", "><", "b><c", "ab><c>", "<mask>"}) {
    Add(data, text, GgufTokenType::kUserDefined);
  }
  (strips_left ? data.pre : data.general_name) = strips_left ? "jina-v2-de" : "phi-3";
  return data;
}

VocabularyData WordPiece(bool has_lowercase) {
  VocabularyData data;
  data.model = "bert";
  for (const char* text : {"[UNK]", "[CLS]", "[SEP]", "[MASK]", "[PAD]"}) {
    Add(data, text, GgufTokenType::kControl);
  }
  for (const char* text :
       {"\u2581un", "aff", "able", "\u2581hello", "\u2581!", "\u2581.", "\u2581'", "\u2581s",
        "\u2581a", "\u2581cafe", "\u2581caf\u00e9", "\u2581\u4e2d", "b", "c", "\u2581Hello"}) {
    Add(data, text, GgufTokenType::kNormal);
  }
  data.unk = 0;
  data.bos = 1;
  data.sep = 2;
  data.mask = 3;
  data.pad = 4;
  data.lowercase = has_lowercase;
  return data;
}

VocabularyData Unigram(bool has_charsmap, bool has_unknown) {
  VocabularyData data;
  data.model = "t5";
  Add(data, "<pad>", GgufTokenType::kControl);
  Add(data, "</s>", GgufTokenType::kControl);
  if (has_unknown) Add(data, "<unk>", GgufTokenType::kUnknown);
  if (!has_unknown) data.unk = 0xffffffff;
  float score = -2;
  for (const char* text : {"\u2581", "a", "b", "ab", "\u2581ab", "abab", "\u00e9", "\u00e9a"}) {
    Add(data, text, GgufTokenType::kNormal, score);
    score -= 1;
  }
  Add(data, "<user>", GgufTokenType::kUserDefined);
  Add(data, "<0x0A>", GgufTokenType::kByte);
  Add(data, "unused", GgufTokenType::kUnused, -1);
  data.add_space_prefix = has_charsmap;
  data.remove_extra_whitespaces = has_charsmap;
  if (has_charsmap) {
    data.precompiled_charsmap =
        CharsmapBytes({{"A", "a"}, {"AB", "ba"}, {"\u00a0", " "}, {"q", ""}, {"\t", "  "}});
  }
  return data;
}

}  // namespace

std::vector<SmallVocabulary> SmallVocabularies() {
  std::vector<SmallVocabulary> all;
  for (const std::string_view pre : kPretokenizers) {
    all.push_back({"byte_pair_" + std::string(pre), BytePair(pre)});
  }
  all.push_back({"sentencepiece", SentencePiece(true, true)});
  all.push_back({"sentencepiece_no_prefix", SentencePiece(false, true)});
  all.push_back({"sentencepiece_no_bytes", SentencePiece(true, false)});
  all.push_back({"wordpiece", WordPiece(true)});
  all.push_back({"wordpiece_cased", WordPiece(false)});
  all.push_back({"unigram", Unigram(false, true)});
  all.push_back({"unigram_charsmap", Unigram(true, true)});
  all.push_back({"unigram_no_unknown", Unigram(true, false)});
  all.push_back({"specials_strip_left", OverlappingSpecials(true)});
  all.push_back({"specials_strip_right", OverlappingSpecials(false)});
  for (const std::string_view pre : kMorePretokenizers) {
    all.push_back({"byte_pair_" + std::string(pre), BytePair(pre)});
  }
  all.push_back({"lines", SmallLinesData()});
  all.push_back({"lines_sarvam", SmallLinesData()});
  all.back().data.model = "gpt2";
  all.back().data.pre = "sarvam-moe";
  all.push_back({"blank_separated", SmallBlankSeparatedData()});
  all.push_back({"dna", SmallDnaData()});
  all.push_back({"longest_match", SmallLongestMatchData()});
  all.push_back({"reverse_unigram", SmallReverseUnigramData()});
  all.push_back({"unigram_user_defined", Unigram(true, true)});
  for (const char* text : {"AB\u00e9", "ba", "\u00e8"}) {
    Add(all.back().data, text, GgufTokenType::kUserDefined);
  }
  return all;
}

}  // namespace kvd::test
