// Each format's calls are spelled as its template renders them, so that the tokens of a call are
// those of its next rendering. White space inside of JSON is that of the schema's rules.
#include "text/tool_calls/grammar_writer.h"

#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "text/tool_calls/call_reader.h"
#include "text/tool_calls/json_scanner.h"

namespace kvd {

std::string QuotedGbnf(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default: quoted += c;
    }
  }
  return quoted += '"';
}

namespace {

// A character inside of a class of GBNF.
std::string InClass(const std::string& character) {
  if (character == "\n") return "\\n";
  const bool is_special = std::string_view("\\]^-[").find(character) != std::string_view::npos;
  return is_special ? "\\" + character : character;
}

std::vector<std::string> CharactersOf(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t byte_count = std::max<std::size_t>(WellFormedBytes(text), 1);
    characters.emplace_back(text.substr(0, byte_count));
    text.remove_prefix(byte_count);
  }
  return characters;
}

std::string Joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

}  // namespace

std::string GrammarWriter::Marker(std::string_view text) const {
  std::string gbnf;
  std::size_t literal = 0;  // where the text begins that is not written yet
  const auto write_literal = [&](std::size_t end) {
    if (literal == end) return;
    if (!gbnf.empty()) gbnf += ' ';
    gbnf += QuotedGbnf(text.substr(literal, end - literal));
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::ranges::find_if(options_.tokens, [&](const MarkerToken& marker) {
      return !marker.text.empty() && text.substr(at).starts_with(marker.text);
    });
    if (found == options_.tokens.end()) {
      ++at;
      continue;
    }
    write_literal(at);
    if (!gbnf.empty()) gbnf += ' ';
    gbnf += Concat("<[", found->token, "]>");
    at += found->text.size();
    literal = at;
  }
  write_literal(text.size());
  return gbnf;
}

// A text without the marker is an automaton whose state is the number of the marker's characters
// that the text ends with (Knuth, Morris and Pratt, 1977). Each state is a rule.
Result<std::string> GrammarWriter::Until(std::string_view marker) {
  const auto known = until_.find(marker);
  if (known != until_.end()) return known->second;
  std::string name = Concat("until-", until_.size());
  until_.emplace(marker, name);
  // A marker that is a token ends the text in each state, and its spelling is not a part of the
  // text.
  const bool is_token =
      std::ranges::find(options_.tokens, marker, &MarkerToken::text) != options_.tokens.end();
  const std::vector<std::string> characters = CharactersOf(marker);
  const auto state = [&](std::size_t i) { return i == 0 ? name : Concat(name, "-", i); };
  const auto next = [&](std::size_t matched, const std::string& character) {
    std::vector<std::string> text(characters.begin(),
                                  characters.begin() + static_cast<std::ptrdiff_t>(matched));
    text.push_back(character);
    while (!std::equal(text.begin(), text.end(), characters.begin())) text.erase(text.begin());
    return text.size();
  };
  const std::set<std::string> distinct(characters.begin(), characters.end());
  for (std::size_t i = 0; i < characters.size(); ++i) {
    std::vector<std::string> choices;
    if (is_token) choices.push_back(Marker(marker));
    std::string others;
    for (const std::string& character : distinct) {
      others += InClass(character);
      const std::size_t to = next(i, character);
      if (is_token && to == characters.size()) continue;
      const std::string literal = QuotedGbnf(character);
      choices.push_back(to == characters.size() ? literal : Concat(literal, " ", state(to)));
    }
    choices.push_back(Concat("[^", others, "] ", name));
    KVD_CHECK_OK(rules_.AddRule(state(i), Joined(choices, " | ")));
  }
  return name;
}

Result<std::string> GrammarWriter::JsonArguments(const ToolRules& tool, std::size_t index) {
  auto rule = rules_.AddSchema(Concat("arguments-", index), tool.parameters);
  if (!rule) return FailWithin(tool.path, rule.error());
  return rule;
}

Result<std::string> GrammarWriter::Call(const ToolRules& tool, std::size_t index) {
  const std::string& name = tool.name;
  switch (format_) {
    case ToolFormat::kQwen3Coder:
    case ToolFormat::kGlm:
    case ToolFormat::kSeed:
    case ToolFormat::kMiniMax: return TaggedArguments(tool, index);
    case ToolFormat::kGemma4:
    case ToolFormat::kLfm2: return LooseArguments(tool, index);
    default: break;
  }
  KVD_TRY(const std::string arguments, JsonArguments(tool, index));
  const auto object = [&](std::string_view key) {
    return QuotedGbnf(Concat("{\"name\": ", QuotedJson(name), ", \"", key, "\": ")) + " " +
           arguments;
  };
  switch (format_) {
    case ToolFormat::kHermes:
      return Marker("<tool_call>") + " \"\\n\" " + object("arguments") + " \"}\\n\" " +
             Marker("</tool_call>");
    case ToolFormat::kLlama3: return object("parameters") + " \"}\"";
    case ToolFormat::kMistralList:
      return object("arguments") + " \", \\\"id\\\": \\\"\" [a-zA-Z0-9]{9} \"\\\"}\"";
    case ToolFormat::kApriel:
      return object("arguments") + " (\", \\\"id\\\": \\\"\" [a-zA-Z0-9_-]{1,64} \"\\\"\")? \"}\"";
    case ToolFormat::kMistral:
      return Marker("[TOOL_CALLS]") + " " + QuotedGbnf(name) + " (" + Marker("[CALL_ID]") +
             " [a-zA-Z0-9]{9})? " + Marker("[ARGS]") + " " + arguments;
    case ToolFormat::kHarmony:
      return QuotedGbnf("to=functions." + name) + " (" + Marker("<|channel|>") +
             " (\"commentary\" | \"analysis\"))? (\" \"? " + Marker("<|constrain|>") +
             "? \"json\")? " + Marker("<|message|>") + " " + arguments + " " + Marker("<|call|>") +
             "?";
    case ToolFormat::kDeepSeekR1:
      return Marker("<｜tool▁call▁begin｜>") + " \"function\" " + Marker("<｜tool▁sep｜>") + " " +
             QuotedGbnf(name + "\n```json\n") + " " + arguments + " \"\\n```\" " +
             Marker("<｜tool▁call▁end｜>");
    case ToolFormat::kDeepSeek:
      return Marker("<｜tool▁call▁begin｜>") + " " + QuotedGbnf(name) + " " +
             Marker("<｜tool▁sep｜>") + " " + arguments + " " + Marker("<｜tool▁call▁end｜>");
    case ToolFormat::kFunctionary:
      return QuotedGbnf("<function=" + name + ">") + " " + arguments + " " + Marker("</function>");
    case ToolFormat::kKimi:
      return Marker("<|tool_call_begin|>") + " " + QuotedGbnf("functions." + name + ":") +
             " [0-9]{1,4} " + Marker("<|tool_call_argument_begin|>") + " " + arguments + " " +
             Marker("<|tool_call_end|>");
    case ToolFormat::kSolar:
      return Marker("<|tool_call:begin|>") + " [a-zA-Z0-9_-]{1,64} " +
             Marker("<|tool_call:name|>") + " " + QuotedGbnf(name) + " " +
             Marker("<|tool_call:args|>") + " " + arguments + " " + Marker("<|tool_call:end|>");
    default: return object("arguments") + " \"}\"";
  }
}

Result<std::string> GrammarWriter::Calls(const std::string& call, bool parallel) {
  const auto repeated = [&](std::string_view separator) {
    if (!parallel) return call;
    return separator.empty() ? call + "+" : call + " (" + QuotedGbnf(separator) + " " + call + ")*";
  };
  switch (format_) {
    case ToolFormat::kLlama3:
    case ToolFormat::kHarmony: return call;  // a call ends the answer
    case ToolFormat::kJson: return parallel ? call + " | \"[\" " + repeated(", ") + " \"]\"" : call;
    case ToolFormat::kHermes:
    case ToolFormat::kGlm:
    case ToolFormat::kQwen3Coder:
    case ToolFormat::kSeed: return repeated("\n");
    case ToolFormat::kMistralList:
      return Marker("[TOOL_CALLS]") + " \"[\" " + repeated(", ") + " \"]\"";
    case ToolFormat::kApriel:
      return Marker("<tool_calls>") + " \"[\" " + repeated(", ") + " \"]\" " +
             Marker("</tool_calls>");
    case ToolFormat::kDeepSeekR1:
    case ToolFormat::kDeepSeek:
      return Marker("<｜tool▁calls▁begin｜>") + " " +
             repeated(format_ == ToolFormat::kDeepSeekR1 ? "\n" : "") + " " +
             Marker("<｜tool▁calls▁end｜>");
    case ToolFormat::kKimi:
      return Marker("<|tool_calls_section_begin|>") + " " + repeated("") + " " +
             Marker("<|tool_calls_section_end|>");
    case ToolFormat::kSolar:
      return Marker("<|tool_calls|>") + " " + repeated("") + " " + Marker("<|calls|>");
    case ToolFormat::kMiniMax:
      return Marker("<minimax:tool_call>") + " \"\\n\" " + repeated("\n") + " \"\\n\" " +
             Marker("</minimax:tool_call>");
    case ToolFormat::kLfm2:
      return Marker("<|tool_call_start|>") + " \"[\" " + repeated(", ") + " \"]\" " +
             Marker("<|tool_call_end|>");
    default: return repeated("");
  }
}

Result<std::string> GrammarWriter::Reasoning() {
  if (format_ == ToolFormat::kHarmony) {
    KVD_TRY(const std::string rest, Until("<|end|>"));
    return "(" + Marker("<|channel|>") + " \"analysis\" " + Marker("<|message|>") + " " + rest +
           " " + Marker("<|start|>") + " \"assistant\")* (\" \" | " + Marker("<|channel|>") +
           " \"commentary \") ";
  }
  if (options_.reasoning.close.empty()) return std::string("[ \\n]{0,4} ");
  KVD_TRY(const std::string rest, Until(options_.reasoning.close));
  if (options_.starts_in_reasoning) return rest + " [ \\n]{0,4} ";
  return "[ \\n]{0,4} (" + Marker(options_.reasoning.open) + " " + rest + " [ \\n]{0,4})? ";
}

Result<std::string> GrammarWriter::AddCalls(const std::vector<ToolRules>& tools, bool parallel) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    KVD_TRY(const std::string body, Call(tools[i], i));
    names.push_back(Concat("call-", i));
    KVD_CHECK_OK(rules_.AddRule(names.back(), body));
  }
  KVD_CHECK_OK(rules_.AddRule("call", Joined(names, " | ")));
  return Calls("call", parallel);
}

Status GrammarWriter::Write(const std::vector<ToolRules>& tools, bool parallel,
                            bool with_reasoning) {
  KVD_TRY(const std::string calls, AddCalls(tools, parallel));
  std::string before;
  if (with_reasoning) {
    KVD_TRY(before, Reasoning());
  }
  return rules_.AddRule("root", before.empty() ? calls : before + "(" + calls + ")");
}

Status GrammarWriter::WriteAnswer(const Value& schema, std::string_view schema_path,
                                  const std::vector<ToolRules>& tools, bool parallel) {
  auto content = rules_.AddSchema("content", schema);
  if (!content) return FailWithin(schema_path, content.error());
  std::string calls;
  if (!tools.empty()) {
    KVD_TRY(calls, AddCalls(tools, parallel));
  }
  if (format_ == ToolFormat::kHarmony) {
    KVD_TRY(const std::string body, HarmonyAnswer(*content, calls));
    return rules_.AddRule("root", body);
  }
  std::string before;
  if (!options_.reasoning.close.empty()) {
    KVD_TRY(before, Reasoning());
  }
  const std::string body = calls.empty() ? *content : *content + " | " + calls;
  return rules_.AddRule("root", before + "(" + body + ")");
}

// The prompt ends with "<|start|>assistant", so the answer begins with a channel. Messages of the
// channel "analysis" may come first.
Result<std::string> GrammarWriter::HarmonyAnswer(const std::string& content,
                                                 const std::string& calls) {
  KVD_TRY(const std::string rest, Until("<|end|>"));
  std::string body = "(" + Marker("<|channel|>") + " \"analysis\" " + Marker("<|message|>") + " " +
                     rest + " " + Marker("<|start|>") + " \"assistant\")* (" +
                     Marker("<|channel|>") + " \"final\" (\" \"? " + Marker("<|constrain|>") +
                     "? \"json\")? " + Marker("<|message|>") + " " + content;
  if (!calls.empty()) {
    body += " | (\" \" | " + Marker("<|channel|>") + " \"commentary \") (" + calls + ")";
  }
  return body + ")";
}

std::vector<GrammarStart> GrammarWriter::Triggers() const {
  std::vector<GrammarStart> starts;
  const auto add = [&](std::string_view text) {
    const auto token = std::ranges::find(options_.tokens, text, &MarkerToken::text);
    if (token == options_.tokens.end()) {
      starts.push_back({-1, std::string(text)});
    } else {
      starts.push_back({token->token, {}});
    }
  };
  switch (format_) {
    case ToolFormat::kHarmony: add("to=functions."); break;
    case ToolFormat::kJson:
    case ToolFormat::kLlama3: add("{\"name\": \""); break;
    default: add(FormOf(format_).markers[0].text); break;
  }
  return starts;
}

}  // namespace kvd
