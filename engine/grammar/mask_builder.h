// BuildMask: finds the tokens that may follow a state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/grammar/grammar_states.h"
#include "engine/grammar/grammar_vocabulary.h"
#include "engine/grammar/token_mask.h"

namespace kvd {

// Returns the tokens whose bytes lead from `state` to a state that is not dead, those that a token
// terminal of the state matches, and, if the state may end, the end-of-generation tokens. A mask
// whose transitions look at more than `entries_max` frames is incomplete (TokenMask::is_complete).
std::shared_ptr<const TokenMask> BuildMask(GrammarStates& states, std::uint32_t state,
                                           const GrammarVocabulary& vocabulary,
                                           std::size_t entries_max);

}  // namespace kvd
