#include "engine/vocabulary/vocabulary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/wordpiece.h"

namespace kvd {

// ---- vocabulary
// Create validates the arrays, decides the kind, resolves the special tokens (which also adjusts
// attributes), and then builds the tokenizer and the pieces from the data, which does not change
// any more.

namespace {

// Token ids are int32.
constexpr std::uint32_t kVocabSizeMax = 1u << 30;

// Work units in addition to the bytes of the text.
constexpr std::size_t kFragmentUnits = 8;
constexpr std::size_t kPieceUnits = 4;

}  // namespace

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
  const TokenizerChoice choice = ChooseTokenizer(data);
  kind_ = choice.kind;
  no_tokenizer_reason_ = choice.no_tokenizer_reason;
  // As in llama.cpp, "no vocabulary" also means no special tokens, even if the file defines some.
  if (choice.has_no_vocabulary) return {};
  if (kind_ != Kind::kNone && tokens_.token_count() == 0) {
    return Fail(Code::kCorrupt, "tokenizer.ggml.tokens: missing or empty");
  }
  KVD_TRY(special_,
          ResolveSpecialTokens(data, SpecialTokenDefaultsOf(data, choice), vocab_size_, tokens_));
  if (kind_ == Kind::kNone) return {};
  KVD_TRY(tokenizer_, MakeTokenizer(choice, data, tokens_, special_));
  KVD_TRY(partition_, SpecialPartition::Create(tokens_));
  MakePieces(choice);
  return {};
}

void Vocabulary::MakePieces(const TokenizerChoice& choice) {
  piece_ends_.reserve(tokens_.token_count());
  for (TokenId token = 0; tokens_.Contains(token); ++token) {
    pieces_.append(PieceOf(choice, tokens_, token));
    piece_ends_.push_back(static_cast<std::uint32_t>(pieces_.size()));
  }
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
  const bool appends_sep = kind_ == Kind::kWordPiece && special_.add_sep;
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
  if (options.add_special && appends_sep) tokens.push_back(special_.sep);
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
  if (options.remove_special && special_.add_sep && kind_ == Kind::kWordPiece && !tokens.empty() &&
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

// ---- streaming detokenizer
Result<std::string> StreamingDetokenizer::Push(TokenId token) {
  KVD_TRY(std::string_view piece, vocabulary_->Piece(token, special_));
  std::string text = std::exchange(held_, {});
  text.append(piece);
  std::size_t held_bytes = IncompleteTailBytes(text);
  held_.assign(text, text.size() - held_bytes);
  text.resize(text.size() - held_bytes);
  return text;
}

std::string StreamingDetokenizer::Flush() { return std::exchange(held_, {}); }

}  // namespace kvd
