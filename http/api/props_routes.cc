#include "http/api/props_routes.h"

#include <string>
#include <utility>

#include "http/api/generation_settings.h"
#include "http/api/json_text.h"
#include "http/api/plain_route.h"
#include "http/api/sampling_fields.h"

namespace kvd::http {
namespace {

constexpr char kUnchangeable[] =
    "This server does not support changing global properties. Start it with `--props`";

// The path of the model's file; with tenants, only its name.
std::string ShownPath(const RouteCall& call, const std::string& path) {
  if (call.gateway.SeesAll(call.request.tenant)) return path;
  return path.substr(path.rfind('/') + 1);
}

Value TemplateAbilities(const ChatForm& form) {
  const TemplateTraits& traits = form.formatter.traits();
  return Object()
      .Set("supports_object_arguments", Value::Bool(traits.reads_object_arguments))
      .Set("supports_string_content", Value::Bool(traits.reads_text_content))
      .Set("supports_typed_content", Value::Bool(traits.reads_content_parts))
      .Set("supports_preserve_reasoning", Value::Bool(!traits.reasoning_field.empty()))
      .Take();
}

Await<Result<Reply>> ShowProps(RouteCall call) {
  KVD_CO_TRY(Tenant* const tenant, TenantOfQuery(call));
  KVD_CO_TRY(const auto session, tenant->session());
  const Settings& settings = call.gateway.settings();
  Model& model = tenant->model();
  const std::string no_choice;
  KVD_CO_TRY(const auto form, co_await model.Form(*session, no_choice, false));
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
      .Set("chat_template", form->formatter.source())
      .Set("chat_template_caps", TemplateAbilities(*form))
      .Set("bos_token", model.bos_text())
      .Set("eos_token", model.eos_text())
      .Set("build_info", std::string("kvd ") + info.version)
      .Set("is_sleeping", Value::Bool(false))
      .Set("cors_proxy_enabled", Value::Bool(false));
  if (const std::string* const tools = model.texts().FindTemplate("tool_use"); tools != nullptr) {
    props.Set("chat_template_tool_use", *tools);
  }
  Reply reply;
  reply.body = JsonText(props.Take());
  co_return reply;
}

// llama-server has no property that can be changed.
Await<Result<Reply>> ChangeProps(RouteCall call) {
  if (!call.gateway.settings().changes_props) co_return Fail(Code::kUnsupported, kUnchangeable);
  KVD_CO_TRY([[maybe_unused]] const Value body, co_await BodyOf(call, EmptyBody::kIsObject));
  Reply reply;
  reply.body = R"({"success":true})";
  co_return reply;
}

}  // namespace

void AddPropsRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/props"}, ShowProps);
  AddPlainRoutes(gateway, router, "POST", {"/props"}, ChangeProps);
}

}  // namespace kvd::http
