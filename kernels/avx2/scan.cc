// kernels/lanes/scan.h for AVX2.
#include "kernels/lanes/scan.h"

#include "kernels/avx2/decoders.h"
#include "kernels/avx2/functions.h"

namespace kvd::kernels::avx2 {

void ScanChannels(const ChannelScan& scan) { ScanChannelsWith<Isa>(scan); }
void ScanHead(const HeadScan& scan) { ScanHeadWith<Isa>(scan); }
void Convolve(const ChannelConvolution& work) { ConvolveWith<Isa>(work); }

}  // namespace kvd::kernels::avx2
