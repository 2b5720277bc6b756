// Tests how jobs run again after a kill: attempts, and journals that are set aside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file_calls.h"
#include "tests/http/jobs/stream_folder.h"

namespace kvd::test {
namespace {

namespace fs = std::filesystem;
using http::AnswerJournal;
using http::Await;
using http::JournalFolder;
using http::Request;
using http::Responder;

// A handler that does something with its journal, and then neither ends nor waits for the daemon,
// like one that is about to end the process.
Await<void> DoAndStop(std::shared_ptr<AnswerJournal> journal,
                      std::function<void(AnswerJournal&)> act) {
  if (act) act(*journal);
  co_await Forever();
}

class RecoveryTest : public ::testing::Test {
 protected:
  // Starts as often as `starts` says, each time with the handler /poison; each process ends while
  // the handler runs. Returns how often the handler has run.
  int RunPoison(int starts, const std::function<void(AnswerJournal&)>& act = nullptr) {
    int runs = 0;
    for (int i = 0; i < starts; ++i) {
      JobsProcess process(folder_.path());
      AddPoison(process, runs, act);
      process.BeginToRecover();
      if (ends_in_order_) process.jobs().EndAttempts();
    }
    return runs;
  }
  static void AddPoison(JobsProcess& process, int& runs,
                        std::function<void(AnswerJournal&)> act = nullptr) {
    process.Add("/poison",
                [&runs, act = std::move(act)](const Request&, const std::vector<std::string>&,
                                              Responder& responder) {
                  ++runs;
                  return DoAndStop(http::JournalOf(responder), act);
                });
  }

  StreamFolder folder_;
  bool ends_in_order_ = false;
};

TEST_F(RecoveryTest, ARequestThatEndsTheProcessRunsTwiceAndIsSetAside) {
  folder_.Put({.id = "p", .path = "/poison"});
  EXPECT_EQ(RunPoison(1), 1);
  EXPECT_TRUE(folder_.Has("p"));
  EXPECT_EQ(RunPoison(1), 1);
  EXPECT_TRUE(folder_.Has("p"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunPoison(3), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(folder_.Has("p"));
  EXPECT_TRUE(folder_.Has("p", "bad"));
  EXPECT_EQ(folder_.Read("p", "bad")->attempts(), 2u);
  const std::string name = JournalFolder::NameOf("", "p");
  EXPECT_THAT(said, testing::HasSubstr(name));
  EXPECT_THAT(said, testing::HasSubstr("ended 2 times"));
  EXPECT_THAT(said, testing::HasSubstr(name.substr(0, name.find('.')) + ".bad"));
  EXPECT_THAT(said, testing::HasSubstr("its stream is lost"));
}

TEST_F(RecoveryTest, ProgressClearsTheAttempts) {
  folder_.Put({.id = "p", .path = "/poison"});
  const auto makes_progress = [](AnswerJournal& journal) {
    while (journal.TakePiece()) {
    }
    journal.Put(http::AnswerPiece{.tokens = {1}, .text = "x", .logprobs = {}});
  };
  EXPECT_EQ(RunPoison(5, makes_progress), 5);
  EXPECT_EQ(folder_.Read("p")->attempts(), 0u);
}

TEST_F(RecoveryTest, RecordsThatEveryRunWritesAreNoProgress) {
  folder_.Put({.id = "p", .path = "/poison"});
  const auto writes_again = [](AnswerJournal& journal) {
    journal.Put(http::LoggedStart{.is_first = true});
    journal.PutEvent(0);
    journal.PutEnd();
  };
  EXPECT_EQ(RunPoison(5, writes_again), 2);
  EXPECT_TRUE(folder_.Has("p", "bad"));
}

TEST_F(RecoveryTest, AnOrderlyEndDoesNotCountAgainstAReply) {
  folder_.Put({.id = "p", .path = "/poison"});
  ends_in_order_ = true;
  EXPECT_EQ(RunPoison(5), 5);
  EXPECT_TRUE(folder_.Has("p"));
}

TEST_F(RecoveryTest, AnOrderlyEndKeepsEarlierAttempts) {
  folder_.Put({.id = "p", .path = "/poison", .attempts = 1});
  ends_in_order_ = true;
  EXPECT_EQ(RunPoison(2), 2);
  ends_in_order_ = false;
  EXPECT_EQ(RunPoison(2), 1);
  EXPECT_TRUE(folder_.Has("p", "bad"));
}

TEST_F(RecoveryTest, AWaitingReplyIsNotBlamed) {
  folder_.Put({.id = "p", .path = "/poison"});
  JobsProcess process(folder_.path());
  int runs = 0;
  std::unique_ptr<http::AttemptPause> pause;
  AddPoison(process, runs, [&](AnswerJournal& journal) {
    EXPECT_EQ(folder_.Read("p")->attempts(), 1u);
    pause = std::make_unique<http::AttemptPause>(&journal);
  });
  process.BeginToRecover();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(folder_.Read("p")->attempts(), 0u);
  pause.reset();  // it has what it waited for
  EXPECT_EQ(folder_.Read("p")->attempts(), 1u);
}

TEST_F(RecoveryTest, AReplyIsBlamedWhileOnlyOneOfItsAnswersWaits) {
  folder_.Put({.id = "p", .path = "/poison"});
  JobsProcess process(folder_.path());
  int runs = 0;
  std::unique_ptr<http::AttemptPause> pause;
  AddPoison(process, runs, [&](AnswerJournal& journal) {
    journal.KeepAttemptOpen();
    pause = std::make_unique<http::AttemptPause>(&journal);
  });
  process.BeginToRecover();
  EXPECT_EQ(folder_.Read("p")->attempts(), 1u);
}

TEST_F(RecoveryTest, OneJobRunsAtATime) {
  folder_.Put({.id = "p", .path = "/poison"});
  folder_.Put({.id = "q", .path = "/poison"});
  EXPECT_EQ(RunPoison(1), 1);
  EXPECT_EQ(folder_.Read("p")->attempts() + folder_.Read("q")->attempts(), 1u);
  // The one that was not run is the first of the next start.
  EXPECT_EQ(RunPoison(1), 1);
  EXPECT_EQ(folder_.Read("p")->attempts(), 1u);
  EXPECT_EQ(folder_.Read("q")->attempts(), 1u);
}

TEST_F(RecoveryTest, JobsWithoutAttemptsRunBeforeJobsThatEndedTheProcess) {
  folder_.Put({.id = "p", .path = "/poison", .attempts = 1});
  for (const char* const id : {"a", "b", "c"}) folder_.Put({.id = id, .pieces = 1});
  EXPECT_EQ(RunPoison(1), 1);
  for (const char* const id : {"a", "b", "c"}) EXPECT_EQ(folder_.ReplyIn(id), "abc");
}

TEST_F(RecoveryTest, AJobWaitsUntilEarlierJobsHaveSettled) {
  folder_.Put({.id = "p", .path = "/poison"});
  folder_.Put({.id = "q", .path = "/poison"});
  JobsProcess process(folder_.path());
  int runs = 0;
  AnswerJournal* first = nullptr;
  AddPoison(process, runs, [&](AnswerJournal& journal) {
    if (first == nullptr) first = &journal;
  });
  process.BeginToRecover();
  EXPECT_EQ(runs, 1);
  first->PutText("progress");
  process.Poll();
  EXPECT_EQ(runs, 2);
}

TEST_F(RecoveryTest, AJobThatDoesNotSettleDelaysOthersForALimitedTime) {
  folder_.Put({.id = "p", .path = "/poison"});
  folder_.Put({.id = "q", .path = "/poison"});
  JobsProcess process(folder_.path());
  int runs = 0;
  AddPoison(process, runs);
  process.Recover();
  EXPECT_EQ(runs, 2);
}

// Fails every write.
class FullDisk final : public FileFault {
 public:
  FullDisk() { FileCalls::SetFault(this); }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() override { FileCalls::SetFault(nullptr); }
  int ErrnoOf(FileCall call) override { return call == FileCall::kWrite ? ENOSPC : 0; }
};

TEST_F(RecoveryTest, AJobWhoseAttemptCannotBeNotedIsNotRunAndStays) {
  folder_.Put({.id = "h", .pieces = 1, .is_started = true});
  {
    const FullDisk full;
    JobsProcess process(folder_.path());
    testing::internal::CaptureStderr();
    process.Recover();
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr("No space left on device; the stream is not resumed before"));
    EXPECT_EQ(process.jobs().Find("", "h"), nullptr);
  }
  JobsProcess process(folder_.path());
  process.Recover();
  EXPECT_EQ(folder_.ReplyIn("h"), "abc");
}

TEST_F(RecoveryTest, TheOldestJournalsThatWereSetAsideAreRemoved) {
  constexpr std::size_t kMore = 4;
  for (std::size_t i = 0; i < JournalFolder::kBadMax + kMore; ++i) {
    const std::string id = std::to_string(i);
    folder_.Put({.id = id, .path = "/poison", .attempts = 2});
    fs::last_write_time(folder_.PathOf(id), fs::file_time_type::clock::now() -
                                                std::chrono::hours(100 - static_cast<int>(i)));
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunPoison(1), 0);
  (void)testing::internal::GetCapturedStderr();
  EXPECT_EQ(folder_.Files().size(), JournalFolder::kBadMax);
  for (std::size_t i = 0; i < kMore; ++i) EXPECT_FALSE(folder_.Has(std::to_string(i), "bad"));
}

TEST_F(RecoveryTest, AFinishedReplyIsNotSetAside) {
  folder_.Put({.id = "h", .pieces = 3, .attempts = 2, .is_over = true});
  JobsProcess process(folder_.path());
  process.Recover();
  const auto job = process.jobs().Find("", "h");
  ASSERT_NE(job, nullptr);
  EXPECT_TRUE(job->buffer->is_over());
}

TEST_F(RecoveryTest, ABodyIsDroppedAtTheEndOfItsReply) {
  folder_.Put({.id = "h"});
  {
    const UniqueFd directory(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY));
    Request request = RequestOf("long", "/healthy");
    request.body = std::string(10'000, 'x');
    ASSERT_TRUE(
        AnswerJournal::Create(directory.get(), JournalFolder::NameOf("", "long"), "long", request));
  }
  EXPECT_EQ(folder_.Read("long")->request().body.size(), 10'000u);
  JobsProcess process(folder_.path());
  process.Recover();
  EXPECT_LT(process.jobs().shares().of("").memory_bytes, 1'000u);
  EXPECT_EQ(folder_.Read("long")->request().body.size(), 0u);
}

TEST_F(RecoveryTest, AnUnreadableFileIsKeptForTheNextStart) {
  folder_.Put({.id = "h", .pieces = 1});
  class Unreadable final : public FileFault {
   public:
    int ErrnoOf(FileCall call) override { return call == FileCall::kRead ? EIO : 0; }
  } fault;
  FileCalls::SetFault(&fault);
  testing::internal::CaptureStderr();
  {
    JobsProcess process(folder_.path());
    process.Recover();
  }
  FileCalls::SetFault(nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("Input/output error"));
  JobsProcess process(folder_.path());
  process.Recover();
  EXPECT_EQ(folder_.ReplyIn("h"), "abc");
}

}  // namespace
}  // namespace kvd::test
