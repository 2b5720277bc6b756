// ReplyFields: what a request says about the format of its reply, rather than about the answer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "http/api/fields.h"
#include "http/options/settings.h"

namespace kvd::http {

struct ReplyFields {
  static constexpr std::uint32_t kCountMax = 64;
  static constexpr std::size_t kPromptsMax = 1024;  // of one request

  bool is_stream = false;
  bool has_usage = false;          // stream_options.include_usage
  std::uint32_t count = 1;         // n_cmpl, n: answers to each prompt
  bool has_tokens = false;         // return_tokens
  bool has_timings = false;        // timings_per_token: in each event of a stream
  bool has_progress = false;       // return_progress: of the prompt, in a stream
  std::uint32_t top_count = 0;     // n_probs, top_logprobs: the most likely tokens that are shown
  bool has_sampled_probs = false;  // post_sampling_probs: probabilities after the samplers
  bool is_verbose = false;         // a member __verbose
  std::uint32_t indent = 0;        // n_indent; 0: none
  std::vector<std::string> paths;  // response_fields; empty: all
  std::chrono::seconds ping_time{0};  // sse_ping_interval: of comments in a silent stream; 0: none
};

// Errors: kInvalidArgument, with the field's name.
Result<ReplyFields> ReadReplyFields(const Fields& fields, const Settings& settings);

}  // namespace kvd::http
