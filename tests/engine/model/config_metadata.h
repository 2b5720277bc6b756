// Metadata: the GGUF metadata of a small valid model. Tests of model configs change or remove
// single keys.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_writer.h"
#include "engine/model/model_config.h"

namespace kvd {

class Metadata {
 public:
  using Adder = std::function<void(GgufWriter&)>;

  explicit Metadata(const std::string& architecture = "llama") : prefix_(architecture + ".") {
    entries_.emplace_back("general.architecture", [architecture](GgufWriter& w) {
      w.AddString("general.architecture", architecture);
    });
    U32("vocab_size", 100).U32("context_length", 512).U32("embedding_length", 64);
    U32("block_count", 3).U32("feed_forward_length", 128);
    U32("attention.head_count", 4).U32("attention.head_count_kv", 2);
    F32("attention.layer_norm_rms_epsilon", 1e-5f);
  }

  Metadata& U32(const std::string& suffix, std::uint32_t value) {
    return Set(prefix_ + suffix, [=](GgufWriter& w, const std::string& k) { w.AddU32(k, value); });
  }
  Metadata& F32(const std::string& suffix, float value) {
    return Set(prefix_ + suffix, [=](GgufWriter& w, const std::string& k) { w.AddF32(k, value); });
  }
  Metadata& Bool(const std::string& suffix, bool value) {
    return Set(prefix_ + suffix, [=](GgufWriter& w, const std::string& k) { w.AddBool(k, value); });
  }
  Metadata& String(const std::string& suffix, const std::string& value) {
    return Set(prefix_ + suffix,
               [=](GgufWriter& w, const std::string& k) { w.AddString(k, value); });
  }
  Metadata& U32s(const std::string& suffix, const std::vector<std::uint32_t>& values) {
    return Set(prefix_ + suffix,
               [=](GgufWriter& w, const std::string& k) { w.AddU32Array(k, values); });
  }
  Metadata& Bools(const std::string& suffix, const std::vector<bool>& values) {
    return Set(prefix_ + suffix,
               [=](GgufWriter& w, const std::string& k) { w.AddBoolArray(k, values); });
  }
  Metadata& Architecture(const std::string& name) {
    return Set("general.architecture",
               [=](GgufWriter& w, const std::string& k) { w.AddString(k, name); });
  }
  Metadata& Strings(const std::string& suffix, const std::vector<std::string>& values) {
    return Set(prefix_ + suffix, [=](GgufWriter& w, const std::string& k) {
      w.AddStringArray(k, std::vector<std::string_view>(values.begin(), values.end()));
    });
  }
  Metadata& TypeCount(std::uint32_t count) {
    return Set("tokenizer.ggml.token_type_count",
               [=](GgufWriter& w, const std::string& k) { w.AddU32(k, count); });
  }
  Metadata& Tokens(std::size_t count) {
    return Set("tokenizer.ggml.tokens", [=](GgufWriter& w, const std::string& k) {
      w.AddStringArray(k, std::vector<std::string_view>(count, "t"));
    });
  }
  Metadata& Without(const std::string& key) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; });
    return *this;
  }
  Metadata& WithTensor(const std::string& name) {
    tensors_.push_back(name);
    return *this;
  }

  Result<ModelConfig> Read() const {
    GgufWriter writer;
    for (const auto& [key, add] : entries_) add(writer);
    for (const std::string& name : tensors_) {
      writer.AddTensor(name, kernels::DataType::kF32, std::array<std::uint64_t, 1>{1});
    }
    auto bytes = writer.ToBytes(
        [](std::size_t, GgufSink& sink) { return sink.Append(std::array<std::byte, 4>{}); });
    KVD_TRY(auto file, GgufFile::FromBytes(*bytes));
    return ReadModelConfig(file);
  }

 private:
  Metadata& Set(const std::string& key,
                const std::function<void(GgufWriter&, const std::string&)>& add) {
    Without(key);
    entries_.emplace_back(key, [=](GgufWriter& w) { add(w, key); });
    return *this;
  }

  std::string prefix_;
  std::vector<std::pair<std::string, Adder>> entries_;
  std::vector<std::string> tensors_;
};

inline void ExpectRefused(const Metadata& metadata, Code code, const std::string& text) {
  auto config = metadata.Read();
  ASSERT_FALSE(config.has_value()) << "accepted, wanted: " << text;
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_THAT(config.error().message, ::testing::HasSubstr(text));
}

}  // namespace kvd
