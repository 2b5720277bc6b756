// Runs the client's ends of its rings, CompletionConsumer and SubmissionProducer, with a hostile
// daemon that writes any bytes anywhere in its segment at any time, also between two loads of the
// client (tests/fuzz/between_loads.h). The client reads pieces of answers directly from the
// segment.
//
// Oracle: a completion that the client takes has a valid verb, a valid code and an output that is
// aligned and inside the arena; the parts of a piece are inside its output; the client refuses a
// cursor of the daemon that is out of range with kCorrupt; payloads that the daemon has not copied
// never overlap. Seeds: make_corpus client_rings FOLDER.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>

#include "base/check.h"
#include "shm/piece_codec.h"
#include "shm/request_channel.h"
#include "shm/result_channel.h"
#include "shm/verb_table.h"
#include "tests/fuzz/between_loads.h"
#include "tests/fuzz/client_rings_program.h"
#include "tests/fuzz/daemon_rings_program.h"
#include "tests/fuzz/peer_program.h"

namespace {

using namespace kvd;
using test::DaemonOp;

constexpr ChannelGeometry kGeometry = test::kSmallRings;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

class Client {
 public:
  Client(test::HeapSegment& requests, test::HeapSegment& results)
      : results_(results),
        client_header_(new(requests.bytes().data()) layout::RequestsHeader{}),
        daemon_header_(new(results.bytes().data()) layout::ResultsHeader{}),
        submissions_(requests.bytes(), results.bytes(), kGeometry),
        completions_(results.bytes(), requests.bytes(), kGeometry),
        between_loads_(results.bytes()) {}

  // Executes one operation. False: the client disconnects.
  bool Run(DaemonOp op, test::PeerProgram& program);

 private:
  bool Next(bool keeps);
  void ReadOutput(std::span<const std::byte> output);
  bool Reserve(std::size_t payload_bytes);
  void WriteEntry(test::PeerProgram& program);
  void WritePiece(test::PeerProgram& program);
  std::span<const std::byte> arena() {
    return results_.bytes().subspan(kGeometry.result_arena_offset());
  }

  test::HeapSegment& results_;
  layout::RequestsHeader* const client_header_;
  layout::ResultsHeader* const daemon_header_;
  SubmissionProducer submissions_;
  CompletionConsumer completions_;
  test::BetweenLoads between_loads_;
  // is_exact_ is true until an operation writes between two loads of the client. While is_exact_ is
  // true, the target knows the values that the client reads and can check the client's decisions.
  bool is_exact_ = true;
  std::uint64_t taken_ = 0;
  std::optional<wire::Completion> kept_;
  std::uint64_t released_ = 0;
  unsigned sum_ = 0;  // the sum of the read bytes
  std::optional<std::span<std::byte>> room_;
  std::deque<std::span<std::byte>> unread_;  // payloads that the daemon has not copied
  std::uint64_t submitted_ = 0;
};

void Client::ReadOutput(std::span<const std::byte> output) {
  if (output.empty()) return;
  KVD_ASSERT(output.data() >= arena().data() &&
             output.data() + output.size() <= arena().data() + arena().size());
  KVD_ASSERT((output.data() - arena().data()) % 64 == 0);
  sum_ += std::to_integer<unsigned>(output.front()) + std::to_integer<unsigned>(output.back());
  const auto piece = wire::ParsePiece(output);
  if (!piece) {
    KVD_ASSERT(piece.error().code == Code::kCorrupt);
    return;
  }
  const auto is_inside = [&](std::span<const std::byte> part) {
    return part.empty() || (part.data() >= output.data() &&
                            part.data() + part.size() <= output.data() + output.size());
  };
  KVD_ASSERT(is_inside(std::as_bytes(piece->tokens)) &&
             is_inside(std::as_bytes(std::span(piece->text))) &&
             is_inside(std::as_bytes(piece->logprobs)));
  for (const TokenId token : piece->tokens) sum_ += static_cast<unsigned>(token);
  for (const char c : piece->text) sum_ += static_cast<unsigned char>(c);
  for (const wire::TokenLogprob& one : piece->logprobs) sum_ += static_cast<unsigned>(one.token);
}

bool Client::Next(bool keeps) {
  const std::uint64_t tail = daemon_header_->completion_tail.load();
  wire::Completion completion;
  const auto next = completions_.Next(completion);
  if (is_exact_ && (tail < taken_ || tail - taken_ > kGeometry.completion_entries)) {
    KVD_ASSERT(!next);
  }
  if (is_exact_ && tail == taken_) KVD_ASSERT(next && !*next);
  if (!next) {
    KVD_ASSERT(next.error().code == Code::kCorrupt && !next.error().message.empty());
    return false;
  }
  if (!*next) return true;
  ++taken_;
  KVD_ASSERT(client_header_->completion_head.load() == taken_);
  KVD_ASSERT(completion.verb >= 1 && completion.verb <= wire::kVerbLast);
  KVD_ASSERT(completion.code <= static_cast<std::uint8_t>(kCodeLast));
  KVD_ASSERT((completion.flags & ~unsigned{wire::kMore}) == 0);
  const auto output = completions_.output(completion);
  KVD_ASSERT(output.size() == completion.output_bytes);
  ReadOutput(output);
  if (keeps) {
    kept_ = completion;
    return true;
  }
  if (completion.output_bytes == 0) return true;
  completions_.Release(completion);
  const std::uint64_t end = CompletionConsumer::ReleaseEnd(completion);
  released_ = std::max(released_, end);
  KVD_ASSERT(client_header_->output_released.load() == released_);
  return true;
}

bool Client::Reserve(std::size_t payload_bytes) {
  room_.reset();
  const std::uint64_t head = daemon_header_->submission_head.load();
  const auto room = submissions_.Reserve(payload_bytes);
  if (payload_bytes > kGeometry.request_arena_bytes) {
    KVD_ASSERT(!room && room.error().code == Code::kTooLarge);
    return true;
  }
  if (is_exact_) {
    KVD_ASSERT(room.has_value() == (head <= submitted_ && head >= submitted_ - unread_.size()));
  }
  if (!room) {
    KVD_ASSERT(room.error().code == Code::kCorrupt);
    return false;
  }
  while (unread_.size() > submissions_.unread_count()) unread_.pop_front();
  KVD_ASSERT(unread_.size() == submissions_.unread_count());
  if (!*room) {
    KVD_ASSERT(!unread_.empty());
    return true;
  }
  room_ = **room;
  KVD_ASSERT(room_->size() == payload_bytes);
  if (payload_bytes == 0) return true;
  // Only the first and the last byte are written, because filling a whole arena takes too long.
  room_->front() = room_->back() = std::byte{0x5a};
  for (const std::span<std::byte> other : unread_) {
    KVD_ASSERT(other.empty() || room_->data() + room_->size() <= other.data() ||
               other.data() + other.size() <= room_->data());
  }
  return true;
}

void Client::WriteEntry(test::PeerProgram& program) {
  const std::size_t number = program.Number<std::uint8_t>() % kGeometry.completion_entries;
  wire::Completion entry{};
  entry.request = 1;
  entry.verb = program.Number<std::uint8_t>();
  entry.code = program.Number<std::uint8_t>();
  entry.flags = program.Number<std::uint8_t>();
  entry.output_bytes = program.Number<std::uint32_t>();
  entry.output_cursor = program.Number<std::uint64_t>();
  results_.Write(sizeof(layout::ResultsHeader) + number * sizeof entry,
                 std::as_bytes(std::span(&entry, 1)));
}

void Client::WritePiece(test::PeerProgram& program) {
  const std::size_t offset = program.Number<std::uint16_t>() * std::size_t{64};
  wire::GeneratePiece piece{};
  piece.kind = program.Number<std::uint8_t>();
  piece.token_count = program.Number<std::uint8_t>();
  piece.text_bytes = program.Number<std::uint8_t>();
  piece.logprob_count = program.Number<std::uint8_t>();
  results_.Write(kGeometry.result_arena_offset() + offset % kGeometry.result_arena_bytes,
                 std::as_bytes(std::span(&piece, 1)));
}

bool Client::Run(DaemonOp op, test::PeerProgram& program) {
  const std::size_t words = results_.bytes().size() / kWordBytes;
  switch (op) {
    case DaemonOp::kTail:
      daemon_header_->completion_tail.store(
          taken_ + static_cast<std::uint64_t>(std::int64_t{program.Number<std::int8_t>()}));
      return true;
    case DaemonOp::kHead:
      daemon_header_->submission_head.store(
          submitted_ - unread_.size() +
          static_cast<std::uint64_t>(std::int64_t{program.Number<std::int8_t>()}));
      return true;
    case DaemonOp::kHeaderWord: {
      const std::size_t word = program.Number<std::uint8_t>();
      const auto value = program.Number<std::uint64_t>();
      results_.Write(word % (sizeof(layout::ResultsHeader) / kWordBytes) * kWordBytes,
                     std::as_bytes(std::span(&value, 1)));
      return true;
    }
    case DaemonOp::kEntry: WriteEntry(program); return true;
    case DaemonOp::kRawEntry: {
      const std::size_t number = program.Number<std::uint8_t>() % kGeometry.completion_entries;
      results_.Write(sizeof(layout::ResultsHeader) + number * sizeof(wire::Completion),
                     program.Bytes(sizeof(wire::Completion)));
      return true;
    }
    case DaemonOp::kBytes: {
      const std::size_t offset = program.Number<std::uint32_t>();
      results_.Write(offset % results_.bytes().size(),
                     program.Bytes(program.Number<std::uint8_t>()));
      return true;
    }
    case DaemonOp::kPiece: WritePiece(program); return true;
    case DaemonOp::kBetweenLoads: {
      const std::uint32_t loads = program.Number<std::uint8_t>();
      const std::size_t word = program.Number<std::uint16_t>() % words;
      is_exact_ = false;
      between_loads_.Store(loads, word * kWordBytes, program.Number<std::uint64_t>());
      results_.WillBeWritten((word + 1) * kWordBytes);
      return true;
    }
    case DaemonOp::kNext: return Next(false);
    case DaemonOp::kKeep: return Next(true);
    case DaemonOp::kReleaseAll: {
      if (!kept_ || kept_->output_bytes == 0) return true;
      // Reads the kept output again; the daemon may have overwritten it.
      ReadOutput(completions_.output(*kept_));
      const std::uint64_t end = CompletionConsumer::ReleaseEnd(*kept_);
      completions_.ReleaseUpTo(end);
      released_ = std::max(released_, end);
      KVD_ASSERT(client_header_->output_released.load() == released_);
      return true;
    }
    case DaemonOp::kReserve: return Reserve(program.Number<std::uint32_t>() % (80u << 10));
    case DaemonOp::kSubmit: {
      if (!room_) return true;
      wire::Submission submission{};
      submission.request = submitted_ + 1;
      submission.verb = static_cast<std::uint16_t>(wire::Verb::kPing);
      (void)submissions_.Submit(submission);
      ++submitted_;
      unread_.push_back(*room_);
      room_.reset();
      KVD_ASSERT(client_header_->submission_tail.load() == submitted_);
      return true;
    }
    case DaemonOp::kSleep: {
      const bool has_next = completions_.HasNext();
      const bool sleeps = completions_.PrepareToSleep();
      if (is_exact_) KVD_ASSERT(sleeps == !has_next);
      KVD_ASSERT(client_header_->client_sleeps.load() == (sleeps ? 1 : 0));
      (void)completions_.daemon_stalled();
      return true;
    }
    case DaemonOp::kWakeUp: completions_.WakeUp(); return true;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  static test::HeapSegment requests(kGeometry.request_segment_bytes());
  static test::HeapSegment results(kGeometry.result_segment_bytes());
  results.Clear();
  Client client(requests, results);
  test::PeerProgram program(std::as_bytes(std::span(data, byte_count)));
  while (const auto op = program.Op(test::kDaemonOps)) {
    if (!client.Run(static_cast<DaemonOp>(*op), program)) break;
  }
  return 0;
}
