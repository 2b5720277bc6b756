// ToolAnswer: an answer to a chat with tools: the grammar that holds its calls of functions, and
// the parser that divides it into content, reasoning and calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "client/client.h"
#include "kvctl/chat_prompt.h"
#include "kvctl/options.h"
#include "shm/payload_codec.h"
#include "text/json_builder.h"
#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/tool_grammar.h"

namespace kvd::kvctl {

class ToolAnswer {
 public:
  // Errors: kInvalidArgument (an unknown format or choice, a tool that is not well formed), those
  // of the tools' schemas, and those of the daemon.
  static Result<ToolAnswer> Create(const Client& client, const ChatPrompt& chat,
                                   const RunOptions& options);

  // The grammar and the triggers of the generation, as views of this object; no grammar: empty.
  std::string_view grammar() const { return grammar_.gbnf; }
  std::vector<wire::TriggerView> triggers() const;

  // Takes the next text of the answer, with the texts of special tokens. Returns the text to show:
  // content and reasoning, and calls as "name({...})" on lines of their own.
  std::string Feed(std::string_view text);
  // The answer has ended. Returns the rest of the text to show.
  std::string Finish();

  // Sets the members content, reasoning and tool_calls. REQUIRES: Finish was called.
  void SetMembers(Json& json) const;

 private:
  ToolAnswer(ToolGrammar grammar, AnswerParser parser)
      : grammar_(std::move(grammar)), parser_(std::move(parser)) {}
  std::string Show(const std::vector<AnswerEvent>& events);

  ToolGrammar grammar_;
  AnswerParser parser_;
  ParsedAnswer parsed_;
};

}  // namespace kvd::kvctl
