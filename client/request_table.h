// RequestTable: the requests of one connection that have no final answer yet, or whose answers were
// not taken yet.
//
// Owner: a Connection, whose mutex guards the table. An entry of the table stays at its address
// until the entry is freed. Request ids are never reused: the high bits of an id are a counter, the
// low bits are the index of the request's entry. Adopted requests, whose ids an earlier process of
// the session has given, are kept apart, because their indices may be in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "shm/verb_table.h"

namespace kvd {

enum class OutputMode : std::uint8_t {
  kCollect,  // outputs are copied into one buffer, and their arena space is released at once
  kInPlace,  // outputs stay in the output arena until the caller releases them
};

struct PendingRequest {
  struct InPlacePiece {
    wire::Completion completion;
    std::uint64_t ticket;  // ticket of the output in the OutputLedger; 0: no output
  };

  RequestId id{};
  OutputMode mode = OutputMode::kCollect;
  bool is_abandoned = false;  // true: all further answers to the request are discarded
  bool is_final = false;      // the final answer has arrived; `final` is the last completion
  wire::Completion final{};
  std::uint64_t piece_count = 0;  // number of completions received for the request
  // The outputs of all completions, concatenated; for a failed request only the error message.
  std::vector<std::byte> collected;
  // Pieces that have arrived; the caller has taken the first `pieces_taken` of them.
  std::vector<InPlacePiece> pieces;
  std::size_t pieces_taken = 0;

  // The submission and the payload with which the request is sent again after a lost connection.
  wire::Submission submission{};
  std::vector<std::byte> payload;
  bool was_sent = false;
  // wire::VerbRow::is_remembered of the verb: the daemon records the request after it is applied.
  bool is_remembered = false;
  // True: `is_remembered` is set, and the request was sent and has no final answer yet.
  bool is_in_window = false;
  // The value for wire::Submission::received if the request is sent again.
  std::uint32_t received = 0;
  TokenId last_token = 0;

  bool has_piece() const { return pieces_taken != pieces.size(); }
};

class RequestTable {
 public:
  static constexpr std::size_t kRequestsMax = 1u << 16;

  // Adds an entry with a new request id and returns it; null if kRequestsMax entries are in use.
  PendingRequest* Add(OutputMode mode, bool is_remembered = false);
  // Adds an entry with an id that an earlier process of the session has given. Null if kRequestsMax
  // entries are in use. REQUIRES: the id is not 0, and the table has no request with this id.
  PendingRequest* Adopt(RequestId id, OutputMode mode, bool is_remembered);
  // Returns the entry with this id, or null if the table has no such request.
  PendingRequest* Find(RequestId id);
  // REQUIRES: `request` is an entry of this table.
  void Free(PendingRequest* request);

  // Makes the ids of all entries that are added later larger than `request`.
  void BeginAfter(std::uint64_t request) { counter_ = request / kRequestsMax; }
  // The same in another process than the one that gave `request`. That process may have given
  // larger ids to requests that left no record. Up to kIdsSkipped ids are skipped, but never more
  // than half of those left, so that no new id equals an id that is adopted later.
  void BeginFarAfter(std::uint64_t request);
  // Returns the requests without a final answer, in the order of their ids.
  std::vector<PendingRequest*> Unanswered();

  // Returns the requests with a piece to take or a final answer, without abandoned ones.
  std::vector<RequestId> Ready() const;

  std::size_t count() const { return entries_.size() - free_.size() + adopted_.size(); }

  // Returns whether the request may be sent. The daemon records only kAppliedMax remembered
  // requests of a session, so sending one more request could remove the record of a request whose
  // answer was not received yet. A request that is already in the window may always be sent again.
  bool FitsWindow(const PendingRequest& request) const {
    return !request.is_remembered || request.is_in_window || window_count_ < layout::kAppliedMax;
  }
  // EnterWindow is called when the request is sent, LeaveWindow when its final answer has arrived.
  void EnterWindow(PendingRequest* request);
  void LeaveWindow(PendingRequest* request);

 private:
  static constexpr std::uint64_t kIdsSkipped = std::uint64_t{1} << 32;

  std::vector<std::unique_ptr<PendingRequest>> entries_;
  std::vector<std::uint32_t> free_;
  std::map<RequestId, PendingRequest> adopted_;
  std::uint64_t counter_ = 0;
  std::size_t window_count_ = 0;
};

}  // namespace kvd
