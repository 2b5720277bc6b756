#include "text/tool_calls/call_reader.h"

#include <algorithm>

namespace kvd {

// ---- call reader
bool IsFunctionName(std::string_view name) {
  constexpr std::size_t kBytesMax = 256;
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           static_cast<unsigned char>(c) > 127 ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kBytesMax && std::ranges::all_of(name, is_allowed);
}

int LiteralChoice::Take(char c) {
  if (text_.empty() && IsJsonSpace(c)) return kMore;
  text_ += c;
  int result = kFail;
  for (std::size_t i = 0; i < literals_.size(); ++i) {
    if (!literals_[i].starts_with(text_)) continue;
    if (literals_[i].size() == text_.size()) return static_cast<int>(i);
    result = kMore;
  }
  return result;
}

JsonScanner::Step ArgumentsReader::Take(char c, CallOutput& output) {
  const JsonScanner::Step step = scanner_.Take(c);
  if (step == JsonScanner::Step::kFail) return step;
  std::string json;
  if (scanner_.in_string() && static_cast<unsigned char>(c) < 0x20) {
    AppendEscaped(c, json);
  } else {
    json = c;
  }
  output.AddArguments(json);
  return step;
}

// ---- format forms

namespace {

using Part = NamedCallForm::Part;

}  // namespace

FormatForm FormOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kJson: return {{{"{", true}, {"[", true}}, CallGap::kNone};
    case ToolFormat::kLlama3: return {{{"<|python_tag|>"}, {"{", true}}, CallGap::kNone};
    case ToolFormat::kHermes: return {{{"<tool_call>"}}, CallGap::kLine};
    case ToolFormat::kQwen3Coder: return {{{"<tool_call>"}, {"<function="}}, CallGap::kSpace, true};
    case ToolFormat::kMistralList:
    case ToolFormat::kMistral: return {{{"[TOOL_CALLS]"}}, CallGap::kNone};
    case ToolFormat::kGlm: return {{{"<tool_call>"}}, CallGap::kSpace};
    case ToolFormat::kDeepSeekR1:
    case ToolFormat::kDeepSeek: return {{{"<｜tool▁calls▁begin｜>"}}, CallGap::kNone};
    case ToolFormat::kGemma4: return {{{"<|tool_call>"}}, CallGap::kNone};
    case ToolFormat::kLfm2: return {{{"<|tool_call_start|>"}}, CallGap::kNone};
    case ToolFormat::kFunctionary: return {{{"<function="}}, CallGap::kNone};
    case ToolFormat::kKimi:
      return {{{"<|tool_calls_section_begin|>"}, {"<|tool_call_begin|>"}}, CallGap::kNone, true};
    case ToolFormat::kSeed: return {{{"<seed:tool_call>"}}, CallGap::kSpace};
    case ToolFormat::kMiniMax: return {{{"<minimax:tool_call>"}}, CallGap::kLine};
    case ToolFormat::kSolar: return {{{"<|tool_calls|>"}}, CallGap::kNone};
    case ToolFormat::kApriel: return {{{"<tool_calls>"}}, CallGap::kLine};
    case ToolFormat::kHarmony: break;
  }
  return {};
}

TaggedCallForm TaggedFormOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kQwen3Coder:
      return {.call_open = "<function=",
              .name_close = ">",
              .key_open = "<parameter=",
              .key_close = ">",
              .value_open = {},
              .value_close = "</parameter>",
              .call_close = "</function>",
              .section_close = "</tool_call>",
              .has_value_lines = true};
    case ToolFormat::kSeed:
      return {.call_open = "<function=",
              .name_close = ">",
              .key_open = "<parameter=",
              .key_close = ">",
              .value_open = {},
              .value_close = "</parameter>",
              .call_close = "</function>",
              .section_close = "</seed:tool_call>",
              .has_value_lines = false};
    case ToolFormat::kMiniMax:
      return {.call_open = "<invoke name=\"",
              .name_close = "\">",
              .key_open = "<parameter name=\"",
              .key_close = "\">",
              .value_open = {},
              .value_close = "</parameter>",
              .call_close = "</invoke>",
              .section_close = "</minimax:tool_call>",
              .has_value_lines = false};
    default:
      return {.call_open = {},
              .name_close = "\n",
              .key_open = "<arg_key>",
              .key_close = "</arg_key>",
              .value_open = "<arg_value>",
              .value_close = "</arg_value>",
              .call_close = "</tool_call>",
              .section_close = {},
              .has_value_lines = false};
  }
}

NamedCallForm NamedFormOf(ToolFormat format) {
  switch (format) {
    case ToolFormat::kMistral:
    case ToolFormat::kMistralList:
      return {.call_open = {},
              .first = Part::kName,
              .markers = {{"[ARGS]", Part::kName, Part::kArguments},
                          {"[CALL_ID]", Part::kName, Part::kId},
                          {"[ARGS]", Part::kId, Part::kArguments},
                          {"{", Part::kName, Part::kArguments}},
              .fence = {},
              .call_close = {},
              .section_close = {},
              .takes_list = true};
    case ToolFormat::kDeepSeekR1:
      return {.call_open = "<｜tool▁call▁begin｜>",
              .first = Part::kOther,
              .markers = {{"<｜tool▁sep｜>", Part::kOther, Part::kName},
                          {"```json", Part::kName, Part::kArguments}},
              .fence = "```",
              .call_close = "<｜tool▁call▁end｜>",
              .section_close = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kDeepSeek:
      return {.call_open = "<｜tool▁call▁begin｜>",
              .first = Part::kName,
              .markers = {{"<｜tool▁sep｜>", Part::kName, Part::kArguments}},
              .fence = {},
              .call_close = "<｜tool▁call▁end｜>",
              .section_close = "<｜tool▁calls▁end｜>"};
    case ToolFormat::kKimi:
      return {.call_open = "<|tool_call_begin|>",
              .first = Part::kName,
              .markers = {{"<|tool_call_argument_begin|>", Part::kName, Part::kArguments}},
              .fence = {},
              .call_close = "<|tool_call_end|>",
              .section_close = "<|tool_calls_section_end|>",
              .takes_list = false,
              .has_qualified_name = true};
    case ToolFormat::kSolar:
      return {.call_open = "<|tool_call:begin|>",
              .first = Part::kId,
              .markers = {{"<|tool_call:name|>", Part::kId, Part::kName},
                          {"<|tool_call:args|>", Part::kName, Part::kArguments}},
              .fence = {},
              .call_close = "<|tool_call:end|>",
              .section_close = "<|calls|>"};
    default:
      return {.call_open = {},
              .first = Part::kName,
              .markers = {{">", Part::kName, Part::kArguments}},
              .fence = {},
              .call_close = "</function>",
              .section_close = {}};
  }
}

std::unique_ptr<CallReader> MakeCallReader(ToolFormat format, std::string_view marker,
                                           const ToolTable& tools) {
  switch (format) {
    case ToolFormat::kJson:
    case ToolFormat::kLlama3: return MakeJsonCallReader({.closer = {}, .is_bare = true});
    case ToolFormat::kHermes: return MakeJsonCallReader({.closer = "</tool_call>"});
    case ToolFormat::kApriel: return MakeJsonCallReader({.closer = "</tool_calls>"});
    case ToolFormat::kQwen3Coder:
      return MakeTaggedCallReader(TaggedFormOf(format), tools, marker == "<function=");
    case ToolFormat::kGlm:
    case ToolFormat::kSeed:
    case ToolFormat::kMiniMax: return MakeTaggedCallReader(TaggedFormOf(format), tools, false);
    case ToolFormat::kGemma4: return MakeGemmaCallReader();
    case ToolFormat::kLfm2: return MakePythonCallReader("<|tool_call_end|>");
    case ToolFormat::kMistralList:
    case ToolFormat::kMistral:
    case ToolFormat::kDeepSeekR1:
    case ToolFormat::kDeepSeek:
    case ToolFormat::kFunctionary:
    case ToolFormat::kKimi:
    case ToolFormat::kSolar:
      return MakeNamedCallReader(NamedFormOf(format), marker == "<|tool_call_begin|>");
    case ToolFormat::kHarmony: break;
  }
  return nullptr;
}

}  // namespace kvd
