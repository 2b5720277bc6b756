// The table of an instruction set whose functions are the templates of kernels/lanes.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/lanes/attention.h"
#include "kernels/lanes/decode.h"
#include "kernels/lanes/linear_attention.h"
#include "kernels/lanes/plain.h"
#include "kernels/lanes/rows.h"
#include "kernels/lanes/scan.h"

namespace kvd::kernels {

// Isa: the set's types (kernels/avx2/decoders.h). The arguments are the functions that each set
// writes itself.
template <class Isa>
constexpr KernelTable LaneTable(const char* name, decltype(KernelTable::matmul) matmul,
                                decltype(KernelTable::quantize_rows) quantize_rows,
                                decltype(KernelTable::encode_row) encode_row) {
  return {
      .name = name,
      .matmul = matmul,
      .quantize_rows = quantize_rows,
      .round_rows = nullptr,
      .bf16_rows_min = 0,
      .bf16_quant_rows_min = 0,
      .outer_rows_min = Isa::Lanes::kOuterRowsMin,
      .decode_row = DecodeRow<Isa>,
      .encode_row = encode_row,
      .key_panel = KeyPanel<Isa>,
      .scores = Scores<Isa>,
      .softmax_rows = SoftmaxRows<Isa>,
      .add_values = AddValues<Isa>,
      .merge_softmax = MergeSoftmax<Isa>,
      .bf16_attention = nullptr,
      .plain_dots = PlainDots<Isa>,
      .lane_dots = LaneDots<Isa>,
      .plain_softmax = PlainSoftmax<Isa>,
      .scan_channels = ScanChannels<Isa>,
      .scan_head = ScanHead<Isa>,
      .convolve = Convolve<Isa>,
      .scan_wkv6 = ScanWkv6<Isa>,
      .scan_wkv7 = ScanWkv7<Isa>,
      .scan_delta_rule = ScanDeltaRule<Isa>,
      .rms_norm = RmsNorm<Isa>,
      .rope = Rope<Isa>,
      .silu_multiply = SiluMultiply<Isa>,
      .gelu_multiply = GeluMultiply<Isa>,
      .softcap = Softcap<Isa>,
      .add = Add<Isa>,
      .scale = Scale<Isa>,
      .all_finite = AllFinite<Isa>,
      .argmax = Argmax<Isa>,
  };
}

}  // namespace kvd::kernels
