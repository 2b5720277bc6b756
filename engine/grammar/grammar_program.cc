#include "engine/grammar/grammar_program.h"

namespace kvd {

std::size_t GrammarProgram::held_bytes() const {
  std::size_t bytes = sizeof(*this) + steps.capacity() * sizeof(GrammarStep) +
                      alternatives.capacity() * sizeof(std::uint32_t) +
                      rules.capacity() * sizeof(GrammarRule) +
                      rule_of_rank.capacity() * sizeof(std::uint32_t) + texts.capacity();
  for (const std::string& name : names) bytes += sizeof(std::string) + name.capacity();
  for (const CharacterAutomaton& automaton : automatons)
    bytes += sizeof(CharacterAutomaton) + automaton.held_bytes();
  return bytes;
}

}  // namespace kvd
