// Measures parsing chat templates and rendering a conversation of 200 messages with tools.
//
// "chatml" is a short template in this file; with ../shared/templates, the longest template there
// is measured, too. The limit is copying the rendered text.
#include <benchmark/benchmark.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "bench/must.h"
#include "text/jinja/template.h"
#include "text/json.h"

namespace {

using namespace kvd;

constexpr int kMessages = 200;
constexpr int kTools = 20;

constexpr const char* kChatml = R"({%- if tools %}
<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or message.content is string and not loop.last %}
{{ '<|im_start|>' + message['role'] + '\n' + message.content | trim + '<|im_end|>' }}
{% elif message.tool_calls is defined %}
{%- for call in message.tool_calls %}{{ call.function.name ~ call.function.arguments | tojson }}
{% endfor %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %})";

std::string LongestTemplate() {
  std::string longest;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator("../shared/templates", missing)) {
    std::ifstream file(entry.path() / "template.jinja", std::ios::binary);
    std::string source{std::istreambuf_iterator<char>(file), {}};
    if (source.size() > longest.size()) longest = std::move(source);
  }
  return longest;
}

Value Variables(int message_count) {
  std::string text = R"({"add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>",)"
                     R"( "documents": null, "tools": [)";
  for (int i = 0; i < kTools; ++i) {
    if (i > 0) text += ", ";
    text += R"({"type": "function", "function": {"name": "read_)" + std::to_string(i) +
            R"(", "description": "Reads one file.", "parameters": {"type": "object",)"
            R"( "properties": {"path": {"type": "string", "description": "Where it is."},)"
            R"( "lines": {"type": "integer"}}, "required": ["path"]}}})";
  }
  text += R"(], "messages": [)";
  const std::string sentence = "A few sentences that a user writes in a conversation. ";
  std::string content;
  for (int i = 0; i < 8; ++i) content += sentence;
  for (int i = 0; i < message_count; ++i) {
    if (i > 0) text += ", ";
    text += std::string(R"({"role": ")") + (i % 2 == 0 ? "user" : "assistant") +
            R"(", "content": ")" + content + "\"}";
  }
  return bench::Must(ParseJson(text + "]}"));
}

const std::string& Source(const std::string& name) {
  static const std::map<std::string, std::string> kSources = {{"chatml", kChatml},
                                                              {"longest", LongestTemplate()}};
  return kSources.at(name);
}

void BM_TemplateParse(benchmark::State& state, const std::string& name) {
  const std::string& source = Source(name);
  for (auto step : state) benchmark::DoNotOptimize(bench::Must(jinja::Template::Parse(source)));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(source.size()));
}

void BM_TemplateRender(benchmark::State& state, const std::string& name) {
  const jinja::Template chat = bench::Must(jinja::Template::Parse(Source(name)));
  const Value variables = Variables(static_cast<int>(state.range(0)));
  std::size_t bytes = 0;
  for (auto step : state) bytes = bench::Must(chat.Render(variables)).size();
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
  state.counters["text_bytes"] = static_cast<double>(bytes);
}

void BM_JsonParse(benchmark::State& state) {
  const std::string text = bench::Must(WriteJson(Variables(kMessages)));
  for (auto step : state) benchmark::DoNotOptimize(bench::Must(ParseJson(text)));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void BM_TextCopy(benchmark::State& state) {
  const std::string text(100'000, 'x');
  for (auto step : state) benchmark::DoNotOptimize(std::string(text).data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

}  // namespace

int main(int argument_count, char** arguments) {
  for (const std::string name : {"chatml", "longest"}) {
    if (Source(name).empty()) continue;
    benchmark::RegisterBenchmark(("BM_TemplateParse/" + name).c_str(), BM_TemplateParse, name);
    benchmark::RegisterBenchmark(("BM_TemplateRender/" + name).c_str(), BM_TemplateRender, name)
        ->ArgName("messages")
        ->Arg(kMessages / 4)
        ->Arg(kMessages);
  }
  benchmark::RegisterBenchmark("BM_JsonParse", BM_JsonParse);
  benchmark::RegisterBenchmark("BM_TextCopy", BM_TextCopy);
  benchmark::Initialize(&argument_count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}
