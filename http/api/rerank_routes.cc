// The documents may be more than one verb takes, so they are ranked in groups that fit the
// session's request arena.
#include "http/api/routes.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/route_kinds.h"

namespace kvd::http {
namespace {

constexpr char kRankingUnserved[] =
    "This server does not support reranking. Start it with `--reranking`";

struct RerankRequest {
  std::string query;
  std::vector<std::string> documents;
  bool is_tei = false;             // the reply has the form of Text Embeddings Inference
  bool returns_documents = false;  // return_text, return_documents
  std::size_t count_max = 0;       // top_n
  std::string model;
};

struct Ranking {
  std::vector<float> scores;
  std::uint64_t tokens = 0;
};

// A document is a text, or an object with a "text", as Jina has them.
Result<std::vector<std::string>> DocumentsOf(const Value& list, std::string_view name) {
  std::vector<std::string> documents;
  if (list.is_list()) {
    for (const Value& item : list.items()) {
      const Value& text = item.is_dict() ? item.dict().Find("text") : item;
      if (!text.is_string()) {
        documents.clear();
        break;
      }
      documents.emplace_back(text.view());
    }
  }
  if (!documents.empty()) return documents;
  return Fail(Code::kInvalidArgument, "\"", name, "\" must be a non-empty string array");
}

Result<RerankRequest> ReadRerankRequest(const Value& body, const ServedModel& model) {
  const Fields fields(body);
  RerankRequest request;
  request.is_tei = fields.Has("texts");
  if (!fields.Has("query")) {
    return Fail(Code::kInvalidArgument, R"("query" must be provided)");
  }
  KVD_TRY(request.query, fields.String("query"));
  const bool has_texts_only = request.is_tei && !fields.Has("documents");
  const char* const name = has_texts_only ? "texts" : "documents";
  KVD_TRY(request.documents, DocumentsOf(fields.Find(name), name));
  KVD_TRY(const std::int64_t count_max,
          fields.Int("top_n", static_cast<std::int64_t>(request.documents.size()), 0,
                     std::numeric_limits<std::int32_t>::max()));
  request.count_max = static_cast<std::size_t>(count_max);
  KVD_TRY(request.returns_documents,
          fields.Bool(request.is_tei ? "return_text" : "return_documents", false));
  KVD_TRY(request.model, fields.String("model", model.id()));
  return request;
}

Await<Result<Ranking>> Rank(RouteCall call, TenantSession& tenant, const RerankRequest& request) {
  KVD_CO_TRY(const auto session, tenant.session());
  const std::size_t bytes_max = session->client().connection()->request_arena_bytes() / 2;
  Metrics& metrics = tenant.metrics();
  Ranking ranking;
  while (ranking.scores.size() < request.documents.size()) {
    if (call.responder.is_gone()) co_return Fail(Code::kCancelled, "the client is gone");
    std::vector<std::string_view> texts = {request.query};
    std::size_t byte_count = request.query.size();
    for (std::size_t i = ranking.scores.size(); i < request.documents.size(); ++i) {
      byte_count += request.documents[i].size() + sizeof(std::uint32_t);
      const std::size_t count = texts.size() - 1;
      if (count == wire::kRankDocumentsMax || (count != 0 && byte_count > bytes_max)) break;
      texts.push_back(request.documents[i]);
    }
    const std::span<const std::string_view> views(texts);
    const auto start = std::chrono::steady_clock::now();
    const wire::RankArgs args{};
    KVD_CO_TRY(const auto reply, co_await session->Call(args, TextsPayload(views)));
    KVD_CO_CHECK_OK(CheckScores(reply, texts.size() - 1));
    metrics.prompt_time += std::chrono::steady_clock::now() - start;
    metrics.prompt_tokens_computed += reply.tokens;
    ++metrics.pieces;
    ranking.tokens += reply.tokens;
    ranking.scores.insert(ranking.scores.end(), reply.scores.begin(), reply.scores.end());
  }
  co_return ranking;
}

Value ResultsOf(const RerankRequest& request, const Ranking& ranking) {
  std::vector<std::size_t> order(ranking.scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return ranking.scores[a] > ranking.scores[b]; });
  order.resize(std::min(order.size(), request.count_max));
  std::vector<Value> results;
  for (const std::size_t index : order) {
    Object result;
    result.Set("index", CountValue(index))
        .Set(request.is_tei ? "score" : "relevance_score", FloatValue(ranking.scores[index]));
    const std::string& text = request.documents[index];
    if (request.returns_documents && request.is_tei) result.Set("text", text);
    if (request.returns_documents && !request.is_tei) {
      result.Set("document", Object().Set("text", text).Take());
    }
    results.push_back(result.Take());
  }
  return Value::List(std::move(results));
}

Await<Result<GatewayReply>> Rerank(RouteCall call) {
  const Settings& settings = call.gateway.settings();
  const bool is_reranker =
      settings.is_reranker || (settings.is_embedder && settings.pooling == "rank");
  if (!is_reranker && settings.daemons.empty())
    co_return Fail(Code::kUnsupported, kRankingUnserved);
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(const RerankRequest request, ReadRerankRequest(body, tenant->model()));
  KVD_CO_TRY(const Ranking ranking, co_await Rank(call, *tenant, request));
  Value results = ResultsOf(request, ranking);
  GatewayReply reply;
  if (request.is_tei) {
    reply.body = JsonText(results);
    co_return reply;
  }
  const Value usage = Object()
                          .Set("prompt_tokens", CountValue(ranking.tokens))
                          .Set("total_tokens", CountValue(ranking.tokens))
                          .Take();
  reply.body = JsonText(Object()
                            .Set("model", request.model)
                            .Set("object", "list")
                            .Set("usage", usage)
                            .Set("results", std::move(results))
                            .Take());
  co_return reply;
}

}  // namespace

void AddRerankRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "POST", {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"},
                 Rerank);
}

}  // namespace kvd::http
