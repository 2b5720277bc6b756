#include "http/api/model_routes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/api/json_text.h"
#include "http/api/plain_route.h"

namespace kvd::http {
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

Value ModelValue(const Model& model) {
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
Value OllamaValue(const Model& model) {
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

Await<Result<Reply>> ListModels(RouteCall call) {
  std::vector<Value> models, data;
  for (const Backend* const backend : call.gateway.BackendsOf(call.request.tenant)) {
    models.push_back(OllamaValue(*backend->model));
    data.push_back(ModelValue(*backend->model));
  }
  Reply reply;
  reply.body = JsonText(Object()
                            .Set("models", Value::List(std::move(models)))
                            .Set("object", "list")
                            .Set("data", Value::List(std::move(data)))
                            .Take());
  co_return reply;
}

Await<Result<Reply>> ShowModel(RouteCall call) {
  const std::string& name = call.parts.front();
  for (const Backend* const backend : call.gateway.BackendsOf(call.request.tenant)) {
    const std::vector<std::string>& names = backend->model->names();
    if (std::ranges::find(names, name) == names.end()) continue;
    Reply reply;
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

}  // namespace kvd::http
