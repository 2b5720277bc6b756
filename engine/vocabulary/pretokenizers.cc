// Two kinds of expressions differ from the published text but match the same words. A trailing run
// of white space is matched only from its first character (otherwise each of its characters would
// start a search, and a long run would take quadratic time). llama.cpp matches some expressions on
// a text whose characters are replaced by one character per class, which excludes white space from
// a class of the expression; in the expressions of this file, that class does not contain white
// space.
#include "engine/vocabulary/pretokenizers.h"

#include <algorithm>
#include <array>

namespace kvd {
namespace {

constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigits = R"([0-9][0-9][0-9])";
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

constexpr std::string_view kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Words, R"(\p{N}+)",
                                         kThreeDigits};
constexpr std::string_view kGpt2[] = {kGpt2Words};
constexpr std::string_view kStarcoder[] = {R"(\p{N})", kGpt2Words};
constexpr std::string_view kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Words, kThreeDigits};
constexpr std::string_view kLlama3[] = {
    R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kQwen2[] = {
    R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kDeepseekLlm[] = {
    kLineEnd,       kDeepseekLetters,     kDeepseekPunctuation,
    kTrailingSpace, kIdeographsAndHangul, R"(\p{N}+)"};
constexpr std::string_view kDeepseekCoder[] = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                               kIdeographsAndHangul, R"(\p{N})"};

constexpr auto kPretokenizers = std::to_array<Pretokenizer>({
    {.name = "default", .expressions = kDefault},
    {.name = "gpt-2", .expressions = kGpt2},
    {.name = "phi-2", .expressions = kGpt2},
    {.name = "jina-es", .expressions = kGpt2},
    {.name = "jina-de", .expressions = kGpt2},
    {.name = "gigachat", .expressions = kGpt2},
    {.name = "jina-v2-es", .expressions = kGpt2},
    {.name = "jina-v2-de", .expressions = kGpt2},
    {.name = "a.x-4.0", .expressions = kGpt2},
    {.name = "mellum", .expressions = kGpt2},
    {.name = "modern-bert", .expressions = kGpt2},
    {.name = "jina-v1-en", .expressions = kGpt2},
    {.name = "jina-v2-code", .expressions = kGpt2},
    {.name = "roberta-bpe", .expressions = kGpt2},
    {.name = "exaone4", .expressions = kGpt2},
    {.name = "mpt", .expressions = kGpt2},
    {.name = "olmo", .expressions = kGpt2},
    {.name = "jais", .expressions = kGpt2},
    {.name = "trillion", .expressions = kGpt2},
    {.name = "granite-docling", .expressions = kGpt2},
    {.name = "starcoder", .expressions = kStarcoder},
    {.name = "refact", .expressions = kStarcoder},
    {.name = "command-r", .expressions = kStarcoder},
    {.name = "smollm", .expressions = kStarcoder},
    {.name = "codeshell", .expressions = kStarcoder},
    {.name = "exaone", .expressions = kStarcoder},
    {.name = "minerva-7b", .expressions = kStarcoder},
    {.name = "mellum2", .expressions = kStarcoder},
    {.name = "llama3", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-v3", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "llama-bpe", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon3", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "falcon-h1", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "pixtral", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "midm-2.0", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "lfm2", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "jina-v5-nano", .expressions = kLlama3, .ignore_merges = true, .add_bos = true},
    {.name = "dbrx", .expressions = kLlama3},
    {.name = "smaug-bpe", .expressions = kLlama3},
    {.name = "glm4", .expressions = kLlama3, .default_bos = false},
    {.name = "chatglm-bpe", .expressions = kLlama3, .default_bos = false},
    {.name = "qwen2", .expressions = kQwen2},
    {.name = "deepseek-r1-qwen", .expressions = kQwen2},
    {.name = "kormo", .expressions = kQwen2},
    {.name = "f2llmv2", .expressions = kQwen2},
    {.name = "megrez", .expressions = kQwen2},
    {.name = "stablelm2", .expressions = kQwen2},
    {.name = "hunyuan", .expressions = kQwen2},
    {.name = "solar-open", .expressions = kQwen2},
    {.name = "grok-2", .expressions = kQwen2},
    {.name = "deepseek-llm", .expressions = kDeepseekLlm},
    {.name = "deepseek-coder", .expressions = kDeepseekCoder},
    {.name = "falcon", .expressions = kFalcon},
});

}  // namespace

const Pretokenizer* FindPretokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  auto found = std::ranges::find(kPretokenizers, name, &Pretokenizer::name);
  return found == kPretokenizers.end() ? nullptr : &*found;
}

std::span<const Pretokenizer> AllPretokenizers() { return kPretokenizers; }

}  // namespace kvd
