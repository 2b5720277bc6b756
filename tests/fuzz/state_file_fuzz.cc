// Any bytes as a saved-state file: opened, every section read, every sequence loaded into an engine
// over the bundled model. Each input is taken twice: as it is, and with its sums and fingerprint put
// right, which no mutation would hit.
//
// Seeds: make_state_file_corpus DIRECTORY. Whatever the bytes, the answer is a loaded sequence or a
// named error, and nothing is left behind.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/model_fingerprint.h"
#include "engine/saved_state/load_sequence.h"
#include "shm/check.h"
#include "shm/crc32c.h"

namespace {

using namespace kvd;

Engine& TheEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    auto made = Engine::Create({.cells = 256, .threads = 1});
    KVD_ASSERT(made.has_value());
    return std::move(*made);
  }();
  return *engine;
}

void Take(std::span<const std::byte> bytes) {
  UniqueFd file(::memfd_create("state", MFD_CLOEXEC));
  KVD_ASSERT(::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const Result<StateFileReader> opened = StateFileReader::Open(std::move(file));
  if (!opened) {
    KVD_ASSERT(!opened.error().message.empty());
    return;
  }
  StateFileReader::Buffers buffers;
  for (std::size_t at = 0; at < opened->sections().size(); ++at) {
    const auto section = opened->ReadSection(at, &buffers);
    KVD_ASSERT(section ? section->size() == opened->sections()[at].raw_bytes
                       : !section.error().message.empty());
  }
  Memory& memory = TheEngine().memory();
  for (std::size_t number = 0; number < opened->sequences().size(); ++number) {
    const auto handle = memory.Create({});
    KVD_ASSERT(handle.has_value());
    const auto loaded = LoadSequence(TheEngine(), *opened, number, *handle, 1);
    KVD_ASSERT(loaded || !loaded.error().message.empty());
    KVD_ASSERT(loaded || memory.Query(*handle)->cell_count == 0);
    KVD_ASSERT(memory.Drop(*handle).has_value());
  }
  KVD_ASSERT(memory.Usage().free_blocks == memory.Usage().total_blocks);
}

// What a table that lies inside the file says is summed up anew.
void PutRight(std::span<std::byte> bytes) {
  state_file::FileHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = state_file::kMagic;
  header.version = state_file::kVersion;
  header.header_bytes = sizeof header;
  header.file_bytes = bytes.size();
  std::ranges::copy(TheEngine().fingerprint().words, header.fingerprint);
  const std::size_t room = (bytes.size() - sizeof header) / sizeof(state_file::SectionEntry);
  const std::size_t count = std::min<std::size_t>(header.section_count, room);
  const auto table = bytes.subspan(sizeof header, count * sizeof(state_file::SectionEntry));
  header.raw_bytes = 0;
  for (std::size_t at = 0; at < count; ++at) {
    std::byte* const place = table.data() + at * sizeof(state_file::SectionEntry);
    state_file::SectionEntry entry;
    std::memcpy(&entry, place, sizeof entry);
    header.raw_bytes += entry.raw_bytes;
    if (entry.offset > bytes.size() || entry.stored_bytes > bytes.size() - entry.offset) continue;
    entry.crc = Crc32c(0, bytes.subspan(entry.offset, entry.stored_bytes));
    std::memcpy(place, &entry, sizeof entry);
  }
  header.table_crc = Crc32c(0, table);
  header.header_crc = Crc32c(
      0, std::as_bytes(std::span(&header, 1)).first(offsetof(state_file::FileHeader, header_crc)));
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  Take(bytes);
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  PutRight(copy);
  Take(copy);
  return 0;
}
