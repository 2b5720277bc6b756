// CallReader: reads the calls of one format, byte by byte, after the marker that begins them.
//
// The readers know no content and no reasoning: AnswerParser finds the marker, gives a reader the
// bytes that follow, and makes content of the bytes that a reader refuses. A reader reports a byte
// at most once, and reports it with the byte itself or with a later one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tool_calls/json_scanner.h"
#include "text/tool_calls/tool_format.h"
#include "text/tool_calls/tool_table.h"

namespace kvd {

// What a reader reports.
class CallOutput {
 public:
  virtual ~CallOutput() = default;
  // Returns false if the call is refused: the reader then returns kFail. An empty id: the format
  // writes none.
  virtual bool BeginCall(std::string_view name, std::string_view id) = 0;
  virtual void AddArguments(std::string_view json) = 0;
  virtual void EndCall(std::string_view id) = 0;
};

class CallReader {
 public:
  enum class Step : std::uint8_t {
    kMore,
    kDone,  // the byte is the last one of the calls; at least one call was reported
    kFail,  // the byte does not continue the format
  };

  virtual ~CallReader() = default;
  // REQUIRES: kMore so far.
  virtual Step Take(char c, CallOutput& output) = 0;
  // The text has ended inside of the calls. Reports bytes of arguments that were held back.
  virtual void Finish(CallOutput& output) { static_cast<void>(output); }
};

// Whether a text can be the name of a function: 1 to 256 bytes of letters, digits, "_", "-", ".",
// ":", "/" and bytes above 127.
bool IsFunctionName(std::string_view name);

// Takes one of several literals, after white space. No literal begins with another one.
class LiteralChoice {
 public:
  static constexpr int kMore = -1;
  static constexpr int kFail = -2;

  LiteralChoice() = default;
  explicit LiteralChoice(std::vector<std::string_view> literals) : literals_(std::move(literals)) {}

  // Returns the index of the literal that the byte completes, kMore or kFail.
  int Take(char c);

 private:
  std::vector<std::string_view> literals_;
  std::string text_;
};

// Passes the bytes of a JSON object on as arguments; control characters in strings are escaped.
class ArgumentsReader {
 public:
  // The first byte is '{'.
  JsonScanner::Step Take(char c, CallOutput& output);

 private:
  JsonScanner scanner_;
};

struct JsonCallForm {
  std::string_view closer;  // follows the calls; empty: nothing
  // The calls have no marker. Only objects with the keys of a call are calls, and further calls may
  // follow after white space, ";" or ",".
  bool is_bare = false;
};
// {"name": ..., "arguments": {...}}, one or several of them, or a list of them.
std::unique_ptr<CallReader> MakeJsonCallReader(const JsonCallForm& form);

// A name, and JSON arguments: NAME <｜tool▁sep｜> {...}.
struct NamedCallForm {
  // What the text between two markers is.
  enum class Part : std::uint8_t { kName, kId, kOther, kArguments };
  struct Marker {
    std::string_view text;
    Part part;  // of the text before the marker
    Part next;
  };

  std::string_view call_open;  // begins each call; empty: the section's marker begins the only call
  Part first = Part::kName;
  std::vector<Marker> markers;
  std::string_view fence;           // may follow the arguments
  std::string_view call_close;      // follows the arguments; empty: nothing
  std::string_view section_close;   // follows the last call; empty: nothing
  bool takes_list = false;          // a list of JSON calls may stand in place of a name
  bool has_qualified_name = false;  // the name is "functions.NAME:INDEX", which is also the id
};
// `in_call`: the marker that was found is call_open.
std::unique_ptr<CallReader> MakeNamedCallReader(const NamedCallForm& form, bool in_call);

// Parameters between tags: <function=NAME> <parameter=KEY> VALUE </parameter> ... </function>.
struct TaggedCallForm {
  std::string_view call_open;  // empty: the section's marker begins the only call
  std::string_view name_close;
  std::string_view key_open;
  std::string_view key_close;
  std::string_view value_open;  // empty: the value follows the key
  std::string_view value_close;
  std::string_view call_close;
  std::string_view section_close;  // empty: nothing
  bool has_value_lines = false;    // a line end stands before and after a value
};
// `tools` outlives the reader.
std::unique_ptr<CallReader> MakeTaggedCallReader(const TaggedCallForm& form, const ToolTable& tools,
                                                 bool in_call);

// [f(a=1, b='x')]<|tool_call_end|>, as Python writes calls, or a list of JSON calls.
std::unique_ptr<CallReader> MakePythonCallReader(std::string_view closer);
// call:f{a:1,b:<|"|>x<|"|>}<tool_call|>
std::unique_ptr<CallReader> MakeGemmaCallReader();

// FormatForm: the markers of a format and the reader of its calls.

// White space between the content and the first call, which the template writes and which is not
// part of the content.
enum class CallGap : std::uint8_t { kNone, kLine, kSpace };

struct CallMarker {
  std::string_view text;
  // The marker counts only where nothing but white space and reasoning stands before it. Its bytes
  // also belong to the calls.
  bool is_first_byte = false;
};

struct FormatForm {
  std::vector<CallMarker> markers;
  CallGap gap = CallGap::kNone;
  // Calls inside of reasoning count, because models with this format call functions before they end
  // their reasoning. In other formats they are text of the reasoning.
  bool calls_in_reasoning = false;
};

// REQUIRES: not kHarmony, which has a parser of its own (harmony_parser.cc).
FormatForm FormOf(ToolFormat format);

// Returns the reader for what follows `marker`, one of the form's markers. `tools` outlives it.
std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, std::string_view marker,
                                           const ToolTable& tools);

// The forms that the grammar also needs. REQUIRES: a format of that kind.
TaggedCallForm TaggedFormOf(ToolFormat format);
NamedCallForm NamedFormOf(ToolFormat format);

}  // namespace kvd
