// Runs the daemon's ends of a client's rings, SubmissionConsumer and CompletionProducer, with a
// hostile client that writes any bytes anywhere in its segment at any time, also between two loads
// of the daemon (tests/fuzz/between_loads.h).
//
// Oracle: the daemon accepts a taken entry if and only if tests/fuzz/submission_oracle.h accepts
// it, and its payload has the length that was checked; the daemon refuses a tail or cursor that is
// out of range with kCorrupt; outputs that the client has not released never overlap. Seeds:
// make_corpus daemon_rings FOLDER.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "base/check.h"
#include "shm/request_channel.h"
#include "shm/result_channel.h"
#include "tests/fuzz/between_loads.h"
#include "tests/fuzz/daemon_rings_program.h"
#include "tests/fuzz/peer_program.h"
#include "tests/fuzz/submission_oracle.h"

namespace {

using namespace kvd;
using test::ClientOp;

constexpr ChannelGeometry kGeometry = test::kSmallRings;
constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

class Daemon {
 public:
  Daemon(test::HeapSegment& requests, test::HeapSegment& results)
      : requests_(requests),
        client_header_(new(requests.bytes().data()) layout::RequestsHeader{}),
        daemon_header_(new(results.bytes().data()) layout::ResultsHeader{}),
        submissions_(requests.bytes(), results.bytes(), kGeometry),
        completions_(results.bytes(), requests.bytes(), kGeometry),
        between_loads_(requests.bytes()) {}

  // Executes one operation. False: the daemon closes the connection to the client.
  bool Run(ClientOp op, test::PeerProgram& program);

 private:
  struct Output {
    OutputPiece piece;
    std::uint64_t end = 0;  // the cursor up to which the client releases the output
  };

  bool Waiting();
  bool Take();
  bool Peek(std::uint32_t ahead);
  bool Refresh();
  void Allocate(std::size_t byte_count);
  void Write(bool is_final, std::size_t number, std::size_t eighths);
  void WriteEntry(test::PeerProgram& program);

  test::HeapSegment& requests_;
  layout::RequestsHeader* const client_header_;
  layout::ResultsHeader* const daemon_header_;
  SubmissionConsumer submissions_;
  CompletionProducer completions_;
  test::BetweenLoads between_loads_;
  // is_exact_ is true until an operation writes between two loads of the daemon. While is_exact_ is
  // true, the target knows the values that the daemon reads and can check the daemon's decisions.
  bool is_exact_ = true;
  ReceivedSubmission received_;
  std::uint64_t taken_ = 0;
  std::uint64_t believed_tail_ = 0;
  std::uint64_t written_ = 0;    // completions written by the daemon
  std::uint64_t published_ = 0;  // completions published by the daemon
  std::uint64_t read_ = 0;       // completions read by the client, as accepted by the daemon
  std::uint64_t handed_out_ = 0;
  std::uint64_t released_ = 0;  // the release cursor that the daemon has accepted
  std::uint32_t reserved_ = 0;
  std::vector<Output> allocated_;
  std::deque<Output> given_out_;  // outputs that the client has not released
};

bool Daemon::Waiting() {
  const std::uint64_t tail = client_header_->submission_tail.load();
  const auto waiting = submissions_.Waiting();
  if (is_exact_) {
    const bool is_good = tail >= believed_tail_ && tail - taken_ <= kGeometry.submission_entries;
    KVD_ASSERT(waiting.has_value() == is_good);
    KVD_ASSERT(!waiting || *waiting == tail - taken_);
  }
  KVD_ASSERT(waiting ? *waiting <= kGeometry.submission_entries
                     : waiting.error().code == Code::kCorrupt &&
                           waiting.error().message.starts_with("submission_tail: "));
  if (waiting) believed_tail_ = taken_ + *waiting;
  return waiting.has_value();
}

bool Daemon::Take() {
  const bool looks = taken_ == believed_tail_;
  const std::uint64_t tail = client_header_->submission_tail.load();
  const auto took = submissions_.Take(received_, test::kPoolCells);
  if (!took) {
    KVD_ASSERT(took.error().code == Code::kCorrupt && !took.error().message.empty());
    return false;
  }
  if (looks) believed_tail_ = tail;
  if (*took) {
    ++taken_;
    const bool is_valid = test::IsValidSubmission(received_.submission,
                                                  kGeometry.request_arena_bytes, test::kPoolCells);
    KVD_ASSERT(received_.check.has_value() == is_valid);
    KVD_ASSERT(received_.payload.size() == (is_valid ? received_.submission.payload_bytes : 0));
  }
  KVD_ASSERT(daemon_header_->submission_head.load() == taken_);
  return true;
}

bool Daemon::Peek(std::uint32_t ahead) {
  const std::uint64_t tail = client_header_->submission_tail.load();
  const auto peeked = submissions_.Peek(ahead);
  if (!peeked) {
    KVD_ASSERT(peeked.error().code == Code::kCorrupt);
    return false;
  }
  if (is_exact_) {
    believed_tail_ = tail;
    KVD_ASSERT(peeked->has_value() == (ahead < tail - taken_));
  }
  KVD_ASSERT(daemon_header_->submission_head.load() == taken_);
  return true;
}

bool Daemon::Refresh() {
  const std::uint64_t head = client_header_->completion_head.load();
  const std::uint64_t released = client_header_->output_released.load();
  const Status status = completions_.Refresh();
  const bool is_good =
      head >= read_ && head <= published_ && released >= released_ && released <= handed_out_;
  if (is_exact_) KVD_ASSERT(status.has_value() == is_good);
  KVD_ASSERT(status || status.error().code == Code::kCorrupt);
  if (!status) return false;
  KVD_ASSERT(completions_.output_bytes_outstanding() <= kGeometry.result_arena_bytes);
  if (!is_exact_) {
    given_out_.clear();
    return true;
  }
  read_ = head;
  released_ = released;
  while (!given_out_.empty() && given_out_.front().end <= released_) given_out_.pop_front();
  KVD_ASSERT(completions_.free_slots() ==
             kGeometry.completion_entries - (written_ - read_) - reserved_);
  return true;
}

void Daemon::Allocate(std::size_t byte_count) {
  const std::size_t space = completions_.output_space();
  const auto piece = completions_.AllocateOutput(byte_count);
  KVD_ASSERT(byte_count > space || piece.has_value());
  if (!piece || byte_count == 0) return;
  KVD_ASSERT(piece->bytes.size() == byte_count && piece->cursor >= handed_out_);
  // Only the first and the last byte are written, because filling a whole arena takes too long.
  piece->bytes.front() = piece->bytes.back() = std::byte{0x5a};
  const auto is_apart = [&](const Output& other) {
    return piece->bytes.data() + byte_count <= other.piece.bytes.data() ||
           other.piece.bytes.data() + other.piece.bytes.size() <= piece->bytes.data();
  };
  KVD_ASSERT(std::ranges::all_of(allocated_, is_apart));
  KVD_ASSERT(std::ranges::all_of(given_out_, is_apart));
  allocated_.push_back({*piece});
}

void Daemon::Write(bool is_final, std::size_t number, std::size_t eighths) {
  if (is_final ? reserved_ == 0 : completions_.free_slots() == 0) return;
  Output output;
  // Outputs are published in the order of their allocation, so that the outputs before the chosen
  // one are abandoned.
  if (!allocated_.empty()) {
    for (std::size_t left = number % allocated_.size(); left > 0; --left) {
      completions_.AbandonOutput(allocated_.front().piece);
      allocated_.erase(allocated_.begin());
    }
    output = allocated_.front();
    allocated_.erase(allocated_.begin());
  }
  const std::size_t byte_count = output.piece.bytes.size() * std::min<std::size_t>(eighths, 8) / 8;
  const wire::Completion completion{.request = 1,
                                    .verb = static_cast<std::uint16_t>(wire::Verb::kPing)};
  const auto output_bytes = static_cast<std::uint32_t>(byte_count);
  if (is_final) {
    completions_.WriteFinal(completion, output.piece, output_bytes);
    --reserved_;
  } else {
    completions_.WriteMore(completion, output.piece, output_bytes);
  }
  ++written_;
  if (byte_count == 0) return;
  output.piece.bytes = output.piece.bytes.first(byte_count);
  output.end = handed_out_ = output.piece.cursor + (byte_count + 63) / 64 * 64;
  given_out_.push_back(output);
}

void Daemon::WriteEntry(test::PeerProgram& program) {
  const std::size_t number = program.Number<std::uint8_t>() % kGeometry.submission_entries;
  wire::Submission entry{};
  entry.request = taken_ + 1;
  entry.verb = program.Number<std::uint8_t>() % (wire::kVerbLast + 1);
  entry.payload_bytes = program.Number<std::uint16_t>();
  entry.payload_offset = program.Number<std::uint32_t>();
  requests_.Write(sizeof(layout::RequestsHeader) + number * sizeof entry,
                  std::as_bytes(std::span(&entry, 1)));
}

bool Daemon::Run(ClientOp op, test::PeerProgram& program) {
  constexpr std::size_t kWords =
      (sizeof(layout::RequestsHeader) + kGeometry.submission_entries * sizeof(wire::Submission)) /
      kWordBytes;
  switch (op) {
    case ClientOp::kTail:
      client_header_->submission_tail.store(
          taken_ + static_cast<std::uint64_t>(std::int64_t{program.Number<std::int8_t>()}));
      return true;
    case ClientOp::kHeaderWord: {
      const std::size_t word = program.Number<std::uint8_t>();
      const auto value = program.Number<std::uint64_t>();
      requests_.Write(word % (sizeof(layout::RequestsHeader) / kWordBytes) * kWordBytes,
                      std::as_bytes(std::span(&value, 1)));
      return true;
    }
    case ClientOp::kEntry: WriteEntry(program); return true;
    case ClientOp::kRawEntry: {
      const std::size_t number = program.Number<std::uint8_t>() % kGeometry.submission_entries;
      requests_.Write(sizeof(layout::RequestsHeader) + number * sizeof(wire::Submission),
                      program.Bytes(sizeof(wire::Submission)));
      return true;
    }
    case ClientOp::kBytes: {
      const std::size_t offset = program.Number<std::uint32_t>();
      requests_.Write(offset % kGeometry.request_segment_bytes(),
                      program.Bytes(program.Number<std::uint8_t>()));
      return true;
    }
    case ClientOp::kBetweenLoads: {
      const std::uint32_t loads = program.Number<std::uint8_t>();
      const std::size_t word = program.Number<std::uint16_t>() % kWords;
      is_exact_ = false;
      between_loads_.Store(loads, word * kWordBytes, program.Number<std::uint64_t>());
      return true;
    }
    case ClientOp::kWaiting: return Waiting();
    case ClientOp::kTake: return Take();
    case ClientOp::kRead:
      client_header_->completion_head.store(read_ + program.Number<std::uint8_t>());
      client_header_->output_released.store(released_ + program.Number<std::uint16_t>() * 64u);
      return true;
    case ClientOp::kRefresh: return Refresh();
    case ClientOp::kReserve:
      if (completions_.Reserve()) ++reserved_;
      return true;
    case ClientOp::kUnreserve:
      if (reserved_ == 0) return true;
      completions_.Unreserve();
      --reserved_;
      return true;
    case ClientOp::kAllocate: Allocate(program.Number<std::uint16_t>()); return true;
    case ClientOp::kAbandon: {
      const std::size_t number = program.Number<std::uint8_t>();
      if (allocated_.empty()) return true;
      const auto which =
          allocated_.begin() + static_cast<std::ptrdiff_t>(number % allocated_.size());
      completions_.AbandonOutput(which->piece);
      allocated_.erase(which);
      return true;
    }
    case ClientOp::kWriteMore:
    case ClientOp::kWriteFinal: {
      const std::size_t number = program.Number<std::uint8_t>();
      Write(op == ClientOp::kWriteFinal, number, program.Number<std::uint8_t>());
      return true;
    }
    case ClientOp::kPeek: return Peek(program.Number<std::uint8_t>());
    case ClientOp::kPublish:
      (void)completions_.Publish();
      published_ = written_;
      KVD_ASSERT(daemon_header_->completion_tail.load() == published_);
      return true;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  static test::HeapSegment requests(kGeometry.request_segment_bytes());
  static test::HeapSegment results(kGeometry.result_segment_bytes());
  requests.Clear();
  Daemon daemon(requests, results);
  test::PeerProgram program(std::as_bytes(std::span(data, byte_count)));
  while (const auto op = program.Op(test::kClientOps)) {
    if (!daemon.Run(static_cast<ClientOp>(*op), program)) break;
  }
  return 0;
}
