#include "tests/reference/model.h"

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

namespace kvd::reference {

Model::Model(const ModelFile& file)
    : layer_count_(file.Count("block_count")),
      embedding_(file.ReadMatrix("token_embd.weight")),
      output_(file.Has("output.weight") ? file.ReadMatrix("output.weight") : embedding_),
      logit_bound_(file.RealOr("final_logit_softcapping", 0)) {}

Vector Model::Next(TokenId token, std::int32_t pos, Sequence& sequence) const {
  sequence.states.resize(layer_count_);
  sequence.cells.push_back({.token = token,
                            .pos = pos,
                            .keys = std::vector<Vector>(layer_count_),
                            .values = std::vector<Vector>(layer_count_)});
  Vector logits = output_ * RunLayers(Embed(token), sequence);
  if (logit_bound_ == 0) return logits;
  Vector bounded;
  for (const double logit : logits)
    bounded.push_back(logit_bound_ * std::tanh(logit / logit_bound_));
  return bounded;
}

Vector Model::TextEmbedding(const std::vector<TokenId>&, const std::string&) const {
  throw std::runtime_error("the model computes no embeddings");
}

void Model::Encode(const std::vector<TokenId>&, Sequence&) const {
  throw std::runtime_error("the model has no encoder");
}

std::unique_ptr<Model> ReadModel(const ModelFile& file) {
  static const std::map<std::string, std::unique_ptr<Model> (*)(const ModelFile&)> kReaders = {
      {"llama", ReadLlama},       {"gemma3", ReadGemma3},       {"mamba", ReadMamba},
      {"lfm2", ReadLfm2},         {"jamba", ReadJamba},         {"t5", ReadT5},
      {"qwen3moe", ReadQwen3Moe}, {"deepseek2", ReadDeepseek2}, {"gemma4", ReadGemma4},
      {"bert", ReadBert}};
  const auto found = kReaders.find(file.architecture());
  if (found == kReaders.end()) {
    throw std::runtime_error(file.architecture() +
                             ": the reference does not implement this architecture");
  }
  return found->second(file);
}

}  // namespace kvd::reference
