// Writes the seeds of gguf_fuzz into a directory: one small model per architecture, type and rope
// scaling.
#include <cstdio>
#include <string>

#include "engine/architectures/architecture.h"
#include "tools/make_model/model_maker.h"

namespace {

// The smallest model that has every kind of tensor; about 10 KiB in f32.
kvd::ModelShape SeedShape() {
  kvd::ModelShape shape;
  shape.layers = 1;
  shape.embedding = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.ffn = 32;
  shape.vocab = 16;
  shape.low_rank = 4;
  shape.rope_factor = 4.0f;
  shape.bias = kvd::BiasSet::kAll;
  return shape;
}

int Write(const kvd::ModelShape& shape, const std::string& path) {
  auto made = kvd::MakeModelFile(shape, nullptr, path);
  if (made) return 0;
  std::fprintf(stderr, "make_gguf_corpus: %s\n", made.error().message.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_gguf_corpus DIRECTORY\n");
    return 2;
  }
  std::string prefix = std::string(argv[1]) + "/";
  int failed = 0;
  for (const kvd::ArchitectureDefinition* definition : kvd::Architectures()) {
    kvd::ModelShape shape = SeedShape();
    shape.architecture = definition->architecture;
    shape.layers = 2;  // a hybrid has its first attention in the second
    failed |= Write(shape, prefix + std::string(definition->name));
  }
  for (const char* type : {"f32", "bf16", "q4_0", "q5_1"}) {
    kvd::ModelShape shape = SeedShape();
    if (!kvd::SetType(shape, type)) failed = 1;
    failed |= Write(shape, prefix + "type_" + type);
  }
  for (kvd::RopeScaling scaling :
       {kvd::RopeScaling::kLinear, kvd::RopeScaling::kYarn, kvd::RopeScaling::kLlama3}) {
    kvd::ModelShape shape = SeedShape();
    shape.rope_scaling = scaling;
    shape.tied = true;
    failed |= Write(shape, prefix + "rope_" + std::string(kvd::RopeScalingName(scaling)));
  }
  return failed;
}
