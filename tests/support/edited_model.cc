#include "tests/support/edited_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/model/gguf_file.h"
#include "engine/model/gguf_writer.h"
#include "kernels/half.h"
#include "kernels/kernel_table.h"

namespace kvd::test {
namespace {

using kernels::DataType;

// The folder of this process for copies. The destructor removes the folder.
class Copies {
 public:
  Copies()
      : folder_(std::filesystem::temp_directory_path() /
                ("kvd-edited-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Copies() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string NextPath() { return (folder_ / (std::to_string(count_++) + ".gguf")).string(); }

 private:
  std::filesystem::path folder_;
  int count_ = 0;
};

EditedTensor CopyOf(const GgufTensor& tensor) {
  return {.name = std::string(tensor.name),
          .type = tensor.type,
          .dims = {tensor.dims.begin(), tensor.dims.begin() + tensor.rank},
          .bytes = {tensor.data, tensor.data + tensor.bytes}};
}

EditedTensors::iterator Find(EditedTensors& tensors, std::string_view name) {
  const auto at = std::ranges::find(tensors, name, &EditedTensor::name);
  EXPECT_NE(at, tensors.end()) << name;
  return at;
}

}  // namespace

std::string EditedModelPath(const std::string& path,
                            const std::function<void(EditedTensors&)>& edit) {
  static Copies copies;
  std::string to = copies.NextPath();
  const auto file = GgufFile::Open(path);
  EXPECT_TRUE(file.has_value());
  if (!file) return to;
  EditedTensors tensors;
  for (const GgufTensor& tensor : file->tensors()) tensors.push_back(CopyOf(tensor));
  edit(tensors);
  GgufWriter writer;
  for (const GgufEntry& entry : file->entries()) writer.AddEntry(entry);
  for (const EditedTensor& tensor : tensors) {
    writer.AddTensor(tensor.name, tensor.type, tensor.dims);
  }
  const Status written = writer.WriteFile(
      to, [&](std::size_t index, GgufSink& sink) { return sink.Append(tensors[index].bytes); });
  EXPECT_TRUE(written.has_value()) << written.error().message;
  return to;
}

EditedTensor& TensorOf(EditedTensors& tensors, std::string_view name) {
  static EditedTensor nothing;
  const auto at = Find(tensors, name);
  return at == tensors.end() ? nothing : *at;
}

EditedTensor TakeTensor(EditedTensors& tensors, std::string_view name) {
  const auto at = Find(tensors, name);
  if (at == tensors.end()) return {};
  EditedTensor taken = std::move(*at);
  tensors.erase(at);
  return taken;
}

std::vector<float> NumbersOf(const EditedTensor& tensor) {
  std::size_t count = 1;
  for (const std::uint64_t dim : tensor.dims) count *= dim;
  std::vector<float> numbers(count);
  kernels::ScalarTable()->decode_row(tensor.type, tensor.bytes.data(), numbers.data(), count);
  return numbers;
}

void ChangeType(EditedTensor& tensor, DataType type) {
  const std::vector<float> numbers = NumbersOf(tensor);
  tensor.type = type;
  tensor.bytes.resize(kernels::RowBytes(type, numbers.size()));
  if (type == DataType::kF32) {
    std::memcpy(tensor.bytes.data(), numbers.data(), tensor.bytes.size());
    return;
  }
  std::vector<std::uint16_t> halves;
  for (const float number : numbers) {
    halves.push_back(type == DataType::kF16 ? kernels::F16FromF32(number)
                                            : kernels::BF16FromF32(number));
  }
  std::memcpy(tensor.bytes.data(), halves.data(), tensor.bytes.size());
}

}  // namespace kvd::test
