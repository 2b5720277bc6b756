#include "tests/fuzz/scripted_vocabulary.h"

#include <array>
#include <iterator>

#include "base/check.h"

namespace kvd::test {
namespace {

constexpr TokenId kBytes = 256;

// From token 256 on.
constexpr std::string_view kSpecial[] = {
    "<s>",         "</s>",          "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
    "<|repo|>",    "<|file_sep|>",  "<|im_start|>",   "<|im_end|>",     "<think>",
    "</think>",    "<tool_call>",   "</tool_call>",   "[TOOL_CALLS]",   "[ARGS]",
    "<|channel|>", "<|message|>",   "<|start|>",      "<|end|>",        "<|call|>",
    "<|return|>",  "<|constrain|>", "<|python_tag|>", "<|eom_id|>",     "<arg_key>",
    "</arg_key>",  "<arg_value>",   "</arg_value>",   "<function=",     "</function>",
    "<parameter=", "</parameter>"};
// Behind the special tokens.
constexpr std::string_view kWords[] = {"{\"name\": \"",  "\"arguments\": ", "\"parameters\": ",
                                       "{\"x\": 1}",     "hello",           " world",
                                       "a reason",       "analysis",        "commentary",
                                       "final",          "an answer",       "functions.",
                                       "json",           "assistant",       "user",
                                       "system",         " line\n",         "and another",
                                       "one\n",          "parameter",       "unknown",
                                       "a rather long ", "text that has ",  "sixty bytes"};
constexpr TokenId kFirstWord = kBytes + static_cast<TokenId>(std::size(kSpecial));
static_assert(kFirstWord + std::size(kWords) == kScriptedVocabulary);

constexpr std::array<char, 256> kByteTexts = [] {
  std::array<char, 256> texts{};
  for (std::size_t i = 0; i < texts.size(); ++i) texts[i] = static_cast<char>(i);
  return texts;
}();

// Whether a text of more than one byte begins with the byte.
constexpr std::array<bool, 256> kBeginsLonger = [] {
  std::array<bool, 256> begins{};
  for (const auto text : kSpecial) begins[static_cast<unsigned char>(text.front())] = true;
  for (const auto text : kWords) begins[static_cast<unsigned char>(text.front())] = true;
  return begins;
}();

}  // namespace

std::string_view ScriptedTokenText(TokenId token) {
  KVD_ASSERT(token >= 0 && token < static_cast<TokenId>(kScriptedVocabulary));
  const auto index = static_cast<std::size_t>(token);
  if (token < kBytes) return {&kByteTexts[index], 1};
  if (token >= kFirstWord) return kWords[index - static_cast<std::size_t>(kFirstWord)];
  return kSpecial[index - static_cast<std::size_t>(kBytes)];
}

bool IsScriptedSpecial(TokenId token) { return token >= kBytes && token < kFirstWord; }

std::vector<TokenId> ScriptedTokens(std::string_view text, bool parses_special) {
  std::vector<TokenId> tokens;
  tokens.reserve(text.size());
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    if (!kBeginsLonger[first]) {
      tokens.push_back(first);
      text.remove_prefix(1);
      continue;
    }
    std::size_t bytes = 1;
    TokenId token = first;
    const auto look = [&](std::span<const std::string_view> texts, TokenId begin) {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (texts[i].front() != text.front() || texts[i].size() <= bytes) continue;
        if (!text.starts_with(texts[i])) continue;
        bytes = texts[i].size();
        token = begin + static_cast<TokenId>(i);
      }
    };
    look(kWords, kFirstWord);
    if (parses_special) look(kSpecial, kBytes);
    tokens.push_back(token);
    text.remove_prefix(bytes);
  }
  return tokens;
}

std::string ScriptedText(std::span<const TokenId> tokens, bool shows_special) {
  std::string text;
  for (const TokenId token : tokens) {
    if (shows_special || !IsScriptedSpecial(token)) text += ScriptedTokenText(token);
  }
  return text;
}

}  // namespace kvd::test
