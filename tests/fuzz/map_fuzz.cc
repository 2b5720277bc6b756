// Runs the client's end of the live map, MapReader, with a hostile daemon that writes any bytes
// anywhere in the segment at any time, also between two loads of the client
// (tests/fuzz/between_loads.h).
//
// Oracle: the reader's copies have the sizes that Open has checked, and every entry in them is
// valid; an error is kCorrupt or kVersionMismatch and names the field. Seeds: make_corpus map
// FOLDER.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/ids.h"
#include "shm/map_reader.h"
#include "shm/segment_layout.h"
#include "shm/shared_memory.h"
#include "tests/fuzz/between_loads.h"
#include "tests/fuzz/map_program.h"
#include "tests/fuzz/peer_program.h"

// The reader yields while it waits for a writer. No other thread runs in this target, so yielding
// returns at once.
extern "C" int sched_yield() noexcept { return 0; }

namespace {

using namespace kvd;
using test::MapOp;
using test::MapSegment;

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

// A segment as the daemon creates it: mapped for writing before it is sealed. Segments exist until
// the process ends.
class Segment {
 public:
  explicit Segment(MapSegment kind) : geometry_{1, 1, 1} {
    if (kind == MapSegment::kTwoEach) geometry_ = {513, 65, 65};
    const bool is_sealed = kind != MapSegment::kUnsealed;
    const std::size_t byte_count =
        kind == MapSegment::kShort ? sizeof(layout::MapHeader) : geometry_.total_bytes();
    writable_ = UniqueFd(::memfd_create("map", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    KVD_ASSERT(writable_ && ::ftruncate(writable_.get(), static_cast<off_t>(byte_count)) == 0);
    auto mapping = Mapping<kReadWrite>::MapAll(writable_.get());
    KVD_ASSERT(mapping.has_value());
    mapping_ = std::move(*mapping);
    if (is_sealed) {
      KVD_ASSERT(::fcntl(writable_.get(), F_ADD_SEALS,
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
    }
    // The reader needs a separate open file description, because file locks belong to the open file
    // description.
    const std::string path = "/proc/self/fd/" + std::to_string(writable_.get());
    readable_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    KVD_ASSERT(static_cast<bool>(readable_));
  }

  std::span<std::byte> bytes() { return mapping_.bytes(); }
  const MapGeometry& geometry() const { return geometry_; }
  int readable() const { return readable_.get(); }

  // Clears the segment and writes a valid header.
  void Reset() {
    std::memset(mapping_.data(), 0, bytes().size());
    auto* header = new (mapping_.data()) layout::MapHeader{};
    header->magic = layout::kMapMagic;
    header->version = layout::kMapVersion;
    header->header_bytes = sizeof(layout::MapHeader);
    header->total_bytes = geometry_.total_bytes();
    header->block_count = geometry_.block_count;
    header->sequence_capacity = geometry_.sequence_capacity;
    header->session_capacity = geometry_.session_capacity;
  }

  void Hold(bool lives) {
    struct flock lock{};
    lock.l_type = static_cast<short>(lives ? F_WRLCK : F_UNLCK);
    lock.l_whence = SEEK_SET;
    KVD_ASSERT(::fcntl(writable_.get(), F_OFD_SETLK, &lock) == 0);
  }

 private:
  MapGeometry geometry_;
  UniqueFd writable_;
  UniqueFd readable_;
  Mapping<kReadWrite> mapping_;
};

// The two ends of the live map: the daemon's segment and the client's reader.
class Peers {
 public:
  explicit Peers(Segment& segment)
      : segment_(segment),
        between_loads_(segment.bytes(), test::BetweenLoads::Counts::kEveryLoad) {}

  // Executes one operation. False: the client stops reading the map.
  bool Run(MapOp op, test::PeerProgram& program);

 private:
  bool Open();
  bool Refresh();
  void CheckCopies() const;
  // Writes at `offset` modulo the size of the segment. Bytes that would be after the segment's end
  // are omitted.
  void Write(std::size_t offset, std::span<const std::byte> source) {
    const auto target = segment_.bytes().subspan(offset % segment_.bytes().size());
    std::ranges::copy(source.first(std::min(source.size(), target.size())), target.begin());
  }
  std::size_t LockOffset(std::uint32_t shard) const {
    return layout::kMapPageBytes + shard * kWordBytes;
  }

  Segment& segment_;
  std::optional<MapReader> reader_;
  test::BetweenLoads between_loads_;
};

bool Peers::Open() {
  reader_.reset();
  auto opened = MapReader::Open(UniqueFd(::fcntl(segment_.readable(), F_DUPFD_CLOEXEC, 0)));
  if (!opened) {
    KVD_ASSERT(opened.error().code == Code::kCorrupt ||
               opened.error().code == Code::kVersionMismatch);
    KVD_ASSERT(!opened.error().message.empty());
    return false;
  }
  reader_ = std::move(*opened);
  const MapGeometry found{static_cast<std::uint32_t>(reader_->blocks().size()),
                          static_cast<std::uint32_t>(reader_->sequences().size()),
                          static_cast<std::uint32_t>(reader_->sessions().size())};
  KVD_ASSERT(found.total_bytes() == segment_.bytes().size());
  return true;
}

void Peers::CheckCopies() const {
  for (const layout::MapBlock& block : reader_->blocks()) {
    KVD_ASSERT(block.shared_cells <= block.used_cells && block.used_cells <= layout::kBlockCells);
    KVD_ASSERT(block.sequence <= reader_->sequences().size());
  }
  for (std::size_t at = 0; at < reader_->sequences().size(); ++at) {
    const layout::MapSequence& sequence = reader_->sequences()[at];
    if (sequence.handle == 0) continue;
    KVD_ASSERT(IndexOf(static_cast<SequenceHandle>(sequence.handle)) == at);
    KVD_ASSERT(sequence.shared_cells <= sequence.cell_count);
  }
}

bool Peers::Refresh() {
  const auto state = reader_->Refresh();
  CheckCopies();
  if (state) {
    KVD_ASSERT(std::string(MapStateName(*state)) != "unknown");
    return true;
  }
  KVD_ASSERT(state.error().code == Code::kCorrupt && state.error().message.starts_with("map."));
  return false;
}

bool Peers::Run(MapOp op, test::PeerProgram& program) {
  const MapGeometry& geometry = segment_.geometry();
  switch (op) {
    case MapOp::kHeaderBytes: {
      const std::size_t offset = program.Number<std::uint8_t>() % sizeof(layout::MapHeader);
      Write(offset, program.Bytes(program.Number<std::uint8_t>()));
      return true;
    }
    case MapOp::kLock: {
      const std::uint32_t shard = program.Number<std::uint8_t>() % geometry.shard_count();
      const auto value = program.Number<std::uint64_t>();
      Write(LockOffset(shard), std::as_bytes(std::span(&value, 1)));
      return true;
    }
    case MapOp::kShardBytes:
    case MapOp::kPublish: {
      const std::uint32_t shard = program.Number<std::uint8_t>() % geometry.shard_count();
      const std::size_t offset = program.Number<std::uint16_t>() % layout::kMapPageBytes;
      Write(geometry.shards_offset() + shard * std::size_t{layout::kMapPageBytes} + offset,
            program.Bytes(program.Number<std::uint8_t>()));
      if (op == MapOp::kShardBytes || segment_.bytes().size() < geometry.total_bytes()) return true;
      __atomic_add_fetch(
          reinterpret_cast<std::uint64_t*>(segment_.bytes().data() + LockOffset(shard)), 2,
          __ATOMIC_RELEASE);
      return true;
    }
    case MapOp::kBetweenLoads: {
      const std::uint32_t loads = program.Number<std::uint16_t>();
      const std::size_t word = program.Number<std::uint32_t>();
      const auto value = program.Number<std::uint64_t>();
      between_loads_.Store(loads, word % (segment_.bytes().size() / kWordBytes) * kWordBytes,
                           value);
      return true;
    }
    case MapOp::kOpen: return Open();
    case MapOp::kRefresh: return reader_ ? Refresh() : Open();
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  static std::array<Segment, test::kMapSegments> segments = {
      Segment(MapSegment::kSmall), Segment(MapSegment::kTwoEach), Segment(MapSegment::kShort),
      Segment(MapSegment::kUnsealed)};
  test::PeerProgram program(std::as_bytes(std::span(data, byte_count)));
  Segment& segment = segments[program.Number<std::uint8_t>() % segments.size()];
  segment.Reset();
  segment.Hold((program.Number<std::uint8_t>() & test::kMapWriterLives) != 0);
  Peers peers(segment);
  while (const auto op = program.Op(test::kMapOps)) {
    if (!peers.Run(static_cast<MapOp>(*op), program)) break;
  }
  return 0;
}
