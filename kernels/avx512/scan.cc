// kernels/lanes/scan.h for AVX-512.
#include "kernels/lanes/scan.h"

#include "kernels/avx512/decoders.h"
#include "kernels/avx512/functions.h"

namespace kvd::kernels::avx512 {

void ScanChannels(const ChannelScan& scan) { ScanChannelsWith<Isa>(scan); }
void ScanHead(const HeadScan& scan) { ScanHeadWith<Isa>(scan); }
void Convolve(const ChannelConvolution& work) { ConvolveWith<Isa>(work); }

}  // namespace kvd::kernels::avx512
