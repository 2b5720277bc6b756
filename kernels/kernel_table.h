// The arithmetic of the project as one table of function pointers per instruction set.
//
// `kernels/scalar` defines what each function computes. `kernels/avx2` and `kernels/avx512` compute
// THE SAME BITS, because the order of every sum is part of the definition (below). A row's result
// therefore depends neither on the number of rows computed together, nor on the thread, nor on the
// table; `--deterministic` relies on this independence of rows, threads and tables. Two kinds of
// functions exist only for machines that multiply bf16, and have a different order of sums, with
// results within the golden tolerances: products with weights of f16, bf16 and, in the amx table,
// quantised types (HalfDot; never with f32 weights), and attention over rounded cells
// (Bf16Attention).
//
// THE NUMERIC FORM
//   Dot(a, b, n): 16 partial sums s[0..15] start at 0; element j is added to s[j % 16] by a fused
//   multiply-add, j ascending;
//     then s[i] += s[i + 8] (i < 8), s[i] += s[i + 4] (i < 4), s[i] += s[i + 2] (i < 2), and s[0] +
//     s[1] is the result.
//   QuantDot(x, w, n), for a quantised weight type: x is first quantised to int8 in blocks of 32
//   (kernels/quantized_row.h). Block b of 32 elements has the exact integer S = sum of x.q * w.q,
//   where w.q is the element's integer in the weight's block (for q2_K, q3_K, q6_K and the types of
//   kernels/quant_grids.h, S is the sum of the two halves' sums, each times its integer scale).
//   Then, by fused multiply-adds, b ascending,
//     s[b % 4] += float(S) * (scale * x.d), and for types with a minimum after that
//     s[b % 4] += minimum * x.scaled_sum, and for q2_K after that
//     s[b % 4] += (first / 128) * (float(x.half_start) * x.d);
//   the result is (s[0] + s[2]) + (s[1] + s[3]). scale and minimum are those of the block in f32:
//   d and m; for q4_K and q5_K d * scale and -(dmin * minimum); for iq4_xs d * (scale - 32); for
//   q2_K, q3_K and q6_K d; for the types of grids GridBlock::scale. For q2_K, minimum is that of
//   the second half, -(dmin * minimum), and first is dmin * (the first half's - the second's).
//   HalfDot(x, w, n), if matmul is given rows in bf16: x and w (quantised weights decoded to f32)
//   are rounded to bf16, to nearest even. Then fused multiply-adds that treat subnormals as zeros,
//   starting from 0 (Intel's description of VDPBF16PS and TDPBF16PS),
//     avx512: s += x[2p + 1] * w[2p + 1], then s += x[2p] * w[2p], pairs p ascending;
//     amx: for each 32 elements, ascending, e += x[2p] * w[2p] and o += x[2p + 1] * w[2p + 1] from
//     0, p ascending; then s += e + o.
//   OuterDot(x, w, n), if matmul is asked for outer products: for each kOuterElements elements
//   (kernels/panels.h), ascending, s starts at 0 and element j is added to it by a fused
//   multiply-add, j ascending; the result is the first s, to which the others are added in turn.
//   Scores of attention and weighted values have their own orders of sums, and a softmax processes
//   runs of 32 cells (below). Exp(x), Tanh(x): the polynomial of kernels/form_constants.h, the same
//   operations in every table. Sums over a run (softmax) use the same 16 partial sums. Sums of
//   squares over a row (norms) also use 16 partial sums, with products in f32 that are summed in
//   double.
//
// Threads: every function is reentrant, allocates nothing, and reads and writes only the memory
// that its arguments name. n may be 0. Pointers to f32 data need an alignment of 4 only. The caller
// ensures that inputs are finite, unless stated otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/data_type.h"
#include "kernels/scan_args.h"

namespace kvd::kernels {

// y[r][o] = Dot(x[r], w[o], in_features) for r in [0, row_count), o in [first_out, last_out). For a
// quantised type, y is QuantDot, which reads quantized_x instead of x. If bf16_x is not null, y is
// HalfDot, which reads only bf16_x.
struct MatmulArgs {
  DataType weight_type;
  const void* weights;      // [out_features, in_features], rows of RowBytes(weight_type,
                            // in_features)
  std::size_t in_features;  // a multiple of ElementsPerBlock(weight_type)
  const float* x;           // [row_count, x_stride]
  std::size_t x_stride;     // floats from one row of x to the next
  const void* quantized_x;  // [row_count] rows of quantize_rows if IsQuantized(weight_type)
  // Null, or [row_count] rows of round_rows. REQUIRES: f16, bf16 or, if the table has
  // bf16_quant_rows_min, quantised weights.
  const void* bf16_x;
  std::size_t row_count;
  float* const* y;  // [row_count] pointers to rows; y[r][o] is written only for o in the range
  std::size_t first_out;
  std::size_t last_out;
  float* workspace;  // MatmulWorkspaceFloats(in_features, row_count) floats, private to
                     // the caller; 64-byte aligned
  // y is OuterDot. REQUIRES: weights of f32, f16 or bf16, and bf16_x is null.
  bool outer_products = false;
  // As the members of ProductChoice (kernels/product_choice.h); they change no bit of y.
  std::uint32_t ahead_bytes = 0;
  std::uint32_t panel_from_rows = 0;
  std::uint32_t panel_outs = 0;
};

// Cells of one run of attention; runs are counted from a sequence's first cell.
inline constexpr std::size_t kRunCells = 32;

// Maximum number of floats that key_panel writes.
constexpr std::size_t KeyPanelFloats(std::size_t dim) { return (dim + 15) / 16 * 16 * kRunCells; }

// Running state of an online softmax for one query row (Milakov and Gimelshein 2018). The weighted
// values are stored separately.
struct SoftmaxState {
  float max;  // -infinity at the start
  float sum;  // 0 at the start
};

// Attention over one run with products of bf16: keys, queries, softmax weights and values are
// rounded to bf16, sums are in f32, and Exp has a relative error of about 2^-13. Only tables of
// machines that multiply bf16 have the functions of Bf16Attention; they are never used with
// --deterministic and never over cells of f32. The order of sums is not specified, but the order of
// a row's sums does not depend on the other rows of the call, and, except for the sign of a zero,
// not on the cells of the run that are outside the row's range. The same functions of Bf16Attention
// compute one row and a hundred rows, so that a result does not depend on the batch.
struct Bf16Attention {
  // Writes keys in the form that `scores` reads: panel[p * kRunCells + c], taken as pairs of bf16,
  // is pair p of elements of cell c, for all pairs up to a multiple of 32 elements, with zeros
  // after the last element. k: cell_count rows of `dim` elements of k_type, back to back. `panel`:
  // Bf16KeyPanelBytes(dim).
  void (*key_panel)(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
                    void* panel);
  // scores[r * score_stride + c] = scale * (q[r] . key c); q: rows of round_rows; r < row_count, c
  // < cell_count. REQUIRES: dim > 0.
  void (*scores)(const void* panel, std::size_t cell_count, std::size_t dim, const void* q,
                 std::size_t row_count, float scale, float* scores, std::size_t score_stride);
  // Computes the same as KernelTable::softmax_rows over the scores [first, end) of each row's
  // kRunCells, without changing the scores. p[r * kRunCells + c] is the weight of cell c, 0 outside
  // [first, end). The sum of a row's SoftmaxState is the sum of the row's weights p. REQUIRES:
  // first < end <= kRunCells.
  void (*softmax_rows)(const float* scores, std::size_t score_stride, std::size_t row_count,
                       std::size_t first, std::size_t end, SoftmaxState* states, float* rescales,
                       std::uint16_t* p);
  // Writes values in the form that add_values reads: element d of cells 2p and 2p + 1, in bf16, is
  // pair d of row p, which has a multiple of 16 pairs. A cell of a row that is outside [first, end)
  // is zero. v: the cells [first, end), rows that begin with `dim` elements of v_type and are
  // v_stride bytes apart. `panel`: Bf16ValuePanelBytes(dim). REQUIRES: first < end.
  void (*value_panel)(DataType v_type, const void* v, std::size_t v_stride, std::size_t first,
                      std::size_t end, std::size_t dim, void* panel);
  // For each row: values[d] = values[d] * rescale + sum over c of p[c] * v[c][d], c in [first,
  // end), which is within the panel's range. p has the form in which softmax_rows writes it.
  void (*add_values)(const void* panel, std::size_t first, std::size_t end, std::size_t dim,
                     const std::uint16_t* p, const float* rescales, std::size_t row_count,
                     float* values, std::size_t value_stride);
};

// Bytes of the panels of Bf16Attention; multiples of 64.
constexpr std::size_t Bf16KeyPanelBytes(std::size_t dim) {
  return (dim + 31) / 32 * 32 * sizeof(std::uint16_t) * kRunCells;
}
constexpr std::size_t Bf16ValuePanelBytes(std::size_t dim) {
  return (dim + 15) / 16 * 16 * sizeof(std::uint16_t) * kRunCells;
}

struct KernelTable {
  const char* name;  // "scalar", "avx2", "avx512", "amx"

  // ---- weights
  void (*matmul)(const MatmulArgs& args);
  // Quantises rows of x [row_count, x_stride] for matmul with quantised weights: row r of n
  // elements (a multiple of 32) is written at `to` + r * QuantizedRowBytes(n). `to` is 64-byte
  // aligned.
  void (*quantize_rows)(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                        void* to);
  // Rounds rows of x to bf16; row r is written at `to` + r * Bf16RowBytes(n)
  // (kernels/panels.h). `to` is 64-byte aligned. Null, with bf16_rows_min 0, if the machine has
  // no products of bf16.
  void (*round_rows)(const float* x, std::size_t x_stride, std::size_t row_count, std::size_t n,
                     void* to);
  std::size_t bf16_rows_min;  // number of rows from which HalfDot is faster than Dot
  // Number of rows from which HalfDot is faster than QuantDot; 0 if matmul does not compute HalfDot
  // with quantised weights.
  std::size_t bf16_quant_rows_min;
  // Number of rows from which OuterDot is faster than Dot with f16 and bf16 weights; 0: it is not,
  // or that is not known.
  std::size_t outer_rows_min;
  // Decodes element_count elements (a multiple of the block) to f32.
  void (*decode_row)(DataType type, const void* source, float* destination,
                     std::size_t element_count);
  // Encodes a row of f32 to f32, f16, bf16 (rounded to nearest even), q8_0 or q4_0 (with the
  // results of ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref). Returns false if a value is
  // not finite before or after rounding; the destination is written in either case.
  bool (*encode_row)(DataType type, const float* source, void* destination,
                     std::size_t element_count);

  // ---- attention over one run of at most kRunCells cells that are contiguous in one block Writes
  // keys in the form that `scores` reads: panel[d * kRunCells + c] = element d of cell c, decoded
  // to f32, d < dim, c < cell_count; then 0 up to the next multiple of 16 cells; columns after that
  // are not written. k: cell_count rows of `dim` elements of k_type, back to back. `panel`:
  // KeyPanelFloats(dim) floats.
  void (*key_panel)(DataType k_type, const void* k, std::size_t cell_count, std::size_t dim,
                    float* panel);
  // scores[r * score_stride + c] = scale * total. total, from 0, is the sum of s over chunks of
  // kScoreChunk elements (kernels/form_constants.h). Each s starts at 0, and for d ascending s =
  // fma(q[r * q_stride + d], panel[d][c], s). r < row_count, c < cell_count.
  void (*scores)(const float* panel, std::size_t cell_count, std::size_t dim, const float* q,
                 std::size_t q_stride, std::size_t row_count, float scale, float* scores,
                 std::size_t score_stride);
  // For each row, with the scores of one run (cell_count <= kRunCells, all of them visible): m =
  // max(state.max, max of scores); scores[c] = Exp(scores[c] - m); rescale = Exp(state.max - m)
  // (exactly 1 if the maximum does not change; 0 for the first run); state.sum = state.sum *
  // rescale + sum of scores; state.max = m. REQUIRES: cell_count > 0.
  void (*softmax_rows)(float* scores, std::size_t score_stride, std::size_t row_count,
                       std::size_t cell_count, SoftmaxState* states, float* rescales);
  // For each row: values[d] = values[d] * rescale, then for c ascending values[d] = fma(p[c],
  // v[c][d], values[d]); d < dim. If `rescales` is null, values are not multiplied. v: cell_count
  // rows that begin with `dim` elements of v_type and are v_stride bytes apart.
  void (*add_values)(DataType v_type, const void* v, std::size_t v_stride, std::size_t cell_count,
                     std::size_t dim, const float* p, std::size_t p_stride, const float* rescales,
                     std::size_t row_count, float* values, std::size_t value_stride);
  // Merges two parts of one row's softmax; `other` covers the later cells. m = max of both maxima,
  // a = Exp(state.max - m), b = Exp(other.max - m); sum = sum * a + other.sum * b; values[d] =
  // fma(b, other_values[d], values[d] * a). A part with sum 0 has seen no cells; the result is then
  // exactly the other part.
  void (*merge_softmax)(const SoftmaxState& other, const float* other_values, std::size_t dim,
                        SoftmaxState* state, float* values);
  const Bf16Attention* bf16_attention;  // null if the machine has no products of bf16

  // ---- plain attention: all scores of a query at once (engine/forward/attention/text_attention.h)
  // out[i] = PlainDot(a, rows + i * stride, n), i < count. The order of sums of PlainDot differs
  // from that of Dot: 64 partial sums s[j % 64] by fused multiply-add over whole groups of 64
  // elements; then s[i] += s[i + 32] (i < 32), s[i] += s[i + 16] (i < 16) and further as in Dot;
  // then the elements up to the last multiple of 8 one by one, with product and sum each rounded;
  // then the rest by fused multiply-add.
  void (*plain_dots)(const float* a, const float* rows, std::size_t stride, std::size_t count,
                     std::size_t n, float* out);
  // out[i] = Dot(a, rows + i * stride, n), i < count.
  void (*lane_dots)(const float* a, const float* rows, std::size_t stride, std::size_t count,
                    std::size_t n, float* out);
  // x[i] = e^(x[i] - max of x) / the sum of these, i < n. The first lane_count elements, a multiple
  // of 16, use the e^x of kernels/form_constants.h and are summed in groups of sixteen by Dot's
  // tree. The remaining elements use a correctly rounded e^x. The sums of the groups and the
  // remaining elements are added in double, and the inverse of the sum is rounded to f32. REQUIRES:
  // n > 0; some x[i] is finite.
  void (*plain_softmax)(float* x, std::size_t n, std::size_t lane_count);

  // ---- state-space layers: one sequence, a range of channels (kernels/scan_args.h)
  void (*scan_channels)(const ChannelScan& scan);
  void (*scan_head)(const HeadScan& scan);
  void (*convolve)(const ChannelConvolution& work);

  // ---- linear attention: one head of one sequence (kernels/scan_args.h)
  void (*scan_wkv6)(const HeadRows& head_rows, const Wkv6& head);
  void (*scan_wkv7)(const HeadRows& head_rows, const Wkv7& head);
  void (*scan_delta_rule)(const HeadRows& head_rows, const DeltaRule& head);

  // ---- rows of f32
  // y[i] = x[i] * (1 / sqrt(mean of squares + epsilon)) * weight[i]   (Zhang and Sennrich 2019). y
  // may be x.
  void (*rms_norm)(const float* x, const float* weight, std::size_t n, float epsilon, float* y);
  // Rotates the first rotated_dim elements of each head in place. cosine, sine: [rotated_dim / 2].
  // interleaved: pairs (2i, 2i+1) ("norm" rope of llama); else (i, i + rotated_dim / 2) ("neox"
  // rope of qwen).
  void (*rope)(float* x, std::size_t head_count, std::size_t head_dim, std::size_t rotated_dim,
               bool interleaved, const float* cosine, const float* sine);
  // y[i] = gate[i] / (1 + Exp(-gate[i])) * up[i]. y may be gate or up.
  void (*silu_multiply)(const float* gate, const float* up, std::size_t n, float* y);
  // y[i] = Gelu(gate[i]) * up[i], with Gelu(x) = GeluTable()[x as f16] for |x| <= kGeluBound, else
  // 0 or x (kernels/gelu_table.h). y may be gate or up.
  void (*gelu_multiply)(const float* gate, const float* up, std::size_t n, float* y);
  // y[i] = cap * Tanh(x[i] * (1 / cap)), cap > 0. y may be x.
  void (*softcap)(const float* x, float cap, std::size_t n, float* y);
  void (*add)(const float* a, const float* b, std::size_t n, float* y);  // y may be a or b
  void (*scale)(const float* a, float factor, std::size_t n, float* y);  // y may be a
  bool (*all_finite)(const float* x, std::size_t n);
  std::size_t (*argmax)(const float* x, std::size_t n);  // the lowest index
                                                         // of the maximum; REQUIRES: n > 0
};

// The number of floats of workspace that matmul of any table needs for in_features and row_count or
// smaller numbers.
std::size_t MatmulWorkspaceFloats(std::size_t in_features, std::size_t row_count);

// The following functions return the kernel tables, from the slowest to the fastest. A function
// returns null if the machine lacks the table's instructions (tested with CPUID and XGETBV).
const KernelTable* ScalarTable();
const KernelTable* Avx2Table();    // AVX2, FMA, F16C
const KernelTable* Avx512Table();  // AVX-512 F, BW, VL, DQ, VNNI
// AmxTable requires the features of Avx512Table, AVX512_BF16, AMX TILE, INT8 and BF16, and the
// system's permission to use AMX.
const KernelTable* AmxTable();

struct KernelChoice {
  const KernelTable* table;  // null if refused
  const char* problem;       // null if chosen; else the reason, for a message: "no such table" or
                             // the lacking feature
};
// Selects the table named `name` ("scalar", "avx2", "avx512", "amx"), or for null or "" the fastest
// table that the machine can run. A table that the machine lacks is refused and never replaced by
// another.
KernelChoice SelectKernels(const char* name);

// Used by tests on machines without AMX that emulate the instructions of AMX
// (tests/kernels/trapped_tiles.h). After a call of AssumeTiles, SelectKernels("amx") tests the
// machine only for the table's other requirements. AssumeTiles does not change the table that
// SelectKernels selects for null or "".
void AssumeTiles();

}  // namespace kvd::kernels
