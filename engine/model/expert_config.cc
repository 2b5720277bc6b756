// Keys and defaults are those of llama.cpp (src/llama-model.cpp and src/models).
#include "engine/model/expert_config.h"

#include <algorithm>

#include "engine/model/config_reader.h"
#include "engine/model/model_config.h"

namespace kvd {
namespace {

Status ReadCounts(const ConfigReader& reader, ExpertConfig& experts) {
  KVD_TRY(experts.count, reader.Count("expert_count", ExpertConfig::kCountMax));
  KVD_TRY(experts.used,
          reader.Count("expert_used_count", std::min(experts.count, ExpertConfig::kUsedMax)));
  return {};
}

Status ReadGroups(const ConfigReader& reader, ExpertConfig& experts) {
  KVD_TRY(const auto groups, reader.file().GetU64Or(reader.Key("expert_group_count"), 0));
  if (groups <= 1) return {};
  if (groups > experts.count / 2 || experts.count % groups != 0) {
    return Fail(Code::kCorrupt, reader.Key("expert_group_count"), ": ", groups,
                " does not divide the ", experts.count, " experts into groups of at least 2");
  }
  experts.group_count = static_cast<std::uint32_t>(groups);
  KVD_TRY(experts.groups_used, reader.Count("expert_group_used_count", experts.group_count));
  const std::uint32_t selectable = experts.groups_used * (experts.count / experts.group_count);
  if (selectable >= experts.used) return {};
  return Fail(Code::kCorrupt, reader.Key("expert_group_used_count"), ": ", experts.groups_used,
              " groups have ", selectable, " experts, a token needs ", experts.used);
}

Result<ExpertGating> ReadGating(const ConfigReader& reader, ExpertGating fallback) {
  const std::string key = reader.Key("expert_gating_func");
  KVD_TRY(const auto number, reader.file().GetU64Or(key, 0));
  if (number == 0) return fallback;
  if (number > static_cast<std::uint64_t>(ExpertGating::kSoftmaxOfChosen)) {
    return FailRange(key, number, 1, static_cast<std::uint64_t>(ExpertGating::kSoftmaxOfChosen));
  }
  return static_cast<ExpertGating>(number);
}

Result<std::uint32_t> ReadSharedSize(const ConfigReader& reader, std::uint32_t expert_size) {
  constexpr std::string_view kSize = "expert_shared_feed_forward_length";
  KVD_TRY(const auto size, reader.file().GetU64Or(reader.Key(kSize), 0));
  if (size > ModelConfig::kFeedForwardSizeMax) {
    return FailRange(reader.Key(kSize), size, 0, ModelConfig::kFeedForwardSizeMax);
  }
  if (size != 0) return static_cast<std::uint32_t>(size);
  constexpr std::string_view kCount = "expert_shared_count";
  KVD_TRY(const auto count, reader.file().GetU64Or(reader.Key(kCount), 0));
  if (count > ModelConfig::kFeedForwardSizeMax / expert_size) {
    return FailRange(reader.Key(kCount), count, 0, ModelConfig::kFeedForwardSizeMax / expert_size);
  }
  return static_cast<std::uint32_t>(count) * expert_size;
}

}  // namespace

Status ReadExperts(const ConfigReader& reader, const ExpertRule& rule, ModelConfig& config) {
  KVD_TRY(const auto count, reader.file().GetU64Or(reader.Key("expert_count"), 0));
  if (count == 0) return {};
  ExpertConfig& experts = config.experts;
  KVD_CHECK_OK(ReadCounts(reader, experts));
  experts.input_size = config.embedding_size;
  if (rule.size_is_feed_forward) {
    experts.size = *std::ranges::max_element(config.feed_forward_size);
  } else {
    KVD_TRY(experts.size,
            reader.Count("expert_feed_forward_length", ModelConfig::kFeedForwardSizeMax));
  }
  experts.gating = rule.gating;
  if (rule.gating_from == ExpertRule::From::kFile) {
    KVD_TRY(experts.gating, ReadGating(reader, rule.gating));
  }
  experts.weighs_inputs = rule.weighs_inputs;
  experts.is_normalised = rule.is_normalised;
  if (rule.normalised_from == ExpertRule::From::kFile) {
    KVD_TRY(experts.is_normalised,
            reader.file().GetBoolOr(reader.Key("expert_weights_norm"), false));
  }
  if (rule.reads_scale) {
    KVD_TRY(const float scale, reader.PositiveOrNone("expert_weights_scale"));
    experts.scale = scale == 0.0f ? 1.0f : scale;
  }
  if (rule.reads_groups) KVD_CHECK_OK(ReadGroups(reader, experts));
  if (rule.has_shared) {
    KVD_TRY(experts.shared_size, ReadSharedSize(reader, experts.size));
  }
  std::uint64_t dense = 0;
  if (rule.reads_leading_dense) {
    KVD_TRY(dense, reader.file().GetU64Or(reader.Key("leading_dense_block_count"), 0));
    if (dense > config.layer_count) {
      return FailRange(reader.Key("leading_dense_block_count"), dense, 0, config.layer_count);
    }
  }
  std::uint32_t interval = 1;
  if (rule.reads_interval) {
    KVD_TRY(interval, reader.CountOr("interleave_moe_layer_step", 1, ModelConfig::kLayerCountMax));
  }
  for (std::size_t layer = dense; layer < config.layer_count; ++layer) {
    config.has_experts[layer] = (layer + 1) % interval == 0;
  }
  return {};
}

}  // namespace kvd
