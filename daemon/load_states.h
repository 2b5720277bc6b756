// LoadStates: loads the sequences of a saved state, read from a file or sent by a client, into new
// sequences of an owner. States from a file and states from a client are checked and admitted in
// the same way. LoadStates loads either all sequences of a saved state or none.
//
// LoadStates may be called on any thread; workers call it.
#pragma once

#include <functional>

#include "base/work_control.h"
#include "daemon/kept_samplers.h"
#include "engine/engine.h"
#include "engine/saved_state/load_sequence.h"
#include "shm/verb_table.h"

namespace kvd {

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
