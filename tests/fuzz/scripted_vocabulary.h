// The vocabulary of the scripted daemon (tests/fuzz/scripted_daemon.h): a token for each byte,
// special tokens, among them the markers of chat templates and of calls, and tokens of some words,
// with which prompts and answers have fewer tokens.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvd::test {

inline constexpr TokenId kScriptedBos = 256;
inline constexpr TokenId kScriptedEos = 257;
// The tokens of infilling: prefix, suffix, middle, repository, file.
inline constexpr TokenId kScriptedInfill = 258;
inline constexpr std::uint32_t kScriptedVocabulary = 312;

std::string_view ScriptedTokenText(TokenId token);
bool IsScriptedSpecial(TokenId token);
// `parses_special`: texts of special tokens become these tokens.
std::vector<TokenId> ScriptedTokens(std::string_view text, bool parses_special);
// `shows_special`: the text has the texts of special tokens.
std::string ScriptedText(std::span<const TokenId> tokens, bool shows_special);

}  // namespace kvd::test
