// Makes the n-th file call of the stores fail, for each n, and checks what the next process finds.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "base/file_calls.h"
#include "http/answer/response_store.h"
#include "http/answer/slots.h"
#include "tests/http/jobs/stream_folder.h"

namespace kvd::test {
namespace {

// Fails one call, or all calls from one on.
class NthFault final : public FileFault {
 public:
  NthFault(std::size_t n, bool lasts, int error) : n_(n), lasts_(lasts), error_(error) {
    FileCalls::SetFault(this);
  }
  NthFault(const NthFault&) = delete;
  NthFault& operator=(const NthFault&) = delete;
  ~NthFault() override { FileCalls::SetFault(nullptr); }
  int ErrnoOf(FileCall) override {
    const std::size_t number = calls_++;
    const bool fails = number == n_ || (lasts_ && number > n_);
    return fails ? error_ : 0;
  }
  bool has_failed() const { return calls_ > n_; }

 private:
  std::size_t n_;
  bool lasts_;
  int error_;
  std::size_t calls_ = 0;
};

// Calls `check` with each n, for one failure and for failures that last, until the n-th call does
// not happen. `check` returns whether it has.
template <class Check>
void ForEachFault(Check check) {
  for (const bool lasts : {false, true}) {
    for (const int error : {ENOSPC, EIO}) {
      std::size_t n = 0;
      while (check(n, lasts, error)) {
        if (::testing::Test::HasFailure()) return;
        ++n;
      }
      EXPECT_GT(n, 2u);
    }
  }
}

TEST(RecoveryFaultTest, AFailedFileCallLosesOnlyTheStreamsThatItNames) {
  testing::internal::CaptureStderr();
  ForEachFault([](std::size_t n, bool lasts, int error) {
    SCOPED_TRACE(testing::Message() << "call " << n << (lasts ? " and those behind it" : ""));
    const StreamFolder folder;
    folder.Put({.id = "flight", .pieces = 1, .is_started = true});
    folder.Put({.id = "waiting"});
    folder.Put({.id = "bad", .path = "/poison", .attempts = 2});
    folder.PutBytes("cut.journal", "no");
    std::set<std::string> over;  // in the process with the fault
    bool has_failed = false;
    {
      JobsProcess process(folder.path());
      const NthFault fault(n, lasts, error);
      process.Recover();
      for (const char* const id : {"flight", "waiting"}) {
        const auto job = process.jobs().Find("", id);
        if (job && job->buffer->is_over()) over.insert(id);
        if (job) {
          EXPECT_EQ(job->buffer->byte_count(), 3u) << id;
        }
      }
      has_failed = fault.has_failed();
    }
    JobsProcess next(folder.path());
    next.Recover();
    for (const char* const id : {"flight", "waiting"}) {
      if (folder.Has(id)) {
        EXPECT_EQ(folder.ReplyIn(id), StreamFolder::kReply) << id;
      } else {
        EXPECT_TRUE(over.contains(id)) << id;
      }
    }
    EXPECT_FALSE(folder.Has("bad"));
    EXPECT_TRUE(folder.Has("bad", "bad"));
    return has_failed;
  });
  (void)testing::internal::GetCapturedStderr();
}

TEST(RecoveryFaultTest, AJobWhoseJournalCannotBeCreatedIsRefusedAndLeavesNoFile) {
  ForEachFault([](std::size_t n, bool lasts, int error) {
    SCOPED_TRACE(testing::Message() << "call " << n << (lasts ? " and those behind it" : ""));
    const StreamFolder folder;
    JobsProcess process(folder.path());
    bool is_started = false;
    bool has_failed = false;
    {
      const NthFault fault(n, lasts, error);
      testing::internal::CaptureStderr();
      is_started = process.jobs().Start("a", "/healthy", RequestOf("a", "/healthy")).has_value();
      process.Poll();
      (void)testing::internal::GetCapturedStderr();
      has_failed = fault.has_failed();
    }
    const auto job = process.jobs().Find("", "a");
    EXPECT_EQ(job != nullptr, is_started);
    if (job) {
      EXPECT_EQ(job->buffer->byte_count(), 3u);
    }
    if (!is_started && !lasts) {
      EXPECT_FALSE(folder.Has("a"));
    }
    if (folder.Has("a") && !has_failed) {
      EXPECT_EQ(folder.ReplyIn("a"), StreamFolder::kReply);
    }
    return has_failed;
  });
}

TEST(ResponseStoreFaultTest, AResponseIsWholeAfterAnyFailure) {
  const std::string id = "resp_" + std::string(32, 'a');
  ForEachFault([&](std::size_t n, bool lasts, int error) {
    SCOPED_TRACE(testing::Message() << "call " << n << (lasts ? " and those behind it" : ""));
    const TemporaryFolder folder;
    const auto store = http::ResponseStore::Open(folder.path().string() + "/responses");
    if (!store) return false;
    EXPECT_TRUE((*store)->Put("anna", id, "{\"old\":1}"));
    bool has_failed = false;
    Status put;
    {
      const NthFault fault(n, lasts, error);
      put = (*store)->Put("anna", id, "{\"new\":2}");
      has_failed = fault.has_failed();
    }
    const auto got = (*store)->Get("anna", id);
    EXPECT_TRUE(got);
    if (got) {
      EXPECT_EQ(*got, put ? "{\"new\":2}" : "{\"old\":1}");
    }
    return has_failed;
  });
}

TEST(ResponseStoreFaultTest, ADiskFailureIsNotReportedAsAMissingResponse) {
  const std::string id = "resp_" + std::string(32, 'a');
  ForEachFault([&](std::size_t n, bool lasts, int error) {
    const TemporaryFolder folder;
    const auto store = http::ResponseStore::Open(folder.path().string() + "/responses");
    if (!store) return false;
    EXPECT_TRUE((*store)->Put("anna", id, "{}"));
    const NthFault fault(n, lasts, error);
    const auto got = (*store)->Get("anna", id);
    const bool has_failed = fault.has_failed();
    if (!got) {
      EXPECT_EQ(got.error().code, Code::kIo);
    }
    const Status removed = (*store)->Remove("anna", id);
    if (!removed) {
      EXPECT_EQ(removed.error().code, Code::kIo);
    }
    return has_failed || fault.has_failed();
  });
}

TEST(SlotFileFaultTest, HandlesOfAnotherSessionNumberAreNotRead) {
  ForEachFault([](std::size_t n, bool lasts, int error) {
    SCOPED_TRACE(testing::Message() << "call " << n << (lasts ? " and those behind it" : ""));
    const TemporaryFolder folder;
    const std::string path = folder.path().string() + "/slots";
    auto file = http::SlotFile::Open(path, 2);
    EXPECT_TRUE(file);
    file->Begin(7);
    file->Put(0, SequenceHandle{70});
    bool has_failed = false;
    {
      const NthFault fault(n, lasts, error);
      file->Begin(8);
      file->Put(1, SequenceHandle{80});
      file->Put(0, SequenceHandle{81});
      has_failed = fault.has_failed();
    }
    const auto again = http::SlotFile::Open(path, 2);
    EXPECT_TRUE(again);
    for (const SequenceHandle handle : again->handles()) {
      const auto number = static_cast<std::uint64_t>(handle);
      if (number != 0) {
        EXPECT_EQ(number / 10, again->session());
      }
    }
    return has_failed;
  });
}

}  // namespace
}  // namespace kvd::test
