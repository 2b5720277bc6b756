// Tests AnswerJournal: what is read again is what was written, and a file that is cut or damaged
// anywhere loses only what lies behind.
#include "http/answer/answer_journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/file_calls.h"

namespace kvd::http {
namespace {

class AnswerJournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kvd-journal-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    directory_ = UniqueFd(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    request_.method = "POST";
    request_.path = "/v1/chat/completions";
    request_.body = R"({"messages":[]})";
    request_.tenant = "anna";
    request_.headers = {{"X-Conversation-Id", "c1"}, {"Authorization", "Bearer secret"}};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::shared_ptr<AnswerJournal> Write() {
    auto journal = AnswerJournal::Create(directory_.get(), "a.journal", "c1", request_);
    EXPECT_TRUE(journal) << journal.error().message;
    LoggedStart start{.request = 7, .sequence = 8, .slot = 1, .cells = 20, .first = 3};
    start.is_first = true;
    start.cache.cached_text = "kite";
    (*journal)->Put(start);
    (*journal)->Put(AnswerPiece{
        .tokens = {}, .text = {}, .logprobs = {}, .is_progress = true, .done = 1, .total = 2});
    (*journal)->PutHead(GatewayReply{.status = 201, .body = {}, .content_type = "text/x"}, false,
                        {});
    (*journal)->Put(
        AnswerPiece{.tokens = {5, 6}, .text = "ab", .logprobs = {{.token = 5, .logprob = -0.5f}}});
    (*journal)->PutText("AB");
    (*journal)->Put(AnswerPiece{.tokens = {}, .text = "c", .logprobs = {}});
    (*journal)->PutText("C");
    wire::GenerateResult result{};
    result.predicted = 2;
    (*journal)->Put(result);
    return *journal;
  }
  std::string Bytes() const {
    std::ifstream file(folder_ + "/a.journal", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(folder_ + "/a.journal", std::ios::binary | std::ios::trunc) << bytes;
  }
  auto Open() { return AnswerJournal::Open(directory_.get(), "a.journal"); }

  std::string folder_;
  UniqueFd directory_;
  Request request_;
};

TEST_F(AnswerJournalTest, RecordsAreReadInTheOrderOfWriting) {
  Write();
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  AnswerJournal& read = **journal;
  EXPECT_EQ(read.id(), "c1");
  EXPECT_EQ(read.request().body, request_.body);
  EXPECT_EQ(read.request().tenant, "anna");
  EXPECT_EQ(read.request().nonce, request_.nonce);
  EXPECT_EQ(read.request().unix_s, request_.unix_s);
  EXPECT_EQ(read.request().header("X-Conversation-Id"), "c1");
  EXPECT_EQ(read.request().header("Authorization"), "") << "keys are not stored";
  EXPECT_FALSE(read.TakePiece()) << "the start comes first";
  const auto start = read.TakeStart();
  ASSERT_TRUE(start);
  EXPECT_EQ(start->request, 7u);
  EXPECT_EQ(start->first, 3u);
  EXPECT_EQ(start->cache.cached_text, "kite");
  const auto progress = read.TakePiece();
  ASSERT_TRUE(progress);
  EXPECT_TRUE(progress->is_progress);
  EXPECT_EQ(progress->total, 2u);
  const auto piece = read.TakePiece();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->tokens, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(piece->text, "ab");
  ASSERT_EQ(piece->logprobs.size(), 1u);
  EXPECT_EQ(piece->logprobs[0].logprob, -0.5f);
  EXPECT_EQ(read.TakePiece()->text, "c");
  EXPECT_FALSE(read.TakePiece());
  EXPECT_EQ(read.TakeResult()->predicted, 2u);
  EXPECT_FALSE(read.TakeResult());
  EXPECT_FALSE(read.is_over());
  const auto reply = read.TakeReply();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->head.status, 201);
  EXPECT_EQ(reply->head.content_type, "text/x");
  EXPECT_FALSE(reply->is_whole);
  EXPECT_EQ(reply->texts, (std::deque<std::string>{"AB", "C"}));
}

TEST_F(AnswerJournalTest, OnlyHeadersThatHandlersReadAreStored) {
  request_.headers = {{"x-conversation-ID", "c1"}};
  const char* const names[] = {
      "Authorization", "authorization", "AUTHORIZATION",       "X-Api-Key", "x-api-key",
      "Cookie",        "cookie",        "Proxy-Authorization", "Forwarded", "X-Conversation-Id2"};
  for (const char* const name : names) request_.headers.push_back({name, "a secret"});
  request_.key = "another secret";
  Write();
  EXPECT_EQ(Bytes().find("secret"), std::string::npos);
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_EQ((*journal)->request().header("X-Conversation-Id"), "c1");
  EXPECT_EQ((*journal)->request().headers.size(), 1u);
}

TEST_F(AnswerJournalTest, AttemptsAreCountedUntilThereIsProgress) {
  const auto written = Write();
  const auto attempts = [this] { return (*Open())->attempts(); };
  ASSERT_TRUE(written->PutAttempt());
  EXPECT_EQ(attempts(), 1u);
  ASSERT_TRUE(written->PutAttempt());
  EXPECT_EQ(attempts(), 2u);
  written->Put(LoggedStart{.is_first = true});
  written->PutEvent(0);
  written->PutEnd();
  EXPECT_EQ(attempts(), 2u);
  written->PutText("D");
  EXPECT_EQ(attempts(), 0u);
  EXPECT_EQ(written->attempts(), 0u);
}

TEST_F(AnswerJournalTest, AnAttemptIsSettledByProgressPausesAndEnds) {
  const auto written = Write();
  int calls = 0;
  written->OnSettled([&calls] { ++calls; });
  ASSERT_TRUE(written->PutAttempt());
  EXPECT_TRUE(written->is_attempt_open());
  {
    const AttemptPause pause(written.get());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ((*Open())->attempts(), 0u);
  }
  EXPECT_TRUE(written->is_attempt_open());
  EXPECT_EQ((*Open())->attempts(), 1u);
  written->PutText("D");
  EXPECT_EQ(calls, 2);
  {
    const AttemptPause pause(written.get());
  }
  EXPECT_EQ((*Open())->attempts(), 0u) << "no attempt is open, so none is noted behind the pause";
  ASSERT_TRUE(written->PutAttempt());
  {
    const AttemptPause pause(written.get());
    written->EndAttempt();
  }
  EXPECT_EQ((*Open())->attempts(), 0u) << "the process ends";
  ASSERT_TRUE(written->PutAttempt());
  written->Remove();
  EXPECT_EQ(calls, 4);
}

TEST_F(AnswerJournalTest, TheBodyOfARequestIsTakenOnce) {
  EXPECT_EQ(Write()->request().body, "") << "the writer has it elsewhere";
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_EQ((*journal)->TakeRequest().body, request_.body);
  EXPECT_EQ((*journal)->request().body, "");
  EXPECT_EQ((*journal)->request().tenant, "anna");
}

TEST_F(AnswerJournalTest, AWriteThatFailsIsReportedWithItsOwnError) {
  class FullDisk final : public FileFault {
   public:
    int ErrnoOf(FileCall call) override { return call == FileCall::kWrite ? ENOSPC : 0; }
  } fault;
  const auto written = Write();
  FileCalls::SetFault(&fault);
  testing::internal::CaptureStderr();
  const auto created = AnswerJournal::Create(directory_.get(), "b.journal", "c2", request_);
  const Status attempt = written->PutAttempt();
  written->PutText("D");
  FileCalls::SetFault(nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "kvd-http: a.journal: journal a.journal: No space left on device; a stream ends with "
            "this process\n");
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().message, "journal b.journal: No space left on device");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/b.journal"));
  ASSERT_FALSE(attempt);
  EXPECT_EQ(attempt.error().message, "journal a.journal: No space left on device");
}

TEST_F(AnswerJournalTest, AnswersOfOneReplyAreRecordedByNumber) {
  const auto written = Write();
  written->Put(LoggedStart{.sequence = 9, .is_first = true}, 1);
  written->Put(AnswerPiece{.tokens = {9}, .text = "z", .logprobs = {}}, 1);
  for (const std::uint32_t event : {0u, 1u, 0u}) written->PutEvent(event);
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_NE((*journal)->FindStart(0), nullptr);
  EXPECT_EQ((*journal)->FindStart(1)->sequence, 9u);
  EXPECT_EQ((*journal)->FindStart(2), nullptr);
  EXPECT_FALSE((*journal)->HasEnd(1));
  EXPECT_TRUE((*journal)->TakeStart(1));
  EXPECT_EQ((*journal)->TakePiece(1)->text, "z");
  EXPECT_EQ((*journal)->TakeEvents(), (std::deque<std::uint32_t>{0, 1, 0}));
}

TEST_F(AnswerJournalTest, ARestartedAnswerReplacesItsRecords) {
  const auto written = Write();
  written->Put(LoggedStart{.request = 70, .is_first = true});
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_EQ((*journal)->TakeStart()->request, 70u);
  EXPECT_FALSE((*journal)->TakePiece());
  EXPECT_FALSE((*journal)->TakeResult());
}

TEST_F(AnswerJournalTest, AnAnswerWithoutAnEndMustBeClaimed) {
  const auto written = Write();
  {
    const auto journal = Open();
    ASSERT_TRUE(journal) << journal.error().message;
    EXPECT_FALSE((*journal)->is_claimed());
    EXPECT_EQ((*journal)->unclaimed().at(0), static_cast<SequenceHandle>(8));
    int calls = 0;
    (*journal)->OnClaimed([&calls] { ++calls; });
    (*journal)->Claim(1);
    EXPECT_EQ(calls, 0);
    (*journal)->Claim(0);
    (*journal)->Claim(0);
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE((*journal)->is_claimed());
  }
  written->PutEnd();
  const auto journal = Open();
  ASSERT_TRUE(journal) << journal.error().message;
  EXPECT_TRUE((*journal)->HasEnd(0));
  EXPECT_TRUE((*journal)->is_claimed());
}

TEST_F(AnswerJournalTest, ARemovedJournalAcceptsNoRecords) {
  const auto written = Write();
  written->Remove();
  SetBytes("another file of this name");
  written->PutText("late");
  written->Remove();
  EXPECT_EQ(Bytes(), "another file of this name");
}

TEST_F(AnswerJournalTest, OnlyTheOwnerCanReadTheFile) {
  Write();
  struct stat status{};
  ASSERT_EQ(::stat((folder_ + "/a.journal").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(AnswerJournalTest, ATruncatedFileLosesOnlyLaterRecords) {
  Write();
  const std::string whole = Bytes();
  std::size_t opened = 0;
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    SetBytes(whole.substr(0, size));
    const auto journal = Open();
    if (!journal) {
      EXPECT_EQ(journal.error().code, Code::kCorrupt);
      continue;
    }
    ++opened;
    EXPECT_EQ((*journal)->request().body, request_.body);
    // What is appended now is read again behind the whole records.
    (*journal)->PutOver();
    const auto again = Open();
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_TRUE((*again)->is_over()) << size;
  }
  EXPECT_GT(opened, 100u);
}

TEST_F(AnswerJournalTest, AChangedByteEndsReadingAtItsRecord) {
  Write();
  const std::string whole = Bytes();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    SetBytes(damaged);
    const auto journal = Open();
    if (!journal) continue;
    // A damaged record is never taken: the records before it are those that were written.
    if (const auto start = (*journal)->TakeStart()) {
      EXPECT_EQ(start->request, 7u);
    }
    if (const auto piece = (*journal)->TakePiece()) {
      EXPECT_EQ(piece->total, 2u);
    }
    if (const auto piece = (*journal)->TakePiece()) {
      EXPECT_EQ(piece->text, "ab");
    }
  }
}

TEST_F(AnswerJournalTest, AMissingFileIsAnError) {
  const auto journal = Open();
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, Code::kIo);
}

}  // namespace
}  // namespace kvd::http
