#include "tests/fuzz/http_setups.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/json.h"

namespace kvd::test {
namespace {

// A small chat template of each notation of calls.
constexpr std::string_view kHermes =
    "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{% endif %}";
constexpr std::string_view kHarmony =
    "{% for m in messages %}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}<|end|>"
    "{% for c in m.tool_calls or [] %}<|start|>assistant to=functions.{{ c.function.name }}"
    "<|channel|>commentary<|message|>{{ c.function.arguments }}<|call|>{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
constexpr std::string_view kMistral =
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% else %}{{ m.content }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}"
    "[ARGS]{{ c.function.arguments }}{% endfor %}</s>{% endif %}{% endfor %}";
constexpr std::string_view kMistralList =
    "{% for m in messages %}[INST]{{ m.content }}[/INST]{% if m.tool_calls %}[TOOL_CALLS]["
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}]{% endif %}{% endfor %}";
constexpr std::string_view kLlama3 =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}\n\n{{ m.content | trim }}"
    "{% if m.tool_calls %}<|python_tag|>{\"name\": \"{{ m.tool_calls[0].function.name }}\", "
    "\"parameters\": {{ m.tool_calls[0].function.arguments | tojson }}}{% endif %}</s>{% endfor %}";
constexpr std::string_view kGlm =
    "{% for m in messages %}{{ m.role }}\n{{ m.reasoning_content or '' }}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}\n"
    "{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v }}"
    "</arg_value>\n{% endfor %}</tool_call>{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}assistant\n<think>{% endif %}{# </think> #}";
constexpr std::string_view kQwen3Coder =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n<function={{ c.function.name }}>\n"
    "{% for k in c.function.arguments %}<parameter={{ k }}>\n{{ c.function.arguments[k] }}\n"
    "</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}";
constexpr std::string_view kPlain =
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
constexpr std::string_view kParts =
    "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}|{% endfor %}";
constexpr std::string_view kNothing = "{% for m in messages %}{% endfor %}";
constexpr std::string_view kLastOnly = "{{ messages[-1].content }}";
constexpr std::string_view kRaising =
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}{{ m.content }}{% endfor %}{% if tools %}{{ raise_exception('no tools') }}{% endif "
    "%}";
constexpr std::string_view kTwice =
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}";

class SetupMaker {
 public:
  SetupMaker() {
    base_.settings.slot_count = 2;
    base_.settings.serves_metrics = base_.settings.changes_props = true;
    base_.settings.slot_directory = "/slots";
    base_.settings.defaults.predict_max = 8;
  }

  HttpSetup& Add(std::string_view program) {
    setups_.push_back(base_);
    setups_.back().model.templates = {{"", std::string(program)}};
    return setups_.back();
  }
  std::vector<HttpSetup> Take() { return std::move(setups_); }

 private:
  HttpSetup base_;
  std::vector<HttpSetup> setups_;
};

std::vector<HttpSetup> MakeSetups() {
  SetupMaker maker;
  maker.Add(kHermes);
  maker.Add(kPlain).model.has_bos = false;
  maker.Add(kNothing).model.has_bos = false;
  maker.Add(kNothing);
  maker.Add(kLastOnly).model.has_bos = false;
  maker.Add(kRaising);
  maker.Add(kTwice);
  maker.Add(kHarmony);
  maker.Add(kMistral);
  maker.Add(kMistralList).settings.reasoning_format = http::ReasoningFormat::kNone;
  maker.Add(kLlama3);
  maker.Add(kGlm).settings.reasoning_budget = 3;
  maker.Add(kQwen3Coder).settings.reasoning_format = http::ReasoningFormat::kDeepseekLegacy;
  maker.Add(kParts);
  {
    HttpSetup& setup = maker.Add(kHermes);  // an embedder and reranker
    setup.model.embeds = setup.settings.is_embedder = setup.settings.is_reranker = true;
    setup.model.arena_bytes = 2048;
  }
  {
    HttpSetup& setup = maker.Add(kPlain);
    setup.model.embeds = setup.settings.is_embedder = true;
    setup.settings.pooling = "none";
    setup.model.has_infill = false;
  }
  {
    HttpSetup& setup = maker.Add(kPlain);
    setup.model.embeds = setup.settings.is_embedder = true;
    setup.settings.pooling = "rank";
  }
  {
    HttpSetup& setup = maker.Add(kPlain);  // contexts that are soon full
    setup.model.has_bos = false;
    setup.settings.context_cells = 64;
    setup.settings.is_unified = setup.settings.shifts_context = true;
    setup.settings.defaults.predict_max = -1;
  }
  {
    HttpSetup& setup = maker.Add(kHermes);
    setup.model.state_bytes = 100;
    setup.settings.context_cells = 256;
    setup.settings.shifts_context = true;
    setup.settings.infills_suffix_first = true;
  }
  {
    HttpSetup& setup = maker.Add(kPlain);
    setup.model.templates.clear();  // ChatML
    setup.model.has_bos = false;
    setup.model.state_bytes = 100;
    setup.settings.is_verbose = true;
  }
  {
    HttpSetup& setup = maker.Add(kHermes);
    setup.model.templates.emplace_back("tool_use", kHermes);
    setup.has_second = true;
    setup.settings.daemons = {{"scripted", ""}, {"other", ""}};
    setup.settings.serves_slots = false;
    setup.settings.serves_metrics = false;
  }
  {
    HttpSetup& setup = maker.Add(kHermes);
    setup.settings.uses_jinja = setup.settings.parses_answers = false;
    setup.settings.continues_answers = false;
    setup.settings.thinking = false;
    setup.settings.slot_directory.clear();
    setup.settings.changes_props = setup.settings.serves_page = false;
  }
  {
    HttpSetup& setup = maker.Add(kQwen3Coder);
    setup.settings.reasoning_budget = 0;
    setup.settings.budget_message = "enough";
    setup.settings.tool_format = "hermes";
    setup.settings.defaults.shows_special = true;
    setup.settings.defaults.ignores_eos = true;
    setup.settings.slot_count = 1;
    if (auto variables = ParseJson(R"({"x":1})")) setup.settings.template_variables = *variables;
  }
  {
    HttpSetup& setup = maker.Add(kPlain);
    setup.settings.defaults.grammar = "root ::= \"a\"";
    setup.settings.defaults.biases = {{97, 1.0f}};
    setup.settings.defaults.breakers = {{"a"}};
    setup.settings.defaults.caches_prompt = false;
    setup.settings.response_bytes = 100;
  }
  maker.Add(kPlain).is_loading = true;
  return maker.Take();
}

}  // namespace

std::span<const HttpSetup> HttpSetups() {
  static const std::vector<HttpSetup> setups = MakeSetups();
  return setups;
}

const ScriptedModel& SecondModel() {
  static const ScriptedModel model = [] {
    ScriptedModel second;
    second.name = "other";
    second.templates = {{"", std::string(kLastOnly)}};
    second.has_bos = false;
    second.embeds = true;
    return second;
  }();
  return model;
}

}  // namespace kvd::test
