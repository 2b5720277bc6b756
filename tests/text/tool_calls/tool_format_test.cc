// Names of formats, their detection in published templates, the tags of reasoning, and the types
// of parameters.
#include "text/tool_calls/tool_format.h"
#include "tests/support/shared_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/text/tool_calls/answer_cases.h"
#include "text/json.h"
#include "text/tool_calls/tool_table.h"

namespace kvd {
namespace {

TEST(ToolFormatTest, EveryFormatIsFoundByItsName) {
  EXPECT_EQ(ToolFormats().size(), 18u);
  for (const ToolFormat format : ToolFormats()) {
    const auto found = ToolFormatOf(NameOf(format));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, format);
  }
  const auto missing = ToolFormatOf("xml");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kInvalidArgument);
  EXPECT_NE(missing.error().message.find("'xml'; the names are json, hermes, qwen3-coder"),
            std::string::npos);
}

TEST(ToolFormatTest, EveryFormatHasCases) {
  std::map<ToolFormat, int> counts;
  for (const test::AnswerCase& answer : test::AnswerCases()) {
    if (!answer.calls.empty()) ++counts[answer.format];
  }
  for (const ToolFormat format : ToolFormats()) EXPECT_GT(counts[format], 0) << NameOf(format);
}

TEST(ToolFormatTest, PublishedTemplatesAreRecognised) {
  const std::map<std::string, std::string_view> expected = {
      {"Apertus-8B-Instruct", "json"},
      {"ByteDance-Seed-OSS", "seed"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "json"},
      {"GLM-4.6", "glm"},
      {"GigaChat3-10B-A1.8B", "json"},
      {"HuggingFaceTB-SmolLM3-3B", "json"},
      {"Kimi-K2-Instruct", "kimi"},
      {"LFM2.5-Instruct", "lfm2"},
      {"MiniMax-M2", "minimax"},
      {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3-coder"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
      {"Qwen-QwQ-32B", "hermes"},
      {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
      {"Qwen-Qwen3-0.6B", "hermes"},
      {"Qwen3-Coder", "qwen3-coder"},
      {"Qwen3.5-4B", "qwen3-coder"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1"},
      {"deepseek-ai-DeepSeek-V3.1", "deepseek"},
      {"google-gemma-2-2b-it", "json"},
      {"google-gemma-4-31B-it", "gemma4"},
      {"ibm-granite-granite-4.0", "hermes"},
      {"llama-cpp-rwkv-world", "json"},
      {"meetkai-functionary-medium-v3.1", "functionary"},
      {"meta-llama-Llama-3.1-8B-Instruct", "llama3"},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
      {"microsoft-Phi-3.5-mini-instruct", "json"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral-list"},
      {"openai-gpt-oss-120b", "harmony"},
      {"tencent-Hy3", "json"},
      {"unsloth-Apriel-1.5", "apriel"},
      {"unsloth-mistral-Devstral-Small-2507", "mistral"},
      {"upstage-Solar-Open-100B", "solar"},
  };
  const std::filesystem::path folder = "../shared/templates";
  if (const std::string missing = test::MissingShared("templates"); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  for (const auto& [name, format] : expected) {
    std::ifstream file(folder / name / "template.jinja");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(NameOf(DetectToolFormat(text)), format) << name;
  }
}

TEST(ToolFormatTest, TheTagsOfReasoningAreReadFromTheTemplate) {
  EXPECT_EQ(DetectReasoningTags("... '</think>' ...").open, "<think>");
  EXPECT_EQ(DetectReasoningTags("[THINK]x[/THINK]").close, "[/THINK]");
  EXPECT_EQ(DetectReasoningTags("<|channel>thought\n<channel|>").open, "<|channel>thought");
  const ReasoningTags apriel =
      DetectReasoningTags("'Here are my reasoning steps:\\n' or '[BEGIN FINAL RESPONSE]'");
  EXPECT_EQ(apriel.close, "[BEGIN FINAL RESPONSE]");
  EXPECT_TRUE(EndsInReasoning("<|assistant|>\nHere are my reasoning steps:\n", apriel));
  EXPECT_EQ(DetectReasoningTags("nothing").close, "");
  const ReasoningTags tags{"<think>", "</think>"};
  EXPECT_TRUE(EndsInReasoning("<|im_start|>assistant\n<think>\n", tags));
  EXPECT_FALSE(EndsInReasoning("<think>\n\n</think>\n\n", tags));
  EXPECT_FALSE(EndsInReasoning("<think>", {}));
}

TypeSet TypesOf(std::string_view json) {
  const Value schema = ParseJson(json).value();
  return TypesOfSchema(schema, schema);
}

TEST(ToolTableTest, TheTypesThatASchemaAllowsAreFound) {
  EXPECT_EQ(TypesOf(R"({"type": "string"})"), kTypeString);
  EXPECT_EQ(TypesOf(R"({"type": ["integer", "null"]})"), kTypeNumber | kTypeNull);
  EXPECT_EQ(TypesOf(R"({"enum": ["a", 1]})"), kTypeString | kTypeNumber);
  EXPECT_EQ(TypesOf(R"({"const": true})"), kTypeBool);
  EXPECT_EQ(TypesOf(R"({"anyOf": [{"type": "array"}, {"type": "object"}]})"),
            kTypeArray | kTypeObject);
  EXPECT_EQ(TypesOf(R"({"oneOf": [{"type": "string"}, {}]})"), kTypeAny);
  EXPECT_EQ(TypesOf(R"({"$ref": "#/x"})"), kTypeAny);
  EXPECT_EQ(TypesOf(R"({"$ref": "#/$defs/u", "$defs": {"u": {"enum": ["a"]}}})"), kTypeString);
  EXPECT_EQ(TypesOf(R"({"$ref": "#"})"), kTypeAny);
  EXPECT_EQ(TypesOf("true"), kTypeAny);
  std::string deep = R"({"type": "string"})";
  for (int i = 0; i < 40; ++i) deep.insert(0, R"({"anyOf": [)").append("]}");
  EXPECT_EQ(TypesOf(deep), kTypeAny);
}

TEST(ToolTableTest, ParametersAreFoundByFunctionAndName) {
  const ToolTable table(test::CaseTools());
  EXPECT_EQ(table.TypesOf("weather", "city"), kTypeString);
  EXPECT_EQ(table.TypesOf("weather", "days"), kTypeNumber);
  EXPECT_EQ(table.TypesOf("weather", "moon"), kTypeAny);
  EXPECT_EQ(table.TypesOf("moon", "city"), kTypeAny);
  EXPECT_EQ(ToolTable(Value::None()).TypesOf("weather", "city"), kTypeAny);
  EXPECT_EQ(ToolTable(ParseJson(R"([1, {"function": {"name": 2}}, {"name": "f"}])").value())
                .TypesOf("f", "x"),
            kTypeAny);
}

TEST(ToolTableTest, TextsBecomeValuesOfTheAllowedTypes) {
  EXPECT_EQ(JsonOfText("12", kTypeNumber), "12");
  EXPECT_EQ(JsonOfText("12", kTypeString), "\"12\"");
  EXPECT_EQ(JsonOfText(" [1, 2]\n", kTypeAny), "[1, 2]");
  EXPECT_EQ(JsonOfText("a \"b\"", kTypeAny), R"("a \"b\"")");
  EXPECT_EQ(JsonOfText("True", kTypeBool), "true");
  EXPECT_EQ(JsonOfText("None", kTypeAny), "null");
  EXPECT_EQ(JsonOfText("None", kTypeString), "\"None\"");
  EXPECT_EQ(JsonOfText("12", static_cast<TypeSet>(kTypeString | kTypeNull)), "\"12\"");
  EXPECT_EQ(JsonOfText("null", static_cast<TypeSet>(kTypeString | kTypeNull)), "null");
  EXPECT_EQ(JsonOfText("\"x\"", kTypeNumber), "\"x\"");
  EXPECT_EQ(JsonOfText("{'a': 1}", kTypeObject), R"("{'a': 1}")");
}

}  // namespace
}  // namespace kvd
