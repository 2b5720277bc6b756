// The functions of kvd.h that convert text to tokens and back.
#include <string_view>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

Status Tokenize(kvd_client* client, const char* text, std::size_t text_bytes, std::uint32_t flags,
                kvd_token** tokens, std::size_t* token_count, kvd_request* later) {
  KVD_CHECK_OK(NotNull(text, "text"));
  KVD_CHECK_OK(NotNull(tokens, "tokens"));
  KVD_CHECK_OK(NotNull(token_count, "token_count"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_ADD_SPECIAL | KVD_PARSE_SPECIAL));
  const auto payload = BytesFrom({text, text_bytes});
  return Ask(client, later, wire::TokenizeArgs{}, PayloadOf(payload), wire_flags,
             [=](const wire::TokenizeReply& reply) -> Status {
               return GiveList(reply.tokens, tokens, token_count);
             });
}

// Returns the `give` argument of Ask for a verb that replies with text.
auto GiveTextTo(char** text, std::size_t* text_bytes) {
  return [=](const auto& reply) -> Status { return GiveText(reply.text, text, text_bytes); };
}

Status Detokenize(kvd_client* client, const kvd_token* tokens, std::size_t token_count,
                  std::uint32_t flags, char** text, std::size_t* text_bytes, kvd_request* later) {
  if (token_count != 0) KVD_CHECK_OK(NotNull(tokens, "tokens"));
  KVD_CHECK_OK(NotNull(text, "text"));
  KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
  // A list of 0 tokens has an empty text, and kvd_detokenize makes no request for this list;
  // kvd_detokenize_submit still makes a request, because kvd_finish waits for an answer.
  if (token_count == 0 && later == nullptr) return GiveText({}, text, text_bytes);
  const auto payload = std::as_bytes(std::span(tokens, token_count));
  return Ask(client, later, wire::DetokenizeArgs{}, PayloadOf(payload), wire_flags,
             GiveTextTo(text, text_bytes));
}

Status ReadText(kvd_client* client, kvd_sequence sequence, std::uint32_t flags, char** text,
                std::size_t* text_bytes, kvd_request* later) {
  KVD_CHECK_OK(NotNull(text, "text"));
  KVD_CHECK_OK(NotNull(text_bytes, "text_bytes"));
  KVD_TRY(const auto wire_flags, FlagsFrom(flags, KVD_SPECIAL));
  return Ask(client, later, wire::ReadTextArgs{HandleFrom(sequence)}, {}, wire_flags,
             GiveTextTo(text, text_bytes));
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_tokenize(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                 kvd_token** tokens, size_t* token_count) {
  return CallBody(
      [&] { return Tokenize(client, text, text_bytes, flags, tokens, token_count, nullptr); });
}
int kvd_tokenize_submit(kvd_client* client, const char* text, size_t text_bytes, uint32_t flags,
                        kvd_token** tokens, size_t* token_count, kvd_request* request) {
  return SubmitBody(request, [&] {
    return Tokenize(client, text, text_bytes, flags, tokens, token_count, request);
  });
}

int kvd_detokenize(kvd_client* client, const kvd_token* tokens, size_t token_count, uint32_t flags,
                   char** text, size_t* text_bytes) {
  return CallBody(
      [&] { return Detokenize(client, tokens, token_count, flags, text, text_bytes, nullptr); });
}
int kvd_detokenize_submit(kvd_client* client, const kvd_token* tokens, size_t token_count,
                          uint32_t flags, char** text, size_t* text_bytes, kvd_request* request) {
  return SubmitBody(request, [&] {
    return Detokenize(client, tokens, token_count, flags, text, text_bytes, request);
  });
}

int kvd_read_text(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                  size_t* text_bytes) {
  return CallBody([&] { return ReadText(client, sequence, flags, text, text_bytes, nullptr); });
}
int kvd_read_text_submit(kvd_client* client, kvd_sequence sequence, uint32_t flags, char** text,
                         size_t* text_bytes, kvd_request* request) {
  return SubmitBody(request,
                    [&] { return ReadText(client, sequence, flags, text, text_bytes, request); });
}
