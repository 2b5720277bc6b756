#include "kernels/scalar/functions.h"

namespace kvd::kernels::scalar {

const KernelTable kTable = {
    .name = "scalar",
    .matmul = Matmul,
    .quantize_rows = QuantizeRows,
    .round_rows = nullptr,
    .bf16_rows_min = 0,
    .bf16_quant_rows_min = 0,
    .outer_rows_min = 0,
    .decode_row = DecodeRow,
    .encode_row = EncodeRow,
    .key_panel = KeyPanel,
    .scores = Scores,
    .softmax_rows = SoftmaxRows,
    .add_values = AddValues,
    .merge_softmax = MergeSoftmax,
    .bf16_attention = nullptr,
    .plain_dots = PlainDots,
    .lane_dots = LaneDots,
    .plain_softmax = PlainSoftmax,
    .scan_channels = ScanChannels,
    .scan_head = ScanHead,
    .convolve = Convolve,
    .scan_wkv6 = ScanWkv6,
    .scan_wkv7 = ScanWkv7,
    .scan_delta_rule = ScanDeltaRule,
    .rms_norm = RmsNorm,
    .rope = Rope,
    .silu_multiply = SiluMultiply,
    .gelu_multiply = GeluMultiply,
    .softcap = Softcap,
    .add = Add,
    .scale = Scale,
    .all_finite = AllFinite,
    .argmax = Argmax,
};

}  // namespace kvd::kernels::scalar
