// Loading saved states: the state that a client uploads, and LoadStates, which loads a state from a
// file or from a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/work_control.h"
#include "daemon/sessions/shares.h"
#include "daemon/stores/kept_samplers.h"
#include "engine/engine.h"
#include "engine/saved_state/load_sequence.h"
#include "shm/verb_table.h"

namespace kvd {

// StateUpload: a saved state that a client uploads in pieces.
//
// Pieces are stored as they arrive, so that adding a piece does not copy the earlier pieces; only
// small pieces are merged. A StateUpload is movable and is used by one thread at a time.
class StateUpload {
 public:
  StateUpload() = default;
  explicit StateUpload(Share share) : share_(std::move(share)) {}

  std::uint64_t byte_count() const { return byte_count_; }

  // Adds a piece at the end of the upload. Error: kNoSpace (the owner's share); the error leaves
  // the upload unchanged.
  Status Append(std::vector<std::byte> piece);

  // Returns the whole state and frees the pieces. Errors: kCancelled.
  Result<std::vector<std::byte>> Join(WorkControl& work);

 private:
  static constexpr std::size_t kPieceBytes = 1 << 20;  // pieces of fewer bytes are merged

  std::vector<std::vector<std::byte>> pieces_;
  std::uint64_t byte_count_ = 0;
  Share share_;
};

// LoadStates: loads the sequences of a saved state, read from a file or sent by a client, into new
// sequences of an owner. States from a file and states from a client are checked and admitted in
// the same way. LoadStates loads either all sequences of a saved state or none.
//
// LoadStates may be called on any thread; workers call it.

struct StateLoading {
  Engine& engine;
  // The object that receives the saved samplers; null: saved samplers are ignored.
  KeptSamplers* samplers = nullptr;
  SequenceOwner owner{};
  // The tag that marks each new sequence as created by the request; the request is not complete
  // yet.
  RequestTag part{};
  StateOrigin origin = StateOrigin::kThisDaemon;
  // LoadStates calls `complete` when all sequences are loaded; if `complete` returns an error, the
  // load is undone.
  std::function<Status()> complete;
};

// Errors: kNoSpace (the owner's shares, the pool), and the errors of LoadSequence and `complete`.
// After an error of LoadStates, no sequence of the state is loaded.
Result<wire::LoadReply> LoadStates(const StateLoading& loading, const StateFileReader& file,
                                   WorkControl& work);

}  // namespace kvd
