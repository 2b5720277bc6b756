// Measures the conversion of JSON Schemas into a grammar: the tools of one request, each with typed
// parameters. The limit is parsing the same JSON.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/must.h"
#include "text/json.h"
#include "text/schema/schema_grammar.h"

namespace {

using namespace kvd;

constexpr int kParameters = 10;

// The parameters of one function: about 1 KB, with each kind of value.
std::string Parameters(int function) {
  const std::string kinds[] = {
      R"({"type": "string", "description": "The name of the file, relative to the root."})",
      R"({"type": "integer", "minimum": 0, "maximum": )" + std::to_string(100 + function) + "}",
      R"({"type": "number", "description": "A share between the two bounds."})",
      R"({"type": "boolean"})",
      R"({"enum": ["fast", "exact", "mode_)" + std::to_string(function) + R"("]})",
      R"({"type": "array", "items": {"type": "string"}, "maxItems": 8})",
      R"({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,30}$"})",
      R"({"type": ["string", "null"], "minLength": 1, "maxLength": 80})",
      R"({"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]})",
      R"({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]})"};
  std::string text = R"({"type": "object", "properties": {)";
  for (int i = 0; i < kParameters; ++i)
    text += (i > 0 ? ", \"parameter_" : "\"parameter_") + std::to_string(i) + "\": " + kinds[i];
  return text + R"(}, "required": ["parameter_0", "parameter_1", "parameter_4"],)"
                R"( "additionalProperties": false})";
}

void BM_ToolsConvert(benchmark::State& state) {
  std::size_t schema_bytes = 0;
  std::size_t grammar_bytes = 0;
  for (auto step : state) {
    schema_bytes = 0;
    SchemaGrammarBuilder builder;
    std::string root;
    for (int i = 0; i < state.range(0); ++i) {
      const std::string text = Parameters(i);
      schema_bytes += text.size();
      root += (i > 0 ? " | " : "") +
              bench::Must(builder.AddSchema("function", bench::Must(ParseJson(text))));
    }
    if (!builder.AddRule("root", root)) state.SkipWithError("root");
    grammar_bytes = bench::Must(builder.Finish()).size();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(schema_bytes));
  state.counters["schema_bytes"] = static_cast<double>(schema_bytes);
  state.counters["grammar_bytes"] = static_cast<double>(grammar_bytes);
}
BENCHMARK(BM_ToolsConvert)->ArgName("functions")->Arg(1)->Arg(100)->Unit(benchmark::kMicrosecond);

void BM_ToolsParse(benchmark::State& state) {
  for (auto step : state)
    for (int i = 0; i < state.range(0); ++i)
      benchmark::DoNotOptimize(bench::Must(ParseJson(Parameters(i))));
}
BENCHMARK(BM_ToolsParse)->ArgName("functions")->Arg(100)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
