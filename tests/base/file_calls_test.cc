// Tests FileCalls.
#include "base/file_calls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace kvd {
namespace {

// Fails the calls in the order of `errors`, and notes which calls there were.
class ListedFault final : public FileFault {
 public:
  explicit ListedFault(std::vector<int> errors) : errors_(std::move(errors)) {
    FileCalls::SetFault(this);
  }
  ListedFault(const ListedFault&) = delete;
  ListedFault& operator=(const ListedFault&) = delete;
  ~ListedFault() override { FileCalls::SetFault(nullptr); }
  int ErrnoOf(FileCall call) override {
    calls_.push_back(call);
    return calls_.size() <= errors_.size() ? errors_[calls_.size() - 1] : 0;
  }
  const std::vector<FileCall>& calls() const { return calls_; }

 private:
  std::vector<int> errors_;
  std::vector<FileCall> calls_;
};

// A pipe takes 64 KiB, and then nothing.
struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  UniqueFd read;
  UniqueFd write;
};

TEST(FileCallsTest, AShortWriteReportsTheErrorOfTheNextOne) {
  const Pipe pipe;
  const Status written = FileCalls::WriteAll(pipe.write.get(), std::string(1u << 20, 'x'), "pipe");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kIo);
  EXPECT_EQ(written.error().message, "pipe: Resource temporarily unavailable");
}

TEST(FileCallsTest, AnInterruptedWriteIsRepeated) {
  const Pipe pipe;
  const ListedFault fault({EINTR, EINTR});
  ASSERT_TRUE(FileCalls::WriteAll(pipe.write.get(), "text", "pipe"));
  EXPECT_EQ(fault.calls().size(), 3u);
  char bytes[8] = {};
  EXPECT_EQ(::read(pipe.read.get(), bytes, sizeof bytes), 4);
  EXPECT_STREQ(bytes, "text");
}

TEST(FileCallsTest, EachCallFailsWithTheErrnoOfTheFault) {
  const ListedFault fault(std::vector<int>(9, EIO));
  char byte = 0;
  const auto fails = [](ssize_t result) { return result == -1 && errno == EIO; };
  EXPECT_TRUE(fails(FileCalls::MakeDirectory("/nowhere/a", 0700)));
  EXPECT_TRUE(fails(FileCalls::MakeDirectoryAt(AT_FDCWD, "/nowhere/a", 0700)));
  EXPECT_TRUE(fails(FileCalls::Open(AT_FDCWD, "/", O_RDONLY)));
  EXPECT_TRUE(fails(FileCalls::Read(-1, &byte, 1, 0)));
  EXPECT_TRUE(fails(FileCalls::Write(-1, &byte, 1)));
  EXPECT_TRUE(fails(FileCalls::WriteAt(-1, &byte, 1, 0)));
  EXPECT_TRUE(fails(FileCalls::Truncate(-1, 0)));
  EXPECT_TRUE(fails(FileCalls::Rename(AT_FDCWD, "/nowhere/a", "/nowhere/b")));
  EXPECT_TRUE(fails(FileCalls::Unlink(AT_FDCWD, "/nowhere/a")));
  using enum FileCall;
  EXPECT_EQ(fault.calls(), (std::vector<FileCall>{kMakeDirectory, kMakeDirectory, kOpen, kRead,
                                                  kWrite, kWrite, kTruncate, kRename, kUnlink}));
}

}  // namespace
}  // namespace kvd
