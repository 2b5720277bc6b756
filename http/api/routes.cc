#include "http/api/routes.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "http/api/llama_completion.h"
#include "http/serve/request.h"

namespace kvd::http {

void AddRoutes(Gateway& gateway, Router& router) {
  AddRefusedRoutes(router);
  AddHealthRoutes(gateway, router);
  AddPageRoutes(gateway, router);
  AddModelRoutes(gateway, router);
  AddPropsRoutes(gateway, router);
  AddTokenizeRoutes(gateway, router);
  AddTemplateRoutes(gateway, router);
  AddLlamaCompletionRoutes(gateway, router);
  AddOpenAiCompletionRoutes(gateway, router);
  AddOpenAiChatRoutes(gateway, router);
  AddInfillRoutes(gateway, router);
  AddEmbeddingRoutes(gateway, router);
  AddRerankRoutes(gateway, router);
  AddSlotRoutes(gateway, router);
  AddMetricsRoutes(gateway, router);
  AddLoraRoutes(gateway, router);
  AddMessagesRoutes(gateway, router);
  AddResponsesRoutes(gateway, router);
  // Last, because it makes the routes before it resumable.
  AddStreamRoutes(gateway, router);
}

// The routes of llama-server, OpenAI and Ollama that kvd does not serve. Each answers 501 with what
// is not supported, so that a client does not take the gateway for one that lacks the path.

namespace {

struct Refused {
  std::string_view method;
  std::string_view path;
  std::string_view feature;
};

constexpr std::string_view kRouter = "llama-server's router of several model processes";
constexpr std::string_view kAudio = "audio";
constexpr std::string_view kImages = "making images";
constexpr std::string_view kTools = "tools that the server runs (web tools, MCP)";
constexpr std::string_view kOllama = "Ollama's interface";

constexpr Refused kRefused[] = {
    {"POST", "/models", kRouter},
    {"DELETE", "/models", kRouter},
    {"POST", "/models/load", kRouter},
    {"POST", "/models/unload", kRouter},
    {"GET", "/models/sse", kRouter},
    {"POST", "/v1/chat/completions/control", "control of an answer that is being written"},
    {"POST", "/audio/transcriptions", kAudio},
    {"POST", "/v1/audio/transcriptions", kAudio},
    {"POST", "/v1/audio/translations", kAudio},
    {"POST", "/v1/audio/speech", kAudio},
    {"POST", "/v1/images/generations", kImages},
    {"POST", "/v1/images/edits", kImages},
    {"POST", "/v1/images/variations", kImages},
    {"POST", "/v1/videos", kImages},
    {"POST", "/v1/moderations", "moderation"},
    {"GET", "/tools", kTools},
    {"POST", "/tools", kTools},
    {"GET", "/cors-proxy", kTools},
    {"POST", "/cors-proxy", kTools},
    {"GET", "/mcp", kTools},
    {"POST", "/mcp", kTools},
    {"GET", "/api/tags", kOllama},
    {"POST", "/api/show", kOllama},
    {"POST", "/api/chat", kOllama},
    {"POST", "/api/generate", kOllama},
};

Await<void> Refuse(const Refused& refused, Responder& responder) {
  GatewayReply reply =
      ErrorReply(501, Concat(refused.path, ": ", refused.feature, " is not supported by kvd"));
  co_await responder.Send(std::move(reply));
}

}  // namespace

void AddRefusedRoutes(Router& router) {
  for (const Refused& refused : kRefused) {
    router.Add(
        {.method = std::string(refused.method),
         .pattern = std::string(refused.path),
         .access = RouteAccess::kKey,
         .handler = [&refused](const Request&, const std::vector<std::string>&,
                               Responder& responder) { return Refuse(refused, responder); }});
  }
}

}  // namespace kvd::http
