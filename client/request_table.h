// RequestTable: the requests of one connection that the daemon has not finished, or whose answer
// nobody has taken yet.
//
// Owner: a Connection, under its mutex. An entry stays at its address until it is freed. Ids are
// never used twice: a counter above, the entry's index below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shm/ids.h"
#include "shm/verb_table.h"

namespace kvd {

enum class OutputMode : std::uint8_t {
  kCollect,  // pieces are copied together and their arena space goes back at once
  kInPlace,  // pieces stay where the daemon wrote them until the caller releases them
};

struct PendingRequest {
  struct InPlacePiece {
    wire::Completion completion;
    std::uint64_t ticket;  // of the OutputLedger; 0: no output
  };

  RequestId id{};
  OutputMode mode = OutputMode::kCollect;
  bool is_abandoned = false;  // nobody will ask: what still comes is thrown away
  bool is_final = false;      // `final` is the last completion
  wire::Completion final{};
  std::uint64_t piece_count = 0;     // completions so far
  std::vector<std::byte> collected;  // outputs; of a failed request its message alone
  std::vector<InPlacePiece> pieces;  // from `pieces_taken` on not taken yet
  std::size_t pieces_taken = 0;

  // To send it again.
  wire::Submission submission{};
  std::vector<std::byte> payload;
  bool was_sent = false;
  bool is_remembered = false;  // by the session's window: wire::VerbRow::is_remembered
  bool is_in_window = false;   // of those: sent, and without a final answer yet
  std::uint32_t received = 0;  // wire::Submission's
  TokenId last_token = 0;

  bool has_piece() const { return pieces_taken != pieces.size(); }
};

class RequestTable {
 public:
  static constexpr std::size_t kRequestsMax = 1u << 16;

  // A fresh entry with a fresh id; null when kRequestsMax are in use.
  PendingRequest* Add(OutputMode mode, bool is_remembered = false);
  // Null: no such request.
  PendingRequest* Find(RequestId id);
  // REQUIRES: an entry of this table.
  void Free(PendingRequest* request);

  // Ids from now on are larger than this one.
  void BeginAfter(std::uint64_t request) { counter_ = request / kRequestsMax; }
  // Those that are not final, in the order of their ids.
  std::vector<PendingRequest*> Unanswered() const;

  std::size_t count() const { return entries_.size() - free_.size(); }

  // Whether it may be sent: one more remembered request could push an answer out of the session's
  // window that we do not have yet. Those that are in it fit.
  bool FitsWindow(const PendingRequest& request) const {
    return !request.is_remembered || request.is_in_window || window_count_ < layout::kAppliedMax;
  }
  // When it is sent, and when its final answer has come.
  void EnterWindow(PendingRequest* request);
  void LeaveWindow(PendingRequest* request);

 private:
  std::vector<std::unique_ptr<PendingRequest>> entries_;
  std::vector<std::uint32_t> free_;
  std::uint64_t counter_ = 0;
  std::size_t window_count_ = 0;
};

}  // namespace kvd
