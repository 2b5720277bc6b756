#include "http/api/reply_fields.h"

#include <limits>

namespace kvd::http {
namespace {

constexpr std::int64_t kFieldMax = std::numeric_limits<std::int32_t>::max();

// "stream_options" is read if it is an object, as llama-server does.
Result<bool> IncludesUsage(const Fields& fields) {
  const Value& options = fields.Find("stream_options");
  if (options.is_missing()) return false;
  if (!options.is_dict()) return fields.Wrong("stream_options", "an object", options);
  return Fields(options, fields.PathOf("stream_options.")).Bool("include_usage", false);
}

Result<std::uint32_t> CountOf(const Fields& fields) {
  const std::string_view name = fields.Has("n_cmpl") ? "n_cmpl" : "n";
  KVD_TRY(const std::int64_t count, fields.Int(name, 1, 1, ReplyFields::kCountMax));
  return static_cast<std::uint32_t>(count);
}

}  // namespace

Result<ReplyFields> ReadReplyFields(const Fields& fields, const Settings& settings) {
  ReplyFields reply;
  KVD_TRY(reply.is_stream, fields.Bool("stream", false));
  KVD_TRY(reply.has_usage, IncludesUsage(fields));
  KVD_TRY(reply.count, CountOf(fields));
  KVD_TRY(reply.has_tokens, fields.Bool("return_tokens", false));
  KVD_TRY(reply.has_timings, fields.Bool("timings_per_token", false));
  KVD_TRY(reply.has_progress, fields.Bool("return_progress", false));
  KVD_TRY(reply.has_sampled_probs, fields.Bool("post_sampling_probs", false));
  KVD_TRY(reply.is_verbose, fields.Bool("verbose", settings.is_verbose));
  KVD_TRY(const std::int64_t indent, fields.Int("n_indent", 0, 0, kFieldMax));
  reply.indent = static_cast<std::uint32_t>(indent);
  KVD_TRY(reply.paths, fields.Strings("response_fields"));
  KVD_TRY(const std::int64_t ping,
          fields.Int("sse_ping_interval", settings.ping_interval.count(), -1, kFieldMax));
  reply.ping_time = std::chrono::seconds(ping > 0 ? ping : 0);
  return reply;
}

}  // namespace kvd::http
