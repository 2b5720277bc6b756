// A request's inputs may be more than one verb takes, so they are embedded in groups that fit the
// session's arenas.
#include "http/api/routes.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "http/api/embedding_writer.h"
#include "http/api/fields.h"
#include "http/api/route_kinds.h"
#include "http/api/text_tokens.h"

namespace kvd::http {
namespace {

constexpr char kUnserved[] =
    "This server does not support embeddings. Start it with `--embeddings`";
constexpr char kNoPooling[] =
    "Pooling type 'none' is not OAI compatible. Please use a different pooling type";
// A reply with more values is written on a worker.
constexpr std::size_t kLoopValuesMax = 16384;

using TokenLists = std::vector<std::vector<TokenId>>;

struct EmbeddingRequest {
  EmbeddingStyle style;
  std::int32_t norm = kEuclideanNorm;
  std::optional<std::int64_t> dimensions;  // the first ones of each embedding
  std::optional<wire::PoolingChoice> pooling;
  TokenLists inputs;
};

std::optional<wire::PoolingChoice> PoolingOf(const Settings& settings) {
  constexpr std::string_view kNames[] = {"none", "mean", "cls", "last", "rank"};
  const auto found = std::ranges::find(kNames, std::string_view(settings.pooling));
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<wire::PoolingChoice>(found - std::begin(kNames));
}

Await<Result<EmbeddingRequest>> ReadRequest(RouteCall call, const Value& body,
                                            TenantSession& tenant, bool is_openai) {
  const Fields fields(body);
  const Settings& settings = call.gateway.settings();
  EmbeddingRequest request;
  request.norm = settings.embedding_norm;
  request.pooling = PoolingOf(settings);
  request.style.is_openai = is_openai;
  std::string path = "input";
  Value input = fields.Find("input");
  if (input.is_missing()) {
    input = fields.Find("content");
    path = "content";
    request.style.is_openai = false;
  }
  if (input.is_missing()) {
    co_return Fail(Code::kInvalidArgument, R"("input" or "content" must be provided)");
  }
  KVD_CO_TRY(const std::string format, fields.String("encoding_format", "float"));
  if (format != "float" && format != "base64") {
    co_return Fail(Code::kInvalidArgument, "encoding_format: float or base64 is needed, not \"",
                   format, "\"");
  }
  if (format == "base64") request.style.format = EmbeddingFormat::kBase64;
  KVD_CO_TRY(request.style.model, fields.String("model", tenant.model().id()));
  KVD_CO_TRY(const std::int64_t norm,
             fields.Int("embd_normalize", request.norm, kNoNorm, kHighestNorm));
  request.norm = static_cast<std::int32_t>(norm);
  KVD_CO_TRY(request.dimensions, fields.OptionalInt("dimensions", 1, 1 << 20));
  KVD_CO_TRY(const auto session, tenant.session());
  const TextReading reading{.adds_special = true, .parses_special = true};
  const std::uint32_t vocab_size = tenant.model().info().vocab_size;
  KVD_CO_TRY(request.inputs, co_await TokenListsOf(*session, vocab_size, input, path, reading));
  co_return request;
}

Status CheckInputs(const TokenLists& inputs, std::uint32_t tokens_max) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) return Fail(Code::kInvalidArgument, "Input content cannot be empty");
    if (inputs[i].size() > tokens_max) {
      return Fail(Code::kInvalidArgument, "input[", i, "] (", inputs[i].size(),
                  " tokens) is too large to process; the model reads at most ", tokens_max,
                  " tokens");
    }
  }
  return {};
}

// How many of the inputs from `first` on one verb takes; at least one.
std::size_t GroupSize(const EmbeddingRequest& request, std::size_t first, std::size_t width,
                      std::size_t request_bytes) {
  std::size_t count = 0, tokens = 0, rows = 0;
  while (first + count < request.inputs.size() && count < wire::kEmbedTextsMax) {
    const std::size_t more = request.inputs[first + count].size();
    tokens += more;
    rows += request.pooling == wire::PoolingChoice::kNone ? more : 1;
    const bool fits = tokens <= wire::kEmbedTokensMax &&
                      (tokens + count + 2) * sizeof(TokenId) <= request_bytes / 2 &&
                      rows * width * sizeof(float) <= wire::kResultArenaBytesDefault / 2;
    if (count != 0 && !fits) break;
    ++count;
  }
  return count;
}

Await<Result<std::vector<TextEmbedding>>> EmbedAll(RouteCall call, TenantSession& tenant,
                                                   EmbeddingRequest& request) {
  KVD_CO_TRY(const auto session, tenant.session());
  const std::size_t request_bytes = session->client().connection()->request_arena_bytes();
  Metrics& metrics = tenant.metrics();
  std::vector<TextEmbedding> embeddings;
  std::size_t width = tenant.model().info().embedding_size;
  for (std::size_t first = 0; first < request.inputs.size();) {
    if (call.responder.is_gone()) co_return Fail(Code::kCancelled, "the client is gone");
    const std::size_t count = GroupSize(request, first, width, request_bytes);
    TokenLists group;
    for (std::size_t i = first; i < first + count; ++i) {
      metrics.prompt_tokens_computed += request.inputs[i].size();
      request.style.prompt_tokens += request.inputs[i].size();
      group.push_back(std::move(request.inputs[i]));
    }
    const auto start = std::chrono::steady_clock::now();
    auto embedded = co_await session->Embed(std::move(group), request.pooling, 0);
    if (!embedded) co_return std::unexpected(std::move(embedded).error());
    metrics.prompt_time += std::chrono::steady_clock::now() - start;
    ++metrics.pieces;
    for (TextEmbedding& embedding : *embedded) embeddings.push_back(std::move(embedding));
    width = std::max(width, embeddings.back().width);
    first += count;
  }
  co_return embeddings;
}

// Cuts and normalises pooled embeddings. Embeddings of single tokens are not changed, as in
// llama-server. Errors: kInvalidArgument: more dimensions than the model has.
Status Finish(const EmbeddingRequest& request, std::vector<TextEmbedding>& embeddings) {
  for (TextEmbedding& embedding : embeddings) {
    if (request.pooling == wire::PoolingChoice::kNone || embedding.row_count != 1) continue;
    if (request.dimensions) {
      const auto wanted = static_cast<std::size_t>(*request.dimensions);
      if (wanted > embedding.width) {
        return Fail(Code::kInvalidArgument, "dimensions: ", wanted, ", the model has ",
                    embedding.width);
      }
      embedding.values.resize(wanted);
      embedding.width = wanted;
    }
    if (request.pooling != wire::PoolingChoice::kRank) {
      NormaliseRow(embedding.values, request.norm);
    }
  }
  return {};
}

Await<Result<GatewayReply>> Embed(RouteCall call, bool is_openai) {
  const Settings& settings = call.gateway.settings();
  if (!settings.is_embedder && !settings.is_reranker && settings.daemons.empty()) {
    co_return Fail(Code::kUnsupported, kUnserved);
  }
  if (is_openai && settings.pooling == "none") co_return Fail(Code::kInvalidArgument, kNoPooling);
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(EmbeddingRequest request, co_await ReadRequest(call, body, *tenant, is_openai));
  KVD_CO_CHECK_OK(CheckInputs(request.inputs, tenant->model().info().context_trained));
  KVD_CO_TRY(std::vector<TextEmbedding> embeddings, co_await EmbedAll(call, *tenant, request));
  const auto has_rows = [](const TextEmbedding& embedding) { return embedding.row_count != 1; };
  if (request.style.is_openai && std::ranges::any_of(embeddings, has_rows)) {
    co_return Fail(Code::kInvalidArgument, kNoPooling);
  }
  KVD_CO_CHECK_OK(Finish(request, embeddings));
  std::size_t value_count = 0;
  for (const TextEmbedding& embedding : embeddings) value_count += embedding.values.size();
  const auto write = [&] { return EmbeddingsBody(embeddings, request.style); };
  GatewayReply reply;
  if (value_count <= kLoopValuesMax) {
    reply.body = write();
  } else {
    reply.body = co_await call.gateway.workers().Run(write);
  }
  co_return reply;
}

Await<Result<GatewayReply>> EmbedForLlama(RouteCall call) { return Embed(call, false); }
Await<Result<GatewayReply>> EmbedForOpenai(RouteCall call) { return Embed(call, true); }

}  // namespace

void AddEmbeddingRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "POST", {"/embedding", "/embeddings"}, EmbedForLlama);
  AddPlainRoutes(gateway, router, "POST", {"/v1/embeddings"}, EmbedForOpenai);
}

}  // namespace kvd::http
