// Writes seeds for daemon_rings_fuzz, with correct and with hostile clients.
#include "shm/verb_table.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/daemon_rings_program.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/peer_program.h"

namespace kvd::daemon_rings_corpus {
namespace {

using kvd::test::ClientOp;
using kvd::test::PeerProgramWriter;
using kvd::wire::Verb;

PeerProgramWriter& Op(PeerProgramWriter& program, ClientOp op) {
  return program.Number(static_cast<std::uint8_t>(op));
}

void Entry(PeerProgramWriter& program, unsigned number, Verb verb, std::uint16_t payload_bytes,
           std::uint32_t payload_offset) {
  Op(program, ClientOp::kEntry)
      .Number(static_cast<std::uint8_t>(number))
      .Number(static_cast<std::uint8_t>(verb))
      .Number(payload_bytes)
      .Number(payload_offset);
}

void Tail(PeerProgramWriter& program, int ahead) {
  Op(program, ClientOp::kTail).Number(static_cast<std::int8_t>(ahead));
}

// 24 requests with their answers, which fill the submission ring three times.
PeerProgramWriter Answered() {
  PeerProgramWriter program;
  for (unsigned i = 0; i < 24; ++i) {
    Entry(program, i % 8, Verb::kPing, static_cast<std::uint16_t>(i * 100), i * 512);
    Tail(program, 1);
    Op(program, ClientOp::kWaiting);
    Op(program, ClientOp::kReserve);
    Op(program, ClientOp::kPeek).Number(std::uint8_t{0});
    Op(program, ClientOp::kTake);
    Op(program, ClientOp::kAllocate).Number(static_cast<std::uint16_t>(5000 + 100 * i));
    Op(program, ClientOp::kAllocate).Number(std::uint16_t{64});
    Op(program, ClientOp::kWriteMore).Number(std::uint8_t{0}).Number(std::uint8_t{6});
    Op(program, ClientOp::kWriteFinal).Number(std::uint8_t{0}).Number(std::uint8_t{8});
    Op(program, ClientOp::kPublish);
    Op(program, ClientOp::kRead).Number(std::uint8_t{2}).Number(std::uint16_t{60});
    if (i % 4 == 3) Op(program, ClientOp::kRefresh);
  }
  return program;
}

// The daemon abandons outputs in any order and returns reserved slots without using them.
PeerProgramWriter Abandoned() {
  PeerProgramWriter program;
  for (unsigned i = 0; i < 6; ++i) {
    Op(program, ClientOp::kAllocate).Number(static_cast<std::uint16_t>(20000 - 3000 * i));
    Op(program, ClientOp::kReserve);
  }
  for (const unsigned which : {1u, 2u, 0u}) {
    Op(program, ClientOp::kAbandon).Number(static_cast<std::uint8_t>(which));
    Op(program, ClientOp::kUnreserve);
  }
  Op(program, ClientOp::kWriteMore).Number(std::uint8_t{1}).Number(std::uint8_t{0});
  Op(program, ClientOp::kPublish);
  Op(program, ClientOp::kAllocate).Number(std::uint16_t{60000});
  return program;
}

// The client writes an invalid number; `kind` selects the field.
PeerProgramWriter Hostile(unsigned kind) {
  PeerProgramWriter program;
  Entry(program, 0, Verb::kPing, 16, 0);
  Entry(program, 1, Verb::kPing, 4096, 65536 - 100);
  Entry(program, 2, Verb::kDecode, 3, 0);
  Tail(program, 3);
  for (int i = 0; i < 3; ++i) Op(program, ClientOp::kTake);
  if (kind == 0) Tail(program, 9);
  if (kind == 1) Tail(program, -1);
  if (kind == 2) {
    // The payload length of entry 3 grows between its check and its use.
    Entry(program, 3, Verb::kPing, 16, 65536 - 16);
    Tail(program, 1);
    Op(program, ClientOp::kBetweenLoads)
        .Number(std::uint8_t{9})
        .Number(std::uint16_t{32 + 3 * 8 + 1})
        .Number(std::uint64_t{1} << 40);
  }
  if (kind == 3) {
    Op(program, ClientOp::kRead).Number(std::uint8_t{1}).Number(std::uint16_t{0});
    Op(program, ClientOp::kRefresh);
  }
  if (kind == 4) {
    Op(program, ClientOp::kRead).Number(std::uint8_t{0}).Number(std::uint16_t{1});
    Op(program, ClientOp::kRefresh);
  }
  Op(program, ClientOp::kTake);
  Op(program, ClientOp::kTake);
  return program;
}

// The client writes raw entries, bytes and words at chosen places.
PeerProgramWriter Scribbler() {
  PeerProgramWriter program;
  kvd::wire::Submission entry{};
  entry.request = 1;
  entry.verb = static_cast<std::uint16_t>(Verb::kPing);
  entry.payload_bytes = 32;
  entry.payload_offset = 1024;
  Op(program, ClientOp::kRawEntry).Number(std::uint8_t{0}).Value(entry);
  Op(program, ClientOp::kBytes)
      .Number(std::uint32_t{4096 + 1024})
      .Number(std::uint8_t{8})
      .Number(std::uint64_t{0x0123456789abcdef});
  Op(program, ClientOp::kHeaderWord).Number(std::uint8_t{8}).Number(std::uint64_t{1});
  Op(program, ClientOp::kWaiting);
  Op(program, ClientOp::kTake);
  return program;
}

}  // namespace

int Make(const std::string& folder) {
  const auto write = [&](const std::string& name, const PeerProgramWriter& program) {
    kvd::test::WriteSeed(folder, name, program.bytes());
  };
  write("answered", Answered());
  write("abandoned", Abandoned());
  for (unsigned kind = 0; kind < 5; ++kind) write("hostile" + std::to_string(kind), Hostile(kind));
  write("scribbler", Scribbler());
  return 0;
}

}  // namespace kvd::daemon_rings_corpus
