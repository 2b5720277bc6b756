#include "http/api/text_tokens.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "http/api/fields.h"

namespace kvd::http {
namespace {

constexpr std::size_t kMixParts = 1u << 16;  // texts of one mix, each of which is a request

std::unexpected<Error> WrongInput(const std::string& path, const Value& value) {
  return Fail(Code::kInvalidArgument, path,
              ": a text, a list of token ids, or a mix of both is needed, not ", Shown(value));
}

Result<TokenId> TokenIdOf(const Value& value, std::uint32_t vocab_size, std::string_view path,
                          std::size_t index) {
  std::optional<std::int64_t> id;
  if (value.is_int()) id = value.integer();
  if (value.is_float() && std::trunc(value.real()) == value.real() &&
      std::abs(value.real()) < 9e15) {
    id = static_cast<std::int64_t>(value.real());
  }
  if (!id) {
    return Fail(Code::kInvalidArgument, path, "[", index, "]: a token id is needed, not ",
                Shown(value));
  }
  if (*id < 0 || *id >= std::int64_t{vocab_size}) {
    return Fail(Code::kInvalidArgument, path, "[", index, "]: ", *id,
                " is not a token, the vocabulary has ", vocab_size);
  }
  return static_cast<TokenId>(*id);
}

std::uint16_t FlagsOf(TextReading reading) {
  return static_cast<std::uint16_t>(FlagIf(reading.adds_special, wire::kFlagAddSpecial) |
                                    FlagIf(reading.parses_special, wire::kFlagParseSpecial));
}

}  // namespace

Result<std::vector<TokenId>> TokenIdsOf(const Value& input, std::uint32_t vocab_size,
                                        std::string_view path) {
  if (!input.is_list()) {
    return Fail(Code::kInvalidArgument, path, ": a list of token ids is needed, not ",
                Shown(input));
  }
  std::vector<TokenId> tokens;
  tokens.reserve(input.items().size());
  for (const Value& item : input.items()) {
    KVD_TRY(const TokenId token, TokenIdOf(item, vocab_size, path, tokens.size()));
    tokens.push_back(token);
  }
  return tokens;
}

Await<Result<std::vector<TokenId>>> TokensOf(DaemonSession& session, std::uint32_t vocab_size,
                                             const Value& input, const std::string& path,
                                             TextReading reading) {
  if (input.is_string()) co_return co_await session.Tokenize(input.view(), FlagsOf(reading));
  if (input.is_dict()) {
    const Value& text = input.dict().Find("prompt_string");
    const Value& media = input.dict().Find("multimodal_data");
    if (!media.is_missing() && !media.is_none()) {
      co_return Fail(Code::kUnsupported, path, ".multimodal_data: not supported by kvd");
    }
    if (text.is_missing() || text.is_dict()) co_return WrongInput(path, input);
    const std::string text_path = path + ".prompt_string";
    co_return co_await TokensOf(session, vocab_size, text, text_path, reading);
  }
  if (!input.is_list()) co_return WrongInput(path, input);
  std::vector<TokenId> tokens;
  std::size_t index = 0, texts = 0;
  for (const Value& item : input.items()) {
    if (item.is_string()) {
      if (++texts > kMixParts) {
        co_return Fail(Code::kInvalidArgument, path, ": more than ", kMixParts, " texts");
      }
      TextReading part = reading;
      part.adds_special = reading.adds_special && index == 0;
      KVD_CO_TRY(const std::vector<TokenId> more,
                 co_await session.Tokenize(item.view(), FlagsOf(part)));
      tokens.insert(tokens.end(), more.begin(), more.end());
    } else {
      KVD_CO_TRY(const TokenId token, TokenIdOf(item, vocab_size, path, index));
      tokens.push_back(token);
    }
    ++index;
  }
  co_return tokens;
}

Await<Result<std::vector<std::vector<TokenId>>>> TokenListsOf(DaemonSession& session,
                                                              std::uint32_t vocab_size,
                                                              const Value& input,
                                                              const std::string& path,
                                                              TextReading reading) {
  std::vector<std::vector<TokenId>> lists;
  const auto is_number = [](const Value& item) { return item.is_int() || item.is_float(); };
  if (!input.is_list() || std::ranges::any_of(input.items(), is_number)) {
    KVD_CO_TRY(lists.emplace_back(), co_await TokensOf(session, vocab_size, input, path, reading));
    co_return lists;
  }
  if (input.items().empty()) co_return Fail(Code::kInvalidArgument, path, ": an empty list");
  for (const Value& item : input.items()) {
    const std::string item_path = Concat(path, "[", lists.size(), "]");
    KVD_CO_TRY(std::vector<TokenId> tokens,
               co_await TokensOf(session, vocab_size, item, item_path, reading));
    lists.push_back(std::move(tokens));
  }
  co_return lists;
}

// A text of twice the same token has twice its piece, the first time perhaps without the space in
// front; so the piece is the second half of the text, with the middle byte if there is one.

Await<Result<std::map<TokenId, std::string>>> PiecesOf(DaemonSession& session,
                                                       std::span<const TokenId> tokens) {
  std::vector<TokenId> different(tokens.begin(), tokens.end());
  std::ranges::sort(different);
  different.erase(std::ranges::unique(different).begin(), different.end());
  std::map<TokenId, std::string> pieces;
  for (const TokenId token : different) {
    const std::array<TokenId, 2> twice = {token, token};
    const std::span<const TokenId> both(twice);
    KVD_CO_TRY(const std::string text, co_await session.Detokenize(both, wire::kFlagSpecial));
    pieces.emplace(token, text.substr(text.size() / 2));
  }
  co_return pieces;
}

Await<Result<std::string>> JoinedPieces(DaemonSession& session, std::span<const TokenId> tokens) {
  if (tokens.empty()) co_return std::string();
  std::vector<TokenId> shifted = {tokens.front()};
  const std::span<const TokenId> first(tokens.first(1));
  KVD_CO_TRY(const std::string head, co_await session.Detokenize(first, wire::kFlagSpecial));
  shifted.insert(shifted.end(), tokens.begin(), tokens.end());
  const std::span<const TokenId> all(shifted);
  KVD_CO_TRY(std::string text, co_await session.Detokenize(all, wire::kFlagSpecial));
  if (text.starts_with(head)) co_return text.substr(head.size());
  co_return co_await session.Detokenize(tokens, wire::kFlagSpecial);
}

}  // namespace kvd::http
