// The functions of kvd.h that format chats. The daemon answers with the texts of the model's file;
// the template runs here.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/c_api.h"
#include "client/kvd.h"
#include "text/chat/chat_formatter.h"

namespace kvd {
namespace {

Status FormatFor(kvd_client* client, const wire::ChatTemplatesReply& reply,
                 const ChatRequest& request, char** text, std::size_t* text_bytes) {
  std::shared_ptr<const ChatFormatter> formatter;
  {
    const MutexLock lock(client->chat_mutex);
    KVD_TRY(formatter, client->last_formatter.Get(reply, request));
  }
  KVD_TRY(const std::string formatted, formatter->Format(request));
  *text = CopyForCaller(formatted.data(), formatted.size());
  *text_bytes = formatted.size();
  return {};
}

Status AskAndFormat(kvd_client* client, ChatRequest request, char** text, std::size_t* text_bytes,
                    kvd_request* later) {
  return Ask(client, later, wire::ChatTemplatesArgs{}, {}, 0,
             [=, request = std::move(request)](const wire::ChatTemplatesReply& reply) -> Status {
               return FormatFor(client, reply, request, text, text_bytes);
             });
}

Status CheckOutputs(char** text, std::size_t* text_bytes) {
  KVD_CHECK_OK(NotNull(text, "text"));
  return NotNull(text_bytes, "text_bytes");
}

Status GiveTemplate(const wire::ChatTemplatesReply& reply, const std::string& name, char** text,
                    std::size_t* text_bytes) {
  KVD_TRY(const ChatTexts texts, ChatTextsFrom(reply));
  const std::string* found = texts.FindTemplate(name);
  if (found == nullptr && name.empty()) return Fail(Code::kNotFound, "the model has no template");
  if (found == nullptr) {
    return Fail(Code::kNotFound, "the model has no template named '", name.substr(0, 64), "'");
  }
  *text = CopyForCaller(found->data(), found->size());
  *text_bytes = found->size();
  return {};
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_chat(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
             uint32_t flags, char** text, size_t* text_bytes, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(messages, "messages"));
    KVD_CHECK_OK(CheckOutputs(text, text_bytes));
    KVD_CHECK_OK(FlagsFrom(flags, KVD_ADD_ASSISTANT));
    std::vector<Value> dicts;
    for (std::size_t i = 0; i < message_count; ++i) {
      KVD_CHECK_OK(NotNull(messages[i].role, "role"));
      KVD_CHECK_OK(NotNull(messages[i].content, "content"));
      Dict message;
      message.Set("role", Value::String(messages[i].role));
      message.Set("content", Value::String(messages[i].content));
      dicts.push_back(Value::Of(std::move(message)));
    }
    ChatRequest request;
    request.messages = Value::List(std::move(dicts));
    request.add_generation_prompt = (flags & KVD_ADD_ASSISTANT) != 0;
    KVD_CHECK_OK(CheckChatRequest(request));
    return AskAndFormat(client, std::move(request), text, text_bytes, later);
  });
}

int kvd_chat_json(kvd_client* client, const char* json, size_t json_bytes, char** text,
                  size_t* text_bytes, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(json, "json"));
    KVD_CHECK_OK(CheckOutputs(text, text_bytes));
    KVD_TRY(ChatRequest request, ParseChatRequest({json, json_bytes}));
    return AskAndFormat(client, std::move(request), text, text_bytes, later);
  });
}

int kvd_chat_template(kvd_client* client, const char* name, char** text, size_t* text_bytes,
                      kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(CheckOutputs(text, text_bytes));
    return Ask(client, later, wire::ChatTemplatesArgs{}, {}, 0,
               [=, wanted = std::string(name == nullptr ? "" : name)](
                   const wire::ChatTemplatesReply& reply) -> Status {
                 return GiveTemplate(reply, wanted, text, text_bytes);
               });
  });
}
