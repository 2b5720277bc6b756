// A copy of a shard is consistent if the shard's lock is even and has the same value before and
// after the copy. Every number in the segment is copied and checked before it is used; sizes come
// only from the validated geometry.
#include "shm/map_reader.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/ids.h"
#include "base/text.h"
#include "shm/segment_layout.h"
#include "shm/shared_memory.h"

namespace kvd {
namespace {

constexpr std::size_t kWords = layout::kMapPageBytes / sizeof(std::uint64_t);
// Largest number of attempts to copy a shard. A writer holds a shard's lock for microseconds unless
// the writer is suspended while it writes.
constexpr int kAttemptsMax = 2000;

std::unexpected<Error> Bad(const std::string& field, std::uint64_t found, const char* wanted) {
  return Fail(Code::kCorrupt, "map.", field, ": ", found, ", ", wanted);
}

Status Check(const MapGeometry&, std::size_t at, const layout::MapSession& session) {
  const auto is_bad = [](char c) { return c != '\0' && (c < 0x20 || c > 0x7e); };
  const auto* const bad = std::ranges::find_if(session.client_name, is_bad);
  if (bad == std::end(session.client_name)) return {};
  return Bad(Concat("sessions[", at, "].client_name"), static_cast<unsigned char>(*bad),
             "not a byte of printable ASCII");
}

Status Check(const MapGeometry& geometry, std::size_t at, const layout::MapBlock& block) {
  const std::string name = Concat("blocks[", at, "].");
  if (block.used_cells > layout::kBlockCells) {
    return Bad(name + "used_cells", block.used_cells, "more than the cells of a block");
  }
  if (block.shared_cells > block.used_cells) {
    return Bad(name + "shared_cells", block.shared_cells, "more than used_cells");
  }
  if (block.sequence > geometry.sequence_capacity) {
    return Bad(name + "sequence", block.sequence, "more than the sequence capacity");
  }
  return {};
}

Status Check(const MapGeometry&, std::size_t at, const layout::MapSequence& sequence) {
  const std::string name = Concat("sequences[", at, "].");
  if (sequence.handle == 0) return {};
  if (IndexOf(static_cast<SequenceHandle>(sequence.handle)) != at) {
    return Bad(name + "handle", sequence.handle, "its index is not that of the entry");
  }
  if (sequence.shared_cells > sequence.cell_count) {
    return Bad(name + "shared_cells", sequence.shared_cells, "more than its cell_count");
  }
  return {};
}

}  // namespace

const char* MapStateName(MapState state) {
  switch (state) {
    case MapState::kLive: return "live";
    case MapState::kStopped: return "stopped";
    case MapState::kKilled: return "killed";
  }
  return "unknown";
}

Result<MapReader> MapReader::Open(UniqueFd descriptor) {
  struct stat status;
  if (::fstat(descriptor.get(), &status) != 0) return FailErrno("map: fstat");
  const auto segment_bytes = static_cast<std::uint64_t>(status.st_size);
  KVD_CHECK_OK(CheckSealedMemory(descriptor.get(), Sealing::kSizeAndLaterWrites, segment_bytes));
  if (segment_bytes < layout::kMapPageBytes) {
    return Bad("total_bytes", segment_bytes, "less than the header");
  }
  MapReader reader;
  KVD_TRY(reader.mapping_, Mapping<kReadOnly>::MapRange(descriptor.get(), 0, segment_bytes));
  reader.descriptor_ = std::move(descriptor);
  const auto* header = reinterpret_cast<const layout::MapHeader*>(reader.mapping_.data());
  if (header->magic != layout::kMapMagic) return Bad("magic", header->magic, "not a map");
  if (header->version != layout::kMapVersion) {
    return Fail(Code::kVersionMismatch, "map.version: ", header->version, ", this client knows ",
                layout::kMapVersion);
  }
  if (header->header_bytes != sizeof(layout::MapHeader)) {
    return Bad("header_bytes", header->header_bytes, "not the size of this header");
  }
  reader.geometry_ = {
      .block_count = __atomic_load_n(&header->block_count, __ATOMIC_RELAXED),
      .sequence_capacity = __atomic_load_n(&header->sequence_capacity, __ATOMIC_RELAXED),
      .session_capacity = __atomic_load_n(&header->session_capacity, __ATOMIC_RELAXED)};
  if (Status valid = ValidateMapGeometry(reader.geometry_); !valid) {
    return Fail(Code::kCorrupt, std::move(valid.error().message));
  }
  if (reader.geometry_.total_bytes() != segment_bytes) {
    return Bad("total_bytes", segment_bytes, "not the size that its counts need");
  }
  reader.daemon_pid_ = header->daemon_pid;
  reader.viewer_uid_ = header->viewer_uid;
  reader.created_unix_ms_ = header->created_unix_ms;
  reader.seen_.resize(reader.geometry_.shard_count());
  reader.words_.resize(kWords);
  reader.sessions_.resize(reader.geometry_.session_capacity);
  reader.blocks_.resize(reader.geometry_.block_count);
  reader.sequences_.resize(reader.geometry_.sequence_capacity);
  return reader;
}

MapState MapReader::State() const {
  const auto* header = reinterpret_cast<const layout::MapHeader*>(mapping_.data());
  if (header->is_over.load(std::memory_order_acquire) != 0) return MapState::kStopped;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(descriptor_.get(), F_OFD_GETLK, &lock) != 0) return MapState::kKilled;
  return lock.l_type == F_UNLCK ? MapState::kKilled : MapState::kLive;
}

bool MapReader::CopyShard(std::uint32_t shard) {
  const auto* locks =
      reinterpret_cast<const std::atomic<std::uint64_t>*>(mapping_.data() + layout::kMapPageBytes);
  const auto* source = reinterpret_cast<const std::uint64_t*>(
      mapping_.data() + geometry_.shards_offset() + std::uint64_t{shard} * layout::kMapPageBytes);
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    const std::uint64_t before = locks[shard].load(std::memory_order_acquire);
    if (before == seen_[shard]) return false;
    if (before % 2 == 0) {
      for (std::size_t i = 0; i < kWords; ++i) {
        words_[i] = __atomic_load_n(source + i, __ATOMIC_ACQUIRE);
      }
      if (locks[shard].load(std::memory_order_relaxed) == before) {
        seen_[shard] = before;
        return true;
      }
    }
    // A writer that ended while it wrote a shard leaves the shard's lock odd; the reader then keeps
    // its last consistent copy of the shard.
    if (attempt % 100 == 99 && State() != MapState::kLive) return false;
    ::sched_yield();
  }
  return false;
}

template <class T>
Status MapReader::ReadPart(MapSection part, std::vector<T>* entries) {
  const std::uint32_t first_shard = geometry_.FirstShard(part);
  const std::size_t per_shard = MapEntries(part);
  for (std::uint32_t shard = 0; shard < geometry_.ShardCount(part); ++shard) {
    if (!CopyShard(first_shard + shard)) continue;
    const std::size_t first = shard * per_shard;
    const std::size_t count = std::min(per_shard, entries->size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      T entry;
      std::memcpy(&entry, words_.data() + i * sizeof(T) / sizeof(std::uint64_t), sizeof entry);
      KVD_CHECK_OK(Check(geometry_, first + i, entry));
      (*entries)[first + i] = entry;
    }
  }
  return {};
}

Result<MapState> MapReader::Refresh() {
  // The daemon writes the totals last, so the reader reads the totals first: when the totals report
  // a first pass, all of that pass is readable.
  if (CopyShard(geometry_.FirstShard(MapSection::kTotals))) {
    std::memcpy(&totals_, words_.data(), sizeof totals_);
  }
  KVD_CHECK_OK(ReadPart(MapSection::kSessions, &sessions_));
  KVD_CHECK_OK(ReadPart(MapSection::kBlocks, &blocks_));
  KVD_CHECK_OK(ReadPart(MapSection::kSequences, &sequences_));
  return State();
}

}  // namespace kvd
