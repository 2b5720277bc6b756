// Writes seeds for jinja_fuzz: the templates of tests/data/jinja, and a chat template,
// each with variables. Runs in the repository's root.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"
#include "text/json.h"

namespace kvd::jinja_corpus {
namespace {

constexpr const char* kChat = R"({%- for m in messages -%}
{{ '<|' ~ m['role'] ~ '|>' }}{% if m.content is string %}{{ m.content | trim }}{% else %}
{%- for part in m.content %}{{ part.text }}{% endfor %}{% endif %}
{%- for call in m.tool_calls or [] %}{{ call | tojson(indent=2) }}{% endfor %}
{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %})";
constexpr const char* kMessages =
    R"({"messages": [{"role": "user", "content": " Hi "}, {"role": "assistant", "content":)"
    R"( [{"text": "caf\u00e9"}], "tool_calls": [{"name": "f", "arguments": {"a": [1, 2.5, null]}}]}],)"
    R"( "add_generation_prompt": true})";

}  // namespace

int Make(const std::string& folder) {
  const auto write = [&](const std::string& name, const std::string& source,
                         const std::string& variables) {
    const std::string input = source + '\0' + variables;
    kvd::test::WriteSeed(folder, name, std::as_bytes(std::span(input)));
  };
  write("chat", kChat, kMessages);
  std::ifstream file("tests/data/jinja/cases.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto data = kvd::ParseJson(text);
  if (!data) {
    std::fprintf(stderr, "tests/data/jinja/cases.json: %s\n", data.error().message.c_str());
    return 1;
  }
  const std::string variables = kvd::WriteJson(data->dict().Find("variables")).value_or("{}");
  unsigned number = 0;
  for (const kvd::Value& item : data->dict().Find("cases").items()) {
    write("case" + std::to_string(number++), std::string(item.items()[0].view()), variables);
  }
  return 0;
}

}  // namespace kvd::jinja_corpus
