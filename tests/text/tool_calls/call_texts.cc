#include "tests/text/tool_calls/call_texts.h"

namespace kvd::test {
namespace {

using F = ToolFormat;

std::vector<CallTexts> MakeCallTexts() {
  return {
      {F::kJson,
       R"({"name": "weather", "arguments": {"city": "Ulm", "days": 2}})",
       R"([{"name": "stop", "arguments": {}}, {"name": "add", "arguments": {"a": 1, "b": 2.5}}])",
       {R"({"name": "moon", "arguments": {}})"}},
      {F::kHermes,
       "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\", \"days\": "
       "2}}\n</tool_call>",
       "<tool_call>\n{\"name\": \"stop\", \"arguments\": "
       "{}}\n</tool_call>\n<tool_call>\n{\"name\": "
       "\"add\", \"arguments\": {\"a\": 1, \"b\": 2.5}}\n</tool_call>",
       {"<tool_call>\n{\"name\": \"moon\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"days\": 2}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": 1}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"stop\", \"arguments\": {\"x\": 1}}\n</tool_call>"}},
      {F::kLlama3, R"({"name": "weather", "parameters": {"city": "Ulm", "days": 2}})", ""},
      {F::kMistralList,
       R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "Ulm", "days": 2}, "id": "abcdefgh1"}])",
       R"([TOOL_CALLS][{"name": "stop", "arguments": {}, "id": "abcdefgh1"}, {"name": "add", "arguments": {"a": 1, "b": 2.5}, "id": "abcdefgh2"}])",
       {R"([TOOL_CALLS][{"name": "stop", "arguments": {}, "id": "abc"}])"}},
      {F::kMistral, R"([TOOL_CALLS]weather[ARGS]{"city": "Ulm", "days": 2})",
       R"([TOOL_CALLS]stop[CALL_ID]abcdefgh1[ARGS]{}[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2.5})"},
      {F::kApriel,
       R"(<tool_calls>[{"name": "weather", "arguments": {"city": "Ulm", "days": 2}, "id": "c1"}]</tool_calls>)",
       R"(<tool_calls>[{"name": "stop", "arguments": {}, "id": "c1"}, {"name": "add", "arguments": {"a": 1, "b": 2.5}, "id": "c2"}]</tool_calls>)"},
      {F::kQwen3Coder,
       "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n2\n"
       "</parameter>\n</function>\n</tool_call>",
       "<tool_call>\n<function=stop>\n</function>\n</tool_call>\n<tool_call>\n<function=add>\n"
       "<parameter=a>\n1\n</parameter>\n<parameter=b>\n2.5\n</parameter>\n</function>\n</"
       "tool_call>",
       {"<tool_call>\n<function=weather>\n<parameter=days>\n2\n</parameter>\n</function>\n</"
        "tool_call>",
        "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n"
        "two\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=unit>\n"
        "kelvin\n</parameter>\n</function>\n</tool_call>"}},
      {F::kGlm,
       "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n<arg_key>days"
       "</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
       "<tool_call>stop\n</tool_call>\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</"
       "arg_value>\n"
       "<arg_key>b</arg_key>\n<arg_value>2.5</arg_value>\n</tool_call>"},
      {F::kSeed,
       "<seed:tool_call>\n<function=weather>\n<parameter=city>Ulm</parameter>\n<parameter=days>2"
       "</parameter>\n</function>\n</seed:tool_call>",
       "<seed:tool_call>\n<function=stop>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n"
       "<function=add>\n<parameter=a>1</parameter>\n<parameter=b>2.5</parameter>\n</function>\n"
       "</seed:tool_call>"},
      {F::kMiniMax,
       "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Ulm</parameter>\n"
       "<parameter name=\"days\">2</parameter>\n</invoke>\n</minimax:tool_call>",
       "<minimax:tool_call>\n<invoke name=\"stop\">\n</invoke>\n<invoke name=\"add\">\n<parameter "
       "name=\"a\">1</parameter>\n<parameter name=\"b\">2.5</parameter>\n</invoke>\n"
       "</minimax:tool_call>"},
      {F::kDeepSeekR1,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n"
       "{\"city\": \"Ulm\", \"days\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>stop\n```json\n{}\n```"
       "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"a\": 1, "
       "\"b\": "
       "2.5}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {F::kDeepSeek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Ulm\", "
       "\"days\": 2}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>stop<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1, \"b\": 2.5}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>"},
      {F::kGemma4,
       "<|tool_call>call:weather{city:<|\"|>Ulm<|\"|>,days:2}<tool_call|>",
       "<|tool_call>call:stop{}<tool_call|><|tool_call>call:add{a:1,b:2.5}<tool_call|>",
       {"<|tool_call>call:weather{days:2}<tool_call|>",
        "<|tool_call>call:weather{city:<|\"|>Ulm<|\"|>,days:2.5}<tool_call|>"}},
      {F::kLfm2,
       "<|tool_call_start|>[weather(city=\"Ulm\", days=2)]<|tool_call_end|>",
       "<|tool_call_start|>[stop(), add(a=1, b=2.5)]<|tool_call_end|>",
       {"<|tool_call_start|>[weather(days=2)]<|tool_call_end|>",
        "<|tool_call_start|>[weather(city=\"Ulm\", unit=\"kelvin\")]<|tool_call_end|>"}},
      {F::kFunctionary, R"(<function=weather>{"city": "Ulm", "days": 2}</function>)",
       R"(<function=stop>{}</function><function=add>{"a": 1, "b": 2.5}</function>)"},
      {F::kKimi,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
       "<|tool_call_argument_begin|>{\"city\": \"Ulm\", \"days\": 2}<|tool_call_end|>"
       "<|tool_calls_section_end|>",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.stop:0<|tool_call_argument_begin|>"
       "{}"
       "<|tool_call_end|><|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{\"a\": 1, "
       "\"b\": 2.5}<|tool_call_end|><|tool_calls_section_end|>"},
      {F::kSolar,
       "<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>weather<|tool_call:args|>"
       "{\"city\": \"Ulm\", \"days\": 2}<|tool_call:end|><|calls|>",
       "<|tool_calls|><|tool_call:begin|>c1<|tool_call:name|>stop<|tool_call:args|>{}<|tool_call:"
       "end|"
       ">"
       "<|tool_call:begin|>c2<|tool_call:name|>add<|tool_call:args|>{\"a\": 1, \"b\": 2.5}"
       "<|tool_call:end|><|calls|>"},
      {F::kHarmony,
       "to=functions.weather<|channel|>commentary json<|message|>{\"city\": \"Ulm\", "
       "\"days\": 2}<|call|>",
       ""},
  };
}

}  // namespace

std::span<const CallTexts> AllCallTexts() {
  static const std::vector<CallTexts> texts = MakeCallTexts();
  return texts;
}

}  // namespace kvd::test
