// The routes that describe the server: its health, its models, its properties, and its adapters.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/api/generation_settings.h"
#include "http/api/json_text.h"
#include "http/api/route_kinds.h"
#include "http/api/routes.h"
#include "http/api/sampling_fields.h"
#include "http/serve/request.h"
#include "text/json.h"

namespace kvd::http {

// The routes that tell whether the gateway is ready: GET /health and /v1/health. They need no key.

namespace {

Await<void> ShowHealth(const Gateway& gateway, Responder& responder) {
  GatewayReply reply;
  reply.body = R"({"status":"ok"})";
  if (gateway.backends().empty()) reply = ErrorReply(503, "Loading model");
  co_await responder.Send(std::move(reply));
}

}  // namespace

void AddHealthRoutes(Gateway& gateway, Router& router) {
  for (const char* const path : {"/health", "/v1/health"}) {
    router.Add(
        {.method = "GET",
         .pattern = path,
         .access = RouteAccess::kPublic,
         .handler = [&gateway](const Request&, const std::vector<std::string>&,
                               Responder& responder) { return ShowHealth(gateway, responder); }});
  }
}

// The routes that describe the models: GET /v1/models, /models, /v1/models/{id} and /models/{id}.

namespace {

// llama.cpp's number (enum llama_vocab_type) for each VocabularyKind of engine/vocabulary, in its
// order.
constexpr std::int64_t kVocabularyTypes[] = {0, 1, 2, 2, 3, 4, 6, 5};

Value VocabularyTypeOf(const ChatTexts& texts) {
  const std::string* const text = texts.FindToken("#vocabulary_kind");
  std::size_t kind = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), kind);
  return Value::Int(kind < std::size(kVocabularyTypes) ? kVocabularyTypes[kind] : 0);
}

Value TextsValue(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  std::vector<Value> values;
  for (const std::string& text : texts) values.push_back(TextValue(text));
  return Value::List(std::move(values));
}

Value ModelValue(const ServedModel& model) {
  const wire::InfoReply& info = model.info();
  Object meta;
  meta.Set("vocab_type", VocabularyTypeOf(model.texts()))
      .Set("n_vocab", CountValue(info.vocab_size))
      .Set("n_ctx", CountValue(model.slot_cells()))
      .Set("n_ctx_train", CountValue(info.context_trained))
      .Set("n_embd", CountValue(info.embedding_size))
      .Set("size", CountValue(info.weight_bytes));
  return Object()
      .Set("id", model.id())
      .Set("aliases", TextsValue(model.names()))
      .Set("tags", TextsValue(model.settings().tags))
      .Set("object", "model")
      .Set("created", Value::Int(model.created_unix_s()))
      .Set("owned_by", "llamacpp")
      .Set("meta", meta.Take())
      .Take();
}

// The form of Ollama, which llama-server adds to its list.
Value OllamaValue(const ServedModel& model) {
  const Value empty_texts = Value::List({TextValue("")});
  Object details;
  details.Set("parent_model", "")
      .Set("format", "gguf")
      .Set("family", "")
      .Set("families", empty_texts)
      .Set("parameter_size", "")
      .Set("quantization_level", "");
  return Object()
      .Set("name", model.id())
      .Set("model", model.id())
      .Set("modified_at", "")
      .Set("size", "")
      .Set("digest", "")
      .Set("type", "model")
      .Set("description", "")
      .Set("tags", empty_texts)
      .Set("capabilities", Value::List({TextValue("completion")}))
      .Set("parameters", "")
      .Set("details", details.Take())
      .Take();
}

Await<Result<GatewayReply>> ListModels(RouteCall call) {
  std::vector<Value> models, data;
  for (const Backend* const backend : call.gateway.BackendsOf(call.request.tenant)) {
    models.push_back(OllamaValue(*backend->model));
    data.push_back(ModelValue(*backend->model));
  }
  GatewayReply reply;
  reply.body = JsonText(Object()
                            .Set("models", Value::List(std::move(models)))
                            .Set("object", "list")
                            .Set("data", Value::List(std::move(data)))
                            .Take());
  co_return reply;
}

Await<Result<GatewayReply>> ShowModel(RouteCall call) {
  const std::string& name = call.parts.front();
  for (const Backend* const backend : call.gateway.BackendsOf(call.request.tenant)) {
    const std::vector<std::string>& names = backend->model->names();
    if (std::ranges::find(names, name) == names.end()) continue;
    GatewayReply reply;
    reply.body = JsonText(ModelValue(*backend->model));
    co_return reply;
  }
  co_return Fail(Code::kNotFound, "model: no model is named \"", name, "\"");
}

}  // namespace

void AddModelRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/v1/models", "/models"}, ListModels);
  AddPlainRoutes(gateway, router, "GET", {"/v1/models/{*}", "/models/{*}"}, ShowModel);
}

// The routes of the server's properties: GET and POST /props.

namespace {

constexpr char kUnchangeable[] =
    "This server does not support changing global properties. Start it with `--props`";

// The path of the model's file; with tenants, only its name.
std::string ShownPath(const RouteCall& call, const std::string& path) {
  if (call.gateway.SeesAll(call.request.tenant)) return path;
  return path.substr(path.rfind('/') + 1);
}

Value TemplateAbilities(const TemplateReading& reading) {
  const TemplateTraits& traits = reading.formatter.traits();
  return Object()
      .Set("supports_object_arguments", Value::Bool(traits.reads_object_arguments))
      .Set("supports_string_content", Value::Bool(traits.reads_text_content))
      .Set("supports_typed_content", Value::Bool(traits.reads_content_parts))
      .Set("supports_preserve_reasoning", Value::Bool(!traits.reasoning_field.empty()))
      .Take();
}

Await<Result<GatewayReply>> ShowProps(RouteCall call) {
  KVD_CO_TRY(TenantSession* const tenant, TenantOfQuery(call));
  KVD_CO_TRY(const auto session, tenant->session());
  const Settings& settings = call.gateway.settings();
  ServedModel& model = tenant->model();
  const std::string no_choice;
  KVD_CO_TRY(const auto reading, co_await model.ReadTemplate(*session, no_choice, false));
  Object generation;
  generation
      .Set("params", GenerationSettings(model, DefaultRequest(settings), ReplyFields(),
                                        SettingsShown::kNumbers))
      .Set("n_ctx", CountValue(model.slot_cells()));
  Object modalities;
  modalities.Set("vision", Value::Bool(false))
      .Set("video", Value::Bool(false))
      .Set("audio", Value::Bool(false));
  const wire::InfoReply& info = model.info();
  Object props;
  props.Set("default_generation_settings", generation.Take())
      .Set("total_slots", CountValue(model.slot_count()))
      .Set("model_alias", model.id())
      .Set("model_path", ShownPath(call, model.path()))
      .Set("modalities", modalities.Take())
      .Set("endpoint_slots", Value::Bool(settings.serves_slots))
      .Set("endpoint_props", Value::Bool(settings.changes_props))
      .Set("endpoint_metrics", Value::Bool(settings.serves_metrics))
      .Set("ui", Value::Bool(false))
      .Set("chat_template", reading->formatter.source())
      .Set("chat_template_caps", TemplateAbilities(*reading))
      .Set("bos_token", model.bos_text())
      .Set("eos_token", model.eos_text())
      .Set("build_info", std::string("kvd ") + info.version)
      .Set("is_sleeping", Value::Bool(false))
      .Set("cors_proxy_enabled", Value::Bool(false));
  if (const std::string* const tools = model.texts().FindTemplate("tool_use"); tools != nullptr) {
    props.Set("chat_template_tool_use", *tools);
  }
  GatewayReply reply;
  reply.body = JsonText(props.Take());
  co_return reply;
}

// llama-server has no property that can be changed.
Await<Result<GatewayReply>> ChangeProps(RouteCall call) {
  if (!call.gateway.settings().changes_props) co_return Fail(Code::kUnsupported, kUnchangeable);
  KVD_CO_TRY([[maybe_unused]] const Value body, co_await BodyOf(call, EmptyBody::kIsObject));
  GatewayReply reply;
  reply.body = R"({"success":true})";
  co_return reply;
}

}  // namespace

void AddPropsRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/props"}, ShowProps);
  AddPlainRoutes(gateway, router, "POST", {"/props"}, ChangeProps);
}

// The routes of LoRA adapters: GET and POST /lora-adapters. kvd has no adapters: the list is empty.

namespace {

Await<Result<GatewayReply>> ListAdapters(RouteCall) {
  GatewayReply reply;
  reply.body = "[]";
  co_return reply;
}

Await<Result<GatewayReply>> SetAdapters(RouteCall call) {
  const auto body = ParseJson(call.request.body);
  if (!body) co_return Fail(Code::kInvalidArgument, "body: ", body.error().message);
  if (!body->is_list()) co_return Fail(Code::kInvalidArgument, "Request body must be an array");
  if (!body->items().empty()) {
    co_return Fail(Code::kUnsupported, "LoRA adapters are not supported by kvd");
  }
  GatewayReply reply;
  reply.body = R"({"success":true})";
  co_return reply;
}

}  // namespace

void AddLoraRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/lora-adapters"}, ListAdapters);
  AddPlainRoutes(gateway, router, "POST", {"/lora-adapters"}, SetAdapters);
}

}  // namespace kvd::http
