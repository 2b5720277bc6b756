// The writer raises the lock of a shard by one before it stores the first changed word, and again
// by one after the last changed word. The writer stores every word with a release store, so a
// reader that sees a changed word also sees the odd lock.
#include "shm/map_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "shm/shared_memory.h"

namespace kvd {
namespace {

Status TakeLock(int descriptor) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(descriptor, F_OFD_SETLK, &lock) != 0) return FailErrno("map: F_OFD_SETLK");
  return {};
}

}  // namespace

Result<MapWriter> MapWriter::Create(const MapGeometry& geometry, std::uint32_t viewer_uid) {
  KVD_CHECK_OK(ValidateMapGeometry(geometry));
  MapWriter writer;
  writer.geometry_ = geometry;
  KVD_TRY(CreatedMemory created,
          CreateSealedMemory(Concat("kvd-map-", viewer_uid), geometry.total_bytes(),
                             Sealing::kSizeAndLaterWrites));
  writer.writable_ = std::move(created.descriptor);
  writer.mapping_ = std::move(created.mapping);
  KVD_CHECK_OK(TakeLock(writer.writable_.get()));
  const std::string path = Concat("/proc/self/fd/", writer.writable_.get());
  writer.readable_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!writer.readable_) return FailErrno("map: " + path);
  auto* header = new (writer.mapping_.data()) layout::MapHeader{};
  header->magic = layout::kMapMagic;
  header->version = layout::kMapVersion;
  header->header_bytes = sizeof(layout::MapHeader);
  header->total_bytes = geometry.total_bytes();
  header->created_unix_ms = NowUnixMs();
  header->daemon_pid = static_cast<std::uint32_t>(::getpid());
  header->viewer_uid = viewer_uid;
  header->block_count = geometry.block_count;
  header->sequence_capacity = geometry.sequence_capacity;
  header->session_capacity = geometry.session_capacity;
  writer.written_.resize(geometry.shard_count());
  return writer;
}

MapWriter::~MapWriter() {
  if (mapping_.data() == nullptr) return;
  reinterpret_cast<layout::MapHeader*>(mapping_.data())
      ->is_over.store(1, std::memory_order_release);
}

std::atomic<std::uint64_t>& MapWriter::Lock(std::uint32_t shard) const {
  auto* locks =
      reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + layout::kMapPageBytes);
  return locks[shard];
}

bool MapWriter::Write(MapSection part, std::uint32_t shard, std::span<const std::uint64_t> words) {
  KVD_ASSERT(shard < geometry_.ShardCount(part));
  KVD_ASSERT(words.size_bytes() <= layout::kMapPageBytes);
  const std::uint32_t number = geometry_.FirstShard(part) + shard;
  const auto is_zero = [](std::uint64_t word) { return word == 0; };
  if (!written_[number] && std::ranges::all_of(words, is_zero)) return false;
  auto* target = reinterpret_cast<std::uint64_t*>(mapping_.data() + geometry_.shards_offset() +
                                                  std::uint64_t{number} * layout::kMapPageBytes);
  std::atomic<std::uint64_t>& lock = Lock(number);
  bool is_open = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (target[i] == words[i]) continue;
    if (!is_open) lock.fetch_add(1, std::memory_order_acq_rel);
    is_open = true;
    __atomic_store_n(target + i, words[i], __ATOMIC_RELEASE);
  }
  if (is_open) lock.fetch_add(1, std::memory_order_release);
  written_[number] = true;
  return is_open;
}

void MapWriter::LeaveShardOpenForTest(std::uint32_t shard) {
  Lock(shard).fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace kvd
