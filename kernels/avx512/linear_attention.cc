// kernels/lanes/linear_attention.h for AVX-512.
#include "kernels/lanes/linear_attention.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"

namespace kvd::kernels::avx512 {

void ScanWkv6(const LinearAttentionPiece& piece, const Wkv6& head) {
  ScanWkv6With<Isa>(piece, head);
}

void ScanWkv7(const LinearAttentionPiece& piece, const Wkv7& head) {
  ScanWkv7With<Isa>(piece, head);
}

void ScanDeltaRule(const LinearAttentionPiece& piece, const DeltaRule& head) {
  ScanDeltaRuleWith<Isa>(piece, head);
}

}  // namespace kvd::kernels::avx512
