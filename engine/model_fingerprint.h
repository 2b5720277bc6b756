// A 32-byte digest that tells two models apart: saved sequences and warm restarts refuse a pool of
// another model. Each of its four words covers a part, so that a refusal can name what differs.
//
// It covers the architecture, all shapes and rope parameters, the name, type and dimensions of
// every tensor, and up to 16 samples of 64 bytes spread evenly over each tensor's data, always
// including its first and last bytes. It does not cover the tokenizer, names or the place of
// tensors in the file. Each word is SipHash-2-4 under a fixed key: it catches mistakes, not a
// forger (whoever can write the model file can also write the segment).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/gguf_file.h"
#include "engine/model_config.h"

namespace kvd {

struct ModelFingerprint {
  // Architecture and shapes; rope parameters; names, types and dimensions of the tensors; their
  // data.
  std::array<std::uint64_t, 4> words = {};

  bool operator==(const ModelFingerprint&) const = default;
  std::string ToHex() const;  // 64 lower-case digits
};

// REQUIRES: `config` was read from `file`. Touches a few pages of every tensor.
ModelFingerprint ComputeFingerprint(const GgufFile& file, const ModelConfig& config);

// The parts that differ, for a message: "rope parameters, tensor data"; empty for equal ones.
std::string DescribeDifference(const ModelFingerprint& a, const ModelFingerprint& b);

}  // namespace kvd
