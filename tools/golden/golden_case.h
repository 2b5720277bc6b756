// A golden folder: script.json and expect.f32, read and checked. Format: README of the golden
// folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"

namespace kvd::golden {

enum class Op { kDecode, kDecodeBatch, kCopy, kRemove, kKeep, kAdd, kDivide, kEncode, kEmbed };

struct BatchRow {
  std::int64_t sequence = 0;
  std::int32_t pos = 0;
  TokenId token = 0;
};

struct Step {
  Op op = Op::kDecode;
  std::int64_t sequence = 0;     // "seq", or "src" of a copy
  std::int64_t destination = 0;  // "dst" of a copy
  std::int32_t pos = 0;
  std::int32_t p0 = -1;  // negative: open
  std::int32_t p1 = -1;
  std::int32_t number = 0;  // delta or divisor
  bool all_rows = false;    // "logits": "all", else the last one
  std::vector<TokenId> tokens;
  std::vector<BatchRow> rows;     // of a decode_batch
  std::string pooling;            // of an embed
  std::size_t expect_offset = 0;  // floats
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
  double tolerance = 0;  // NMSE of a row, for an f32 cache
};

// kIo, kCorrupt (names the field): a folder without scenarios, rows outside expect.f32, an unknown
// op or weight type.
Result<Case> ReadCase(const std::string& folder);

}  // namespace kvd::golden
