// The functions of the scalar table, one declaration per entry of KernelTable.
#pragma once

#include "kernels/kernel_table.h"

namespace kvd::kernels::scalar {

extern const KernelTable kTable;

void Matmul(const MatmulArgs& args);
void QuantizeRows(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                  void* to);
void DecodeRow(DataType type, const void* source, float* destination, std::size_t element_count);
bool EncodeRow(DataType type, const float* source, void* destination, std::size_t element_count);
void KeyPanel(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
              float* panel);
void Scores(const float* panel, std::size_t cell_count, std::size_t dim, const float* q,
            std::size_t q_stride, std::size_t row_count, float scale, float* scores,
            std::size_t score_stride);
void SoftmaxRows(float* scores, std::size_t score_stride, std::size_t row_count,
                 std::size_t cell_count, SoftmaxState* states, float* rescales);
void AddValues(DataType v_type, const void* v, std::size_t v_stride, std::size_t cell_count,
               std::size_t dim, const float* p, std::size_t p_stride, const float* rescales,
               std::size_t row_count, float* values, std::size_t value_stride);
void MergeSoftmax(const SoftmaxState& other, const float* other_values, std::size_t dim,
                  SoftmaxState* state, float* values);
void PlainDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
               std::size_t n, float* out);
void LaneDots(const float* a, const float* rows, std::size_t stride, std::size_t count,
              std::size_t n, float* out);
void PlainSoftmax(float* x, std::size_t n, std::size_t lane_count);
void ScanChannels(const ChannelScan& scan);
void ScanHead(const HeadScan& scan);
void Convolve(const ChannelConvolution& work);
void ScanWkv6(const HeadRows& head_rows, const Wkv6& head);
void ScanWkv7(const HeadRows& head_rows, const Wkv7& head);
void ScanDeltaRule(const HeadRows& head_rows, const DeltaRule& head);
void RmsNorm(const float* x, const float* weight, std::size_t n, float epsilon, float* y);
void Rope(float* x, std::size_t head_count, std::size_t head_dim, std::size_t rotated_dim,
          bool interleaved, const float* cosine, const float* sine);
void SiluMultiply(const float* gate, const float* up, std::size_t n, float* y);
void GeluMultiply(const float* gate, const float* up, std::size_t n, float* y);
void Softcap(const float* x, float cap, std::size_t n, float* y);
void Add(const float* a, const float* b, std::size_t n, float* y);
void Scale(const float* a, float factor, std::size_t n, float* y);
bool AllFinite(const float* x, std::size_t n);
std::size_t Argmax(const float* x, std::size_t n);

}  // namespace kvd::kernels::scalar
