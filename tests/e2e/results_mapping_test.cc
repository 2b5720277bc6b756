// Tests that outputs are not copied: the client reads the rows of a decode and the text of a
// generation where the daemon wrote them, in the session's results segment. The client cannot write
// or resize that segment with any system call.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/support/raw_client.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using test::RawClient;

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// One line of /proc/self/maps.
struct MappedRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string permissions;  // "r--s"
  std::string path;

  bool Holds(const void* data, std::size_t byte_count) const {
    const auto at = reinterpret_cast<std::uintptr_t>(data);
    return at >= begin && at <= end && byte_count <= end - at;
  }
  std::size_t byte_count() const { return end - begin; }
};

std::vector<MappedRange> MappedRanges() {
  std::vector<MappedRange> ranges;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    MappedRange range;
    char permissions[5] = {};
    int path_at = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n",
                          &range.begin, &range.end, permissions, &path_at),
              3)
        << line;
    range.permissions = permissions;
    range.path = line.substr(static_cast<std::size_t>(path_at));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

// Returns the mappings of the session's segment `segment` ("requests" or "results") in this
// process.
std::vector<MappedRange> MappingsOf(std::uint64_t session, const std::string& segment) {
  const std::string name = "/memfd:kvd-" + std::to_string(session) + "-" + segment;
  std::vector<MappedRange> found;
  for (MappedRange& range : MappedRanges()) {
    if (range.path == name || range.path == name + " (deleted)") found.push_back(std::move(range));
  }
  return found;
}

class ResultsMappingTest : public test::ServedDaemonTest {
 protected:
  void SetUp() override {
    ServedDaemonTest::SetUp();
    client_.emplace(Connect());
    auto sequence = client_->NewSequence();
    ASSERT_TRUE(sequence) << sequence.error().message;
    sequence_.emplace(std::move(*sequence));
    const auto results = MappingsOf(client_->session().session, "results");
    ASSERT_EQ(results.size(), 1u) << "mapped once";
    results_ = results.front();
  }
  void TearDown() override {
    sequence_.reset();
    client_.reset();
    ServedDaemonTest::TearDown();
  }

  std::optional<Client> client_;
  std::optional<Sequence> sequence_;
  MappedRange results_;
};

TEST_F(ResultsMappingTest, RowsOfADecodeAreInTheReadOnlyResultsSegment) {
  EXPECT_EQ(results_.permissions, "r--s");
  const std::vector<TokenId> tokens(20, 7);
  const auto logits = sequence_->Decode(tokens, Pos{0}, wire::LogitsWanted::kAll);
  ASSERT_TRUE(logits) << logits.error().message;
  ASSERT_EQ(logits->row_count(), 20u);
  const auto values = logits->values();
  EXPECT_TRUE(results_.Holds(values.data(), values.size_bytes()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(values.data()) % wire::kOutputAlignment, 0u);
  for (std::size_t row = 0; row < logits->row_count(); ++row)
    EXPECT_TRUE(results_.Holds(logits->row(row).data(), logits->row(row).size_bytes())) << row;
}

TEST_F(ResultsMappingTest, TextAndTokensOfAGenerationAreInTheResultsSegment) {
  const std::vector<TokenId> prompt = {10, 20, 30};
  auto generation = sequence_->Generate({.tokens = prompt,
                                         .predict_max = 16,
                                         .sampling = DefaultSamplingAt(0.0f),
                                         .logprob_count = 3,
                                         .flags = wire::kIgnoreEos});
  ASSERT_TRUE(generation) << generation.error().message;
  std::size_t token_count = 0;
  for (;;) {
    const auto piece = generation->Next();
    ASSERT_TRUE(piece) << piece.error().message;
    if (!*piece) break;
    const wire::PieceView& view = **piece;
    EXPECT_TRUE(results_.Holds(view.tokens.data(), view.tokens.size_bytes()));
    EXPECT_TRUE(results_.Holds(view.text.data(), view.text.size()));
    EXPECT_TRUE(results_.Holds(view.logprobs.data(), view.logprobs.size_bytes()));
    token_count += view.tokens.size();
  }
  EXPECT_EQ(token_count, 16u);
}

TEST_F(ResultsMappingTest, TheMappingCannotBeMadeWritable) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address comes as text from /proc.
  void* const begin = reinterpret_cast<void*>(results_.begin);
  EXPECT_NE(::mprotect(begin, results_.byte_count(), PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(errno, EACCES);
  EXPECT_NE(::mprotect(begin, results_.byte_count(), PROT_WRITE), 0);
  // With CAP_CHECKPOINT_RESTORE the mapped file can be opened again by its link in
  // /proc/self/map_files.
  char link[80];
  std::snprintf(link, sizeof link, "/proc/self/map_files/%" PRIxPTR "-%" PRIxPTR, results_.begin,
                results_.end);
  const UniqueFd reopened(::open(link, O_RDWR | O_CLOEXEC));
  if (reopened) {
    EXPECT_LT(::pwrite(reopened.get(), "x", 1, 0), 0);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened.get(), 0),
              MAP_FAILED);
  }
  EXPECT_EQ(MappingsOf(client_->session().session, "results").front().permissions, "r--s");
  EXPECT_TRUE(client_->Ping(1000));
}

TEST_F(ResultsMappingTest, EachSessionHasItsOwnWritableRequestsSegment) {
  const std::uint64_t session = client_->session().session;
  const auto requests = MappingsOf(session, "requests");
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_EQ(requests.front().permissions, "rw-s");
  const Client second = Connect();
  const auto others = MappingsOf(second.session().session, "results");
  ASSERT_EQ(others.size(), 1u);
  EXPECT_NE(others.front().begin, results_.begin);
}

TEST_F(ResultsMappingTest, SegmentsAreUnmappedWithTheirSession) {
  std::uint64_t session = 0;
  {
    const Client second = Connect();
    session = second.session().session;
    ASSERT_TRUE(second.Ping());
  }
  EXPECT_TRUE(MappingsOf(session, "results").empty());
  EXPECT_TRUE(MappingsOf(session, "requests").empty());
}

// Tests the segments' descriptors. The client library closes them after it has mapped the segments,
// so a RawClient is used.
class SegmentDescriptorsTest : public test::ServedDaemonTest {
 protected:
  void SetUp() override {
    ServedDaemonTest::SetUp();
    auto client = RawClient::Connect(socket_path());
    ASSERT_TRUE(client);
    client_.emplace(std::move(*client));
  }
  void TearDown() override {
    client_.reset();
    ExpectServesOthers();
    ServedDaemonTest::TearDown();
  }
  static std::size_t BytesOf(int descriptor) {
    struct stat found{};
    EXPECT_EQ(::fstat(descriptor, &found), 0);
    return static_cast<std::size_t>(found.st_size);
  }
  std::optional<RawClient> client_;
};

TEST_F(SegmentDescriptorsTest, NeitherSegmentCanBeShrunkOrGrown) {
  for (const int segment : {client_->requests_descriptor(), client_->results_descriptor()}) {
    EXPECT_EQ(::fcntl(segment, F_GET_SEALS) & kSizeSeals, kSizeSeals);
    const std::size_t bytes = BytesOf(segment);
    for (const std::size_t wanted : {std::size_t{0}, std::size_t{4096}, bytes - 1, bytes + 4096}) {
      EXPECT_NE(::ftruncate(segment, static_cast<off_t>(wanted)), 0) << wanted;
      EXPECT_EQ(errno, EPERM) << wanted;
    }
    EXPECT_NE(::fallocate(segment, 0, static_cast<off_t>(bytes), 4096), 0);
    EXPECT_NE(::fcntl(segment, F_ADD_SEALS, F_SEAL_WRITE), 0) << "the seals are sealed";
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(BytesOf(segment), bytes);
  }
}

TEST_F(SegmentDescriptorsTest, ResultsCannotBeWrittenThroughTheDescriptorEvenIfReopened) {
  const int results = client_->results_descriptor();
  EXPECT_NE(::fcntl(results, F_GET_SEALS) & F_SEAL_FUTURE_WRITE, 0);
  std::vector<UniqueFd> ways;
  ways.emplace_back(::fcntl(results, F_DUPFD_CLOEXEC, 0));
  const std::string link = "/proc/self/fd/" + std::to_string(results);
  for (const int flags : {O_RDWR, O_WRONLY}) {
    UniqueFd reopened(::open(link.c_str(), flags | O_CLOEXEC));
    if (reopened) ways.push_back(std::move(reopened));
  }
  ASSERT_TRUE(ways.front());
  for (const UniqueFd& way : ways) {
    EXPECT_LT(::write(way.get(), "x", 1), 0);
    EXPECT_LT(::pwrite(way.get(), "x", 1, 0), 0);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, way.get(), 0), MAP_FAILED);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, way.get(), 0), MAP_FAILED);
    EXPECT_NE(::fallocate(way.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0)
        << "zeros are written too";
  }
  // Writes to a private copy do not reach the segment.
  void* const copy = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, results, 0);
  ASSERT_NE(copy, MAP_FAILED);
  const layout::ResultsHeader& header = client_->results_header();
  const std::uint64_t magic = header.magic;
  std::memset(copy, 0xff, 4096);
  EXPECT_EQ(header.magic, magic);
  ::munmap(copy, 4096);
}

TEST_F(SegmentDescriptorsTest, BothSegmentsAreAccessibleOnlyToTheirUid) {
  for (const int segment : {client_->requests_descriptor(), client_->results_descriptor()}) {
    struct stat found{};
    ASSERT_EQ(::fstat(segment, &found), 0);
    EXPECT_EQ(found.st_mode & 07777u, 0600u);
  }
}

}  // namespace
}  // namespace kvd
