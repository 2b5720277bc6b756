// The functions kvd_why and kvd_why_submit of kvd.h.
#include <cstring>

#include "client/c_api.h"
#include "client/kvd.h"

namespace kvd {
namespace {

static_assert(sizeof(kvd_why_info::prompt_text) == wire::kWhyTextBytes);

Status Why(kvd_client* client, const kvd_token* tokens, std::size_t token_count, kvd_why_info* info,
           kvd_request* later) {
  KVD_CHECK_OK(NotNull(tokens, "tokens"));
  KVD_CHECK_OK(NotNull(info, "info"));
  const auto payload = std::as_bytes(std::span(tokens, token_count));
  return Ask(client, later, wire::WhyArgs{}, PayloadOf(payload), 0,
             [info](const auto& reply) -> Status {
               const wire::WhyRecord& found = reply.record;
               *info = {.source = found.source,
                        .nearest = found.nearest,
                        .prompt_tokens = found.prompt_tokens,
                        .reused = found.reused,
                        .common = found.common,
                        .on_disk = found.on_disk,
                        .prompt_token = found.prompt_token,
                        .cached_token = found.cached_token,
                        .shared_origin = found.origin,
                        .share_limit = found.limit,
                        .reserved = 0,
                        .prompt_text = {},
                        .cached_text = {}};
               std::memcpy(info->prompt_text, found.prompt_text, sizeof info->prompt_text - 1);
               std::memcpy(info->cached_text, found.cached_text, sizeof info->cached_text - 1);
               return {};
             });
}

}  // namespace
}  // namespace kvd

using namespace kvd;

int kvd_why(kvd_client* client, const kvd_token* tokens, size_t token_count, kvd_why_info* info) {
  return CallBody([&] { return Why(client, tokens, token_count, info, nullptr); });
}
int kvd_why_submit(kvd_client* client, const kvd_token* tokens, size_t token_count,
                   kvd_why_info* info, kvd_request* request) {
  return SubmitBody(request, [&] { return Why(client, tokens, token_count, info, request); });
}
