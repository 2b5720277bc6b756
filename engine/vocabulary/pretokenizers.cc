// The expressions differ from the published texts in three ways, and match the same words.
//  - A repetition that needs no backtracking is possessive, so that the library keeps no place to
//    return to for each character of a long word.
//  - A trailing run of white space is matched only from its first character (otherwise each of its
//    characters would start a search, and a long run would take quadratic work); so is white space
//    up to a line end where other alternatives take the run in parts (jais-2).
//  - llama.cpp matches some expressions on a text whose characters are replaced by one character
//    for each class, which excludes white space from a class of the expression; in the expressions
//    of this file, that class does not contain white space.
#include "engine/vocabulary/pretokenizers.h"

#include <algorithm>
#include <array>

namespace kvd {
namespace {

// Joined<...>::kText is the concatenation of the given texts.
template <const std::string_view&... kParts>
struct Joined {
  static constexpr auto kBytes = [] {
    std::array<char, (kParts.size() + ...)> bytes{};
    auto at = bytes.begin();
    ((at = std::ranges::copy(kParts, at).out), ...);
    return bytes;
  }();
  static constexpr std::string_view kText{kBytes.data(), kBytes.size()};
};

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Alternatives of the expressions that follow GPT-4's.
constexpr std::string_view kContraction = R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|)";
constexpr std::string_view kMaybeContraction =
    R"((?:'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))?+)";
constexpr std::string_view kLetters = R"([^\r\n\p{L}\p{N}]?\p{L}+)";
constexpr std::string_view kLettersAndMarks = R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)";
constexpr std::string_view kDigit = R"(|\p{N})";
constexpr std::string_view kThreeNumbers = R"(|\p{N}{1,3})";
constexpr std::string_view kNumbers = R"(|\p{N}+)";
constexpr std::string_view kSymbols = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)";
constexpr std::string_view kSymbolsAndSlashes = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*)";
constexpr std::string_view kBlanks = R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Words that end where a small ASCII letter is followed by a capital one; only ASCII letters have
// case here. A word is capitals and other letters up to a small letter, then small and other
// letters; or, where no small letter follows, all up to the last other letter; or only capitals.
constexpr std::string_view kCasedWords =
    R"([^\r\n\p{L}\p{N}]?+(?:(?:(?![a-z])\p{L})*+(?:(?![A-Z])\p{L})++)"
    R"(|(?:[A-Z]*+(?:(?![A-Za-z])\p{L})++)++|[A-Z]++))";
// As kCasedWords with marks as letters. The character before a word may be a mark, which then
// belongs to the word if the word is not only capitals.
constexpr std::string_view kCasedWordsWithMarks =
    R"((?:[^\r\n\p{L}\p{N}]?(?:(?:(?![a-z])[\p{L}\p{M}])*+(?:(?![A-Z])[\p{L}\p{M}])++)"
    R"(|(?:[A-Z]*+(?:(?![A-Za-z])[\p{L}\p{M}])++)++)|[^\r\n\p{L}\p{N}]?+[A-Z]++))";

constexpr std::string_view kThreeAsciiDigits = R"([0-9][0-9][0-9])";
constexpr std::string_view kLineEnd = R"([\r\n])";
constexpr std::string_view kTrailingSpace = R"((?<!\s)\s+$)";
constexpr std::string_view kIdeographsAndHangul =
    R"((?:(?!\s)[\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}])+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3001}-\x{3002}]+)";
// Cased letters of the Unicode version that the model's authors used.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf})"
    R"(\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f})"
    R"(\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
    R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd})"
    R"(\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77})"
    R"(\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
    R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d})"
    R"(\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc})"
    R"(\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06})"
    R"(\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2})"
    R"(\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)";

// Ideographs and kana.
constexpr std::string_view kIdeographsAndKana =
    R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
// The third expression of deepseek-v3. Characters that it does not match stay between its matches.
constexpr std::string_view kDeepseekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kAsianScripts =
    R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{8c48}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff})"
    R"(\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff})"
    R"(\x{1000}-\x{109f}\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)";
constexpr std::string_view kYoutuScripts =
    R"([\x{ac00}-\x{d7a3}\x{3131}-\x{318e}]+)"
    R"(|[\x{ff01}\x{2026}\x{201c}\x{201d}\x{2018}\x{2019}\x{2014}\x{ff1a}\x{ff1b}\x{ff0c})"
    R"(\x{3001}-\x{303f}\x{fe30}-\x{fe4f}]+|[\x{3105}-\x{312f}]+)"
    R"(|[\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";
// Runs of Han characters, and words of the other letters.
constexpr std::string_view kHanAndWords =
    R"([\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef})"
    R"(\x{2f800}-\x{2fa1f}]+|[^\r\n\p{L}\p{N}]?+(?:(?![\x{3400}-\x{4dbf}\x{4e00}-\x{9fff})"
    R"(\x{f900}-\x{faff}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{2f800}-\x{2fa1f}])\p{L})++)";
constexpr std::string_view kBloomWords =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)";
// llama3 with blanks in powers of two.
constexpr std::string_view kPowersOfBlanks =
    R"(|(?:(?<!\s)|(?<=[\r\n]))\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S))"
    R"(|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)";
// Words with one space between them are one piece.
constexpr std::string_view kPhrases =
    R"([^\r\n\p{L}\p{N}]?+(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kWordsWithMarks =
    R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)";
constexpr std::string_view kSymbolsWithoutLineEnds = R"(| ?[^\s\p{L}\p{N}\r\n]+)";
constexpr std::string_view kLine = R"([^\n]+|\n+)";

constexpr SplitStage kDefault[] = {
    {R"([\p{P}\$\+<=>\^~\|]+)"}, {kGpt2Words}, {R"(\p{N}+)"}, {kThreeAsciiDigits}};
constexpr SplitStage kGpt2[] = {{kGpt2Words}};
constexpr SplitStage kStarcoder[] = {{R"(\p{N})"}, {kGpt2Words}};
constexpr SplitStage kFalcon[] = {{R"([\p{P}\$\+<=>\^~\|`]+)"}, {kGpt2Words}, {kThreeAsciiDigits}};
constexpr SplitStage kLlama3[] = {
    {Joined<kContraction, kLetters, kThreeNumbers, kSymbols, kBlanks>::kText}};
constexpr SplitStage kQwen2[] = {
    {Joined<kContraction, kLetters, kDigit, kSymbols, kBlanks>::kText}};
constexpr SplitStage kQwen35[] = {{Joined<kContraction, kWordsWithMarks, kBlanks>::kText}};
constexpr SplitStage kMinicpm5[] = {
    {R"(\p{N}{1,3})"}, {Joined<kContraction, kLetters, kNumbers, kSymbols, kBlanks>::kText}};
constexpr SplitStage kLaguna[] = {
    {kLine}, {Joined<kContraction, kLetters, kDigit, kSymbols, kBlanks>::kText}};
constexpr SplitStage kJais2[] = {
    {Joined<kContraction, kLetters, kThreeNumbers, kSymbols, kPowersOfBlanks>::kText}};
constexpr SplitStage kSeedCoder[] = {
    {Joined<kContraction, kLetters, kDigit, kSymbolsWithoutLineEnds, kBlanks>::kText}};
constexpr SplitStage kExaoneMoe[] = {{Joined<kContraction, kPhrases>::kText}};
constexpr SplitStage kGpt4o[] = {
    {Joined<kCasedWords, kMaybeContraction, kThreeNumbers, kSymbolsAndSlashes, kBlanks>::kText}};
constexpr SplitStage kGraniteEmbed[] = {
    {Joined<kCasedWordsWithMarks, kMaybeContraction, kThreeNumbers, kSymbolsAndSlashes,
            kBlanks>::kText}};
constexpr SplitStage kTekken[] = {
    {Joined<kCasedWords, kDigit, kSymbolsAndSlashes, kBlanks>::kText}};
constexpr SplitStage kTinyAya[] = {{R"(\p{N}+)", DigitCuts::kGroups},
                                   {Joined<kLettersAndMarks, kMaybeContraction, kThreeNumbers,
                                           kSymbolsAndSlashes, kBlanks>::kText}};
constexpr SplitStage kYoutu[] = {
    {kYoutuScripts},
    {Joined<kLettersAndMarks, kMaybeContraction, kDigit, kSymbolsAndSlashes, kBlanks>::kText}};
constexpr SplitStage kKimiK2[] = {
    {Joined<kHanAndWords, kMaybeContraction, kThreeNumbers, kSymbols, kBlanks>::kText}};
constexpr SplitStage kDeepseekLlm[] = {
    {kLineEnd},       {kDeepseekLetters},     {kDeepseekPunctuation},
    {kTrailingSpace}, {kIdeographsAndHangul}, {R"(\p{N}+)"}};
constexpr SplitStage kDeepseekCoder[] = {
    {kLineEnd}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {kIdeographsAndHangul}, {R"(\p{N})"}};
constexpr SplitStage kDeepseekV3[] = {{R"(\p{N}{1,3})"}, {kIdeographsAndKana}, {kDeepseekWords}};
constexpr SplitStage kAfmoe[] = {
    {R"(\p{N}+)", DigitCuts::kGroups}, {kAsianScripts}, {kDeepseekWords}};
constexpr SplitStage kSuperbpe[] = {{R"(\p{N}+)"}, {R"([0-9]+)", DigitCuts::kBeforeGroups}};
constexpr SplitStage kBloom[] = {{kBloomWords}};
constexpr SplitStage kViking[] = {{kBloomWords}, {R"(\p{N})"}};
constexpr SplitStage kChameleon[] = {{R"(<sentinel:[0-9]+>)"},    {R"(IMGIMG[A-I]{1,4}Z)"},
                                     {R"([\t\n]|    |  )"},       {R"(\p{N})"},
                                     {R"([\p{P}!-/:-@\[-`{-~])"}, {kGpt2Words}};
constexpr SplitStage kLines[] = {{kLine}};
constexpr SplitStage kNotSpaces[] = {{R"(\S+)"}};

constexpr auto kPretokenizers = std::to_array<Pretokenizer>({
    {.name = "gpt-2", .stages = kGpt2},
    {.name = "phi-2", .stages = kGpt2},
    {.name = "jina-es", .stages = kGpt2},
    {.name = "jina-de", .stages = kGpt2},
    {.name = "gigachat", .stages = kGpt2},
    {.name = "jina-v2-es", .stages = kGpt2},
    {.name = "jina-v2-de", .stages = kGpt2},
    {.name = "a.x-4.0", .stages = kGpt2},
    {.name = "mellum", .stages = kGpt2},
    {.name = "modern-bert", .stages = kGpt2},
    {.name = "jina-v1-en", .stages = kGpt2},
    {.name = "jina-v2-code", .stages = kGpt2},
    {.name = "roberta-bpe", .stages = kGpt2},
    {.name = "exaone4", .stages = kGpt2},
    {.name = "mpt", .stages = kGpt2},
    {.name = "olmo", .stages = kGpt2},
    {.name = "jais", .stages = kGpt2},
    {.name = "trillion", .stages = kGpt2},
    {.name = "granite-docling", .stages = kGpt2},
    {.name = "starcoder", .stages = kStarcoder},
    {.name = "refact", .stages = kStarcoder},
    {.name = "command-r", .stages = kStarcoder},
    {.name = "smollm", .stages = kStarcoder},
    {.name = "codeshell", .stages = kStarcoder},
    {.name = "exaone", .stages = kStarcoder},
    {.name = "minerva-7b", .stages = kStarcoder},
    {.name = "mellum2", .stages = kStarcoder},
    {.name = "default", .stages = kDefault},
    {.name = "falcon", .stages = kFalcon},
    {.name = "llama3", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-bpe", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon-h1", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "pixtral", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "midm-2.0", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "lfm2", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "jina-v5-nano", .stages = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "dbrx", .stages = kLlama3},
    {.name = "smaug-bpe", .stages = kLlama3},
    {.name = "glm4", .stages = kLlama3, .default_bos = false},
    {.name = "chatglm-bpe", .stages = kLlama3, .default_bos = false},
    {.name = "qwen2", .stages = kQwen2},
    {.name = "deepseek-r1-qwen", .stages = kQwen2},
    {.name = "kormo", .stages = kQwen2},
    {.name = "f2llmv2", .stages = kQwen2},
    {.name = "megrez", .stages = kQwen2},
    {.name = "stablelm2", .stages = kQwen2},
    {.name = "hunyuan", .stages = kQwen2},
    {.name = "solar-open", .stages = kQwen2},
    {.name = "grok-2", .stages = kQwen2},
    {.name = "qwen35", .stages = kQwen35},
    {.name = "minicpm5", .stages = kMinicpm5, .ignore_merges = true},
    {.name = "laguna", .stages = kLaguna},
    {.name = "jais-2", .stages = kJais2},
    {.name = "seed-coder", .stages = kSeedCoder},
    {.name = "bailingmoe", .stages = kQwen2},
    {.name = "bailingmoe2", .stages = kQwen2},
    {.name = "llada-moe", .stages = kQwen2},
    {.name = "exaone-moe", .stages = kExaoneMoe},
    {.name = "gpt-4o", .stages = kGpt4o},
    {.name = "kanana2", .stages = kGpt4o},
    {.name = "llama4", .stages = kGpt4o},
    {.name = "minimax-m2", .stages = kGpt4o},
    {.name = "talkie", .stages = kGpt4o},
    {.name = "granite-embed-multi-97m", .stages = kGraniteEmbed, .ignore_merges = true},
    {.name = "tekken", .stages = kTekken, .ignore_merges = true, .add_bos = true},
    {.name = "cohere2moe", .stages = kTinyAya},
    {.name = "tiny_aya", .stages = kTinyAya},
    {.name = "youtu", .stages = kYoutu, .ignore_merges = true},
    {.name = "kimi-k2", .stages = kKimiK2, .may_lack_merges = true},
    {.name = "deepseek-llm", .stages = kDeepseekLlm},
    {.name = "deepseek-coder", .stages = kDeepseekCoder},
    {.name = "deepseek-v3", .stages = kDeepseekV3},
    {.name = "hunyuan-dense", .stages = kDeepseekV3},
    {.name = "joyai-llm", .stages = kDeepseekV3},
    {.name = "afmoe", .stages = kAfmoe},
    {.name = "superbpe", .stages = kSuperbpe},
    {.name = "bloom", .stages = kBloom},
    {.name = "gpt3-finnish", .stages = kBloom},
    {.name = "poro-chat", .stages = kBloom},
    {.name = "viking", .stages = kViking},
    {.name = "chameleon", .stages = kChameleon, .add_bos = true},
    {.name = "gemma4",
     .stages = kLines,
     .spelling = Spelling::kEscapedCharacters,
     .joins_line_feeds = true,
     .always_adds_bos = true},
    {.name = "granite-embed-multi-311m",
     .stages = kLines,
     .spelling = Spelling::kEscapedCharacters,
     .joins_line_feeds = true,
     .always_adds_bos = true},
    {.name = "sarvam-moe", .stages = kLines, .spelling = Spelling::kEscapedCharacters},
    {.name = "whitespace",
     .stages = kNotSpaces,
     .spelling = Spelling::kCharacters,
     .lowercases = false},
});

}  // namespace

const Pretokenizer* FindPretokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  auto found = std::ranges::find(kPretokenizers, name, &Pretokenizer::name);
  return found == kPretokenizers.end() ? nullptr : &*found;
}

std::span<const Pretokenizer> AllPretokenizers() { return kPretokenizers; }

}  // namespace kvd
