// A notebook of made-up facts and questions about it, drawn by a seed: the input of the
// demonstration.
//
// Words and forms are those on which the bundled model was trained (tools/train/corpus.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kvd::demo {

struct Fact {
  std::string thing;  // one per notebook
  std::string colour;
  std::string keeper;  // one per notebook
  std::string place;
};

struct Question {
  std::string text;
  std::string answer;  // to the letter
};

// At most 16 facts.
std::vector<Fact> DrawFacts(std::uint64_t seed, std::size_t fact_count);
// The facts and a short story behind them as the system message of a conversation; several hundred
// tokens.
std::string NotebookPrompt(std::uint64_t seed, const std::vector<Fact>& facts);
// Question `number` of this seed; different numbers ask about different facts as long as there are
// enough.
Question DrawQuestion(std::uint64_t seed, const std::vector<Fact>& facts, std::size_t number);
// The question as the next turn of the conversation, up to where the answer begins.
std::string QuestionPrompt(const Question& question);

}  // namespace kvd::demo
