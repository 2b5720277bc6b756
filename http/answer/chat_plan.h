// ChatPlan: how one chat is answered: its prompt, the grammar that holds the answer, and how the
// answer is divided into reasoning, content and calls.
//
//   ChatInput input;                       // messages in OpenAI's format, tools, ...
//   KVD_CO_TRY(const ChatPlan plan, co_await PlanChat(tenant, std::move(input), request));
//   KVD_CO_TRY(auto answers, co_await ChatAnswer::Start(tenant, plan, 1));
//
// A plan is a plain value. It knows nothing of the format in which a client sends a chat: the
// routes of OpenAI, Anthropic and llama-server convert their messages to OpenAI's format first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "http/answer/answer_request.h"
#include "http/answer/tenant_session.h"
#include "http/loop/await.h"
#include "http/options/settings.h"
#include "text/chat/chat_request.h"
#include "text/tool_calls/answer_parser.h"
#include "text/tool_calls/tool_grammar.h"
#include "text/value.h"

namespace kvd::http {

// The text of the error of a content part that is an image. llama-server answers 500 for it.
inline constexpr const char* kNoImages = "image input is not supported";

// What a client asks for.
struct ChatInput {
  // Messages, tools and everything that a template reads. `chat_template` is the choice of the
  // request; empty: that of the settings. `variables` are added to those of the settings.
  // `enable_thinking`: nullopt: as the settings say.
  ChatRequest chat;
  // The client has set continue_final_message or add_generation_prompt. Without, a last message of
  // the assistant is continued, as llama-server does.
  bool has_continuation = false;
  ToolChoice tool_choice;  // kNone: calls are not looked for
  bool parallel_calls = true;
  // A JSON Schema that the content satisfies; missing: any content. Not together with a grammar of
  // the AnswerRequest. The schema holds behind reasoning; with tools, the model may call instead.
  Value answer_schema;
  ReasoningFormat reasoning_format = ReasoningFormat::kAuto;  // kAuto: as the settings say
  std::int32_t reasoning_budget = -1;         // tokens of reasoning; -1: as the settings say
  std::optional<std::string> budget_message;  // nullopt: that of the settings
  std::uint64_t id_seed = 0;                  // of the ids of calls: Request::nonce
};

// The text of a chat, and what it says about the answer.
struct FormattedChat {
  std::string prompt;
  ToolFormat tool_format = ToolFormat::kJson;
  ReasoningTags reasoning;
  std::vector<MarkerToken> markers;
  bool starts_in_reasoning = false;  // the prompt ends inside reasoning
};

struct ChatPlan {
  FormattedChat text;
  // Complete: prompt, grammar and triggers are those of the chat.
  AnswerRequest request;
  // Of the parser of the first answer. Each further one adds 1 to the seed of its ids.
  AnswerOptions parser;
  Value messages;                                                 // of the chat, in OpenAI's format
  ReasoningFormat reasoning_format = ReasoningFormat::kDeepseek;  // never kAuto
  bool has_tools = false;                                         // calls are looked for
};

// Formats a chat. Errors: kInvalidArgument, with the field's name or the template's own text;
// kUnsupported: a content part that is not text; kNotFound: no such template; those of the session.
Await<Result<FormattedChat>> FormatChat(TenantSession& tenant, ChatInput input);

// Plans the answer. `request` has everything but the prompt: sampling, limits, stops, a grammar of
// the client. Errors: those of FormatChat, of the schemas of tools and of the answer.
Await<Result<ChatPlan>> PlanChat(TenantSession& tenant, ChatInput input, AnswerRequest request);

}  // namespace kvd::http
