// ResponseRun: one request of POST /v1/responses.
//
// A response that is stored is a file with the response, the items of its conversation and its
// tokens. While it is made, the file has its status, so that a GET finds it. Its cells become a
// snapshot (api/response_snapshots.h), named after the response, so that the next request finds
// them; when the snapshot is gone, the next request computes them again from the items.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "http/answer/chat_answer.h"
#include "http/answer/gateway.h"
#include "http/answer/response_store.h"
#include "http/api/chat_reader.h"
#include "http/api/responses_writer.h"
#include "http/loop/await.h"
#include "http/serve/request.h"
#include "text/value.h"

namespace kvd::http {

// The id of the response that a request makes.
std::string ResponseId(const Request& request);

class ResponseRun {
 public:
  // Reads the request. Errors: kInvalidArgument, kNotFound (previous_response_id), kUnsupported.
  static Await<Result<std::unique_ptr<ResponseRun>>> Create(Gateway& gateway, ResponseStore& store,
                                                            const Request& request);

  const ReplyFields& reply_fields() const { return call_.reply; }
  bool is_stream() const { return call_.reply.is_stream; }
  bool is_stored() const { return is_stored_; }
  bool is_background() const { return is_background_; }
  const ResponseBegin& begin() const { return begin_; }

  // Stores the response as it is before its answer.
  Status StoreBegun(std::string_view status) const;
  // Answers, and sends the events of a stream. An error before the first event is a reply.
  Await<void> Stream(Responder& responder);
  // Answers, and sends the whole response.
  Await<void> Whole(Responder& responder);
  // The number of tokens of the prompt, instead of an answer. REQUIRES: the last call on the run.
  Await<Result<std::size_t>> CountTokens();

 private:
  ResponseRun(Gateway& gateway, ResponseStore& store, const Request& request)
      : gateway_(gateway), store_(store), request_(request) {}

  Await<Status> Read();
  // Starts the answer. Errors become replies.
  Await<std::unique_ptr<ChatAnswer>> Start(Responder& responder);
  // `tokens`: of the prompt and the answer; missing: there is no complete answer.
  Status Store(const Value& response, const std::vector<Value>& output,
               const Value& tokens = {}) const;
  // Stores the whole response and publishes its cells, if the client wants it stored. Errors: those
  // of the store; nothing is stored then.
  Await<Status> Keep(const ChatAnswer& answer);
  // Stores that the response has failed or was cancelled.
  Status StoreFailed(const Error& error) const;

  Gateway& gateway_;
  ResponseStore& store_;
  const Request& request_;
  TenantSession* tenant_ = nullptr;
  ChatCall call_;
  ResponseBegin begin_;
  std::vector<Value> earlier_;  // items of the conversation before this request
  std::vector<Value> input_;
  bool is_stored_ = true;
  bool is_background_ = false;
};

}  // namespace kvd::http
