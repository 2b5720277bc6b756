// SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) over four byte
// strings: the config's shapes, its rotations, each tensor's line of the table, the tensors'
// samples. Variable-length parts carry their length, so that no two inputs share a string.
#include "engine/model_fingerprint.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "shm/siphash.h"

namespace kvd {
namespace {

constexpr std::uint64_t kFormat = 3;  // bump when what is covered changes
constexpr std::uint64_t kSampleBytes = 64;
constexpr std::uint64_t kSampleCount = 16;

class Text {
 public:
  void Add(std::uint64_t number) { Raw(&number, sizeof number); }
  void Add(float number) { Add(std::uint64_t{std::bit_cast<std::uint32_t>(number)}); }
  void Add(std::string_view text) {
    Add(std::uint64_t{text.size()});
    Raw(text.data(), text.size());
  }
  void Add(const std::vector<std::uint32_t>& numbers) {
    Add(std::uint64_t{numbers.size()});
    for (std::uint32_t number : numbers) Add(std::uint64_t{number});
  }
  void Raw(const void* data, std::size_t bytes) {
    bytes_.append(static_cast<const char*>(data), bytes);
  }
  std::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void AddRope(Text& text, const RopeConfig& rope) {
  for (std::uint32_t number :
       {rope.rotated_dim, rope.original_context_length, std::uint32_t{rope.interleaved}}) {
    text.Add(std::uint64_t{number});
  }
  for (std::uint32_t section : rope.sections) text.Add(std::uint64_t{section});
  for (float number : {rope.freq_base, rope.freq_scale, rope.yarn_ext_factor, rope.yarn_low,
                       rope.yarn_high, rope.attention_factor}) {
    text.Add(number);
  }
}

void AddConfig(Text& text, const ModelConfig& config) {
  text.Add(config.architecture_name());
  for (std::uint32_t number :
       {config.vocab_size, config.embedding_size, config.layer_count, config.context_length,
        config.head_dim_k, config.head_dim_v, std::uint32_t{config.has_rope},
        config.short_convolution_width, config.long_rope_from, config.ssm.conv_width,
        config.ssm.inner_size, config.ssm.state_size, config.ssm.time_step_rank,
        config.ssm.group_count}) {
    text.Add(std::uint64_t{number});
  }
  text.Add(config.head_count);
  text.Add(config.kv_head_count);
  text.Add(config.feed_forward_size);
  text.Add(config.window);
  for (std::uint32_t number :
       {config.rwkv.head_size, config.rwkv.mix_rank, config.rwkv.decay_rank, config.rwkv.rate_rank,
        config.rwkv.value_rank, config.rwkv.gate_rank, config.rwkv.halving_period,
        config.delta_net.convolution_width, config.delta_net.head_size, config.delta_net.key_heads,
        config.delta_net.value_heads, config.bias_bucket_count}) {
    text.Add(std::uint64_t{number});
  }
  for (float number : {config.rms_epsilon, config.layer_norm_epsilon, config.attention_scale,
                       config.attention_softcap, config.logit_softcap, config.embedding_scale,
                       config.residual_scale, config.logit_scale}) {
    text.Add(number);
  }
}

void AddTensorInfo(Text& text, const GgufTensor& tensor) {
  text.Add(tensor.name);
  text.Add(static_cast<std::uint64_t>(tensor.type));
  for (std::uint64_t dim : tensor.dims) text.Add(dim);
}

void AddTensorSamples(Text& text, const GgufTensor& tensor) {
  if (tensor.bytes <= kSampleCount * kSampleBytes) {
    text.Raw(tensor.data, tensor.bytes);
    return;
  }
  std::uint64_t last = tensor.bytes - kSampleBytes;
  for (std::uint64_t i = 0; i < kSampleCount; ++i) {
    // Divided first: last * i could overflow for absurd sizes.
    std::uint64_t offset = i + 1 == kSampleCount ? last : last / (kSampleCount - 1) * i;
    text.Raw(tensor.data + offset, kSampleBytes);
  }
}

}  // namespace

ModelFingerprint ComputeFingerprint(const GgufFile& file, const ModelConfig& config) {
  std::array<Text, 4> parts;
  for (Text& part : parts) part.Add(kFormat);
  auto& [shapes, ropes, infos, data] = parts;
  AddConfig(shapes, config);
  AddRope(ropes, config.rope);
  AddRope(ropes, config.window_rope);
  infos.Add(std::uint64_t{file.tensors().size()});
  // By name, so that two files that only order their tensors differently agree.
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    AddTensorInfo(infos, file.tensor_by_name(i));
    AddTensorSamples(data, file.tensor_by_name(i));
  }
  ModelFingerprint fingerprint;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    fingerprint.words[i] =
        SipHash24(0x6b76642066696e67 + i, 0x65727072696e7421 ^ i, parts[i].bytes());
  }
  return fingerprint;
}

std::string DescribeDifference(const ModelFingerprint& a, const ModelFingerprint& b) {
  constexpr const char* kParts[] = {"architecture or shapes", "rope parameters",
                                    "names, types or dimensions of the tensors", "tensor data"};
  std::string text;
  for (std::size_t i = 0; i < a.words.size(); ++i) {
    if (a.words[i] == b.words[i]) continue;
    text += (text.empty() ? "" : ", ") + std::string(kParts[i]);
  }
  return text;
}

std::string ModelFingerprint::ToHex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::uint64_t word : words) {
    for (int shift = 60; shift >= 0; shift -= 4) hex += kDigits[(word >> shift) & 15];
  }
  return hex;
}

}  // namespace kvd
