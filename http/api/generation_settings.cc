#include "http/api/generation_settings.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api/json_text.h"
#include "shm/sampler_chain.h"

namespace kvd::http {
namespace {

Value TextList(const std::vector<std::string>& texts) {
  std::vector<Value> values;
  for (const std::string& text : texts) values.push_back(TextValue(text));
  return Value::List(std::move(values));
}

Value ChainValue(const SamplerChain& chain) {
  const std::string names = SamplerNames(chain);
  std::vector<Value> values;
  std::string_view rest = names;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    values.push_back(TextValue(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return Value::List(std::move(values));
}

// A bias of minus infinity is null, which JSON has in its place. ignore_eos is such a bias, too.
Value BiasesValue(const ServedModel& model, const AnswerRequest& request) {
  std::vector<Value> values;
  const auto add = [&](TokenId token, Value bias) {
    values.push_back(Object().Set("bias", std::move(bias)).Set("token", Value::Int(token)).Take());
  };
  for (const wire::LogitBias& bias : request.biases) add(bias.token, FloatValue(bias.bias));
  if (request.ignores_eos && model.info().eos_token >= 0) {
    add(model.info().eos_token, Value::None());
  }
  return Value::List(std::move(values));
}

Value TriggersValue(const std::vector<GrammarStart>& triggers) {
  std::vector<Value> values;
  for (const GrammarStart& start : triggers) {
    Object trigger;
    trigger.Set("type", Value::Int(start.token >= 0 ? 0 : 1)).Set("value", start.text);
    if (start.token >= 0) trigger.Set("token", Value::Int(start.token));
    values.push_back(trigger.Take());
  }
  return Value::List(std::move(values));
}

Value BreakersValue(const AnswerRequest& request) {
  static const std::vector<std::string> kDefaults = {"\n", ":", "\"", "*"};
  return TextList(request.breakers ? *request.breakers : kDefaults);
}

}  // namespace

Value GenerationSettings(const ServedModel& model, const AnswerRequest& request,
                         const ReplyFields& reply, SettingsShown shown) {
  const bool all = shown == SettingsShown::kAll;
  const SamplingParams& s = request.sampling;
  Object o;
  o.Set("seed", CountValue(request.seed))
      .Set("temperature", FloatValue(s.temperature))
      .Set("dynatemp_range", FloatValue(s.dynatemp_range))
      .Set("dynatemp_exponent", FloatValue(s.dynatemp_exponent))
      .Set("top_k", Value::Int(s.top_k))
      .Set("top_p", FloatValue(s.top_p))
      .Set("min_p", FloatValue(s.min_p))
      .Set("top_n_sigma", FloatValue(s.top_n_sigma))
      .Set("xtc_probability", FloatValue(s.xtc_probability))
      .Set("xtc_threshold", FloatValue(s.xtc_threshold))
      .Set("typical_p", FloatValue(s.typical_p))
      .Set("repeat_last_n", Value::Int(s.repeat_last))
      .Set("repeat_penalty", FloatValue(s.repeat_penalty))
      .Set("presence_penalty", FloatValue(s.presence_penalty))
      .Set("frequency_penalty", FloatValue(s.frequency_penalty))
      .Set("dry_multiplier", FloatValue(s.dry_multiplier))
      .Set("dry_base", FloatValue(s.dry_base))
      .Set("dry_allowed_length", Value::Int(s.dry_allowed_length))
      .Set("dry_penalty_last_n", Value::Int(s.dry_penalty_last));
  if (all) o.Set("dry_sequence_breakers", BreakersValue(request));
  o.Set("mirostat", Value::Int(s.mirostat))
      .Set("mirostat_tau", FloatValue(s.mirostat_tau))
      .Set("mirostat_eta", FloatValue(s.mirostat_eta))
      .Set("adaptive_target", FloatValue(s.adaptive_target))
      .Set("adaptive_decay", FloatValue(s.adaptive_decay));
  if (all) o.Set("stop", TextList(request.stops));
  o.Set("max_tokens", Value::Int(request.predict_max))
      .Set("n_predict", Value::Int(request.predict_max))
      .Set("n_keep", Value::Int(request.keep))
      .Set("n_discard", Value::Int(0))
      .Set("ignore_eos", Value::Bool(request.ignores_eos))
      .Set("stream", Value::Bool(reply.is_stream));
  if (all) o.Set("logit_bias", BiasesValue(model, request));
  o.Set("n_probs", CountValue(reply.top_count)).Set("min_keep", Value::Int(0));
  if (all) {
    o.Set("grammar", request.grammar)
        .Set("grammar_lazy", Value::Bool(!request.triggers.empty()))
        .Set("grammar_triggers", TriggersValue(request.triggers))
        .Set("preserved_tokens", Value::List({}));
  }
  o.Set("chat_format", "Content-only")
      .Set("reasoning_format", "none")
      .Set("reasoning_in_content", Value::Bool(false))
      .Set("generation_prompt", "")
      .Set("samplers", ChainValue(s.chain))
      .Set("speculative.types", "none")
      .Set("timings_per_token", Value::Bool(reply.has_timings))
      .Set("post_sampling_probs", Value::Bool(reply.has_sampled_probs))
      .Set("backend_sampling", Value::Bool(false))
      .Set("lora", Value::List({}));
  return o.Take();
}

}  // namespace kvd::http
