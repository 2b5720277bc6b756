// libstdc++'s std::generate_canonical adds the outputs, the first one lowest, and divides the sum
// by the range; each operation is rounded. A quotient that rounds to 1 becomes the number before 1.
// The arithmetic is written out, because other versions of the library may change theirs.
#include "engine/sampling/mersenne_stream.h"

#include <algorithm>

namespace kvd {

std::uint32_t MersenneStream::Output(std::uint64_t number) {
  if (!generator_ || number < next_) {
    generator_ = std::make_unique<std::mt19937>(seed_);
    next_ = 0;
  }
  generator_->discard(number - next_);
  next_ = number + 1;
  return static_cast<std::uint32_t>((*generator_)());
}

double MersenneStream::Uniform(std::uint64_t draw) {
  const auto low = static_cast<double>(Output(2 * draw));
  const auto high = static_cast<double>(Output(2 * draw + 1));
  return std::min((low + high * 0x1p32) / 0x1p64, 0x1.fffffffffffffp-1);
}

float MersenneStream::UniformFloat(std::uint64_t draw) {
  return std::min(static_cast<float>(Output(draw)) / 0x1p32f, 0x1.fffffep-1f);
}

}  // namespace kvd
