// generation_settings: the fields of a request with their values, as llama-server's replies show
// them.
#pragma once

#include "http/answer/answer_request.h"
#include "http/answer/served_model.h"
#include "http/api/reply_fields.h"
#include "text/value.h"

namespace kvd::http {

// What is shown: everything, or, as in GET /slots and GET /props, no texts and lists.
enum class SettingsShown : bool { kNumbers, kAll };

Value GenerationSettings(const ServedModel& model, const AnswerRequest& request,
                         const ReplyFields& reply, SettingsShown shown);

}  // namespace kvd::http
