#include "tests/http/answer/scripted_source.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

namespace kvd::test {
namespace {

http::Await<void> TakeAllPiecesInto(http::PieceSource& source, SourceEnd& end) {
  for (;;) {
    auto piece = co_await source.Next();
    if (!piece) {
      end.error = piece.error().message;
      co_return;
    }
    if (!*piece) co_return;
    end.tokens.insert(end.tokens.end(), (*piece)->tokens.begin(), (*piece)->tokens.end());
    end.text += (*piece)->text;
  }
}

}  // namespace

http::AnswerPiece LetterPiece(std::vector<TokenId> tokens) {
  http::AnswerPiece piece;
  for (const TokenId token : tokens) piece.text += static_cast<char>('a' - 1 + token);
  piece.tokens = std::move(tokens);
  return piece;
}

SourceEnd TakeAllPieces(http::PieceSource& source) {
  http::Loop loop;
  SourceEnd end;
  boost::asio::co_spawn(loop, TakeAllPiecesInto(source, end), boost::asio::detached);
  loop.run();
  return end;
}

Status ScriptedSource::Begin(const http::GenerationPortion& portion) {
  portions_.push_back(portion);
  appended_.emplace_back(portion.tokens.begin(), portion.tokens.end());
  if (generations_.empty()) return Fail(Code::kInternal, "no further generation is written");
  present_ = std::move(generations_.front());
  generations_.pop_front();
  at_ = 0;
  result_ = {};
  result_.finish = present_->finish;
  return {};
}

http::Await<Result<std::optional<http::AnswerPiece>>> ScriptedSource::Next() {
  if (!present_ || at_ == present_->pieces.size()) co_return std::nullopt;
  http::AnswerPiece piece = present_->pieces[at_++];
  result_.predicted += static_cast<std::uint32_t>(piece.tokens.size());
  co_return piece;
}

http::Await<Result<bool>> ScriptedSource::Prepare() {
  ++prepared_;
  if (generations_.empty()) co_return true;
  const Generation& next = generations_.front();
  if (next.prepare_error) co_return std::unexpected(*next.prepare_error);
  co_return !next.is_begun_already;
}

}  // namespace kvd::test
