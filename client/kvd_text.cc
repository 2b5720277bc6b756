// The functions of kvd.h that convert text to tokens and back.
#include <string_view>

#include "client/c_api.h"
#include "client/kvd.h"

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
