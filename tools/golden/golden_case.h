// A golden folder: script.json and expect.f32, read and checked. The README of the golden folders
// describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

namespace kvd::golden {

enum class Op { kDecode, kDecodeBatch, kCopy, kRemove, kKeep, kAdd, kDivide, kEncode, kEmbed };

struct BatchRow {
  std::int64_t sequence = 0;
  std::int32_t pos = 0;
  TokenId token = 0;
};

struct Step {
  Op op = Op::kDecode;
  std::int64_t sequence = 0;     // the field "seq", or "src" of a copy
  std::int64_t destination = 0;  // the field "dst" of a copy
  std::int32_t pos = 0;
  // The fields p0 and p1 of the range; negative: the range is open at that end.
  std::int32_t p0 = -1;
  std::int32_t p1 = -1;
  std::int32_t number = 0;  // the field delta or divisor
  bool all_rows = false;    // true: "logits" is "all"; false: only the last row is compared
  std::vector<TokenId> tokens;
  std::vector<BatchRow> rows;  // the rows of an operation "decode_batch"
  std::string pooling;         // the pooling of an operation "embed"
  std::size_t row_size = 0;    // floats of a row, if they differ from the usual number
  // Position of the first expected number, counted in floats of expect.f32.
  std::size_t expect_offset = 0;
  std::size_t expect_rows = 0;
};

struct Scenario {
  std::string name;
  std::vector<Step> steps;
};

struct Case {
  std::string folder;
  std::string model_path;
  std::string architecture;
  std::string weight_type;
  std::size_t vocab_size = 0;
  std::size_t embedding_size = 0;
  std::vector<Scenario> scenarios;
  std::vector<float> expected;
  // The largest accepted normalised mean squared error (NMSE) of a row with an f32 cache: the
  // script's tolerance, or a default that depends on the weights' type.
  double tolerance = 0;
  // True: the expected numbers were computed with llama.cpp's way to shift and divide positions.
  bool llama_shifts = true;
};

// Floats of an expected row: of the embedding, or of the logits.
std::size_t RowWidth(const Case& golden, const Step& step);

// Errors: kIo; kCorrupt, naming the field: a folder without scenarios, rows outside expect.f32, an
// unknown op or weight type.
Result<Case> ReadCase(const std::string& folder);

// Returns the bytes of a file, or the system's error with the path.
Result<std::string> ReadFile(const std::string& path);

}  // namespace kvd::golden
