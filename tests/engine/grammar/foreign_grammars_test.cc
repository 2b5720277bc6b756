// The files *.gbnf of a folder that KVD_GBNF_FOLDER names, for instance llama.cpp's grammars/, or
// two small grammars: each compiles, random walks along its masks are beginnings of its texts, and
// a second recogniser (tests/text/tool_calls) agrees on each text and on the characters that the
// masks refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tests/engine/grammar/grammar_texts.h"
#include "tests/text/tool_calls/gbnf_recognizer.h"

namespace kvd::test {
namespace {

namespace fs = std::filesystem;

constexpr int kTextsPerGrammar = 20;
constexpr std::size_t kTextBytesMax = 120;

// Rewrites what the recogniser does not read: comments, tabs, lines within groups, and \uXXXX.
std::string Plain(const std::string& gbnf) {
  std::string plain;
  char quote = 0;  // the character that ends the literal or the class
  int depth = 0;   // of groups
  for (std::size_t i = 0; i < gbnf.size(); ++i) {
    const char c = gbnf[i];
    if (quote != 0 && c == '\\') {
      if (gbnf[i + 1] == 'u') {
        AppendUtf8(static_cast<std::uint32_t>(std::stoul(gbnf.substr(i + 2, 4), nullptr, 16)),
                   plain);
        i += 5;
      } else {
        plain += gbnf.substr(i++, 2);
      }
      continue;
    }
    if (quote == 0 && c == '#') {
      i = std::min(gbnf.find('\n', i), gbnf.size()) - 1;
      continue;
    }
    if (quote == 0) depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '[')) {
      quote = c == '"' ? '"' : ']';
    }
    const bool is_blank = c == '\t' || c == '\r' || (c == '\n' && depth > 0);
    plain += quote == 0 && is_blank ? ' ' : c;
  }
  return plain;
}

bool IsBeginning(const GbnfRecognizer& recognizer, const std::string& text) {
  const auto characters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  return recognizer.AcceptedSymbols(text, {}) == static_cast<std::size_t>(characters);
}

// Draws a text along the masks. It ends where the grammar may end, with a probability of 1 in 8.
std::string DrawText(const std::shared_ptr<Grammar>& grammar, const GbnfRecognizer& recognizer,
                     std::mt19937_64& random) {
  GrammarMatcher matcher(grammar);
  std::string text;
  while (text.size() < kTextBytesMax || !IsValidUtf8(text)) {
    if (matcher.may_end() && random() % 8 == 0) break;
    std::vector<TokenId> tokens = TokensOf(*matcher.Mask());
    std::erase_if(tokens, [](TokenId token) { return token > 255; });
    if (tokens.empty()) {
      EXPECT_TRUE(matcher.may_end()) << text;
      break;
    }
    const auto other = static_cast<TokenId>(1 + random() % 127);
    if (IsValidUtf8(text) && !std::ranges::binary_search(tokens, other)) {
      EXPECT_FALSE(IsBeginning(recognizer, text + static_cast<char>(other)))
          << text << " and " << other;
    }
    const TokenId token = tokens[random() % tokens.size()];
    EXPECT_TRUE(matcher.Accept(token));
    text += static_cast<char>(token);
  }
  return text;
}

// The grammars of the folder by file name; without a folder, two of this file.
std::map<std::string, std::string> GrammarTexts() {
  std::map<std::string, std::string> texts;
  const char* const folder = std::getenv("KVD_GBNF_FOLDER");
  if (folder == nullptr) {
    texts["sums"] = "root ::= term ([-+] term)*\nterm ::= [0-9]+ | \"(\" root \")\"\n";
    texts["words"] = "root ::= word (\" \" word)* \".\"\nword ::= [a-z]+\n";
    return texts;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".gbnf") continue;
    std::ifstream file(entry.path());
    texts[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return texts;
}

TEST(ForeignGrammarsTest, PublishedGrammarsCompileAndASecondRecogniserAgrees) {
  std::mt19937_64 random(1);
  std::size_t grammars = 0;
  for (const auto& [name, gbnf] : GrammarTexts()) {
    SCOPED_TRACE(name);
    const auto grammar = Grammar::Compile(gbnf, GrammarVocabularyOf({}));
    ASSERT_TRUE(grammar) << grammar.error().message;
    const GbnfRecognizer recognizer(Plain(gbnf));
    ++grammars;
    std::size_t bytes = 0;
    for (int i = 0; i < kTextsPerGrammar; ++i) {
      const std::string text = DrawText(*grammar, recognizer, random);
      EXPECT_TRUE(IsPrefix(*grammar, text)) << text;
      EXPECT_TRUE(IsBeginning(recognizer, text)) << text;
      bytes += text.size();
    }
    std::printf("%-24s %zu bytes in %d texts\n", name.c_str(), bytes, kTextsPerGrammar);
  }
  EXPECT_GT(grammars, 0u) << "the folder has no .gbnf file";
}

}  // namespace
}  // namespace kvd::test
