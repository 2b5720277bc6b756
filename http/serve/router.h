// Router: which handler serves a method and a path.
//
// Paths are compared whole; a part "{}" of a pattern stands for one part of the path, and "{*}" at
// the end of a pattern for one or more parts ("org/model"). The handler receives what they stand
// for; it is never empty. A path without any handler is 404, a path that has handlers of other
// methods only is 405 with an Allow header. Of several routes that match, the first one serves.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/loop/await.h"
#include "http/serve/request.h"

namespace kvd::http {

// What a route needs of the caller.
enum class RouteAccess : unsigned char {
  kPublic,  // served without a key, and without the body of the request: /health
  kKey,     // needs one of the keys, if the server has keys
};

// `parts`: the parts of the path that stand at "{}" and "{*}". The request, the parts and the
// responder live until the handler returns.
using Handler = std::function<Await<void>(
    const Request& request, const std::vector<std::string>& parts, Responder& responder)>;

struct Route {
  std::string method;  // "GET", "POST", "DELETE"
  std::string pattern;
  RouteAccess access = RouteAccess::kKey;
  Handler handler = {};
};

class Router {
 public:
  // REQUIRES: no server uses the router yet.
  void Add(Route route) { routes_.push_back(std::move(route)); }
  const std::vector<Route>& routes() const { return routes_; }
  // For handlers that are wrapped after all routes were added. REQUIRES: as Add.
  std::vector<Route>& routes() { return routes_; }

  struct Match {
    const Route* route = nullptr;      // null: no route
    std::vector<std::string> parts;    // with a route
    std::vector<std::string> methods;  // without a route: methods of other routes with this path
  };
  // HEAD is matched as GET.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace kvd::http
