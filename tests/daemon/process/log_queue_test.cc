#include "daemon/process/log_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace kvd {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;

constexpr milliseconds kPatience{50};
constexpr milliseconds kLong{30'000};

class LogQueueTest : public testing::Test {
 protected:
  LogQueueTest() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
  }
  LogQueue& Make(std::size_t bytes_max) {
    return queue_.emplace(writer_.get(), bytes_max, [](std::uint64_t line_count) {
      return "dropped " + std::to_string(line_count) + "\n";
    });
  }
  // Fills the pipe, so that the next write to it blocks.
  void FillPipe() {
    const int flags = ::fcntl(writer_.get(), F_GETFL);
    ASSERT_EQ(::fcntl(writer_.get(), F_SETFL, flags | O_NONBLOCK), 0);
    const std::array<char, 4096> bytes{};
    while (::write(writer_.get(), bytes.data(), bytes.size()) > 0) {
    }
    while (::write(writer_.get(), bytes.data(), 1) > 0) {
    }
    ASSERT_EQ(::fcntl(writer_.get(), F_SETFL, flags), 0);
  }
  // Reads the pipe until it is empty and its writing end is closed.
  std::string ReadAll() {
    std::string text;
    std::array<char, 4096> bytes;
    for (;;) {
      const ssize_t got = ::read(reader_.get(), bytes.data(), bytes.size());
      if (got <= 0) return text;
      text.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }

  UniqueFd reader_;
  UniqueFd writer_;
  std::optional<LogQueue> queue_;
};

TEST_F(LogQueueTest, LinesAreWrittenInOrderIncludingThoseBeforeTheStart) {
  LogQueue& queue = Make(1 << 20);
  std::string expected;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    queue.Add(line);
    expected += line;
    if (i == 500) queue.Start();
  }
  queue.Wait(kLong);
  queue.Stop(kPatience);
  writer_.reset();
  EXPECT_EQ(ReadAll(), expected);
}

// A queue that waited for the reader would block the loop of this test forever.
TEST_F(LogQueueTest, AStalledReaderLosesTheOldestLinesWhichAreCounted) {
  constexpr int kLines = 10'000;
  LogQueue& queue = Make(64 << 10);
  FillPipe();
  queue.Start();
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < kLines - 1; ++i) queue.Add(line);
  queue.Add("the last\n");
  std::string text;
  std::jthread reader([&] { text = ReadAll(); });
  queue.Wait(kLong);
  queue.Stop(kLong);
  writer_.reset();
  reader.join();
  EXPECT_THAT(text, EndsWith("the last\n"));
  int written = 0;
  for (const char letter : text) written += letter == '\n' ? 1 : 0;
  std::size_t dropped = 0;
  for (auto at = text.find("dropped "); at != std::string::npos;
       at = text.find("dropped ", at + 1)) {
    dropped += std::stoul(text.substr(at + 8));
    --written;
  }
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(static_cast<std::size_t>(written) + dropped, std::size_t{kLines});
}

TEST_F(LogQueueTest, AStopDoesNotWaitForAStalledReader) {
  LogQueue& queue = Make(1 << 20);
  FillPipe();
  queue.Start();
  queue.Add("a line\n");
  queue.Wait(milliseconds(4));
  queue.Stop(kPatience);
  writer_.reset();
  EXPECT_THAT(ReadAll(), testing::Not(HasSubstr("a line")));
}

TEST_F(LogQueueTest, LinesWithoutAReaderAreLostAndLaterLinesAreWritten) {
  ::signal(SIGPIPE, SIG_IGN);
  LogQueue& queue = Make(1 << 20);
  reader_.reset();
  queue.Start();
  for (int i = 0; i < 100; ++i) queue.Add("lost\n");
  queue.Wait(kLong);
  // The queue's descriptor becomes the writing end of a pipe that has a reader.
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  reader_.reset(ends[0]);
  const UniqueFd writer(ends[1]);
  ASSERT_GE(::dup2(writer.get(), writer_.get()), 0);
  queue.Add("later\n");
  queue.Wait(kLong);
  queue.Stop(kPatience);
  writer_.reset();
  ASSERT_EQ(::fcntl(reader_.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(ReadAll(), "later\n");
}

TEST_F(LogQueueTest, ALineThatIsLargerThanTheQueueIsDropped) {
  LogQueue& queue = Make(100);
  queue.Add(std::string(101, 'x') + "\n");
  queue.Add("short\n");
  queue.Start();
  queue.Stop(kPatience);
  writer_.reset();
  EXPECT_EQ(ReadAll(), "dropped 1\nshort\n");
}

}  // namespace
}  // namespace kvd
