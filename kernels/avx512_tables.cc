#include "kernels/avx512_tables.h"

#include "kernels/amx/functions.h"
#include "kernels/avx512/functions.h"
#include "kernels/avx512bf16/functions.h"

namespace kvd::kernels {

const KernelTable* TheAvx512Table(bool bf16) {
  static const KernelTable with_bf16 = [] {
    KernelTable made = avx512::kTable;
    made.matmul = avx512bf16::Matmul;
    made.round_rows = avx512bf16::RoundRows;
    made.bf16_rows_min = avx512bf16::kRowsMin;
    made.bf16_attention = &avx512bf16::kAttention;
    return made;
  }();
  return bf16 ? &with_bf16 : &avx512::kTable;
}

const KernelTable* TheAmxTable() {
  static const Bf16Attention attention = [] {
    Bf16Attention made = avx512bf16::kAttention;
    made.scores = amx::Scores;
    made.add_values = amx::AddValues;
    return made;
  }();
  static const KernelTable table = [] {
    KernelTable made = *TheAvx512Table(true);
    made.name = "amx";
    made.matmul = amx::Matmul;
    made.bf16_quant_rows_min = amx::kBf16QuantRowsMin;
    made.bf16_attention = &attention;
    return made;
  }();
  return &table;
}

}  // namespace kvd::kernels
