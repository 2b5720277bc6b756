// make-model: writes a GGUF model of seeded random weights. Exit codes: 0 written, 1 failed, 2
// wrong usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/gguf_parts.h"
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
  std::optional<std::string> name, architecture, type, embedding_type, output_type, scaling, bias,
      pooling;
  std::optional<std::uint32_t> layers, embedding, heads, kv_heads, head_dim, ffn, vocab, context;
  std::optional<std::uint32_t> original_context, window, window_period, labels;
  std::optional<std::uint32_t> experts, experts_used, expert_ffn, shared_ffn, leading_dense;
  std::optional<std::uint32_t> rotated_dim, latent_rank, query_rank, value_dim;
  std::optional<bool> caches_latent;
  std::optional<float> rope_base, rope_factor, rms_epsilon;
  std::optional<bool> tied;
  std::optional<bool> qk_norm;
  std::optional<std::uint64_t> seed;
  kvd::MakeOptions making;
};

// Returns the names of all architectures: "llama, qwen2, ...".
std::string ArchitectureNames() {
  std::string names;
  for (const kvd::ArchitectureDefinition* definition : kvd::Architectures()) {
    names += (names.empty() ? "" : ", ") + std::string(definition->format.name);
  }
  return names;
}

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("-o,--output", flags.output, "file to write")->required();
  app.add_option(
         "--shape", flags.shape,
         "tiny, small, smol-135m, qwen2-0.5b, qwen3-0.6b, tinyllama-1.1b, llama3.2-1b, "
         "llama3-8b, lfm2-350m, mamba-130m, mamba2-130m, qwen35-small, "
         "jamba-small, bge-small, minilm-reranker, nomic-embed, jina-v2-small, modernbert-base, "
         "embeddinggemma-300m, qwen3-embedding-0.6b, flan-t5-small, qwen3moe-small, "
         "gpt-oss-small, deepseek2-lite-small or kimi-linear-small; other flags change single "
         "values")
      ->capture_default_str();
  app.add_option("--arch", flags.architecture, ArchitectureNames());
  app.add_option("--layers", flags.layers, "number of layers");
  app.add_option("--embedding", flags.embedding, "width of the residual stream");
  app.add_option("--heads", flags.heads, "query heads of a layer");
  app.add_option("--kv-heads", flags.kv_heads, "key and value heads of a layer");
  app.add_option("--head-dim", flags.head_dim, "elements of a head; 0: embedding / heads");
  app.add_option("--ffn", flags.ffn, "width of the feed-forward");
  app.add_option("--experts", flags.experts, "experts of a layer; 0: none, or 4 if needed");
  app.add_option("--experts-used", flags.experts_used, "experts that a token uses; 0: 2");
  app.add_option("--expert-ffn", flags.expert_ffn, "width of an expert; 0: --ffn");
  app.add_option("--shared-ffn", flags.shared_ffn, "width of the shared expert; 0: --expert-ffn");
  app.add_option("--leading-dense", flags.leading_dense, "layers before those with experts");
  app.add_option("--rotated-dim", flags.rotated_dim,
                 "deepseek2: rotated elements of a head; 0: half of --head-dim");
  app.add_option("--latent-rank", flags.latent_rank,
                 "deepseek2: elements of the latent row; 0: --head-dim");
  app.add_option("--query-rank", flags.query_rank, "deepseek2: low-rank queries; 0: none");
  app.add_option("--value-dim", flags.value_dim, "deepseek2: elements of a value; 0: --head-dim");
  app.add_option("--caches-latent", flags.caches_latent,
                 "deepseek2: false: the older form with attn_kv_b");
  app.add_option("--vocab", flags.vocab, "number of token ids");
  app.add_option("--context", flags.context, "trained context length");
  app.add_option("--rms-epsilon", flags.rms_epsilon, "epsilon of the norms");
  app.add_option(
      "--type", flags.type,
      "type of the matrices: f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q2_K q3_K q4_K q5_K q6_K iq4_nl "
      "iq4_xs mxfp4 iq2_xxs iq2_xs iq2_s iq3_xxs iq3_s, or the mixtures q4_k_m q5_k_m");
  app.add_option("--embedding-type", flags.embedding_type, "type of token_embd.weight");
  app.add_option("--output-type", flags.output_type, "type of output.weight");
  app.add_option("--tied", flags.tied, "true: the token embedding is also the output matrix");
  app.add_option("--bias", flags.bias, "biases to write: none, qkv or all");
  app.add_option("--pooling", flags.pooling,
                 "how texts are embedded: none, mean, cls, last, or rank (with a classifier)");
  app.add_option("--labels", flags.labels, "scores of the classifier");
  app.add_option("--qk-norm", flags.qk_norm,
                 "true: norms of q and k (command-r, glm4moe, stablelm)");
  app.add_option("--rope-base", flags.rope_base, "base of the rotation frequencies");
  app.add_option("--rope-scaling", flags.scaling,
                 "none, linear, yarn, llama3 or longrope (phi3, phimoe)");
  app.add_option("--rope-factor", flags.rope_factor, "factor by which positions are compressed");
  app.add_option("--rope-original-context", flags.original_context,
                 "trained context before scaling; 0: --context");
  app.add_option("--window", flags.window, "sliding window in positions");
  app.add_option("--window-period", flags.window_period, "N: every N-th layer has no window");
  app.add_option("--seed", flags.seed, "seed of the weights");
  app.add_option("--name", flags.name, "the model's name (general.name)");
  app.add_option("--parts", flags.making.part_count,
                 "number of files to divide the tensors into: OUTPUT-00001-of-0000N.gguf, ...")
      ->check(CLI::Range(1u, kvd::kPartCountMax))
      ->capture_default_str();
  app.add_flag("--sparse", flags.making.is_sparse,
               "leave the matrices as holes, which read as zeros and take no room on the disk");
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
    shape.architecture = definition->format.architecture;
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
  if (flags.pooling) {
    shape.pooling = kvd::PoolingByName(*flags.pooling);
    if (!shape.pooling) {
      return kvd::Fail(kvd::Code::kInvalidArgument, "pooling: ", *flags.pooling,
                       ", must be none, mean, cls, last or rank");
    }
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
  Override(shape.qk_norm, flags.qk_norm);
  Override(shape.rope_base, flags.rope_base);
  Override(shape.rope_factor, flags.rope_factor);
  Override(shape.rope_original_context, flags.original_context);
  Override(shape.window, flags.window);
  Override(shape.window_period, flags.window_period);
  Override(shape.experts, flags.experts);
  Override(shape.experts_used, flags.experts_used);
  Override(shape.expert_ffn, flags.expert_ffn);
  Override(shape.shared_ffn, flags.shared_ffn);
  Override(shape.leading_dense, flags.leading_dense);
  Override(shape.rotated_dim, flags.rotated_dim);
  Override(shape.latent_rank, flags.latent_rank);
  Override(shape.query_rank, flags.query_rank);
  Override(shape.value_dim, flags.value_dim);
  Override(shape.caches_latent, flags.caches_latent);
  Override(shape.labels, flags.labels);
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
  auto made =
      kvd::MakeModelFile(*shape, vocabulary ? &*vocabulary : nullptr, flags.output, flags.making);
  if (!made) return Complain(made.error(), kFailed);
  std::string paths;
  for (const std::string& path : made->paths) paths += (paths.empty() ? "" : ", ") + path;
  std::printf("%s: %s, %.1f M parameters, %.1f MiB\n", paths.c_str(),
              std::string(kvd::DefinitionOf(shape->architecture).format.name).c_str(),
              static_cast<double>(made->parameter_count) / 1e6,
              static_cast<double>(made->tensor_bytes) / (1024.0 * 1024.0));
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return Run(argc, argv); }
