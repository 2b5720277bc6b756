// Writes the seeds of tokenizer_fuzz into a directory: texts and tokens for each vocabulary.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/small_vocabularies.h"
#include "tests/fuzz/tokenizer_input.h"

namespace kvd::tokenizer_corpus {
namespace {

using kvd::test::WriteSeed;

constexpr std::string_view kTexts[] = {
    "hello  hello\n",
    "The kite's green: 1234 caf\u00e9 \u4e2d\u6587, don't!",
    "<user> a <|end|></s>[MASK] <unk>",
    "abababABq\u00a0\t \u0301e\u0301",
    "x  <a<ab><ab><c>  ab><ab><c \t<mask> <ab><c> b><c",
    "un\xff\xf0\x9f\x98\x80\xe2\x82 able ' s . ?",
    "ac<dna>acgtacGT</dna>\n\nABc'LL 1234567\u0661   \ufeffabb \\ hello wor\r\n/",
};

std::string Input(std::size_t vocabulary, unsigned bits, std::string_view rest) {
  std::string input = {static_cast<char>(vocabulary), static_cast<char>(bits)};
  return input.append(rest);
}

}  // namespace

int Make(const std::string& folder) {
  const auto write = [&](const std::string& name, const std::string& input) {
    WriteSeed(folder, name, std::as_bytes(std::span(input)));
  };
  const auto all = kvd::test::SmallVocabularies();
  for (std::size_t at = 0; at < all.size(); ++at) {
    for (std::size_t text = 0; text < std::size(kTexts); ++text) {
      for (const unsigned bits :
           {static_cast<unsigned>(text % 4), unsigned{kvd::test::kParseSpecial}}) {
        write(all[at].name + "_text" + std::to_string(text) + "_" + std::to_string(bits),
              Input(at, bits, kTexts[text]));
      }
    }
    std::string tokens;
    for (std::size_t token = 0; token < all[at].data.tokens.size(); token += 1 + token / 8) {
      tokens.push_back(static_cast<char>(token & 0xff));
      tokens.push_back(static_cast<char>(token >> 8));
    }
    write(all[at].name + "_tokens", Input(at, kvd::test::kTokensGiven, tokens));
    write(
        all[at].name + "_shown",
        Input(at, kvd::test::kTokensGiven | kvd::test::kUnparseSpecial | kvd::test::kRemoveSpecial,
              tokens));
  }
  return 0;
}

}  // namespace kvd::tokenizer_corpus
