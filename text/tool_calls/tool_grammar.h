// A grammar of the calls that a model may write, in its format, for the tools of a request.
//
// The grammar accepts what the format's template renders for such calls, and AnswerParser reads
// what it accepts. It is GBNF, for the daemon's grammar of an answer. The functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tool_calls/tool_format.h"
#include "text/value.h"

namespace kvd {

struct ToolChoice {
  enum class Kind : std::uint8_t {
    kAuto,      // the model decides; the grammar begins with a call
    kRequired,  // the answer is at least one call
    kNone,      // there is no grammar
    kFunction,  // the answer is a call of `function`
  };
  Kind kind = Kind::kAuto;
  std::string function;  // only with kFunction
};

// Reads the field tool_choice of OpenAI's chat completions: "auto", "required", "none" or
// {"type": "function", "function": {"name": ...}}; missing and null are "auto". Errors:
// kInvalidArgument, with the field's name.
Result<ToolChoice> ParseToolChoice(const Value& choice);

// A marker that is one control token of the vocabulary. Control tokens have no text for a grammar.
struct MarkerToken {
  std::string text;
  std::int32_t token = 0;
};

struct GrammarStart {
  std::int32_t token = -1;  // -1: the answer's text contains `text`
  std::string text;

  bool operator==(const GrammarStart&) const = default;
};

struct ToolGrammar {
  std::string gbnf;  // empty: there is no grammar; otherwise its root is "root"
  // A lazy grammar begins with the first of its triggers, which belongs to the grammar; before it
  // the model writes freely. Without triggers the grammar begins with the answer.
  std::vector<GrammarStart> triggers;

  bool is_lazy() const { return !triggers.empty(); }
};

struct ToolGrammarOptions {
  static constexpr std::size_t kToolsMax = 1024;

  bool parallel_calls = true;  // more than one call; ignored in formats that have one only
  // The prompt ended inside reasoning. With kRequired and kFunction the reasoning comes before the
  // calls.
  bool starts_in_reasoning = false;
  ReasoningTags reasoning;
  std::vector<MarkerToken> tokens;  // those of GrammarMarkers that are control tokens
};

// The markers that a grammar of the format contains, and the tags. A caller looks up which of them
// are control tokens.
std::vector<std::string> GrammarMarkers(ToolFormat format, const ReasoningTags& reasoning);

// Errors: kInvalidArgument: a tool or the choice is not well formed (the message names the field:
// "tools[1].function.name: missing"); the errors of SchemaGrammarBuilder, with the field in front
// ("tools[1].function.parameters: #/properties/a: ..."); kTooLarge: too many tools. REQUIRES:
// `tools` is a list, or none with kAuto and kNone.
Result<ToolGrammar> MakeToolGrammar(ToolFormat format, const Value& tools, const ToolChoice& choice,
                                    const ToolGrammarOptions& options);

// A grammar of an answer whose content is a JSON value of a schema. Reasoning may come first. With
// tools and kAuto the answer is such a value, or calls; with kRequired and kFunction it is calls.
// The grammar is never lazy. Errors: those of MakeToolGrammar; the errors of SchemaGrammarBuilder,
// with `schema_path` in front ("response_format: #/properties/a: ...").
Result<ToolGrammar> MakeAnswerGrammar(ToolFormat format, const Value& schema,
                                      std::string_view schema_path, const Value& tools,
                                      const ToolChoice& choice, const ToolGrammarOptions& options);

}  // namespace kvd
