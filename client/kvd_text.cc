// The functions of kvd.h on text: tokens, embeddings and scores, and chats.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/c_api.h"
#include "client/kvd.h"
#include "text/chat/chat_formatter.h"

// The functions of kvd.h that convert text to tokens and back.

namespace kvd {
namespace {

// Returns the `give` argument of Ask for a verb that replies with text.
auto GiveTextTo(char** text, std::size_t* text_bytes) {
  return [=](const auto& reply) -> Status { return GiveText(reply.text, text, text_bytes); };
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_tokenize(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                 kvd_token** tokens, size_t* token_count, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(token_count, "token_count"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_ADD_SPECIAL | KVD_PARSE_SPECIAL));
    const auto payload = BytesFrom({text, text_bytes});
    return Ask(client, later, wire::TokenizeArgs{}, PayloadOf(payload), wire_flags,
               [=](const wire::TokenizeReply& reply) -> Status {
                 return GiveList(reply.tokens, tokens, token_count);
               });
  });
}

int kvd_detokenize(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
                   char** text, size_t* text_bytes, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    if (token_count != 0) KVD_CHECK_OK(NotNull(tokens, "tokens"));
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
    // The protocol has no request for 0 tokens.
    if (token_count == 0 && later == nullptr) return GiveText({}, text, text_bytes);
    const auto payload = std::as_bytes(std::span(tokens, token_count));
    return Ask(client, later, wire::DetokenizeArgs{}, PayloadOf(payload), wire_flags,
               GiveTextTo(text, text_bytes));
  });
}

int kvd_read_text(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                  size_t* text_bytes, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(text, "text"));
    KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
    return Ask(client, later, wire::ReadTextArgs{HandleFrom(sequence)}, {}, wire_flags,
               GiveTextTo(text, text_bytes));
  });
}

// The functions of kvd.h that compute texts without continuing them: embeddings, the scores of a
// reranker, and the encoded text that a sequence attends to.

namespace kvd {
namespace {

static_assert(static_cast<int>(wire::PoolingChoice::kRank) == KVD_POOLING_RANK);

Result<std::optional<wire::PoolingChoice>> PoolingFrom(int pooling) {
  if (pooling < KVD_POOLING_DEFAULT || pooling > KVD_POOLING_RANK) {
    return Fail(Code::kInvalidArgument, "pooling: ", pooling, ", must be -1 to 4");
  }
  if (pooling == KVD_POOLING_DEFAULT) return std::nullopt;
  return static_cast<wire::PoolingChoice>(pooling);
}

}  // namespace
}  // namespace kvd

int kvd_embed(kvd_client* client, const kvd_token_list* texts, size_t text_count, int pooling,
              uint32_t flags, float** values, size_t* row_count, size_t* row_floats,
              kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(texts, "texts"));
    KVD_CHECK_OK(NotNull(values, "values"));
    KVD_CHECK_OK(NotNull(row_count, "row_count"));
    KVD_CHECK_OK(NotNull(row_floats, "row_floats"));
    KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_NORMALIZE));
    KVD_TRY(const auto choice, PoolingFrom(pooling));
    if (text_count < 1 || text_count > wire::kEmbedTextsMax) {
      return Fail(Code::kInvalidArgument, "text_count: ", text_count, ", must be 1 to ",
                  wire::kEmbedTextsMax);
    }
    std::vector<std::span<const TokenId>> lists;
    for (std::size_t i = 0; i < text_count; ++i) {
      KVD_CHECK_OK(NotNull(texts[i].tokens, "texts.tokens"));
      lists.emplace_back(texts[i].tokens, texts[i].token_count);
    }
    std::size_t token_count = 0;
    for (const auto list : lists) token_count += list.size();
    const std::span<const std::span<const TokenId>> views(lists);
    return Ask(client, later, wire::EmbedArgs{.pooling = choice}, TokenListsPayload(views),
               wire_flags, [=](const wire::EmbedReply& reply) -> Status {
                 KVD_CHECK_OK(CheckEmbedding(reply, text_count, token_count));
                 *values = CopyForCaller(reply.values.data(), reply.values.size());
                 *row_count = reply.rows;
                 *row_floats = reply.width;
                 return {};
               });
  });
}

int kvd_rank(kvd_client* client, const char* query, const char* const* documents,
             size_t document_count, float* scores, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(query, "query"));
    KVD_CHECK_OK(NotNull(documents, "documents"));
    KVD_CHECK_OK(NotNull(scores, "scores"));
    if (document_count < 1 || document_count > wire::kRankDocumentsMax) {
      return Fail(Code::kInvalidArgument, "document_count: ", document_count, ", must be 1 to ",
                  wire::kRankDocumentsMax);
    }
    std::vector<std::string_view> texts = {query};
    for (std::size_t i = 0; i < document_count; ++i) {
      KVD_CHECK_OK(NotNull(documents[i], "documents"));
      texts.emplace_back(documents[i]);
    }
    const std::span<const std::string_view> views(texts);
    return Ask(client, later, wire::RankArgs{}, TextsPayload(views), 0,
               [=](const wire::RankReply& reply) -> Status {
                 KVD_CHECK_OK(CheckScores(reply, document_count));
                 std::ranges::copy(reply.scores, scores);
                 return {};
               });
  });
}

int kvd_encode(kvd_client* client, kvd_sequence sequence, const kvd_token* tokens,
               size_t token_count, kvd_token* start_token, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    KVD_CHECK_OK(NotNull(tokens, "tokens"));
    const auto payload = std::as_bytes(std::span(tokens, token_count));
    return Ask(client, later, wire::EncodeArgs{HandleFrom(sequence)}, PayloadOf(payload), 0,
               [=](const wire::EncodeReply& reply) -> Status {
                 if (start_token != nullptr) *start_token = reply.start_token.value_or(-1);
                 return {};
               });
  });
}

// The functions of kvd.h that format chats. The daemon answers with the texts of the model's file;
// the template runs here.

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

int kvd_chat(kvd_client* client, const kvd_chat_message* messages, size_t message_count,
             uint32_t flags, char** text, size_t* text_bytes, kvd_request* later) {
  return CallBody(later, [&]() -> Status {
    if (message_count != 0) KVD_CHECK_OK(NotNull(messages, "messages"));
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
