// make-model: writes a GGUF model of seeded random weights. Exit codes: 0 written, 1 failed, 2
// wrong usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "engine/architectures/architecture.h"
#include "engine/gguf_file.h"
#include "tools/make_model/model_maker.h"
#include "tools/make_model/model_shape.h"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int Complain(const kvd::Error& error, int exit_code) {
  std::fprintf(stderr, "make-model: %s\n", error.message.c_str());
  return exit_code;
}

struct Flags {
  std::string shape = "tiny";
  std::string output;
  std::string vocabulary;
  std::optional<std::string> name, architecture, type, embedding_type, output_type, scaling, bias;
  std::optional<std::uint32_t> layers, embedding, heads, kv_heads, head_dim, ffn, vocab, context;
  std::optional<std::uint32_t> original_context, window, window_period;
  std::optional<float> rope_base, rope_factor, rms_epsilon;
  std::optional<bool> tied;
  std::optional<std::uint64_t> seed;
};

// "llama, qwen2, ..."
std::string ArchitectureNames() {
  std::string names;
  for (const kvd::ArchitectureDefinition* definition : kvd::Architectures()) {
    names += (names.empty() ? "" : ", ") + std::string(definition->name);
  }
  return names;
}

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("-o,--output", flags.output, "file to write")->required();
  app.add_option("--shape", flags.shape,
                 "tiny, small, smol-135m, qwen2-0.5b, qwen3-0.6b, tinyllama-1.1b, llama3.2-1b, "
                 "llama3-8b, lfm2-350m, mamba-130m, mamba2-130m, qwen35-small, "
                 "jamba-small, bge-small or flan-t5-small; the other flags change it")
      ->capture_default_str();
  app.add_option("--arch", flags.architecture, ArchitectureNames());
  app.add_option("--layers", flags.layers, "number of layers");
  app.add_option("--embedding", flags.embedding, "width of the residual stream");
  app.add_option("--heads", flags.heads, "query heads of a layer");
  app.add_option("--kv-heads", flags.kv_heads, "key and value heads of a layer");
  app.add_option("--head-dim", flags.head_dim, "elements of a head; 0: embedding / heads");
  app.add_option("--ffn", flags.ffn, "width of the feed-forward");
  app.add_option("--vocab", flags.vocab, "number of token ids");
  app.add_option("--context", flags.context, "trained context length");
  app.add_option("--rms-epsilon", flags.rms_epsilon, "of the norms");
  app.add_option("--type", flags.type,
                 "of the matrices: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_K q5_K q6_K, or the "
                 "mixtures q4_k_m q5_k_m");
  app.add_option("--embedding-type", flags.embedding_type, "of token_embd.weight");
  app.add_option("--output-type", flags.output_type, "of output.weight");
  app.add_option("--tied", flags.tied, "true: the token embedding serves as output");
  app.add_option("--bias", flags.bias, "biases to write: none, qkv or all");
  app.add_option("--rope-base", flags.rope_base, "base of the rotation frequencies");
  app.add_option("--rope-scaling", flags.scaling, "none, linear, yarn, llama3 or longrope (phi3)");
  app.add_option("--rope-factor", flags.rope_factor, "by which positions are compressed");
  app.add_option("--rope-original-context", flags.original_context,
                 "context before scaling; 0: --context");
  app.add_option("--window", flags.window, "positions in reach of layers with a window");
  app.add_option("--window-period", flags.window_period,
                 "of so many layers the last has no window");
  app.add_option("--seed", flags.seed, "of the weights");
  app.add_option("--name", flags.name, "general.name");
  app.add_option("--vocab-from", flags.vocabulary,
                 "GGUF file whose tokenizer is copied; sets --vocab");
}

template <class T>
void Override(T& target, const std::optional<T>& flag) {
  if (flag) target = *flag;
}

kvd::Status OverrideNames(const Flags& flags, kvd::ModelShape& shape) {
  if (flags.architecture) {
    KVD_TRY(const auto* definition, kvd::DefinitionByName(*flags.architecture));
    shape.architecture = definition->architecture;
  }
  if (flags.type) KVD_CHECK_OK(kvd::SetType(shape, *flags.type));
  if (flags.embedding_type) {
    KVD_TRY(shape.embedding_type, kvd::DataTypeByName(*flags.embedding_type));
  }
  if (flags.output_type) {
    KVD_TRY(shape.output_type, kvd::DataTypeByName(*flags.output_type));
  }
  const std::map<std::string, kvd::BiasSet> biases = {
      {"none", kvd::BiasSet::kNone}, {"qkv", kvd::BiasSet::kQkv}, {"all", kvd::BiasSet::kAll}};
  if (flags.bias) {
    auto at = biases.find(*flags.bias);
    if (at == biases.end()) {
      return kvd::Fail(kvd::Code::kInvalidArgument, "bias: must be none, qkv or all");
    }
    shape.bias = at->second;
  }
  if (!flags.scaling) return {};
  for (auto scaling : {kvd::RopeScaling::kNone, kvd::RopeScaling::kLinear, kvd::RopeScaling::kYarn,
                       kvd::RopeScaling::kLlama3, kvd::RopeScaling::kLongRope}) {
    if (kvd::RopeScalingName(scaling) != *flags.scaling) continue;
    shape.rope_scaling = scaling;
    return {};
  }
  return kvd::Fail(kvd::Code::kInvalidArgument,
                   "rope scaling: must be none, linear, yarn, llama3 or longrope");
}

kvd::Result<kvd::ModelShape> ShapeFromFlags(const Flags& flags) {
  KVD_TRY(auto shape, kvd::NamedShape(flags.shape));
  KVD_CHECK_OK(OverrideNames(flags, shape));
  Override(shape.name, flags.name);
  Override(shape.layers, flags.layers);
  Override(shape.embedding, flags.embedding);
  Override(shape.heads, flags.heads);
  Override(shape.kv_heads, flags.kv_heads);
  Override(shape.head_dim, flags.head_dim);
  Override(shape.ffn, flags.ffn);
  Override(shape.vocab, flags.vocab);
  Override(shape.context, flags.context);
  Override(shape.rms_epsilon, flags.rms_epsilon);
  Override(shape.tied, flags.tied);
  Override(shape.rope_base, flags.rope_base);
  Override(shape.rope_factor, flags.rope_factor);
  Override(shape.rope_original_context, flags.original_context);
  Override(shape.window, flags.window);
  Override(shape.window_period, flags.window_period);
  Override(shape.seed, flags.seed);
  return shape;
}

int Run(int argc, char** argv) {
  CLI::App app("Writes a GGUF model of seeded random weights, for tests and benches.");
  Flags flags;
  Declare(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  auto shape = ShapeFromFlags(flags);
  if (!shape) return Complain(shape.error(), kUsage);
  std::optional<kvd::GgufFile> vocabulary;
  if (!flags.vocabulary.empty()) {
    auto opened = kvd::GgufFile::Open(flags.vocabulary);
    if (!opened) return Complain(opened.error(), kFailed);
    vocabulary = std::move(*opened);
  }
  auto made = kvd::MakeModelFile(*shape, vocabulary ? &*vocabulary : nullptr, flags.output);
  if (!made) return Complain(made.error(), kFailed);
  std::printf("%s: %s, %.1f M parameters, %.1f MiB\n", flags.output.c_str(),
              std::string(kvd::DefinitionOf(shape->architecture).name).c_str(),
              static_cast<double>(made->parameter_count) / 1e6,
              static_cast<double>(made->tensor_bytes) / (1024.0 * 1024.0));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Run(argc, argv); }
