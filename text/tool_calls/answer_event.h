// AnswerEvent: one step of an answer that is being written, and ParsedAnswer: the sum of all steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvd {

struct AnswerEvent {
  enum class Kind : std::uint8_t {
    kContent,    // `text` continues the content
    kReasoning,  // `text` continues the reasoning
    kCallBegin,  // a call of the function `text` begins; `id` is the call's id
    kArguments,  // `text` continues the arguments, which are the text of a JSON object
    // The call ends. `is_complete` is false if the text ended, or left the format, before the
    // arguments were complete. `id` is the id that the model wrote after the arguments, or empty.
    kCallEnd,
  };

  Kind kind = Kind::kContent;
  std::size_t call = 0;  // index of the call, from 0; only with the last three kinds
  std::string text;
  std::string id;
  bool is_complete = true;

  bool operator==(const AnswerEvent&) const = default;
};

struct ParsedCall {
  std::string id;
  std::string name;
  std::string arguments;     // the text of a JSON object, as the model wrote it
  bool is_complete = false;  // the arguments are complete

  bool operator==(const ParsedCall&) const = default;
};

struct ParsedAnswer {
  std::string content;
  std::string reasoning;
  std::vector<ParsedCall> calls;

  // Adds what the events say. REQUIRES: all events of one parser, in their order.
  void Add(std::span<const AnswerEvent> events);
  bool operator==(const ParsedAnswer&) const = default;
};

}  // namespace kvd
