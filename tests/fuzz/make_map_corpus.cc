// Writes seeds for map_fuzz, with valid and with invalid maps.
#include "shm/map_layout.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/map_program.h"
#include "tests/fuzz/peer_program.h"

namespace kvd::map_corpus {
namespace {

namespace layout = kvd::layout;
using kvd::test::MapOp;
using kvd::test::MapSegment;
using kvd::test::PeerProgramWriter;

PeerProgramWriter Begin(MapSegment segment, unsigned bits) {
  PeerProgramWriter program;
  program.Number(static_cast<std::uint8_t>(segment)).Number(static_cast<std::uint8_t>(bits));
  return program;
}

PeerProgramWriter& Op(PeerProgramWriter& program, MapOp op) {
  return program.Number(static_cast<std::uint8_t>(op));
}

template <class T>
void Publish(PeerProgramWriter& program, unsigned shard, std::size_t number, const T& entry) {
  Op(program, MapOp::kPublish)
      .Number(static_cast<std::uint8_t>(shard))
      .Number(static_cast<std::uint16_t>(number * sizeof entry))
      .Number(static_cast<std::uint8_t>(sizeof entry))
      .Value(entry);
}

template <class T>
void Header(PeerProgramWriter& program, std::size_t offset, T value) {
  Op(program, MapOp::kHeaderBytes)
      .Number(static_cast<std::uint8_t>(offset))
      .Number(static_cast<std::uint8_t>(sizeof value))
      .Number(value);
}

void Lock(PeerProgramWriter& program, unsigned shard, std::uint64_t value) {
  Op(program, MapOp::kLock).Number(static_cast<std::uint8_t>(shard)).Number(value);
}

// The daemon publishes every part of the map, in both of its shards if the segment has two.
PeerProgramWriter Published(MapSegment segment, unsigned bits) {
  const bool has_two = segment == MapSegment::kTwoEach;
  const unsigned shards = has_two ? 2 : 1;
  PeerProgramWriter program = Begin(segment, bits);
  Op(program, MapOp::kOpen);
  unsigned shard = 1;
  for (unsigned i = 0; i < shards; ++i, ++shard) {
    Publish(program, shard, 0, layout::MapSession{.session = 1 + i, .uid = 7});
  }
  for (unsigned i = 0; i < shards; ++i, ++shard) {
    Publish(program, shard, 0,
            layout::MapBlock{.sequence = 1, .used_cells = 32, .shared_cells = 3, .reserved = 0});
  }
  for (unsigned i = 0; i < shards; ++i, ++shard) {
    Publish(
        program, shard, 0,
        layout::MapSequence{
            .handle = (1ull << 32) | (64 * i), .session = 1, .cell_count = 32, .shared_cells = 3});
  }
  Publish(program, 0, 0, layout::MapTotals{.pass = 1, .total_blocks = 513});
  Op(program, MapOp::kRefresh);
  Op(program, MapOp::kRefresh);
  return program;
}

// The daemon publishes an invalid entry; `kind` selects the field.
PeerProgramWriter BadEntry(unsigned kind) {
  PeerProgramWriter program = Begin(MapSegment::kSmall, 0);
  Op(program, MapOp::kOpen);
  layout::MapBlock block{.sequence = 1, .used_cells = 32, .shared_cells = 3, .reserved = 0};
  layout::MapSequence sequence{.handle = 1ull << 32, .cell_count = 3, .shared_cells = 3};
  if (kind == 0) block.used_cells = 33;
  if (kind == 1) block.shared_cells = 33;
  if (kind == 2) block.sequence = 2;
  if (kind == 3) sequence.handle += 1;
  if (kind == 4) sequence.shared_cells = 4;
  Publish(program, 2, 0, block);
  Publish(program, 3, 0, sequence);
  Op(program, MapOp::kRefresh);
  return program;
}

PeerProgramWriter BadHeader(unsigned kind) {
  PeerProgramWriter program = Begin(MapSegment::kSmall, 0);
  using layout::MapHeader;
  if (kind == 0) Header(program, offsetof(MapHeader, magic), std::uint64_t{1});
  if (kind == 1) Header(program, offsetof(MapHeader, version), std::uint32_t{99});
  if (kind == 2) Header(program, offsetof(MapHeader, header_bytes), std::uint32_t{1});
  if (kind == 3) Header(program, offsetof(MapHeader, block_count), std::uint32_t{0});
  if (kind == 4) Header(program, offsetof(MapHeader, sequence_capacity), std::uint32_t{1u << 31});
  if (kind == 5) Header(program, offsetof(MapHeader, session_capacity), std::uint32_t{65});
  if (kind == 6) Header(program, offsetof(MapHeader, is_over), std::uint64_t{1});
  Op(program, MapOp::kOpen);
  Op(program, MapOp::kRefresh);
  return program;
}

// A shard is being written while the client reads it, by a daemon that is alive, has ended, or
// finishes the write between two loads.
PeerProgramWriter Unfinished(unsigned kind) {
  PeerProgramWriter program = Begin(MapSegment::kSmall, kind);
  Op(program, MapOp::kOpen);
  Lock(program, 1, 3);
  if (kind == 2) {
    Op(program, MapOp::kBetweenLoads)
        .Number(std::uint16_t{400})
        .Number(static_cast<std::uint32_t>(layout::kMapPageBytes / 8 + 1))
        .Number(std::uint64_t{4});
  }
  Op(program, MapOp::kRefresh);
  Op(program, MapOp::kShardBytes)
      .Number(std::uint8_t{1})
      .Number(std::uint16_t{8})
      .Number(std::uint8_t{4})
      .Number(std::uint32_t{7});
  Op(program, MapOp::kRefresh);
  return program;
}

}  // namespace

int Make(const std::string& folder) {
  const auto write = [&](const std::string& name, const PeerProgramWriter& program) {
    kvd::test::WriteSeed(folder, name, program.bytes());
  };
  write("small", Published(MapSegment::kSmall, kvd::test::kMapWriterLives));
  write("two_each", Published(MapSegment::kTwoEach, 0));
  write("short", Published(MapSegment::kShort, 0));
  write("unsealed", Published(MapSegment::kUnsealed, 0));
  for (unsigned kind = 0; kind < 5; ++kind) write("entry" + std::to_string(kind), BadEntry(kind));
  for (unsigned kind = 0; kind < 7; ++kind) write("header" + std::to_string(kind), BadHeader(kind));
  for (unsigned kind = 0; kind < 3; ++kind) {
    write("unfinished" + std::to_string(kind), Unfinished(kind));
  }
  return 0;
}

}  // namespace kvd::map_corpus
