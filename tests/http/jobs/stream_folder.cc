#include "tests/http/jobs/stream_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <fstream>
#include <utility>

#include "http/answer/journal_folder.h"

namespace kvd::test {

namespace fs = std::filesystem;
using http::AnswerJournal;
using http::Await;
using http::JournalFolder;

namespace {

http::AnswerPiece PieceOf(std::uint32_t number) {
  return {.tokens = {static_cast<TokenId>(number)},
          .text = std::string(1, StreamFolder::kReply[number]),
          .logprobs = {}};
}

Await<void> RecoverAll(http::Jobs& jobs, bool& is_over) {
  co_await jobs.Recover();
  is_over = true;
}

}  // namespace

std::string StreamFolder::PathOf(const std::string& id, const std::string& ending) const {
  const std::string name = JournalFolder::NameOf("", id);
  return path() + "/" + name.substr(0, name.rfind('.') + 1) + ending;
}

bool StreamFolder::Has(const std::string& id, const std::string& ending) const {
  return fs::exists(PathOf(id, ending));
}

std::vector<std::string> StreamFolder::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

UniqueFd StreamFolder::Open() const {
  ::mkdir(path().c_str(), 0700);
  return UniqueFd(::open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void StreamFolder::Put(const StreamState& state) const {
  const UniqueFd directory = Open();
  auto created = AnswerJournal::Create(directory.get(), JournalFolder::NameOf("", state.id),
                                       state.id, RequestOf(state.id, state.path));
  ASSERT_TRUE(created) << created.error().message;
  AnswerJournal& journal = **created;
  if (state.is_started) journal.Put(http::LoggedStart{.sequence = 5, .is_first = true});
  if (state.pieces > 0) {
    journal.PutHead({.body = {}, .content_type = std::string(http::kEventStreamType)}, false, {});
  }
  for (std::uint32_t i = 0; i < state.pieces; ++i) {
    journal.Put(PieceOf(i));
    journal.PutText(PieceOf(i).text);
  }
  for (std::uint32_t i = 0; i < state.attempts; ++i) ASSERT_TRUE(journal.PutAttempt());
  if (state.is_over) journal.PutOver();
}

void StreamFolder::PutBytes(const std::string& name, const std::string& bytes) const {
  (void)Open();
  std::ofstream(path() + "/" + name, std::ios::binary | std::ios::app) << bytes;
}

std::shared_ptr<AnswerJournal> StreamFolder::Read(const std::string& id,
                                                  const std::string& ending) const {
  const UniqueFd directory = Open();
  auto journal =
      AnswerJournal::Open(directory.get(), fs::path(PathOf(id, ending)).filename().string());
  EXPECT_TRUE(journal) << journal.error().message;
  return journal ? *journal : nullptr;
}

std::string StreamFolder::ReplyIn(const std::string& id) const {
  const auto journal = Read(id);
  if (!journal) return "no journal";
  if (!journal->is_over()) return "the reply is not over";
  auto reply = journal->TakeReply();
  if (!reply) return "no reply";
  std::string text;
  for (const std::string& part : reply->texts) text += part;
  return text;
}

void StreamFolder::Clear() const { fs::remove_all(path()); }

http::Request RequestOf(const std::string& id, const std::string& path, const std::string& tenant) {
  http::Request request;
  request.method = "POST";
  request.path = path;
  request.headers = {{"X-Conversation-Id", id}};
  request.tenant = tenant;
  return request;
}

JobsProcess::JobsProcess(const std::string& folder, const http::JobLimits& limits) {
  auto opened = http::Jobs::Open(loop_, folder, limits);
  EXPECT_TRUE(opened) << opened.error().message;
  jobs_ = std::move(*opened);
  Add("/healthy", [](const http::Request& request, const std::vector<std::string>&,
                     http::Responder& responder) { return AnswerHealthily(request, responder); });
}

void JobsProcess::BeginToRecover() {
  (void)jobs_->ReadJournals();
  boost::asio::co_spawn(loop_, RecoverAll(*jobs_, is_recovered_), boost::asio::detached);
  Poll();
}

void JobsProcess::Recover() {
  BeginToRecover();
  loop_.restart();
  while (!is_recovered_) loop_.run_one();
}

void JobsProcess::Poll() {
  loop_.restart();
  loop_.poll();
}

Await<void> Forever() {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  timer.expires_at(std::chrono::steady_clock::time_point::max());
  co_await timer.async_wait(boost::asio::use_awaitable);
}

Await<void> AnswerHealthily(const http::Request&, http::Responder& responder) {
  const auto journal = http::JournalOf(responder);
  http::GatewayReply head{.body = {}, .content_type = std::string(http::kEventStreamType)};
  co_await responder.Begin(std::move(head));
  if (journal) {
    (void)journal->TakeStart();
    journal->Claim(0);
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto piece = journal ? journal->TakePiece() : std::nullopt;
    if (!piece) {
      piece = PieceOf(i);
      if (journal) journal->Put(*piece);
    }
    co_await responder.Write(piece->text);
  }
  co_await responder.End();
}

}  // namespace kvd::test
