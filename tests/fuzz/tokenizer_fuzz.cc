// Tokenizes any text with each kind of tokenizer, and converts any tokens to text.
//
// Oracle: converting a text to tokens and back yields the same bytes with byte-level vocabularies
// and with those that search bytes (rwkv, plamo2), and the same bytes except for escaped spaces
// with vocabularies of characters that have byte tokens. Vocabularies of the other kinds must
// return tokens of the vocabulary. The text of tokens is the concatenation of their pieces, in one
// call and streamed, and a number that is no token is refused. Seeds: make_corpus tokenizer
// FOLDER.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "engine/vocabulary/vocabulary.h"
#include "tests/fuzz/small_vocabularies.h"
#include "tests/fuzz/tokenizer_input.h"

namespace {

using namespace kvd;

struct TestedVocabulary {
  std::unique_ptr<Vocabulary> vocabulary;
  bool changes_text = false;  // bases are written in capitals and filled up
};

const std::vector<TestedVocabulary>& AllVocabularies() {
  static const auto all = [] {
    std::vector<TestedVocabulary> made;
    for (test::SmallVocabulary& small : test::SmallVocabularies()) {
      const bool changes_text = small.data.model == "hybriddna";
      auto vocabulary = Vocabulary::Create(std::move(small.data));
      KVD_ASSERT(vocabulary.has_value() && (*vocabulary)->no_tokenizer_reason().empty());
      made.push_back({std::move(*vocabulary), changes_text});
    }
    return made;
  }();
  return all;
}

// Replaces the escape U+2581 by a space, because SentencePiece does not distinguish them.
std::string Unescaped(std::string_view text) {
  constexpr std::string_view kEscape = "\u2581";
  std::string unescaped;
  while (!text.empty()) {
    const bool is_space = text.starts_with(kEscape);
    unescaped.push_back(is_space ? ' ' : text[0]);
    text.remove_prefix(is_space ? kEscape.size() : 1);
  }
  return unescaped;
}

bool HasSpecial(const Vocabulary& vocabulary, std::span<const TokenId> tokens) {
  return std::ranges::any_of(tokens, [&](TokenId token) {
    const std::string_view text = *vocabulary.TokenText(token);
    return vocabulary.IsControl(token) || text == "<user>" || text == "<unk>";
  });
}

bool HasByteTokens(const Vocabulary& vocabulary) {
  int count = 0;
  for (TokenId token = 0; vocabulary.Contains(token); ++token) count += vocabulary.IsByte(token);
  return count == 256;
}

// Returns the concatenation of the tokens' pieces, and checks that the streaming detokenizer yields
// the same text.
std::string Concatenated(const Vocabulary& vocabulary, std::span<const TokenId> tokens,
                         bool special) {
  std::string pieces;
  std::string streamed;
  StreamingDetokenizer stream(vocabulary, special);
  for (const TokenId token : tokens) {
    pieces += *vocabulary.Piece(token, special);
    streamed += *stream.Push(token);
    KVD_ASSERT(stream.held().size() <= 3 && pieces.ends_with(stream.held()));
  }
  streamed += stream.Flush();
  KVD_ASSERT(streamed == pieces);
  return pieces;
}

void CheckText(const TestedVocabulary& tested, std::string_view text, std::uint8_t bits) {
  const Vocabulary& vocabulary = *tested.vocabulary;
  const bool adds = (bits & test::kAddSpecial) != 0;
  const auto tokens = vocabulary.Tokenize(
      text, {.add_special = adds, .parse_special = (bits & test::kParseSpecial) != 0});
  KVD_ASSERT(tokens.has_value());
  KVD_ASSERT(std::ranges::all_of(*tokens, [&](TokenId id) { return vocabulary.Contains(id); }));
  (void)Concatenated(vocabulary, *tokens, true);
  const auto back =
      vocabulary.Detokenize(*tokens, {.remove_special = adds, .unparse_special = true});
  KVD_ASSERT(back.has_value());
  switch (vocabulary.kind()) {
    case Vocabulary::Kind::kBytePair:
      KVD_ASSERT(tokens->size() <= text.size() + 1);
      KVD_ASSERT(tested.changes_text || *back == text);
      break;
    case Vocabulary::Kind::kLongestMatch: KVD_ASSERT(*back == text); break;
    case Vocabulary::Kind::kReverseUnigram:
      // A byte order mark at the start of a text is dropped.
      KVD_ASSERT(text.find("\xef\xbb\xbf") != text.npos || *back == text);
      break;
    case Vocabulary::Kind::kCharacterPair:
      if (HasByteTokens(vocabulary)) KVD_ASSERT(Unescaped(*back) == Unescaped(text));
      break;
    case Vocabulary::Kind::kSentencePiece:
      if (!adds && HasByteTokens(vocabulary) && !HasSpecial(vocabulary, *tokens)) {
        KVD_ASSERT(Unescaped(*back) == Unescaped(text));
      }
      break;
    case Vocabulary::Kind::kWordPiece:
    case Vocabulary::Kind::kUnigram:
    case Vocabulary::Kind::kNone: break;
  }
}

void CheckTokens(const Vocabulary& vocabulary, std::span<const TokenId> tokens, std::uint8_t bits) {
  const bool special = (bits & test::kUnparseSpecial) != 0;
  const DetokenizeOptions options{.remove_special = (bits & test::kRemoveSpecial) != 0,
                                  .unparse_special = special};
  const auto text = vocabulary.Detokenize(tokens, options);
  if (!std::ranges::all_of(tokens, [&](TokenId id) { return vocabulary.Contains(id); })) {
    KVD_ASSERT(!text && text.error().code == Code::kInvalidArgument &&
               text.error().message.starts_with("token "));
    return;
  }
  KVD_ASSERT(text.has_value());
  const std::string pieces = Concatenated(vocabulary, tokens, special);
  KVD_ASSERT(text->size() <= pieces.size());
  if (vocabulary.kind() == Vocabulary::Kind::kBytePair && !options.remove_special) {
    KVD_ASSERT(*text == pieces);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count < test::kTokenizerHeaderBytes) return 0;
  const auto& all = AllVocabularies();
  const TestedVocabulary& tested = all[data[0] % all.size()];
  const std::uint8_t bits = data[1];
  data += test::kTokenizerHeaderBytes;
  byte_count -= test::kTokenizerHeaderBytes;
  if ((bits & test::kTokensGiven) == 0) {
    // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
    const std::vector<char> text(data, data + byte_count);
    CheckText(tested, {text.data(), text.size()}, bits);
    return 0;
  }
  std::vector<TokenId> tokens;
  for (std::size_t at = 0; at + 2 <= byte_count; at += 2) {
    std::int16_t token;
    std::memcpy(&token, data + at, sizeof token);
    tokens.push_back(token);
  }
  CheckTokens(*tested.vocabulary, tokens, bits);
  return 0;
}
