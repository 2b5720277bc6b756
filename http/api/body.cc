#include "http/api/body.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "http/api/fields.h"
#include "text/json.h"

namespace kvd::http {
namespace {

// A longer body is parsed on a worker.
constexpr std::size_t kLoopBytesMax = std::size_t{64} << 10;

Result<Value> Parse(std::string_view body) {
  if (!IsValidUtf8(body)) return Fail(Code::kInvalidArgument, "body: not valid UTF-8");
  JsonLimits limits;
  limits.nesting_max = kBodyNestingMax;
  auto value = ParseJson(body, limits);
  if (!value) return Fail(Code::kInvalidArgument, "body: ", value.error().message);
  if (!value->is_dict()) return Fail(Code::kInvalidArgument, "body: not a JSON object");
  return value;
}

}  // namespace

Await<Result<Value>> ParseBody(const Request& request, Workers& workers) {
  const std::string_view body = request.body;
  if (body.size() <= kLoopBytesMax) co_return Parse(body);
  const auto parse = [body] { return Parse(body); };
  co_return co_await workers.Run(parse);
}

}  // namespace kvd::http
