// Tests the `map` segment between a writer and a reader: the reader sees only complete shards,
// notices the end of the writer, and refuses invalid bytes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "shm/map_reader.h"
#include "shm/map_writer.h"
#include "shm/peer_socket.h"
#include "shm/shared_memory.h"

namespace kvd {
namespace {

using ::testing::StartsWith;

constexpr MapGeometry kGeometry{
    .block_count = 700, .sequence_capacity = 100, .session_capacity = 3};

template <class T>
std::array<std::uint64_t, sizeof(T) / 8> WordsOf(const T& value) {
  std::array<std::uint64_t, sizeof(T) / 8> words;
  std::memcpy(words.data(), &value, sizeof value);
  return words;
}

MapWriter MakeWriter() {
  auto writer = MapWriter::Create(kGeometry, 1000);
  if (!writer) throw std::runtime_error(writer.error().message);
  return std::move(*writer);
}

MapReader MakeReader(const MapWriter& writer) {
  auto reader = MapReader::Open(UniqueFd(::dup(writer.descriptor())));
  if (!reader) throw std::runtime_error(reader.error().message);
  return std::move(*reader);
}

void WriteTotals(MapWriter& writer, std::uint64_t pass) {
  layout::MapTotals totals{};
  totals.pass = pass;
  totals.live_cells = pass * 10;
  writer.Write(MapSection::kTotals, 0, WordsOf(totals));
}

TEST(MapTest, AReaderSeesWhatWasWritten) {
  MapWriter writer = MakeWriter();
  MapReader reader = MakeReader(writer);
  EXPECT_EQ(reader.Refresh(), MapState::kLive);
  EXPECT_FALSE(reader.has_content());
  std::array<layout::MapBlock, 2> blocks = {
      layout::MapBlock{.sequence = 4, .used_cells = 32, .shared_cells = 5, .reserved = 0},
      layout::MapBlock{.sequence = 9, .used_cells = 1, .shared_cells = 0, .reserved = 0}};
  writer.Write(MapSection::kBlocks, 1, WordsOf(blocks));
  layout::MapSequence sequence{};
  sequence.handle = (7ull << 32) | 64;
  sequence.cell_count = 9;
  writer.Write(MapSection::kSequences, 1, WordsOf(sequence));
  WriteTotals(writer, 1);
  EXPECT_EQ(reader.Refresh(), MapState::kLive);
  EXPECT_TRUE(reader.has_content());
  EXPECT_EQ(reader.totals().live_cells, 10u);
  EXPECT_EQ(reader.blocks()[512].sequence, 4u);
  EXPECT_EQ(reader.blocks()[513].sequence, 9u);
  EXPECT_EQ(reader.sequences()[64].cell_count, 9u);
  EXPECT_EQ(reader.viewer_uid(), 1000u);
  EXPECT_EQ(reader.daemon_pid(), static_cast<std::uint32_t>(::getpid()));
}

TEST(MapTest, UnchangedBlocksAreNotWritten) {
  MapWriter writer = MakeWriter();
  const std::array<std::uint64_t, 2> zeros = {};
  const std::array<std::uint64_t, 2> words = {1, 2};
  EXPECT_FALSE(writer.Write(MapSection::kSessions, 0, zeros));
  EXPECT_TRUE(writer.Write(MapSection::kSessions, 0, words));
  EXPECT_FALSE(writer.Write(MapSection::kSessions, 0, words));
  EXPECT_TRUE(writer.Write(MapSection::kSessions, 0, zeros));
}

TEST(MapTest, TheReceiverCanNeitherWriteNorResizeTheMap) {
  const MapWriter writer = MakeWriter();
  const auto bytes = static_cast<std::size_t>(kGeometry.total_bytes());
  EXPECT_EQ(::fcntl(writer.descriptor(), F_GETFL) & O_ACCMODE, O_RDONLY);
  const std::string path = "/proc/self/fd/" + std::to_string(writer.descriptor());
  const UniqueFd reopened(::open(path.c_str(), O_RDWR));
  ASSERT_TRUE(reopened);
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, reopened.get(), 0), MAP_FAILED);
  EXPECT_EQ(::write(reopened.get(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(reopened.get(), 0), -1);
}

TEST(MapTest, AWriterThatEndsIsReportedAsStopped) {
  auto writer = std::make_unique<MapWriter>(MakeWriter());
  WriteTotals(*writer, 3);
  MapReader reader = MakeReader(*writer);
  writer.reset();
  EXPECT_EQ(reader.Refresh(), MapState::kStopped);
  EXPECT_EQ(reader.totals().pass, 3u);
}

TEST(MapTest, AKilledWriterLeavesTheLastCompleteShardAndIsReported) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    MapWriter writer = MakeWriter();
    WriteTotals(writer, 1);
    const int descriptor = writer.descriptor();
    if (!SendWithDescriptors(sockets[1], std::as_bytes(std::span("r", 1)), {&descriptor, 1})) {
      ::_exit(1);
    }
    char byte = 0;
    if (::read(sockets[1], &byte, 1) != 1) ::_exit(2);
    WriteTotals(writer, 2);
    writer.LeaveShardOpenForTest(0);
    ::kill(::getpid(), SIGKILL);
  }
  std::byte ready[1];
  auto descriptors = ReceiveWithDescriptors(sockets[0], ready, std::chrono::seconds(30));
  ASSERT_TRUE(descriptors) << descriptors.error().message;
  auto reader = MapReader::Open(std::move((*descriptors)[0]));
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->Refresh(), MapState::kLive);
  ASSERT_EQ(::write(sockets[0], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(reader->Refresh(), MapState::kKilled);
  EXPECT_EQ(reader->totals().pass, 1u);
  ::close(sockets[0]);
  ::close(sockets[1]);
}

TEST(MapTest, NoReaderSeesAPartlyWrittenShard) {
  MapWriter writer = MakeWriter();
  MapReader reader = MakeReader(writer);
  std::thread writing([&writer] {
    for (std::uint64_t number = 1; number <= 20'000; ++number) {
      std::array<layout::MapSession, 8> sessions{};
      for (layout::MapSession& session : sessions) {
        session = {.session = number,
                   .uid = 0,
                   .pid = 0,
                   .tokens_computed = number,
                   .tokens_sampled = number,
                   .client_name = {}};
      }
      writer.Write(MapSection::kSessions, 0, WordsOf(sessions));
    }
  });
  std::uint64_t last = 0;
  while (last < 20'000) {
    const auto state = reader.Refresh();
    ASSERT_TRUE(state);
    const layout::MapSession& first = reader.sessions()[0];
    const layout::MapSession& third = reader.sessions()[2];
    ASSERT_GE(first.session, last);
    last = first.session;
    ASSERT_EQ(first.tokens_sampled, last);
    ASSERT_EQ(third.session, last);
    ASSERT_EQ(third.tokens_sampled, last);
  }
  writing.join();
}

// A segment with arbitrary bytes.
struct Forged {
  UniqueFd descriptor;
  Mapping<kReadWrite> mapping;
  layout::MapHeader* header() { return reinterpret_cast<layout::MapHeader*>(mapping.data()); }
};

Forged Forge(const std::function<void(layout::MapHeader&)>& change,
             std::size_t segment_bytes = kGeometry.total_bytes()) {
  auto made = CreateSealedMemory("forged", segment_bytes, Sealing::kSizeAndLaterWrites);
  Forged forged{std::move(made->descriptor), std::move(made->mapping)};
  layout::MapHeader& header = *forged.header();
  header.magic = layout::kMapMagic;
  header.version = layout::kMapVersion;
  header.header_bytes = sizeof(layout::MapHeader);
  header.block_count = kGeometry.block_count;
  header.sequence_capacity = kGeometry.sequence_capacity;
  header.session_capacity = kGeometry.session_capacity;
  change(header);
  return forged;
}

std::string OpenError(const std::function<void(layout::MapHeader&)>& change,
                      std::size_t segment_bytes = kGeometry.total_bytes()) {
  Forged forged = Forge(change, segment_bytes);
  const auto reader = MapReader::Open(std::move(forged.descriptor));
  return reader ? "" : reader.error().message;
}

TEST(MapTest, AnImpossibleHeaderIsRefusedByTheNameOfTheField) {
  EXPECT_EQ(OpenError([](auto&) {}), "");
  EXPECT_THAT(OpenError([](auto& h) { h.magic = 1; }), StartsWith("map.magic"));
  EXPECT_THAT(OpenError([](auto& h) { h.version = 2; }), StartsWith("map.version"));
  EXPECT_THAT(OpenError([](auto& h) { h.header_bytes = 2; }), StartsWith("map.header_bytes"));
  EXPECT_THAT(OpenError([](auto& h) { h.block_count = 0; }), StartsWith("map.block_count"));
  EXPECT_THAT(OpenError([](auto& h) { h.block_count = ~0u; }), StartsWith("map.block_count"));
  EXPECT_THAT(OpenError([](auto& h) { h.sequence_capacity = ~0u; }),
              StartsWith("map.sequence_capacity"));
  EXPECT_THAT(OpenError([](auto& h) { h.session_capacity = 0; }),
              StartsWith("map.session_capacity"));
  EXPECT_THAT(OpenError([](auto& h) { h.block_count = 10'000; }), StartsWith("map.total_bytes"));
  EXPECT_THAT(OpenError([](auto&) {}, 4096), StartsWith("map.total_bytes"));
}

TEST(MapTest, AnUnsealedSegmentIsNotMapped) {
  UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(plain.get(), static_cast<off_t>(kGeometry.total_bytes())), 0);
  const auto reader = MapReader::Open(std::move(plain));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::kCorrupt);
}

TEST(MapTest, ImpossibleEntriesAreRefusedByTheNameOfTheField) {
  const auto error_of = [](MapSection part, std::span<const std::uint64_t> words) {
    MapWriter writer = MakeWriter();
    MapReader reader = MakeReader(writer);
    writer.Write(part, 0, words);
    const auto state = reader.Refresh();
    return state ? std::string() : state.error().message;
  };
  const auto block = [&](layout::MapBlock bad) {
    return error_of(MapSection::kBlocks, WordsOf(bad));
  };
  EXPECT_THAT(block({.sequence = 1, .used_cells = 33, .shared_cells = 0, .reserved = 0}),
              StartsWith("map.blocks[0].used_cells: 33"));
  EXPECT_THAT(block({.sequence = 1, .used_cells = 3, .shared_cells = 4, .reserved = 0}),
              StartsWith("map.blocks[0].shared_cells: 4"));
  EXPECT_THAT(block({.sequence = 101, .used_cells = 3, .shared_cells = 0, .reserved = 0}),
              StartsWith("map.blocks[0].sequence: 101"));
  layout::MapSession session{};
  session.session = 1;
  std::strcpy(session.client_name, "a\033b");
  EXPECT_THAT(error_of(MapSection::kSessions, WordsOf(session)),
              StartsWith("map.sessions[0].client_name: 27"));
  layout::MapSequence sequence{};
  sequence.handle = (1ull << 32) | 5;
  EXPECT_THAT(error_of(MapSection::kSequences, WordsOf(sequence)),
              StartsWith("map.sequences[0].handle"));
  sequence.handle = 1ull << 32;
  sequence.shared_cells = 1;
  EXPECT_THAT(error_of(MapSection::kSequences, WordsOf(sequence)),
              StartsWith("map.sequences[0].shared_cells: 1"));
}

TEST(MapTest, ALockLeftOddByADeadWriterIsReportedAndNotWaitedFor) {
  Forged forged = Forge([](auto&) {});
  auto reader = MapReader::Open(std::move(forged.descriptor));
  ASSERT_TRUE(reader);
  auto* locks = reinterpret_cast<std::uint64_t*>(forged.mapping.data() + layout::kMapPageBytes);
  for (std::uint32_t shard = 0; shard < kGeometry.shard_count(); ++shard) locks[shard] = 1;
  EXPECT_EQ(reader->Refresh(), MapState::kKilled);
  EXPECT_FALSE(reader->has_content());
}

}  // namespace
}  // namespace kvd
