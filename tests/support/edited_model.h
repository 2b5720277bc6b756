// Copies of model files with other tensors, for tests of other forms in which files store the same
// weights. The copies are removed when the process exits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data_type.h"

namespace kvd::test {

struct EditedTensor {
  std::string name;
  kernels::DataType type = kernels::DataType::kF32;
  std::vector<std::uint64_t> dims;  // fastest first
  std::vector<std::byte> bytes;
};
using EditedTensors = std::vector<EditedTensor>;

// Copies the model file at `path`, applies `edit` to its tensors and returns the path of the copy.
// Fails the test on errors.
std::string EditedModelPath(const std::string& path,
                            const std::function<void(EditedTensors&)>& edit);

// Returns the tensor with this name. Fails the test and returns an empty tensor if the name is
// missing.
EditedTensor& TensorOf(EditedTensors& tensors, std::string_view name);
// Removes the tensor and returns it.
EditedTensor TakeTensor(EditedTensors& tensors, std::string_view name);

// Returns the tensor's numbers in f32.
std::vector<float> NumbersOf(const EditedTensor& tensor);
// Stores the tensor's numbers in another type. REQUIRES: `type` is f32, f16 or bf16.
void ChangeType(EditedTensor& tensor, kernels::DataType type);

}  // namespace kvd::test
