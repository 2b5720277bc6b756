// The routes on text: the tokenizer, and the chat template.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "http/answer/chat_plan.h"
#include "http/api/chat_reader.h"
#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/route_kinds.h"
#include "http/api/routes.h"
#include "http/api/text_tokens.h"

namespace kvd::http {

// The routes of the tokenizer: POST /tokenize and /detokenize.

namespace {

// A piece that is not UTF-8 by itself is shown as the numbers of its bytes.
Value PieceValue(const std::string& piece) {
  if (IsValidUtf8(piece)) return Value::String(piece);
  std::vector<Value> bytes;
  for (const char byte : piece) bytes.push_back(Value::Int(static_cast<unsigned char>(byte)));
  return Value::List(std::move(bytes));
}

GatewayReply TokensReply(std::vector<Value> tokens) {
  GatewayReply reply;
  reply.body = JsonText(Object().Set("tokens", Value::List(std::move(tokens))).Take());
  return reply;
}

Await<Result<GatewayReply>> Tokenize(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  const Fields fields(body);
  TextReading reading;
  KVD_CO_TRY(reading.adds_special, fields.Bool("add_special", false));
  KVD_CO_TRY(reading.parses_special, fields.Bool("parse_special", true));
  KVD_CO_TRY(const bool with_pieces, fields.Bool("with_pieces", false));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(const auto session, tenant->session());
  std::vector<Value> shown;
  const Value& content = fields.Find("content");
  if (content.is_missing()) co_return TokensReply(std::move(shown));
  const std::uint32_t vocab_size = tenant->model().info().vocab_size;
  const std::string path = "content";
  KVD_CO_TRY(const std::vector<TokenId> tokens,
             co_await TokensOf(*session, vocab_size, content, path, reading));
  std::map<TokenId, std::string> pieces;
  if (with_pieces) {
    KVD_CO_TRY(pieces, co_await PiecesOf(*session, tokens));
  }
  for (const TokenId token : tokens) {
    if (!with_pieces) {
      shown.push_back(Value::Int(token));
      continue;
    }
    shown.push_back(
        Object().Set("id", Value::Int(token)).Set("piece", PieceValue(pieces[token])).Take());
  }
  co_return TokensReply(std::move(shown));
}

Await<Result<GatewayReply>> Detokenize(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(const auto session, tenant->session());
  const Value& tokens = Fields(body).Find("tokens");
  std::string content;
  if (!tokens.is_missing()) {
    KVD_CO_TRY(const std::vector<TokenId> ids,
               TokenIdsOf(tokens, tenant->model().info().vocab_size, "tokens"));
    const std::span<const TokenId> all(ids);
    KVD_CO_TRY(content, co_await JoinedPieces(*session, all));
  }
  GatewayReply reply;
  reply.body = JsonText(Object().Set("content", content).Take());
  co_return reply;
}

}  // namespace

void AddTokenizeRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "POST", {"/tokenize"}, Tokenize);
  AddPlainRoutes(gateway, router, "POST", {"/detokenize"}, Detokenize);
}

// The route that formats a chat without answering it: POST /apply-template.

namespace {

Await<Result<GatewayReply>> ApplyTemplate(RouteCall call) {
  KVD_CO_TRY(const Value body, co_await BodyOf(call));
  KVD_CO_TRY(TenantSession* const tenant, TenantOf(call, body));
  KVD_CO_TRY(ChatInput input, ReadChatInput(Fields(body), call.gateway.settings()));
  KVD_CO_TRY(const FormattedChat text, co_await FormatChat(*tenant, std::move(input)));
  GatewayReply reply;
  reply.body = JsonText(Object().Set("prompt", text.prompt).Take());
  co_return reply;
}

}  // namespace

void AddTemplateRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "POST", {"/apply-template"}, ApplyTemplate);
}

}  // namespace kvd::http
