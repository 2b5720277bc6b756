#include "engine/vocabulary/tokenizer_choice.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/text.h"
#include "engine/vocabulary/byte_pair.h"
#include "engine/vocabulary/escaped_spaces.h"
#include "engine/vocabulary/precompiled_charsmap.h"
#include "engine/vocabulary/sentencepiece.h"
#include "engine/vocabulary/simple_tokenizers.h"
#include "engine/vocabulary/unigram.h"
#include "engine/vocabulary/wordpiece.h"

namespace kvd {
namespace {

using Around = TokenizerChoice::Around;
using Kind = VocabularyKind;

// A value of tokenizer.ggml.model.
struct Model {
  std::string_view name;
  Kind kind;  // kBytePair: the pre-tokenizer decides between bytes and characters
  Around around = Around::kNothing;
  std::string_view pretokenizer = {};  // used whatever tokenizer.ggml.pre says
  SpecialTokenDefaults defaults = {};
};

constexpr SpecialTokenDefaults kBytePairDefaults = {.bos = 11, .eos = 11};

constexpr auto kModels = std::to_array<Model>({
    {.name = "llama",
     .kind = Kind::kSentencePiece,
     .defaults = {.bos = 1, .eos = 2, .unk = 0, .add_bos = true, .add_space_prefix = true}},
    {.name = "gpt2", .kind = Kind::kBytePair, .defaults = kBytePairDefaults},
    {.name = "whitespace",
     .kind = Kind::kBytePair,
     .around = Around::kBlankSeparated,
     .defaults = kBytePairDefaults},
    {.name = "hybriddna",
     .kind = Kind::kBytePair,
     .around = Around::kHybridDna,
     .defaults = kBytePairDefaults},
    {.name = "gemma4", .kind = Kind::kBytePair, .pretokenizer = "gemma4"},
    {.name = "bert",
     .kind = Kind::kWordPiece,
     .defaults = {.bos = 101,
                  .unk = 100,
                  .sep = 102,
                  .pad = 0,
                  .mask = 103,
                  .add_bos = true,
                  .add_sep = true,
                  .flags_are_fixed = true}},
    {.name = "t5",
     .kind = Kind::kUnigram,
     .defaults = {.eos = 1, .unk = 2, .pad = 0, .add_eos = true}},
    {.name = "plamo2",
     .kind = Kind::kReverseUnigram,
     .defaults = {.bos = 1, .eos = 2, .unk = 0, .pad = 3, .flags_are_fixed = true}},
    {.name = "rwkv", .kind = Kind::kLongestMatch, .defaults = {.flags_are_fixed = true}},
});

const Model* FindModel(std::string_view name) {
  const auto found = std::ranges::find(kModels, name, &Model::name);
  return found == kModels.end() ? nullptr : &*found;
}

Result<std::unique_ptr<const TextTokenizer>> MakeUnigram(const VocabularyData& data,
                                                         const TokenTable& tokens,
                                                         const SpecialTokens& special) {
  const UnigramOptions options = {
      .add_space_prefix = special.add_space_prefix,
      .remove_extra_whitespaces = data.remove_extra_whitespaces.value_or(false)};
  std::optional<PrecompiledCharsmap> charsmap;
  if (!data.precompiled_charsmap.empty()) {
    KVD_TRY(charsmap, PrecompiledCharsmap::Create(data.precompiled_charsmap));
  }
  return Unigram::Create(tokens, special.unk, std::move(charsmap), options);
}

Result<std::unique_ptr<const TextTokenizer>> MakePairTokenizer(const TokenizerChoice& choice,
                                                               const VocabularyData& data,
                                                               const TokenTable& tokens) {
  const Pretokenizer& pretokenizer = *choice.pretokenizer;
  if (data.merges.empty() && !pretokenizer.may_lack_merges) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.merges: missing or empty");
  }
  std::unique_ptr<const TextTokenizer> words;
  if (choice.kind == Kind::kBytePair) {
    KVD_TRY(words, BytePair::Create(tokens, data.merges, pretokenizer));
  } else {
    KVD_TRY(words, CharacterPair::Create(tokens, data.merges, pretokenizer));
  }
  switch (choice.around) {
    case Around::kBlankSeparated: {
      const bool lowercase = data.lowercase.value_or(pretokenizer.lowercases);
      return std::make_unique<BlankSeparated>(std::move(words), lowercase);
    }
    case Around::kHybridDna: return std::make_unique<HybridDna>(tokens, std::move(words));
    case Around::kNothing: break;
  }
  return words;
}

}  // namespace

std::string_view VocabularyKindName(VocabularyKind kind) {
  switch (kind) {
    case Kind::kSentencePiece: return "sentencepiece";
    case Kind::kBytePair: return "byte_pair";
    case Kind::kCharacterPair: return "character_pair";
    case Kind::kWordPiece: return "wordpiece";
    case Kind::kUnigram: return "unigram";
    case Kind::kReverseUnigram: return "reverse_unigram";
    case Kind::kLongestMatch: return "longest_match";
    case Kind::kNone: break;
  }
  return "none";
}

TokenizerChoice ChooseTokenizer(const VocabularyData& data) {
  if (data.model == "no_vocab" || data.model == "none") {
    return {.has_no_vocabulary = true, .no_tokenizer_reason = "the model has no vocabulary"};
  }
  if (data.model.empty()) return {.no_tokenizer_reason = "tokenizer.ggml.model: missing"};
  const Model* const model = FindModel(data.model);
  if (model == nullptr) {
    return {.no_tokenizer_reason = Concat("tokenizer.ggml.model: '", data.model, "' is not known")};
  }
  TokenizerChoice choice = {.kind = model->kind, .around = model->around};
  if (model->kind != Kind::kBytePair) return choice;
  choice.pretokenizer =
      FindPretokenizer(model->pretokenizer.empty() ? data.pre : model->pretokenizer);
  if (choice.pretokenizer == nullptr) {
    return {.no_tokenizer_reason = Concat("tokenizer.ggml.pre: '", data.pre, "' is not known")};
  }
  if (choice.pretokenizer->spelling != Spelling::kByteAlphabet) choice.kind = Kind::kCharacterPair;
  return choice;
}

SpecialTokenDefaults SpecialTokenDefaultsOf(const VocabularyData& data,
                                            const TokenizerChoice& choice) {
  if (choice.kind == Kind::kNone) return {};
  SpecialTokenDefaults defaults = FindModel(data.model)->defaults;
  if (choice.pretokenizer == nullptr) return defaults;
  if (!choice.pretokenizer->default_bos) defaults.bos = kNoToken;
  defaults.add_bos = choice.pretokenizer->add_bos;
  defaults.always_adds_bos = choice.pretokenizer->always_adds_bos;
  return defaults;
}

Result<std::unique_ptr<const TextTokenizer>> MakeTokenizer(const TokenizerChoice& choice,
                                                           const VocabularyData& data,
                                                           const TokenTable& tokens,
                                                           const SpecialTokens& special) {
  switch (choice.kind) {
    case Kind::kSentencePiece:
      return std::make_unique<SentencePiece>(tokens, special.add_space_prefix, special.unk);
    case Kind::kBytePair:
    case Kind::kCharacterPair: return MakePairTokenizer(choice, data, tokens);
    case Kind::kWordPiece: {
      const bool lowercase = data.lowercase.value_or(true);
      return WordPiece::Create(
          tokens, special.unk,
          {.lowercase = lowercase, .strip_accents = data.strip_accents.value_or(lowercase)});
    }
    case Kind::kUnigram: return MakeUnigram(data, tokens, special);
    case Kind::kReverseUnigram: return ReverseUnigram::Create(tokens);
    case Kind::kLongestMatch: return LongestMatch::Create(tokens, special.unk);
    case Kind::kNone: break;
  }
  return nullptr;
}

std::string PieceOf(const TokenizerChoice& choice, const TokenTable& tokens, TokenId token) {
  const std::uint8_t attributes = tokens.attributes(token);
  std::string_view text = tokens.text(token);
  if (choice.kind == Kind::kLongestMatch) return *UnescapeBytes(text);
  if (choice.around == Around::kHybridDna) text = WithoutGroupMark(tokens, token);
  const bool is_byte = (attributes & token_attribute::kByte) != 0;
  if (choice.kind == Kind::kReverseUnigram && !is_byte) return std::string(text);
  if ((attributes & (token_attribute::kHidden | token_attribute::kUserDefined)) != 0)
    return std::string(text);
  if ((attributes & token_attribute::kNormal) != 0) {
    if (choice.escapes_spaces()) return UnescapeSpaces(text);
    if (choice.kind == Kind::kCharacterPair) return std::string(text);
    std::string bytes;
    AppendDecodedBytes(text, bytes);
    return bytes;
  }
  if (is_byte) return std::string(1, static_cast<char>(ByteOfHexText(text)));
  return {};  // unused and undefined tokens have no text
}

}  // namespace kvd
