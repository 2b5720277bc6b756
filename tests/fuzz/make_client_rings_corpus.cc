// Writes seeds for client_rings_fuzz, with correct and with hostile daemons.
#include "shm/verb_table.h"
#include "tests/fuzz/client_rings_program.h"
#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "tests/fuzz/peer_program.h"

namespace kvd::client_rings_corpus {
namespace {

using kvd::test::DaemonOp;
using kvd::test::PeerProgramWriter;
using kvd::wire::Verb;

PeerProgramWriter& Op(PeerProgramWriter& program, DaemonOp op) {
  return program.Number(static_cast<std::uint8_t>(op));
}

void Entry(PeerProgramWriter& program, unsigned number, unsigned code, std::uint32_t output_bytes,
           std::uint64_t output_cursor, unsigned flags = 0) {
  Op(program, DaemonOp::kEntry)
      .Number(static_cast<std::uint8_t>(number))
      .Number(static_cast<std::uint8_t>(Verb::kGenerate))
      .Number(static_cast<std::uint8_t>(code))
      .Number(static_cast<std::uint8_t>(flags))
      .Number(output_bytes)
      .Number(output_cursor);
}

void Tail(PeerProgramWriter& program, int ahead) {
  Op(program, DaemonOp::kTail).Number(static_cast<std::int8_t>(ahead));
}

void Piece(PeerProgramWriter& program, unsigned place, unsigned kind, unsigned tokens,
           unsigned text_bytes, unsigned logprobs) {
  Op(program, DaemonOp::kPiece)
      .Number(static_cast<std::uint16_t>(place))
      .Number(static_cast<std::uint8_t>(kind))
      .Number(static_cast<std::uint8_t>(tokens))
      .Number(static_cast<std::uint8_t>(text_bytes))
      .Number(static_cast<std::uint8_t>(logprobs));
}

// The daemon sends 20 pieces of an answer, more than the ring has slots.
PeerProgramWriter Answered() {
  PeerProgramWriter program;
  for (unsigned i = 0; i < 20; ++i) {
    Piece(program, 2 * i, kvd::wire::kPieceTokens, 2, 5, 1);
    Entry(program, i % 16, 0, 32 + 8 + 8 + 8, 128 * i, kvd::wire::kMore);
    Op(program, DaemonOp::kSleep);
    Tail(program, 1);
    Op(program, DaemonOp::kSleep);
    Op(program, DaemonOp::kWakeUp);
    Op(program, i % 5 == 4 ? DaemonOp::kKeep : DaemonOp::kNext);
  }
  Op(program, DaemonOp::kReleaseAll);
  Piece(program, 40, kvd::wire::kPieceProgress, 0, 0, 0);
  Entry(program, 4, 0, 32, 128 * 20);
  Tail(program, 1);
  Op(program, DaemonOp::kNext);
  return program;
}

// The client sends 24 payloads, which fill the ring and the arena three times.
PeerProgramWriter Submitted() {
  PeerProgramWriter program;
  for (unsigned i = 0; i < 24; ++i) {
    Op(program, DaemonOp::kReserve).Number(std::uint32_t{9000 + 8 * i});
    Op(program, DaemonOp::kSubmit);
    if (i % 3 == 2) Op(program, DaemonOp::kHead).Number(std::int8_t{2});
  }
  Op(program, DaemonOp::kReserve).Number(std::uint32_t{70000});
  Op(program, DaemonOp::kHead).Number(std::int8_t{100});
  Op(program, DaemonOp::kReserve).Number(std::uint32_t{8});
  return program;
}

// The daemon writes an invalid number; `kind` selects the field.
PeerProgramWriter Hostile(unsigned kind) {
  PeerProgramWriter program;
  Piece(program, 0, kind == 5 ? 3 : kvd::wire::kPieceTokens, 2, 5, kind == 6 ? 255 : 1);
  Entry(program, 0, kind == 3 ? 200 : 0, kind == 7 ? 8 : 32 + 8 + 8 + 8,
        kind == 2 ? 65536 - 64 + 1 : 0, kind == 4 ? 0x80 : 0);
  Tail(program, kind == 0 ? 17 : kind == 1 ? -1 : 1);
  if (kind == 8) {
    // The length grows between its check and its use.
    Op(program, DaemonOp::kBetweenLoads)
        .Number(std::uint8_t{9})
        .Number(std::uint16_t{32 + 1})
        .Number(std::uint64_t{0xffffffff} << 32 | static_cast<unsigned>(Verb::kGenerate));
  }
  Op(program, DaemonOp::kNext);
  Op(program, DaemonOp::kHead).Number(std::int8_t{-1});
  Op(program, DaemonOp::kReserve).Number(std::uint32_t{8});
  return program;
}

// The daemon writes raw entries, bytes and words at chosen places.
PeerProgramWriter Scribbler() {
  PeerProgramWriter program;
  kvd::wire::Completion entry{};
  entry.request = 1;
  entry.verb = static_cast<std::uint16_t>(Verb::kTokenize);
  entry.output_bytes = 32;
  entry.output_cursor = 1024;
  Op(program, DaemonOp::kRawEntry).Number(std::uint8_t{0}).Value(entry);
  Op(program, DaemonOp::kBytes)
      .Number(std::uint32_t{4096 + 1024})
      .Number(std::uint8_t{8})
      .Number(std::uint64_t{0x0123456789abcdef});
  Op(program, DaemonOp::kHeaderWord).Number(std::uint8_t{16}).Number(std::uint64_t{1});
  Op(program, DaemonOp::kNext);
  return program;
}

}  // namespace

int Make(const std::string& folder) {
  const auto write = [&](const std::string& name, const PeerProgramWriter& program) {
    kvd::test::WriteSeed(folder, name, program.bytes());
  };
  write("answered", Answered());
  write("submitted", Submitted());
  for (unsigned kind = 0; kind < 9; ++kind) write("hostile" + std::to_string(kind), Hostile(kind));
  write("scribbler", Scribbler());
  return 0;
}

}  // namespace kvd::client_rings_corpus
