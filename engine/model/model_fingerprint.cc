// Computes SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of four
// byte strings: the config's shapes, its rotations, the tensor table, and samples of the tensors'
// data. Parts of variable length are preceded by their length, so that different inputs give
// different strings.
#include "engine/model/model_fingerprint.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/siphash.h"

namespace kvd {
namespace {

constexpr std::uint64_t kFormat = 3;  // increase when the covered parts change
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

// Numbers that the first models with fingerprints did not have. A number that the first models did
// not have is added only if it has an effect on the computation, so that the fingerprints of the
// first models do not change.
void AddLaterConfig(Text& text, const ModelConfig& config) {
  const ExpertConfig& experts = config.experts;
  if (experts.count != 0) {
    for (std::uint32_t number :
         {experts.count, experts.used, experts.size, experts.input_size, experts.shared_size,
          experts.group_count, experts.groups_used, static_cast<std::uint32_t>(experts.gating),
          std::uint32_t{experts.is_normalised}}) {
      text.Add(std::uint64_t{number});
    }
    text.Add(experts.scale);
  }
  for (std::uint32_t layer = 0; layer < config.layer_count; ++layer) {
    if (config.is_unrotated[layer]) text.Add(std::uint64_t{layer});
  }
  const LatentAttentionConfig& latent = config.latent;
  if (latent.rank != 0) {
    for (const std::uint32_t number : {latent.rank, latent.query_rank, latent.plain_dim,
                                       latent.value_dim, std::uint32_t{latent.caches_latent}}) {
      text.Add(std::uint64_t{number});
    }
  }
  if (config.query_scale != 0.0f) {
    text.Add(config.query_scale);
    text.Add(std::uint64_t{config.query_scale_from});
  }
  if (config.window_head_dim != 0) text.Add(std::uint64_t{config.window_head_dim});
  if (!config.cell_layer.empty()) text.Add(config.cell_layer);
  if (config.layer_input_size != 0) text.Add(std::uint64_t{config.layer_input_size});
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
  AddLaterConfig(text, config);
}

void AddTensorInfo(Text& text, const GgufTensor& tensor) {
  text.Add(tensor.name);
  text.Add(static_cast<std::uint64_t>(tensor.type));
  for (std::uint64_t dim : tensor.dims) text.Add(dim);
}

// Calls `use` with each sampled range of the tensor's data, in their order.
template <class Use>
void EachSample(const GgufTensor& tensor, const Use& use) {
  if (tensor.bytes <= kSampleCount * kSampleBytes) {
    use(std::span(tensor.data, tensor.bytes));
    return;
  }
  const std::uint64_t last = tensor.bytes - kSampleBytes;
  for (std::uint64_t i = 0; i < kSampleCount; ++i) {
    // The division is first, because last * i could overflow for absurd sizes.
    const std::uint64_t offset = i + 1 == kSampleCount ? last : last / (kSampleCount - 1) * i;
    use(std::span(tensor.data + offset, kSampleBytes));
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
  // The pages of all samples are read from the disk at the same time, because otherwise a cold
  // start would wait for thousands of pages one after another.
  for (const GgufTensor& tensor : file.tensors()) {
    EachSample(tensor, [&file](std::span<const std::byte> range) { file.StartReading(range); });
  }
  // In the order of names, so that files that differ only in the order of tensors have equal
  // fingerprints.
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    AddTensorInfo(infos, file.tensor_by_name(i));
    EachSample(file.tensor_by_name(i),
               [&data](std::span<const std::byte> range) { data.Raw(range.data(), range.size()); });
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
  constexpr char kHexDigits[] = "0123456789abcdef";
  std::string hex;
  for (std::uint64_t word : words) {
    for (int shift = 60; shift >= 0; shift -= 4) hex += kHexDigits[(word >> shift) & 15];
  }
  return hex;
}

}  // namespace kvd
