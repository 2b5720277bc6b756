// Reads any bytes as the requests of one connection, with small limits, and checks each by a router
// and an access. The first byte is the length of the pieces in which the bytes arrive.
//
// Oracle, in addition to the sanitizers: the parser takes no more than it is given; a request that
// is read has a path, at most as many headers and body bytes as allowed, and UTF-8 in its target;
// an error has a message and one of the statuses of limits.h; the bytes in one piece give the same
// requests. Seeds: make_corpus http_request FOLDER.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "http/serve/access.h"
#include "http/serve/ip_address.h"
#include "http/serve/request_parser.h"
#include "http/serve/router.h"

namespace {

using namespace kvd;
using namespace kvd::http;

constexpr std::size_t kRequestsMax = 8;

ServeLimits SmallLimits() {
  ServeLimits limits;
  limits.target_bytes_max = 64;
  limits.header_bytes_max = 512;
  limits.header_count_max = 8;
  limits.body_bytes_max = 256;
  return limits;
}

const ServeLimits kLimits = SmallLimits();

Router MakeRouter() {
  Router router;
  for (const char* pattern : {"/", "/a", "/a/{}", "/a/{}/b", "/r/{*}"}) {
    router.Add(Route{.method = "GET", .pattern = pattern});
    router.Add(Route{.method = "POST", .pattern = pattern});
  }
  return router;
}

bool IsKnownStatus(int status) {
  constexpr int kStatuses[] = {400, 411, 413, 414, 415, 417, 431, 501, 505};
  return std::ranges::find(kStatuses, status) != std::end(kStatuses);
}

void CheckRequest(RequestParser& parser) {
  Request& request = parser.request();
  KVD_ASSERT(request.path.starts_with('/') || request.path == "*");
  KVD_ASSERT(IsValidUtf8(request.path));
  for (const auto& [name, value] : request.query) {
    KVD_ASSERT(IsValidUtf8(name) && IsValidUtf8(value));
  }
  KVD_ASSERT(request.headers.size() <= kLimits.header_count_max + 1);  // Host of the target
  KVD_ASSERT(request.body.size() <= kLimits.body_bytes_max);
  KVD_ASSERT(request.body.size() == parser.body_bytes());
  KVD_ASSERT(parser.is_http_1_0() || request.headers.size() > 0);

  static const Router kRouter = MakeRouter();
  static const AccessRules kOpen(AccessOptions{.cors_origins = "http://a, localhost"});
  static const AccessRules kKeyed(AccessOptions{.check_key = CheckKeyList({"k"}, "team")});
  const Router::Match match = kRouter.Find(request.method, request.path);
  for (const std::string& part : match.parts) {
    KVD_ASSERT(!part.empty() && request.path.find(part) != std::string::npos);
  }
  const auto page = kOpen.Refuse(request, RouteAccess::kKey);
  KVD_ASSERT(!page || page->status == 403);
  const auto key = kKeyed.Refuse(request, RouteAccess::kKey);
  KVD_ASSERT(key ? key->status == 401 : request.key == "k" && request.tenant == "team");
  (void)kOpen.CorsHeaders(request.header("Origin"));
  if (const auto address = ForwardedAddress(request.headers)) {
    KVD_ASSERT(address->limit_key().size() == (address->is_ipv4() ? 4 : 8));
  }
}

// The bytes of a connection, which arrive in pieces.
class Input {
 public:
  Input(std::string_view bytes, std::size_t piece_bytes)
      : bytes_(bytes), piece_bytes_(piece_bytes) {}

  std::string_view waiting() const {
    return bytes_.substr(taken_bytes_, arrived_bytes_ - taken_bytes_);
  }
  void Take(std::size_t byte_count) {
    KVD_ASSERT(byte_count <= waiting().size());
    taken_bytes_ += byte_count;
  }
  bool ReadMore() {
    if (arrived_bytes_ == bytes_.size()) return false;
    arrived_bytes_ += std::min(piece_bytes_, bytes_.size() - arrived_bytes_);
    return true;
  }

 private:
  const std::string_view bytes_;
  const std::size_t piece_bytes_;
  std::size_t taken_bytes_ = 0;
  std::size_t arrived_bytes_ = 0;
};

// What a connection reads: its requests, and the status at which it ends.
struct Outcome {
  std::vector<std::string> requests;
  int status = 0;
};

// Returns false if the bytes end before a request begins.
bool SkipToRequest(Input& input) {
  while (true) {
    input.Take(EmptyLineBytes(input.waiting()));
    if (!input.waiting().empty() && input.waiting() != "\r") return true;
    if (!input.ReadMore()) return false;
  }
}

Outcome ReadRequests(Input input) {
  Outcome outcome;
  while (outcome.requests.size() < kRequestsMax && SkipToRequest(input)) {
    RequestParser parser(kLimits);
    while (!parser.is_done()) {
      const auto taken = parser.Put(input.waiting());
      if (!taken) {
        KVD_ASSERT(IsKnownStatus(taken.error().status) && !taken.error().message.empty());
        outcome.status = taken.error().status;
        return outcome;
      }
      input.Take(*taken);
      if (*taken == 0 && !input.ReadMore()) return outcome;
    }
    CheckRequest(parser);
    outcome.requests.push_back(parser.request().method + parser.request().path +
                               parser.request().body);
    if (!parser.keeps_connection()) break;
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, byte_count - 1);
  const Outcome pieces = ReadRequests(Input(bytes, data[0] + 1u));
  const Outcome whole = ReadRequests(Input(bytes, bytes.size()));
  // In pieces, Beast waits for the end of headers that are known to be wrong in one piece, and it
  // refuses headers that do not end within the limit.
  const std::size_t common = std::min(pieces.requests.size(), whole.requests.size());
  KVD_ASSERT(std::equal(pieces.requests.begin(), pieces.requests.begin() + common,
                        whole.requests.begin()));
  KVD_ASSERT(pieces.requests.size() == whole.requests.size() || whole.status == 400 ||
             pieces.status == 431 || pieces.status == 414);
  return 0;
}
