// ModelFile: reads the weights (f32 or q8_0) and sizes of a model file for the reference.
//
// GgufFile of the engine finds tensors and metadata in the file; this class decodes the bytes of
// the tensors. If a tensor or key is missing, every function throws a std::runtime_error that names
// the tensor or key, because the tests make the files.
#pragma once

#include <string>
#include <vector>

#include "engine/model/gguf_file.h"
#include "tests/reference/linear_algebra.h"

namespace kvd::reference {

class ModelFile {
 public:
  // REQUIRES: `file` outlives this object.
  explicit ModelFile(const GgufFile& file);

  const std::string& architecture() const { return architecture_; }
  bool Has(const std::string& tensor) const { return file_.FindTensor(tensor) != nullptr; }

  // Reads a tensor with the dimensions [columns, rows].
  Matrix ReadMatrix(const std::string& tensor) const;
  Vector ReadVector(const std::string& tensor) const;
  // Reads a tensor with the dimensions [columns, rows, matrices].
  std::vector<Matrix> ReadMatrices(const std::string& tensor) const;

  // Returns the value of the metadata key ARCHITECTURE.`key`.
  std::size_t Count(const std::string& key) const;
  std::size_t CountOr(const std::string& key, std::size_t fallback) const;
  double Real(const std::string& key) const;
  double RealOr(const std::string& key, double fallback) const;
  // Returns the value for `layer` of a key that has either one value for all layers or one value
  // per layer.
  std::size_t CountOfLayer(const std::string& key, std::size_t layer) const;
  // Returns the flag of `layer` of a key that has one flag per layer.
  bool FlagOfLayer(const std::string& key, std::size_t layer) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace kvd::reference
