// The flags of the server: where it listens, who may use it, and what it offers.
#include <sys/stat.h>

#include <array>
#include <sstream>

#include "http/options/parse_flags.h"

namespace kvd::http {
namespace {

constexpr std::int64_t kSecondsMax = 1 << 30;

Status TakeKeys(Settings& settings, const FlagValue& value) {
  // An empty list gives no key, so that "--api-key $KEY" without a key fails when it is checked.
  for (std::string& key : value.List()) settings.api_keys.push_back(std::move(key));
  return {};
}

Status TakeKeyFile(Settings& settings, const FlagValue& value) {
  KVD_TRY(std::string text, value.FileText());
  std::istringstream lines(std::move(text));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line.front() != '#') settings.api_keys.push_back(line);
  }
  return {};
}

Status TakeSlotDirectory(Settings& settings, const FlagValue& value) {
  struct stat found{};
  if (::stat(std::string(value.text).c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return value.Wrong("a directory");
  }
  settings.slot_directory = value.text;
  return {};
}

Status TakeTrustedProxies(Settings& settings, const FlagValue& value) {
  std::vector<std::string> networks = value.List();
  if (networks.empty()) return value.Wrong("a list of networks");
  for (std::string& network : networks) settings.trusted_proxies.push_back(std::move(network));
  return {};
}

Status TakePathPrefix(Settings& settings, const FlagValue& value) {
  std::string_view prefix = value.text;
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty() && !prefix.starts_with('/')) return value.Wrong("a path that begins with /");
  settings.path_prefix = prefix;
  return {};
}

Status TakeSeconds(std::chrono::seconds& seconds, const FlagValue& value, std::int64_t least) {
  KVD_TRY(const std::int64_t number, value.Integer(least, kSecondsMax));
  seconds = std::chrono::seconds(number);
  return {};
}

constexpr std::array kServerFlags = {
    Flag{.names = "--host",
         .argument = "HOST",
         .environment = "LLAMA_ARG_HOST",
         .help = "address to listen on, or a unix socket: unix:PATH, or a path that ends with "
                 ".sock [127.0.0.1]",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.host); }},
    Flag{.names = "--port",
         .argument = "PORT",
         .environment = "LLAMA_ARG_PORT",
         .help = "port to listen on; 0: one that is free [8080]",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.Number(settings.port, 0, 65535); }},
    Flag{.names = "--api-prefix",
         .argument = "PREFIX",
         .environment = "LLAMA_ARG_API_PREFIX",
         .help = "path that stands before the path of every route",
         .take = TakePathPrefix},
    Flag{.names = "--api-key",
         .argument = "KEYS",
         .environment = "LLAMA_API_KEY",
         .help = "keys of requests, between commas; all of them are one tenant",
         .take = TakeKeys},
    Flag{.names = "--api-key-file",
         .argument = "FNAME",
         .environment = "LLAMA_ARG_API_KEY_FILE",
         .help = "file with one key in each line; lines that begin with # are comments",
         .take = TakeKeyFile},
    Flag{.names = "--tenants",
         .argument = "FILE",
         .help = "file of the tenants with their keys, models and limits (docs/http.md); SIGHUP "
                 "reads it again",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.tenants_path); }},
    Flag{.names = "--make-key",
         .argument = "NAME",
         .help = "print a new key and the tenant NAME with it for --tenants, and exit",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.make_key); }},
    Flag{.names = "--no-auth",
         .help = "listen on an address other than loopback without keys",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.no_auth = true;
           return {};
         }},
    Flag{.names = "--ssl-key-file",
         .argument = "FNAME",
         .environment = "LLAMA_ARG_SSL_KEY_FILE",
         .help = "private key for TLS (PEM)",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.key_file); }},
    Flag{.names = "--ssl-cert-file",
         .argument = "FNAME",
         .environment = "LLAMA_ARG_SSL_CERT_FILE",
         .help = "certificate for TLS (PEM)",
         .take = [](Settings& settings,
                    const FlagValue& value) { return value.NonEmpty(settings.certificate_file); }},
    Flag{.names = "--cors-origins",
         .argument = "ORIGINS",
         .environment = "LLAMA_ARG_CORS_ORIGINS",
         .help = "origins of web pages that may use the server, between commas; localhost: those "
                 "of loopback; *: all",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.cors_origins = std::string(value.text);
           return {};
         }},
    Flag{.names = "--trusted-proxy",
         .argument = "CIDRS",
         .help = "networks of proxies, between commas: the last address of X-Forwarded-For is that "
                 "of the client [none]",
         .take = TakeTrustedProxies},
    Flag{.names = "-to --timeout",
         .argument = "SECONDS",
         .environment = "LLAMA_ARG_TIMEOUT",
         .help = "time without progress of a client that sends or reads [3600]",
         .take = [](Settings& settings,
                    const FlagValue& value) { return TakeSeconds(settings.io_timeout, value, 1); }},
    Flag{.names = "--sse-ping-interval",
         .argument = "SECONDS",
         .environment = "LLAMA_ARG_SSE_PING_INTERVAL",
         .help = "time after which a silent stream gets a comment; -1: never [30]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return TakeSeconds(settings.ping_interval, value, -1);
             }},
    Flag{.names = "--ui --webui",
         .negatives = "--no-ui --no-webui",
         .environment = "LLAMA_ARG_UI",
         .help = "serve a page for browsers at / [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.serves_page = value.is_on;
           return {};
         }},
    Flag{.names = "--slots",
         .negatives = "--no-slots",
         .environment = "LLAMA_ARG_ENDPOINT_SLOTS",
         .help = "serve GET /slots [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.serves_slots = value.is_on;
           return {};
         }},
    Flag{.names = "--metrics",
         .environment = "LLAMA_ARG_ENDPOINT_METRICS",
         .help = "serve GET /metrics",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.serves_metrics = true;
           return {};
         }},
    Flag{.names = "--props",
         .environment = "LLAMA_ARG_ENDPOINT_PROPS",
         .help = "serve POST /props",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.changes_props = true;
           return {};
         }},
    Flag{.names = "--slot-save-path",
         .argument = "PATH",
         .help = "directory of saved slots; default: slots cannot be saved",
         .take = TakeSlotDirectory},
    Flag{.names = "--slot-save-bytes",
         .argument = "N",
         .help = "bytes of the saved slots of a tenant; no limit without --tenants [17179869184]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.slot_bytes, 0, std::int64_t{1} << 50);
             }},
    Flag{.names = "--response-bytes",
         .argument = "N",
         .help = "bytes of cells that the snapshots of a tenant's stored responses hold; the "
                 "oldest are dropped [1073741824]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.response_bytes, 0, std::int64_t{1} << 50);
             }},
    Flag{.names = "--embedding --embeddings",
         .environment = "LLAMA_ARG_EMBEDDINGS",
         .help = "serve embeddings",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.is_embedder = true;
           return {};
         }},
    Flag{.names = "--rerank --reranking",
         .environment = "LLAMA_ARG_RERANKING",
         .help = "serve ranking",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.is_embedder = true;
           settings.is_reranker = true;
           settings.pooling = "rank";
           return {};
         }},
    Flag{.names = "--pooling",
         .argument = "TYPE",
         .environment = "LLAMA_ARG_POOLING",
         .help = "pooling of embeddings: none, mean, cls, last or rank; default: the model's",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_CHECK_OK(value.Choice("none mean cls last rank"));
           settings.pooling = value.text;
           return {};
         }},
    Flag{.names = "--embd-normalize",
         .argument = "N",
         .help = "norm of embeddings; -1: none, 0: largest element, 1: taxicab, 2: Euclidean [2]",
         .take =
             [](Settings& settings, const FlagValue& value) {
               return value.Number(settings.embedding_norm, -1, 100);
             }},
    Flag{.names = "--cache-prompt",
         .negatives = "--no-cache-prompt",
         .environment = "LLAMA_ARG_CACHE_PROMPT",
         .help = "reuse cached prefixes of prompts [on]",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           settings.defaults.caches_prompt = value.is_on;
           return {};
         }},
    Flag{.names = "-v --log-verbose --verbose",
         .help = "replies of /completion and of chats have __verbose",
         .take = [](Settings& settings, const FlagValue&) -> Status {
           settings.is_verbose = true;
           return {};
         }},
    Flag{.names = "-lv --log-verbosity --verbosity",
         .argument = "N",
         .environment = "LLAMA_ARG_LOG_VERBOSITY",
         .help = "above 9: as --verbose",
         .take = [](Settings& settings, const FlagValue& value) -> Status {
           KVD_TRY(const std::int64_t level, value.Integer(-1, 0x7fffffff));
           settings.is_verbose = level > 9;
           return {};
         }},
};

}  // namespace

std::span<const Flag> ServerFlags() { return kServerFlags; }

}  // namespace kvd::http
