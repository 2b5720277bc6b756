// A model's fingerprint is a 32-byte digest by which two different models can be distinguished. A
// daemon refuses to load saved sequences of another model, and to start warm with a pool of another
// model. Each of the four words covers one part of the model, so that a refusal can name the part
// that differs.
//
// The digest covers the architecture, all shapes and rope parameters, the name, type and dimensions
// of every tensor, and up to 16 samples of 64 bytes per tensor. The samples are spread evenly over
// the tensor's data and include its first and last bytes. The digest does not cover the tokenizer,
// the model's name or the order of tensors in the file. Each word is SipHash-2-4 under a fixed key:
// the digest detects mistakes, but not forgery (a process that can write the model file can also
// write the segment).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/model/gguf_file.h"
#include "engine/model/model_config.h"

namespace kvd {

struct ModelFingerprint {
  // Word 0: architecture and shapes. Word 1: rope parameters. Word 2: names, types and dimensions
  // of the tensors. Word 3: tensor data.
  std::array<std::uint64_t, 4> words = {};

  bool operator==(const ModelFingerprint&) const = default;
  std::string ToHex() const;  // 64 lower-case digits
};

// Reads a few pages of every tensor in all parts of the model. REQUIRES: `config` was read from
// `file`.
ModelFingerprint ComputeFingerprint(const GgufFile& file, const ModelConfig& config);

// The parts that differ, for a message: "rope parameters, tensor data". The text is empty if the
// two fingerprints are equal.
std::string DescribeDifference(const ModelFingerprint& a, const ModelFingerprint& b);

}  // namespace kvd
