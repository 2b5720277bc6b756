#include "http/options/parse_flags.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/support/temporary_folder.h"

namespace kvd::http::parse_flags_test {
namespace {

using Variables = std::map<std::string, std::string>;

Result<ParsedFlags> Parse(const std::vector<std::string>& arguments,
                          const Variables& variables = {}) {
  std::vector<const char*> pointers = {"kvd-http"};
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  return ParseFlags(static_cast<int>(pointers.size()), pointers.data(),
                    [&](const char* name) -> const char* {
                      const auto found = variables.find(name);
                      return found == variables.end() ? nullptr : found->second.c_str();
                    });
}

Settings Parsed(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  Result<ParsedFlags> parsed = Parse(arguments, variables);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? parsed->settings : Settings{};
}

std::string Refusal(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  const Result<ParsedFlags> parsed = Parse(arguments, variables);
  EXPECT_FALSE(parsed);
  return parsed ? "" : parsed.error().message;
}

std::vector<std::string> Words(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

std::vector<std::span<const Flag>> Tables() {
  return {ModelFlags(),    ServerFlags(),  ChatFlags(),
          SamplingFlags(), IgnoredFlags(), RefusedFlags()};
}

TEST(ParseFlagsTest, EveryNameBelongsToOneFlag) {
  std::set<std::string> names;
  for (const auto& table : Tables()) {
    for (const Flag& flag : table) {
      for (const std::string& name : Words(flag.names)) {
        EXPECT_TRUE(names.insert(name).second) << name;
      }
      for (const std::string& name : Words(flag.negatives)) {
        EXPECT_TRUE(names.insert(name).second) << name;
      }
    }
  }
}

TEST(ParseFlagsTest, EveryVariableBelongsToOneFlag) {
  std::set<std::string_view> variables;
  for (const auto& table : Tables()) {
    for (const Flag& flag : table) {
      if (!flag.environment.empty()) {
        EXPECT_TRUE(variables.insert(flag.environment).second) << flag.environment;
      }
    }
  }
}

TEST(ParseFlagsTest, EveryFlagOfATableIsUsedIgnoredOrRefused) {
  for (const auto& table : {ModelFlags(), ServerFlags(), ChatFlags(), SamplingFlags()}) {
    for (const Flag& flag : table) {
      EXPECT_NE(flag.take, nullptr) << flag.names;
      EXPECT_FALSE(flag.help.empty()) << flag.names;
    }
  }
  for (const Flag& flag : IgnoredFlags()) EXPECT_EQ(flag.take, nullptr) << flag.names;
  for (const Flag& flag : RefusedFlags()) EXPECT_FALSE(flag.refused.empty()) << flag.names;
}

TEST(ParseFlagsTest, EveryIgnoredFlagIsAcceptedWithALine) {
  for (const Flag& flag : IgnoredFlags()) {
    for (const std::string& name : Words(flag.names)) {
      std::vector<std::string> arguments = {name};
      if (!flag.argument.empty()) arguments.emplace_back("1");
      const auto parsed = Parse(arguments);
      ASSERT_TRUE(parsed) << parsed.error().message;
      ASSERT_EQ(parsed->notes.size(), flag.ignored.empty() ? 0u : 1u) << name;
      if (!flag.ignored.empty()) {
        EXPECT_TRUE(parsed->notes[0].starts_with(name + " has no effect: ")) << parsed->notes[0];
      }
    }
  }
}

TEST(ParseFlagsTest, EveryRefusedFlagIsRefusedByName) {
  for (const Flag& flag : RefusedFlags()) {
    for (const std::string& name : Words(flag.names)) {
      const auto parsed = Parse({name, "1"});
      ASSERT_FALSE(parsed) << name;
      EXPECT_EQ(parsed.error().code, Code::kUnsupported);
      EXPECT_TRUE(parsed.error().message.starts_with(name + ": not supported")) << name;
    }
  }
}

TEST(ParseFlagsTest, AcceptsTheFlagsInTheTestsOfLlamaServer) {
  const kvd::test::TemporaryFolder folder;
  const std::string directory = folder.path().string();
  const std::string file = directory + "/file";
  std::ofstream(file) << "text\n";
  const std::vector<std::vector<std::string>> flags = {
      {"--host", "127.0.0.1"},
      {"--port", "8080"},
      {"--model", "m.gguf"},
      {"-m", "m.gguf"},
      {"--temp", "0.8"},
      {"--seed", "42"},
      {"--seed", "-1"},
      {"--hf-repo", "a/b"},
      {"-hf", "a/b"},
      {"--hf-repo", "a/b", "--hf-file", "c"},
      {"-hf", "a/b:Q8_0", "-hff", "c"},
      {"--offline"},
      {"--alias", "a,b"},
      {"--ctx-size", "512"},
      {"-c", "0"},
      {"--batch-size", "32"},
      {"--ubatch-size", "32"},
      {"--threads", "2"},
      {"--threads", "-1"},
      {"--n-gpu-layers", "99"},
      {"-ngl", "0"},
      {"--parallel", "2"},
      {"-np", "-1"},
      {"--cont-batching"},
      {"--n-predict", "8"},
      {"-n", "-1"},
      {"-ctk", "q8_0"},
      {"-ctv", "f16"},
      {"-fa", "on"},
      {"--flash-attn", "auto"},
      {"--kv-unified"},
      {"--swa-full"},
      {"--context-shift"},
      {"--slots"},
      {"--no-slots"},
      {"--slot-save-path", directory},
      {"--metrics"},
      {"--props"},
      {"--embedding"},
      {"--embeddings"},
      {"--pooling", "none"},
      {"--pooling", "rank"},
      {"--reranking"},
      {"--api-key", "a,b"},
      {"--api-key-file", file},
      {"--jinja"},
      {"--no-jinja"},
      {"--chat-template", "chatml"},
      {"--chat-template-file", file},
      {"--reasoning-format", "none"},
      {"--reasoning-format", "deepseek-legacy"},
      {"--reasoning", "on"},
      {"--reasoning", "auto"},
      {"--reasoning-budget", "0"},
      {"--tags", "x,y"},
      {"--cache-ram", "100"},
      {"--no-ui"},
      {"--no-webui"},
      {"--verbose"},
      {"--log-file", file},
      {"--timeout", "60"},
      {"--threads-http", "4"},
      {"--cache-reuse", "64"},
      {"--cache-prompt"},
      {"--no-cache-prompt"},
      {"--spm-infill"},
      {"--cors-origins", "*"},
      {"--trusted-proxy", "10.0.0.0/8,::1"},
      {"--ssl-key-file", file, "--ssl-cert-file", file},
      {"--no-mmproj"},
      {"--no-models-autoload"},
      {"--no-cache-idle-slots"},
      {"--backend_sampling"},
      {"--model-url", "https://host/a.gguf"}};
  for (const std::vector<std::string>& arguments : flags) {
    const auto parsed = Parse(arguments);
    EXPECT_TRUE(parsed) << arguments[0] << ": " << parsed.error().message;
  }
}

TEST(ParseFlagsTest, RefusesUnsupportedFeatures) {
  for (const char* const flag :
       {"--lora", "--mmproj", "--spec-type", "--models-dir", "--tools", "--model-draft", "-md",
        "--mcp-servers-config", "--sleep-idle-seconds", "--rope-scale", "--draft-max"}) {
    EXPECT_TRUE(Refusal({flag, "x"}).starts_with(std::string(flag) + ": not supported")) << flag;
  }
}

TEST(ParseFlagsTest, NamesAnUnknownFlag) {
  EXPECT_TRUE(Refusal({"--colour"}).starts_with("--colour: unknown flag"));
  EXPECT_TRUE(Refusal({"model.gguf"}).starts_with("model.gguf: unknown flag"));
  EXPECT_TRUE(Refusal({"--metrics=1"}).starts_with("--metrics=1: unknown flag"));
}

TEST(ParseFlagsTest, NamesAMissingOrWrongValue) {
  EXPECT_EQ(Refusal({"--port"}), "--port: the value is missing: PORT");
  EXPECT_EQ(Refusal({"--port", "65536"}), "--port: \"65536\" is not a number from 0 to 65535");
  EXPECT_EQ(Refusal({"--temp", "hot"}), "--temp: \"hot\" is not a number");
  EXPECT_EQ(Refusal({"--pooling", "max"}),
            "--pooling: \"max\" is not one of: none mean cls last rank");
  EXPECT_EQ(Refusal({"-np", "0"}), "-np: \"0\" is not -1 or a number from 1");
  EXPECT_EQ(Refusal({"--slot-save-path", "/no/such"}),
            "--slot-save-path: \"/no/such\" is not a directory");
  EXPECT_EQ(Refusal({"--min-p", "2"}), "min_p: 2 given, must be in [0, 1]");
  EXPECT_TRUE(Refusal({"--chat-template-kwargs", "[1]"}).ends_with("is not a JSON object"));
}

TEST(ParseFlagsTest, ReadsTheSamplingFlags) {
  const GenerationDefaults defaults = Parsed({"--temp",
                                              "-1",
                                              "--top-k",
                                              "-5",
                                              "--top-p",
                                              "1.5",
                                              "--repeat-penalty",
                                              "1.1",
                                              "--samplers",
                                              "top_k;temperature",
                                              "-n",
                                              "64",
                                              "--keep",
                                              "-1",
                                              "--ignore-eos",
                                              "--mirostat",
                                              "2",
                                              "-l",
                                              "15043-1.5",
                                              "--logit-bias",
                                              "7+inf",
                                              "--dry-sequence-breaker",
                                              "\\n",
                                              "--dry-sequence-breaker",
                                              "."})
                                          .defaults;
  EXPECT_EQ(defaults.sampling.temperature, 0);
  EXPECT_EQ(defaults.sampling.top_k, 0);
  EXPECT_EQ(defaults.sampling.top_p, 1);
  EXPECT_EQ(defaults.sampling.repeat_penalty, 1.1f);
  EXPECT_EQ(SamplerNames(defaults.sampling.chain), "top_k;temperature");
  EXPECT_EQ(defaults.sampling.mirostat, 2);
  EXPECT_EQ(defaults.predict_max, 64);
  EXPECT_EQ(defaults.keep, -1);
  EXPECT_TRUE(defaults.ignores_eos);
  ASSERT_EQ(defaults.biases.size(), 2u);
  EXPECT_EQ(defaults.biases[0].token, 15043);
  EXPECT_EQ(defaults.biases[0].bias, -1.5f);
  EXPECT_TRUE(std::isinf(defaults.biases[1].bias));
  EXPECT_EQ(defaults.breakers, (std::vector<std::string>{"\n", "."}));
  EXPECT_EQ(Parsed({"--no-escape", "--dry-sequence-breaker", "\\n"}).defaults.breakers,
            std::vector<std::string>{"\\n"});
  EXPECT_EQ(Parsed({"--seed", "-1"}).defaults.seed, kRandomSeed);
  EXPECT_EQ(Parsed({"--seed", "42"}).defaults.seed, 42u);
}

TEST(ParseFlagsTest, DividesTheContextBetweenTheSlotsAsLlamaServerDoes) {
  const Settings divided = Parsed({"-c", "1000", "-np", "2"});
  EXPECT_EQ(divided.context_cells, 1024u);
  EXPECT_FALSE(divided.is_unified);
  EXPECT_EQ(Parsed({"-c", "512", "-np", "4"}).context_cells, 4 * 256u);
  const Settings chosen = Parsed({"-c", "512"});
  EXPECT_EQ(chosen.slot_count, kSlotsDefault);
  EXPECT_TRUE(chosen.is_unified);
  EXPECT_EQ(chosen.context_cells, 512u);
  EXPECT_EQ(Parsed({"-np", "3"}).context_cells, 0u);
}

TEST(ParseFlagsTest, CollectsTheTrustedProxies) {
  const Settings settings =
      Parsed({"--trusted-proxy", "10.0.0.0/8, ::1,", "--trusted-proxy", "192.0.2.1"});
  EXPECT_EQ(settings.trusted_proxies, (std::vector<std::string>{"10.0.0.0/8", "::1", "192.0.2.1"}));
  EXPECT_TRUE(Parsed({}).trusted_proxies.empty());
  for (const char* value : {"", ","}) {
    EXPECT_TRUE(Refusal({"--trusted-proxy", value}).ends_with("is not a list of networks"));
  }
}

TEST(ParseFlagsTest, AliasesAreSorted) {
  EXPECT_EQ(Parsed({"--alias", "zeta, alpha,,alpha"}).aliases,
            (std::vector<std::string>{"alpha", "zeta"}));
}

TEST(ParseFlagsTest, TheCommandLineReplacesTheEnvironment) {
  const Variables variables = {{"LLAMA_ARG_PORT", "9000"},          {"LLAMA_ARG_CTX_SIZE", "256"},
                               {"LLAMA_ARG_ENDPOINT_METRICS", "1"}, {"LLAMA_ARG_JINJA", "off"},
                               {"LLAMA_ARG_NO_CACHE_PROMPT", ""},   {"LLAMA_API_KEY", "k"}};
  const Settings settings = Parsed({"--port", "9001"}, variables);
  EXPECT_EQ(settings.port, 9001);
  EXPECT_EQ(settings.context_cells, 256u);
  EXPECT_TRUE(settings.serves_metrics);
  EXPECT_FALSE(settings.uses_jinja);
  EXPECT_FALSE(settings.defaults.caches_prompt);
  EXPECT_EQ(settings.api_keys, std::vector<std::string>{"k"});
}

TEST(ParseFlagsTest, NamesAWrongVariable) {
  EXPECT_EQ(Refusal({}, {{"LLAMA_ARG_PORT", "no"}}),
            "LLAMA_ARG_PORT: \"no\" is not a number from 0 to 65535");
  EXPECT_TRUE(Refusal({}, {{"LLAMA_ARG_MODELS_DIR", "d"}})
                  .starts_with("LLAMA_ARG_MODELS_DIR: not supported"));
  EXPECT_TRUE(Parse({}, {{"LLAMA_ARG_MODELS_AUTOLOAD", "0"}}));
}

TEST(ParseFlagsTest, ReadsDaemonsAndTheirAliases) {
  const Settings settings = Parsed({"--daemon", "chat", "--daemon", "embed=embedder"});
  ASSERT_EQ(settings.daemons.size(), 2u);
  EXPECT_EQ(settings.daemons[0].name, "chat");
  EXPECT_EQ(settings.daemons[0].alias, "");
  EXPECT_EQ(settings.daemons[1].alias, "embedder");
  EXPECT_TRUE(Refusal({"--daemon", "=x"}).starts_with("--daemon: "));
  EXPECT_TRUE(Refusal({"--daemon", "a/b"}).starts_with("--daemon: "));
}

TEST(ParseFlagsTest, RefusesFlagsThatContradictEachOther) {
  EXPECT_TRUE(Refusal({"--ssl-key-file", "k"}).starts_with("--ssl-key-file: "));
  EXPECT_TRUE(Refusal({"--api-key", "k", "--tenants", "t"}).starts_with("--api-key: "));
  EXPECT_TRUE(Refusal({"--hf-file", "f"}).starts_with("--hf-file: "));
}

TEST(ParseFlagsTest, PassesTheFlagsAfterTwoHyphensToKvd) {
  EXPECT_EQ(Parsed({"--port", "1", "--", "--log-level", "debug"}).daemon_arguments,
            (std::vector<std::string>{"--log-level", "debug"}));
}

TEST(ParseFlagsTest, TakesASocketPathAsAUnixSocket) {
  EXPECT_EQ(Parsed({"--host", "/run/a.sock"}).host, "unix:/run/a.sock");
  EXPECT_EQ(Parsed({"--host", "unix:/run/a"}).host, "unix:/run/a");
}

TEST(ParseFlagsTest, CollectsTemplateVariables) {
  const Settings settings = Parsed({"--chat-template-kwargs", R"({"a": 1})", "--reasoning-effort",
                                    "high", "--reasoning-preserve"});
  ASSERT_TRUE(settings.template_variables.is_dict());
  const Dict& variables = settings.template_variables.dict();
  EXPECT_EQ(variables.Find("a").integer(), 1);
  EXPECT_EQ(variables.Find("reasoning_effort").view(), "high");
  EXPECT_TRUE(variables.Find("preserve_reasoning").truth());
}

TEST(ParseFlagsTest, TheHelpTextNamesEveryFlag) {
  const auto parsed = Parse({"--help"});
  ASSERT_TRUE(parsed && parsed->print);
  for (const auto& table : Tables()) {
    for (const Flag& flag : table) {
      for (const std::string& name : Words(flag.names)) {
        EXPECT_NE(parsed->print->find(name), std::string::npos) << name;
      }
    }
  }
  EXPECT_TRUE(Parse({"--version"})->print->starts_with("kvd-http "));
}

}  // namespace
}  // namespace kvd::http::parse_flags_test
