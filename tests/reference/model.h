// Model: a reference model, which computes the logits after one token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "tests/reference/linear_algebra.h"
#include "tests/reference/model_file.h"
#include "tests/reference/sequence.h"

namespace kvd::reference {

class Model {
 public:
  explicit Model(const ModelFile& file);
  virtual ~Model() = default;

  // Appends `token` at `pos` to the sequence and returns the logits after it.
  Vector Next(TokenId token, std::int32_t pos, Sequence& sequence) const;
  // Encodes a text for the sequence. Throws std::runtime_error if the model has no encoder.
  virtual void Encode(const std::vector<TokenId>& tokens, Sequence& sequence) const;

  // Returns the embedding of a text. `pooling`: mean, cls (the first row) or last. Throws
  // std::runtime_error if the model computes no embeddings.
  virtual Vector TextEmbedding(const std::vector<TokenId>& tokens,
                               const std::string& pooling) const;

  std::size_t layer_count() const { return layer_count_; }

 protected:
  // Runs all layers and the last norm on the embedding `x` of a token and returns the resulting
  // row. The token's cell is the last cell of the sequence.
  virtual Vector RunLayers(const Vector& x, Sequence& sequence) const = 0;

  Vector Embed(TokenId token) const { return embedding_.Row(static_cast<std::size_t>(token)); }

 private:
  std::size_t layer_count_;
  Matrix embedding_;
  Matrix output_;
  double logit_bound_;  // logits are bound * tanh(logit / bound); 0: no bound
};

// Each function reads a model of one architecture and is defined in its own file *_model.cc. On
// errors the functions throw std::runtime_error.
std::unique_ptr<Model> ReadLlama(const ModelFile& file);
std::unique_ptr<Model> ReadGemma3(const ModelFile& file);
std::unique_ptr<Model> ReadMamba(const ModelFile& file);
std::unique_ptr<Model> ReadLfm2(const ModelFile& file);
std::unique_ptr<Model> ReadJamba(const ModelFile& file);
std::unique_ptr<Model> ReadT5(const ModelFile& file);
std::unique_ptr<Model> ReadQwen3Moe(const ModelFile& file);
std::unique_ptr<Model> ReadDeepseek2(const ModelFile& file);
std::unique_ptr<Model> ReadGemma4(const ModelFile& file);
std::unique_ptr<Model> ReadBert(const ModelFile& file);

// Reads a model of the architecture that the file names.
std::unique_ptr<Model> ReadModel(const ModelFile& file);

}  // namespace kvd::reference
