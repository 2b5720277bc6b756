// Create validates the arrays, decides the kind, resolves the special tokens (which also adjusts
// attributes), and then builds the tokenizer and the pieces from the data, which does not change
// any more.
#include "engine/vocabulary/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/vocabulary/byte_alphabet.h"
#include "engine/vocabulary/byte_pair.h"
#include "engine/vocabulary/precompiled_charsmap.h"
#include "engine/vocabulary/pretokenizers.h"
#include "engine/vocabulary/sentencepiece.h"
#include "engine/vocabulary/unigram.h"
#include "engine/vocabulary/wordpiece.h"

namespace kvd {
namespace {

// Token ids are int32.
constexpr std::uint32_t kVocabSizeMax = 1u << 30;

// Work units in addition to the bytes of the text.
constexpr std::size_t kFragmentUnits = 8;
constexpr std::size_t kPieceUnits = 4;

SpecialTokenDefaults DefaultsOf(Vocabulary::Kind kind, const Pretokenizer* pretokenizer) {
  switch (kind) {
    case Vocabulary::Kind::kSentencePiece:
      return {.bos = 1,
              .eos = 2,
              .unk = 0,
              .add_bos = true,
              .add_eos = false,
              .add_space_prefix = true};
    case Vocabulary::Kind::kBytePair:
      return {.bos = pretokenizer->default_bos ? 11 : kNoToken,
              .eos = 11,
              .add_bos = pretokenizer->add_bos};
    case Vocabulary::Kind::kWordPiece:
      return {.bos = 101,
              .unk = 100,
              .sep = 102,
              .pad = 0,
              .mask = 103,
              .add_bos = true,
              .add_sep = true,
              .flags_are_fixed = true};
    case Vocabulary::Kind::kUnigram: return {.eos = 1, .unk = 2, .pad = 0, .add_eos = true};
    case Vocabulary::Kind::kNone: break;
  }
  return {};
}

bool IsNoVocab(std::string_view model) { return model == "no_vocab" || model == "none"; }

}  // namespace

std::string_view VocabularyKindName(Vocabulary::Kind kind) {
  switch (kind) {
    case Vocabulary::Kind::kSentencePiece: return "sentencepiece";
    case Vocabulary::Kind::kBytePair: return "byte_pair";
    case Vocabulary::Kind::kWordPiece: return "wordpiece";
    case Vocabulary::Kind::kUnigram: return "unigram";
    case Vocabulary::Kind::kNone: break;
  }
  return "none";
}

std::string_view Vocabulary::TemplateText(std::string_view name) const {
  const auto found = std::ranges::find(chat_templates_, name, &NamedTemplate::name);
  return found == chat_templates_.end() ? std::string_view() : found->text;
}

Result<std::unique_ptr<Vocabulary>> Vocabulary::Create(VocabularyData data) {
  KVD_TRY(TokenTable tokens, TokenTable::Create(data));
  std::unique_ptr<Vocabulary> made(new Vocabulary(std::move(tokens)));
  KVD_CHECK_OK(made->Initialize(data));
  return made;
}

Status Vocabulary::Initialize(VocabularyData& data) {
  chat_templates_ = std::move(data.chat_templates);
  vocab_size_ = std::max(tokens_.token_count(), tokens_.token_count() == 0 ? data.vocab_size : 0);
  if (vocab_size_ > kVocabSizeMax) {
    return Fail(Code::kCorrupt, "vocab_size: ", vocab_size_, ", the limit is ", kVocabSizeMax);
  }
  KVD_CHECK_OK(MakeTokenizer(data));
  if (tokenizer_ != nullptr) {
    KVD_TRY(partition_, SpecialPartition::Create(tokens_));
    MakePieces();
  }
  return {};
}

Status Vocabulary::MakeTokenizer(const VocabularyData& data) {
  const Pretokenizer* pretokenizer = nullptr;
  if (data.model == "llama") {
    kind_ = Kind::kSentencePiece;
  } else if (data.model == "bert") {
    kind_ = Kind::kWordPiece;
  } else if (data.model == "t5") {
    kind_ = Kind::kUnigram;
  } else if (data.model == "gpt2") {
    pretokenizer = FindPretokenizer(data.pre);
    if (pretokenizer != nullptr) kind_ = Kind::kBytePair;
    if (pretokenizer == nullptr)
      no_tokenizer_reason_ = "tokenizer.ggml.pre: '" + data.pre + "' is not known";
  } else if (IsNoVocab(data.model)) {
    no_tokenizer_reason_ = "the model has no vocabulary";
  } else if (data.model.empty()) {
    no_tokenizer_reason_ = "tokenizer.ggml.model: missing";
  } else {
    no_tokenizer_reason_ = "tokenizer.ggml.model: '" + data.model + "' is not known";
  }
  if (kind_ != Kind::kNone && tokens_.token_count() == 0) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: missing or empty");
  }
  // As in llama.cpp, "no vocabulary" also means no special tokens, even if the file defines some.
  if (IsNoVocab(data.model)) return {};
  KVD_TRY(special_,
          ResolveSpecialTokens(data, DefaultsOf(kind_, pretokenizer), vocab_size_, tokens_));
  if (kind_ == Kind::kSentencePiece) {
    tokenizer_ = std::make_unique<SentencePiece>(tokens_, special_.add_space_prefix, special_.unk);
  } else if (kind_ == Kind::kBytePair) {
    KVD_TRY(tokenizer_, BytePair::Create(tokens_, data.merges, *pretokenizer));
  } else if (kind_ == Kind::kWordPiece) {
    bool lowercase = data.lowercase.value_or(true);
    WordPieceOptions options = {.lowercase = lowercase,
                                .strip_accents = data.strip_accents.value_or(lowercase)};
    KVD_TRY(tokenizer_, WordPiece::Create(tokens_, special_.unk, options));
  } else if (kind_ == Kind::kUnigram) {
    UnigramOptions options = {
        .add_space_prefix = special_.add_space_prefix,
        .remove_extra_whitespaces = data.remove_extra_whitespaces.value_or(false)};
    std::optional<PrecompiledCharsmap> charsmap;
    if (!data.precompiled_charsmap.empty()) {
      KVD_TRY(charsmap, PrecompiledCharsmap::Create(data.precompiled_charsmap));
    }
    KVD_TRY(tokenizer_, Unigram::Create(tokens_, special_.unk, std::move(charsmap), options));
  }
  return {};
}

void Vocabulary::MakePieces() {
  piece_ends_.reserve(tokens_.token_count());
  for (TokenId token = 0; tokens_.Contains(token); ++token) {
    pieces_.append(PieceOf(token));
    piece_ends_.push_back(static_cast<std::uint32_t>(pieces_.size()));
  }
}

std::string Vocabulary::PieceOf(TokenId token) const {
  std::uint8_t attributes = tokens_.attributes(token);
  std::string_view text = tokens_.text(token);
  if ((attributes & (token_attribute::kHidden | token_attribute::kUserDefined)) != 0)
    return std::string(text);
  if ((attributes & token_attribute::kNormal) != 0) {
    if (kind_ != Kind::kBytePair) return UnescapeSpaces(text);
    std::string bytes;
    AppendDecodedBytes(text, bytes);
    return bytes;
  }
  if ((attributes & token_attribute::kByte) != 0)
    return std::string(1, static_cast<char>(ByteOfHexText(text)));
  return {};  // unused and undefined tokens have no text
}

bool Vocabulary::HasAttribute(TokenId token, std::uint8_t attribute) const {
  return tokens_.Contains(token) && (tokens_.attributes(token) & attribute) != 0;
}

bool Vocabulary::IsEndOfGeneration(TokenId token) const {
  return std::ranges::binary_search(special_.end_of_generation, token);
}

Status Vocabulary::RequireTokenizer() const {
  if (tokenizer_ != nullptr) return {};
  return Fail(Code::kNoTokenizer, "no tokenizer: ", no_tokenizer_reason_);
}

Status Vocabulary::RequireToken(TokenId token) const {
  if (tokens_.Contains(token)) return {};
  return Fail(Code::kInvalidArgument, "token ", token, ": the vocabulary has ",
              tokens_.token_count());
}

Result<std::vector<TokenId>> Vocabulary::Tokenize(std::string_view text, TokenizeOptions options,
                                                  WorkControl& work) const {
  KVD_CHECK_OK(RequireTokenizer());
  if (text.size() > kTextBytesMax) {
    return Fail(Code::kInvalidArgument, "text: ", text.size(), " bytes, the limit is ",
                kTextBytesMax);
  }
  std::vector<TokenId> tokens;
  if (options.add_special && special_.add_bos) tokens.push_back(special_.bos);
  KVD_TRY(const std::vector<TextFragment> fragments,
          partition_->Cut(text, options.parse_special, work));
  WorkMeter meter(work);
  bool at_start = true;
  for (const TextFragment& fragment : fragments) {
    KVD_CHECK_OK(meter.Spend(kFragmentUnits));
    at_start = at_start || fragment.token != kNoToken;
    if (fragment.token != kNoToken) {
      tokens.push_back(fragment.token);
      continue;
    }
    KVD_CHECK_OK(tokenizer_->Append(fragment.text, at_start, tokens, work));
    at_start = false;
  }
  if (options.add_special && special_.add_sep) tokens.push_back(special_.sep);
  if (options.add_special && special_.add_eos) tokens.push_back(special_.eos);
  return tokens;
}

template <class Text>
Status Vocabulary::AppendPieces(std::span<const TokenId> tokens, DetokenizeOptions options,
                                WorkControl& work, Text* text) const {
  KVD_CHECK_OK(RequireTokenizer());
  bool remove_space = special_.add_space_prefix || kind_ == Kind::kWordPiece;
  if (options.remove_special && special_.add_bos && !tokens.empty() &&
      tokens.front() == special_.bos) {
    tokens = tokens.subspan(1);
    remove_space = kind_ == Kind::kWordPiece;
  }
  if (options.remove_special && special_.add_sep && !tokens.empty() &&
      tokens.back() == special_.sep) {
    tokens = tokens.first(tokens.size() - 1);
  }
  if (options.remove_special && special_.add_eos && !tokens.empty() &&
      tokens.back() == special_.eos) {
    tokens = tokens.first(tokens.size() - 1);
  }
  WorkMeter meter(work);
  std::size_t text_bytes = 0;
  for (TokenId token : tokens) {
    KVD_TRY(std::string_view piece, Piece(token, options.unparse_special));
    if (remove_space && piece.starts_with(' ')) piece.remove_prefix(1);
    remove_space = remove_space && kind_ == Kind::kWordPiece && piece.empty();
    text_bytes += piece.size();
    if (text_bytes > kTextBytesMax) {
      return Fail(Code::kNoSpace, "text: the tokens' text is longer than the limit of ",
                  kTextBytesMax, " bytes");
    }
    KVD_CHECK_OK(meter.Spend(kPieceUnits + piece.size()));
    const auto* const begin = reinterpret_cast<const typename Text::value_type*>(piece.data());
    text->insert(text->end(), begin, begin + piece.size());
  }
  return {};
}

Result<std::string> Vocabulary::Detokenize(std::span<const TokenId> tokens,
                                           DetokenizeOptions options, WorkControl& work) const {
  std::string text;
  KVD_CHECK_OK(AppendPieces(tokens, options, work, &text));
  if (kind_ == Kind::kWordPiece) return CleanUpSpaces(text);
  return text;
}

Status Vocabulary::DetokenizeTo(std::span<const TokenId> tokens, DetokenizeOptions options,
                                WorkControl& work, std::vector<std::byte>* bytes) const {
  if (kind_ != Kind::kWordPiece) return AppendPieces(tokens, options, work, bytes);
  // WordPiece text is cleaned up as a whole, so it needs an intermediate copy.
  KVD_TRY(const std::string text, Detokenize(tokens, options, work));
  const auto text_bytes = std::as_bytes(std::span(text));
  bytes->insert(bytes->end(), text_bytes.begin(), text_bytes.end());
  return {};
}

Result<std::string_view> Vocabulary::Piece(TokenId token, bool special) const {
  KVD_CHECK_OK(RequireTokenizer());
  KVD_CHECK_OK(RequireToken(token));
  if (!special && (tokens_.attributes(token) & token_attribute::kHidden) != 0)
    return std::string_view();
  auto index = static_cast<std::size_t>(token);
  std::size_t begin = index == 0 ? 0 : piece_ends_[index - 1];
  return std::string_view(pieces_).substr(begin, piece_ends_[index] - begin);
}

Result<std::string_view> Vocabulary::TokenText(TokenId token) const {
  KVD_CHECK_OK(RequireTokenizer());
  KVD_CHECK_OK(RequireToken(token));
  return tokens_.text(token);
}

}  // namespace kvd
