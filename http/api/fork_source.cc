#include "http/api/fork_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "http/answer/conversation.h"
#include "http/api/openai_chat_form.h"
#include "http/api/responses_form.h"
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
  KVD_TRY(const Value chat, OpenAiFormOfResponse(Value::Of(std::move(body)), items.items(), {}));
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

Result<ForkSource> OfConversation(const std::string& id, const Conversation& conversation) {
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
    KVD_TRY(const std::string stored, gateway.responses().Get(tenant, id));
    return OfResponse(id, stored);
  }
  const std::shared_ptr<Job> job = gateway.jobs().Find(tenant, id);
  if (job) return OfConversation(id, *job->buffer->conversation());
  ForkSource source;
  source.snapshot = id;
  return source;
}

Await<Result<std::shared_ptr<ForkContext>>> OpenForkContext(Tenant& tenant, ForkSource source,
                                                            AnswerRequest request) {
  const std::vector<std::string>& names = tenant.model().names();
  if (!source.model.empty() && std::ranges::find(names, source.model) == names.end()) {
    co_return Fail(Code::kInvalidArgument, "fork_from: its tokens are of the model \"",
                   source.model, "\"");
  }
  if (!source.snapshot.empty()) {
    auto context = co_await ForkContext::OfSnapshot(tenant, source.snapshot);
    const bool is_gone = !context && context.error().code == Code::kNotFound;
    if (!is_gone || source.tokens.empty()) co_return context;
  }
  co_return ForkContext::OfTokens(tenant, std::move(source.tokens), request);
}

}  // namespace kvd::http
