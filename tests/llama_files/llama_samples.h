// Builds state files of llama.cpp field by field and records the offset of each number, so that a
// test can replace any number. The builder shares no code with the project's own writer
// (llama_files/llama_state_writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/data_type.h"
#include "llama_files/llama_state_file.h"

namespace kvd::test {

// One cache of a sample. The cache has `cells` cells at positions 0, 1, … and `layers` layers with
// rows.
struct LlamaSampleCache {
  enum class Form { kPlain, kStreams, kSparse } form = Form::kPlain;
  std::uint32_t cells = 3;
  std::uint32_t layers = 2;
  std::uint32_t declared_layers = 2;
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;
  std::uint32_t k_elements = 64;
  std::uint32_t v_elements = 32;  // 0: the file has no V
  bool is_transposed = false;
  bool has_coordinates = false;
  std::uint32_t streams = 1;  // the last stream has the cells, the other streams are empty
};

struct LlamaSample {
  LlamaFileKind kind = LlamaFileKind::kSequence;
  LlamaLayout layout = LlamaLayout::kFebruary2025;
  std::uint32_t sequence_version = kLlamaSequenceVersion;
  std::vector<LlamaSampleCache> caches = {{}};
};

// The place of one number in the file.
struct LlamaField {
  std::string name;
  std::size_t offset = 0;
  std::size_t bytes = 0;  // the size of the number: 4 or 8
};

class LlamaSampleFile {
 public:
  explicit LlamaSampleFile(const LlamaSample& sample) : sample_(sample) { Build(); }

  std::vector<std::byte> bytes;
  std::vector<LlamaField> fields;

  const LlamaField& field(std::string_view name, std::size_t nth = 0) const {
    for (const LlamaField& field : fields) {
      if (field.name == name && nth-- == 0) return field;
    }
    std::abort();
  }
  std::vector<std::byte> With(const LlamaField& field, std::uint64_t number) const {
    std::vector<std::byte> changed = bytes;
    std::memcpy(changed.data() + field.offset, &number, field.bytes);
    return changed;
  }
  std::uint64_t Value(const LlamaField& field) const {
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data() + field.offset, field.bytes);
    return number;
  }
  // Returns the byte that the builder writes as row data at `offset` in the file.
  static std::byte RowByte(std::size_t offset) {
    return static_cast<std::byte>((offset * 7 + (offset >> 8)) & 0x3b);
  }

 private:
  template <class T>
  void Number(const char* name, T number) {
    fields.push_back({name, bytes.size(), sizeof number});
    const auto* begin = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), begin, begin + sizeof number);
  }
  void U32(const char* name, std::uint64_t number) {
    Number(name, static_cast<std::uint32_t>(number));
  }
  void Data(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) bytes.push_back(RowByte(bytes.size()));
  }

  void Build() {
    const bool is_session = sample_.kind == LlamaFileKind::kSession;
    U32("magic", is_session ? kLlamaSessionMagic : kLlamaSequenceMagic);
    U32("version", is_session ? kLlamaSessionVersion : sample_.sequence_version);
    U32("token_count", 3);
    for (std::uint32_t token = 0; token < 3; ++token) U32("token", 5 + token);
    if (is_session) {
      U32("architecture_bytes", 5);
      for (char c : std::string_view("llama")) bytes.push_back(static_cast<std::byte>(c));
      if (sample_.layout == LlamaLayout::kFebruary2025) {
        U32("output_count", 2);
        U32("output_pos", 0);
        U32("output_pos", 2);
        Number("logit_count", std::uint64_t{6});
        Data(6 * sizeof(float));
        Number("embedding_count", std::uint64_t{0});
      }
    }
    for (const LlamaSampleCache& cache : sample_.caches) Cache(cache);
  }

  void Cache(const LlamaSampleCache& cache) {
    const bool has_streams = cache.form == LlamaSampleCache::Form::kStreams;
    if (has_streams) {
      U32("stream_count", cache.streams);
      for (std::uint32_t stream = 1; stream < cache.streams; ++stream) U32("empty_stream", 0);
    }
    U32("cell_count", cache.cells);
    if (has_streams && cache.cells == 0) return;
    for (std::uint32_t cell = 0; cell < cache.cells; ++cell) {
      U32("pos", cell);
      const bool is_session = sample_.kind == LlamaFileKind::kSession;
      const std::uint32_t ids = is_session ? 1 + cell % 2 : (has_streams ? 1 : 0);
      U32("sequence_count", ids);
      if (cache.has_coordinates) {
        U32("x", cell);
        U32("y", cell);
        if (!is_session && sample_.sequence_version == kLlamaSequenceVersionNewest) {
          U32("cell_token", 5 + cell);
        }
      }
      for (std::uint32_t id = 0; id < ids; ++id) U32("seq_id", id);
    }
    U32("v_trans", cache.is_transposed);
    U32("layer_count", cache.declared_layers);
    const bool is_sparse = cache.form == LlamaSampleCache::Form::kSparse;
    for (std::uint32_t layer = 0; layer < cache.layers; ++layer) {
      Rows(is_sparse ? "state_type" : "k_type", is_sparse ? "state_row_bytes" : "k_row_bytes",
           cache.k_type, cache.k_elements, cache.cells);
    }
    for (std::uint32_t layer = 0; layer < cache.layers && cache.v_elements != 0; ++layer) {
      if (cache.is_transposed) {
        U32("v_type", static_cast<std::uint32_t>(cache.v_type));
        U32("v_element_bytes", kernels::BytesPerBlock(cache.v_type));
        U32("v_elements", cache.v_elements);
        Data(std::size_t{cache.cells} * kernels::RowBytes(cache.v_type, cache.v_elements));
      } else {
        Rows(is_sparse ? "state_type" : "v_type", is_sparse ? "state_row_bytes" : "v_row_bytes",
             cache.v_type, cache.v_elements, cache.cells);
      }
    }
  }

  void Rows(const char* type_name, const char* bytes_name, kernels::DataType type,
            std::uint32_t elements, std::uint32_t cells) {
    U32(type_name, static_cast<std::uint32_t>(type));
    const std::uint64_t row_bytes = kernels::RowBytes(type, elements);
    Number(bytes_name, row_bytes);
    Data(cells * row_bytes);
  }

  LlamaSample sample_;
};

// Returns named samples: one of each structure and each data type that llama.cpp's files have.
inline std::vector<std::pair<std::string, LlamaSample>> LlamaSamples() {
  using Cache = LlamaSampleCache;
  using Form = LlamaSampleCache::Form;
  using kernels::DataType;
  const Cache plain{.k_elements = 32};
  const Cache streams{.form = Form::kStreams, .k_elements = 32, .streams = 2};
  const Cache states{.form = Form::kSparse,
                     .cells = 1,
                     .layers = 2,
                     .declared_layers = 4,
                     .k_type = DataType::kF32,
                     .v_type = DataType::kF32,
                     .k_elements = 6,
                     .v_elements = 12};
  Cache all_states = states;
  all_states.form = Form::kPlain;
  all_states.declared_layers = 2;
  std::vector<std::pair<std::string, LlamaSample>> samples;
  for (LlamaFileKind kind : {LlamaFileKind::kSequence, LlamaFileKind::kSession}) {
    const std::string prefix = std::string(LlamaFileKindName(kind)) + "_";
    const auto add = [&](const std::string& name, LlamaLayout layout, std::vector<Cache> caches) {
      samples.emplace_back(
          prefix + name, LlamaSample{.kind = kind, .layout = layout, .caches = std::move(caches)});
    };
    for (DataType type : kernels::kCellTypes) {
      Cache cache = plain;
      cache.k_type = cache.v_type = type;
      add(std::string("2025_") + kernels::DataTypeName(type), LlamaLayout::kFebruary2025, {cache});
      if (kernels::IsQuantized(type)) continue;
      cache.is_transposed = true;
      add(std::string("2025_transposed_") + kernels::DataTypeName(type), LlamaLayout::kFebruary2025,
          {cache});
    }
    add("2025_states", LlamaLayout::kFebruary2025, {all_states});
    add("2025_hybrid", LlamaLayout::kFebruary2025, {plain, states});
    Cache quantised = streams;
    quantised.k_type = quantised.v_type = DataType::kQ8_0;
    Cache transposed = streams;
    transposed.is_transposed = true;
    Cache coordinates = streams;
    coordinates.has_coordinates = true;
    Cache windowed = streams;
    windowed.layers = windowed.declared_layers = 1;
    const LlamaLayout later = LlamaLayout::kAugust2026;
    add("2026", later, {streams});
    add("2026_q8_0", later, {quantised});
    add("2026_transposed", later, {transposed});
    add("2026_coordinates", later, {coordinates});
    add("2026_coordinates_hybrid", later, {coordinates, states});
    add("2026_window", later, {streams, windowed});
    add("2026_hybrid", later, {streams, states});
    add("2026_window_hybrid", later, {streams, windowed, states});
    add("2026_states", later, {all_states});
    Cache latent = streams;
    latent.v_elements = 0;
    add("2026_latent", later, {latent});
    latent.has_coordinates = true;
    add("2026_latent_coordinates", later, {latent});
  }
  LlamaSample newest{.layout = LlamaLayout::kAugust2026,
                     .sequence_version = kLlamaSequenceVersionNewest,
                     .caches = {streams, states}};
  samples.emplace_back("sequence_3_hybrid", newest);
  newest.caches[0].has_coordinates = true;
  samples.emplace_back("sequence_3_coordinates_hybrid", newest);
  return samples;
}

}  // namespace kvd::test
