// A notebook of invented facts and questions about it, drawn from a seed: the input of the
// demonstration.
//
// The notebook's words and sentence forms are those that the bundled model was trained on
// (tools/train/corpus.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvd::demo {

struct Fact {
  std::string thing;  // the thing of the fact, which differs between the facts
  std::string colour;
  std::string keeper;  // the keeper of the thing, who differs between the facts
  std::string place;
};

struct Question {
  std::string text;
  std::string answer;  // the exact text of the right answer
};

// Draws `fact_count` facts. REQUIRES: at most 16 facts.
std::vector<Fact> DrawFacts(std::uint64_t seed, std::size_t fact_count);
// Returns the system message of a conversation: the facts followed by a short story, several
// hundred tokens in all.
std::string NotebookText(std::uint64_t seed, const std::vector<Fact>& facts);
// Returns question `number` of this seed. Questions with different numbers ask about different
// facts, if there are enough facts.
Question DrawQuestion(std::uint64_t seed, const std::vector<Fact>& facts, std::size_t number);

}  // namespace kvd::demo
