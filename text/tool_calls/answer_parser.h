// AnswerParser: divides a model's answer into reasoning, content and calls of functions while the
// answer is being written.
//
// One parser reads one answer, piece by piece; it is not shared between threads. The result does
// not depend on how the text is cut into pieces: the deltas of an answer have the same sums however
// it was cut. Every text is an answer, so there are no errors: text that does not have the format
// is content. White space around reasoning and next to calls, and the markers themselves, belong to
// the format and are not reported; every other byte is reported once, as content, reasoning, name
// or arguments. A byte is held back only while it can belong to a marker, to a call whose name is
// not known yet, or to a value without quotes that need not be a string. At most kHeldBytesMax
// bytes are held.
//
// Arguments are the text of a JSON object. Formats that write JSON pass theirs on as it is written,
// with control characters in strings escaped; formats without JSON are translated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tool_calls/tool_format.h"
#include "text/value.h"

namespace kvd {

// AnswerEvent: one step of an answer that is being written, and ParsedAnswer: the sum of all steps.
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

struct AnswerOptions {
  // The tools of the request, in OpenAI's form. The schemas of the parameters say which texts are
  // strings, in formats that write values without quotes. In the formats kJson and kLlama3, whose
  // calls have no marker, only calls of these functions count.
  Value tools = Value::None();
  // False for the tool_choice "none": calls are not looked for, and markers are content.
  bool parses_calls = true;
  bool starts_in_reasoning = false;  // the prompt ended inside reasoning (EndsInReasoning)
  ReasoningTags reasoning;           // ignored by kHarmony, whose channels have this role
  // The ids of calls are made from it: nine letters and digits, which every template accepts. Two
  // answers of one conversation need different seeds.
  std::uint64_t id_seed = 0;
};

class AnswerParser {
 public:
  static constexpr std::size_t kHeldBytesMax = 1u << 20;
  static constexpr std::size_t kCallsMax = 1024;  // further calls of an answer are content

  class Machine;  // what reads one kind of format

  AnswerParser(ToolFormat format, const AnswerOptions& options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // Takes the next bytes of the answer and appends what they make certain.
  void Feed(std::string_view bytes, std::vector<AnswerEvent>& events);
  // The answer has ended. Appends what was held back: an open call ends with is_complete false.
  // REQUIRES: the last call on the parser.
  void Finish(std::vector<AnswerEvent>& events);

 private:
  std::unique_ptr<Machine> machine_;
};

// Parses a whole answer.
ParsedAnswer ParseAnswer(ToolFormat format, const AnswerOptions& options, std::string_view text);

}  // namespace kvd
