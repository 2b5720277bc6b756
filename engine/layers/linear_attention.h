// Linear attention with a matrix as its state: the recurrences of RWKV-6, RWKV-7 and the gated delta
// rule, each for one head of one sequence, token by token.
//
// The state of a head is [head_size keys, head_size values], so that the inner loops run over values
// side by side and no sum crosses lanes. A token's result depends on the tokens before it alone: in
// pieces of any length the bits are the same.
#pragma once

#include <cstddef>

namespace kvd {

inline constexpr std::size_t kLinearHeadSizeMax = 256;

// Rows of one sequence; a head's elements are at [first, first + head_size) of each.
struct LinearAttentionPiece {
  std::size_t row_count = 0;    // at least 1
  std::size_t head_size = 0;    // 1 to kLinearHeadSizeMax
  const float* from = nullptr;  // [head_size, head_size]; null: zeros
  float* to = nullptr;          // does not overlap `from`
};

// y = (S + diag(u) k v^T)^T r, then S = diag(w) S + k v^T   (Peng et al. 2024, "Eagle and Finch")
struct Wkv6 {
  const float* const* r = nullptr;  // [row_count] rows
  const float* const* k = nullptr;
  const float* const* v = nullptr;
  const float* const* w = nullptr;  // decay of each key, 0 to 1
  const float* u = nullptr;         // [head_size]: weight of the token itself
  float* const* y = nullptr;
  std::size_t first = 0;
};
void ScanWkv6(const LinearAttentionPiece& piece, const Wkv6& head);

// S = diag(w) S + b (S^T a)^T + k v^T, then y = S^T r   (Peng et al. 2025, "RWKV-7 Goose")
struct Wkv7 {
  const float* const* r = nullptr;
  const float* const* w = nullptr;
  const float* const* k = nullptr;
  const float* const* v = nullptr;
  const float* const* a = nullptr;
  const float* const* b = nullptr;
  float* const* y = nullptr;
  std::size_t first = 0;
};
void ScanWkv7(const LinearAttentionPiece& piece, const Wkv7& head);

// S = decay S, S = S + k (beta (v - S^T k))^T, then y = S^T q   (Yang et al. 2024, "Gated Delta
// Networks")
struct DeltaRule {
  const float* const* rows = nullptr;  // [row_count] rows that hold queries, keys and values
  std::size_t q_first = 0;
  std::size_t k_first = 0;
  std::size_t v_first = 0;
  const float* const* decay = nullptr;  // [row_count] rows: that of `head`, 0 to 1
  const float* const* beta = nullptr;   // [row_count] rows: that of `head`, 0 to 1
  std::size_t head = 0;
  float* const* y = nullptr;
  std::size_t y_first = 0;
};
void ScanDeltaRule(const LinearAttentionPiece& piece, const DeltaRule& head);

}  // namespace kvd
