// Sequences of a saved state, read from a file or sent by a client, into fresh sequences of an
// owner: checked, admitted and made alike, all of them or none.
//
// Threads: any; called by workers.
#pragma once

#include <functional>

#include "daemon/sampler_states.h"
#include "engine/engine.h"
#include "engine/saved_state/load_sequence.h"
#include "shm/verb_table.h"
#include "shm/work_control.h"

namespace kvd {

struct StateLoading {
  Engine& engine;
  SamplerStates* samplers = nullptr;  // where saved ones come back to; null: nowhere
  SequenceOwner owner{};
  RequestTag part{};  // whose work each sequence is; does not complete it
  StateOrigin origin = StateOrigin::kThisDaemon;
  // Called when all is loaded; its error undoes that.
  std::function<Status()> complete;
};

// Errors: kNoSpace (the owner's shares, the pool), those of
// LoadSequence and of `complete`; nothing has changed then.
Result<wire::LoadReply> LoadStates(const StateLoading& loading, const StateFileReader& file,
                                   WorkControl& work);

}  // namespace kvd
