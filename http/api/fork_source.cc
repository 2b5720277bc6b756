#include "http/api/fork_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/text.h"
#include "http/answer/stream_buffer.h"
#include "http/api/openai_chat_writer.h"
#include "http/api/reply_fields.h"
#include "http/api/responses_reader.h"
#include "text/json.h"

namespace kvd::http {
namespace {

std::unexpected<Error> Unfinished(const std::string& id) {
  return Fail(Code::kInvalidArgument, "fork_from: \"", id.substr(0, 64),
              "\" has no complete answer");
}

std::unexpected<Error> Damaged(const std::string& id) {
  return Fail(Code::kCorrupt, "fork_from: the stored response ", id, " is damaged");
}

std::unexpected<Error> Unknown(const std::string& id) {
  return Fail(Code::kNotFound, "fork_from: \"", id.substr(0, 64),
              "\" is no stored response, conversation or snapshot");
}

Result<std::vector<TokenId>> StoredTokens(const Value& list, const std::string& id) {
  if (list.is_missing()) return Unfinished(id);
  if (!list.is_list()) return Damaged(id);
  std::vector<TokenId> tokens;
  for (const Value& token : list.items()) {
    const bool is_token = token.is_int() && token.integer() >= 0 &&
                          token.integer() <= std::numeric_limits<TokenId>::max();
    if (!is_token) return Damaged(id);
    tokens.push_back(static_cast<TokenId>(token.integer()));
  }
  if (tokens.empty()) return Unfinished(id);
  return tokens;
}

// The chat of a stored response: its instructions, tools and items.
Result<ForkSource> OfResponse(const std::string& id, const std::string& stored) {
  const auto parsed = ParseJson(stored, kStoredJson);
  if (!parsed) return Damaged(id);
  const Value& response = parsed->dict().Find("response");
  const Value& items = parsed->dict().Find("items");
  if (response.is_missing() || !items.is_list()) return Damaged(id);
  ForkSource source;
  KVD_TRY(source.tokens, StoredTokens(parsed->dict().Find("tokens"), id));
  source.snapshot = id;
  const Value& model = response.dict().Find("model");
  if (model.is_string()) source.model = model.view();
  Dict body;
  for (const std::string_view name : {"instructions", "tools"}) {
    const Value& member = response.dict().Find(name);
    if (!member.is_missing()) body.Set(name, member);
  }
  KVD_TRY(const Value chat, ReadResponseAsOpenAi(Value::Of(std::move(body)), items.items(), {}));
  source.messages = chat.dict().Find("messages");
  if (const Value& tools = chat.dict().Find("tools"); !tools.is_missing()) source.tools = tools;
  return source;
}

// The messages with the answer. An answer that has continued the last message is joined with it.
Value WithAnswer(const Value& messages, const ParsedAnswer& answer) {
  std::vector<Value> all = messages.items();
  Dict message = ChatMessageOf(answer).dict();
  if (!all.empty() && all.back().dict().Find("role").view() == "assistant") {
    const Value& begun = all.back().dict().Find("content");
    if (begun.is_string()) {
      message.Set("content", Value::String(std::string(begun.view()) + answer.content));
    }
    all.pop_back();
  }
  all.push_back(Value::Of(std::move(message)));
  return Value::List(std::move(all));
}

Result<ForkSource> OfEndedStream(const std::string& id, const EndedStream& conversation) {
  if (conversation.tokens.empty()) return Unfinished(id);
  ForkSource source{.tokens = conversation.tokens,
                    .snapshot = {},
                    .messages = {},
                    .tools = {},
                    .model = conversation.model};
  if (!conversation.messages.is_list()) return source;
  source.messages = WithAnswer(conversation.messages, conversation.answer);
  if (conversation.tools.is_list()) source.tools = conversation.tools;
  return source;
}

}  // namespace

Result<ForkSource> FindForkSource(Gateway& gateway, const std::string& tenant,
                                  const std::string& id) {
  if (ResponseStore::IsId(id)) {
    const auto stored = gateway.responses().Get(tenant, id);
    if (!stored && stored.error().code == Code::kNotFound) return Unknown(id);
    if (!stored) return std::unexpected(stored.error());
    return OfResponse(id, *stored);
  }
  const std::shared_ptr<Job> job = gateway.jobs().Find(tenant, id);
  if (job) return OfEndedStream(id, *job->buffer->conversation());
  ForkSource source;
  source.snapshot = id;
  return source;
}

Await<Result<std::shared_ptr<ForkContext>>> OpenForkContext(TenantSession& tenant,
                                                            ForkSource source,
                                                            AnswerRequest request) {
  const std::vector<std::string>& names = tenant.model().names();
  if (!source.model.empty() && std::ranges::find(names, source.model) == names.end()) {
    co_return Fail(Code::kInvalidArgument, "fork_from: its tokens are of the model \"",
                   source.model, "\"");
  }
  if (!source.snapshot.empty()) {
    auto context = co_await ForkContext::OfSnapshot(tenant, source.snapshot);
    if (context) co_return context;
    const Error& error = context.error();
    const bool is_no_name = error.code == Code::kNotFound || error.code == Code::kInvalidArgument;
    if (!is_no_name) co_return context;
    if (source.tokens.empty()) co_return Unknown(source.snapshot);
  }
  co_return ForkContext::OfTokens(tenant, std::move(source.tokens), request);
}

namespace {

Value UserMessage(const Value& text) {
  Dict message;
  message.Set("role", Value::String("user"));
  message.Set("content", text);
  return Value::Of(std::move(message));
}

// The body with the messages and tools of the context.
Value ContextBody(const Value& body, const ForkSource& source) {
  Dict own = body.dict();
  own.Set("messages", source.messages.is_list() ? source.messages : Value::List({}));
  const Value& tools = own.Find("tools");
  if ((tools.is_missing() || tools.is_none()) && source.tools.is_list()) {
    own.Set("tools", source.tools);
  }
  return Value::Of(std::move(own));
}

// REQUIRES: each prompt has a token.
std::size_t CommonTokens(const std::vector<ChatPlan>& plans) {
  const std::vector<TokenId>& first = plans.front().request.prompt;
  std::size_t common = first.size();
  for (const ChatPlan& plan : plans) {
    const std::vector<TokenId>& prompt = plan.request.prompt;
    // Each answer computes at least its last token.
    common = std::min({common, prompt.size() - 1, CommonPrefix(first, prompt)});
  }
  return common;
}

// Puts the context's tokens in front of the prompts, which have no BOS then.
void Prepend(const ServedModel& model, const std::vector<TokenId>& context,
             std::vector<ChatPlan>& plans) {
  for (ChatPlan& plan : plans) {
    std::vector<TokenId>& prompt = plan.request.prompt;
    if (prompt.front() == model.info().bos_token) prompt.erase(prompt.begin());
    prompt.insert(prompt.begin(), context.begin(), context.end());
  }
}

}  // namespace

Result<std::vector<std::vector<Value>>> ReadForkPrompts(const Fields& fields) {
  KVD_TRY(const Value prompts, fields.List("prompts"));
  KVD_TRY(const Value messages, fields.List("messages"));
  if (prompts.is_missing() && messages.is_missing()) {
    return Fail(Code::kInvalidArgument, "\"prompts\" is required with fork_from");
  }
  if (!prompts.is_missing() && !messages.is_missing()) {
    return Fail(Code::kInvalidArgument, "messages: not together with prompts");
  }
  if (prompts.is_missing()) {
    if (messages.items().empty()) return Fail(Code::kInvalidArgument, "messages: empty");
    return std::vector<std::vector<Value>>{messages.items()};
  }
  const std::size_t count = prompts.items().size();
  if (count == 0 || count > ReplyFields::kPromptsMax) {
    return Fail(Code::kInvalidArgument, "prompts: ", count, " prompts, not within 1 to ",
                ReplyFields::kPromptsMax);
  }
  std::vector<std::vector<Value>> read;
  for (const Value& prompt : prompts.items()) {
    if (prompt.is_string()) {
      read.push_back({UserMessage(prompt)});
    } else if (prompt.is_list() && !prompt.items().empty()) {
      read.push_back(prompt.items());
    } else {
      return fields.Wrong(Concat("prompts[", read.size(), "]"), "a text or a list of messages",
                          prompt);
    }
  }
  return read;
}

Await<Result<ForkedChats>> PlanForkedChats(RouteCall route, TenantSession& tenant,
                                           const Value& body) {
  const Fields fields(body);
  KVD_CO_TRY(const std::string fork_from, fields.String("fork_from"));
  KVD_CO_TRY(const auto prompts, ReadForkPrompts(fields));
  KVD_CO_TRY(ForkSource source, FindForkSource(route.gateway, tenant.name(), fork_from));
  ForkedChats chats;
  const Value context = ContextBody(body, source);
  KVD_CO_TRY(chats.call, co_await ReadChatCall(tenant, context, route.request));
  chats.call.request.journal = JournalOf(route.responder);
  chats.call.request.conversation = EndedStreamOf(route.responder);
  std::vector<ChatPlan> plans;
  for (const std::vector<Value>& prompt : prompts) {
    ChatInput input = chats.call.input;
    std::vector<Value> messages = input.chat.messages.items();
    messages.insert(messages.end(), prompt.begin(), prompt.end());
    input.chat.messages = Value::List(std::move(messages));
    AnswerRequest request = chats.call.request;
    const auto number = static_cast<std::uint32_t>(plans.size()) * chats.call.reply.count;
    request.number = number;
    input.id_seed += number;
    KVD_CO_TRY(ChatPlan plan, co_await PlanChat(tenant, std::move(input), std::move(request)));
    if (plan.request.prompt.empty()) {
      co_return Fail(Code::kInvalidArgument, "prompts[", plans.size(),
                     "]: the chat template writes no text for it");
    }
    plans.push_back(std::move(plan));
  }
  if (!source.messages.is_list()) {
    KVD_CO_TRY(chats.fork, co_await OpenForkContext(tenant, std::move(source), chats.call.request));
    Prepend(tenant.model(), chats.fork->tokens(), plans);
  } else if (const std::size_t common = CommonTokens(plans); plans.size() > 1 && common > 0) {
    std::vector<TokenId> tokens = plans.front().request.prompt;
    tokens.resize(common);
    chats.fork = ForkContext::OfTokens(tenant, std::move(tokens), chats.call.request);
  }
  for (ChatPlan& plan : plans) {
    plan.request.fork = chats.fork;
    chats.plans.push_back(std::make_shared<const ChatPlan>(std::move(plan)));
  }
  co_return chats;
}

}  // namespace kvd::http
