// Walk visits all parts of a plan. A Walk with a sink writes the bytes; a Walk without a sink
// counts them. The announced size therefore always equals the written size.
#include "llama_files/llama_state_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/text.h"
#include "llama_files/llama_state_file.h"

namespace kvd {
namespace {

constexpr std::uint64_t kRowsAtOnceBytes = 256 << 10;

class Walk {
 public:
  // If source and sink are null, the walk only counts bytes.
  Walk(const LlamaStatePlan& plan, LlamaRowSource* source, LlamaSink* sink)
      : plan_(plan), source_(source), sink_(sink) {}

  Status Run();
  std::uint64_t bytes() const { return at_; }

 private:
  // Cells of a cache that are contiguous in the file: all cells, or the cells of one stream.
  struct Part {
    std::size_t cache = 0;
    std::uint32_t first_cell = 0;
    std::uint32_t cell_count = 0;
  };

  Status Outputs();
  Status Cache(std::size_t index);
  Status Streams(std::size_t index);
  Status Cells(const Part& part);
  Status Data(const Part& part);
  Status Rows(const Part& part, LlamaRowKind kind, std::size_t layer);
  Status PlainRows(const Part& part, LlamaRowKind kind, std::size_t layer, std::uint64_t row_bytes);
  Status TransposedRows(const Part& part, std::size_t layer, std::uint64_t row_bytes);

  template <class T>
  Status Number(T number) {
    return Bytes(std::as_bytes(std::span(&number, 1)));
  }
  Status Count(const char* what, std::uint64_t count) {
    if (count > std::numeric_limits<std::uint32_t>::max()) {
      return InvalidLlamaState(Concat(count, " ", what, ", limit 4294967295"));
    }
    return Number(static_cast<std::uint32_t>(count));
  }
  Status Bytes(std::span<const std::byte> bytes) {
    KVD_CHECK_OK(Count(bytes.size()));
    return sink_ == nullptr || bytes.empty() ? Status{} : sink_->Write(bytes);
  }
  Status Count(std::uint64_t bytes) {
    constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 63;
    if (bytes > kBytesMax - at_) return InvalidLlamaState("more than 2^63 bytes");
    at_ += bytes;
    return {};
  }
  // Returns the number of bytes of a part's rows.
  static Result<std::uint64_t> RowsBytes(const Part& part, std::uint64_t row_bytes) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(row_bytes, std::uint64_t{part.cell_count}, &bytes)) {
      return InvalidLlamaState("more than 2^63 bytes");
    }
    return bytes;
  }

  const LlamaStatePlan& plan_;
  LlamaRowSource* source_;
  LlamaSink* sink_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> rows_;   // buffer for the rows of as many cells as are read at a time
  std::vector<std::byte> lines_;  // buffer for the rows of all cells of a transposed layer
};

Status Walk::Run() {
  const bool is_session = plan_.kind == LlamaFileKind::kSession;
  KVD_CHECK_OK(Number(is_session ? kLlamaSessionMagic : kLlamaSequenceMagic));
  KVD_CHECK_OK(Number(is_session ? kLlamaSessionVersion : kLlamaSequenceVersion));
  KVD_CHECK_OK(Count("tokens", plan_.tokens.size()));
  KVD_CHECK_OK(Bytes(std::as_bytes(plan_.tokens)));
  if (is_session) {
    if (plan_.architecture.size() > kLlamaArchitectureBytesMax) {
      return InvalidLlamaState(Concat("an architecture's name of ", plan_.architecture.size(),
                                      " bytes, limit ", kLlamaArchitectureBytesMax));
    }
    KVD_CHECK_OK(Count("bytes of a name", plan_.architecture.size()));
    KVD_CHECK_OK(Bytes(std::as_bytes(std::span(plan_.architecture))));
    KVD_CHECK_OK(Outputs());
  }
  for (std::size_t cache = 0; cache < plan_.caches.size(); ++cache) KVD_CHECK_OK(Cache(cache));
  return {};
}

Status Walk::Outputs() {
  if (plan_.layout == LlamaLayout::kAugust2026) {
    if (plan_.output_positions.empty() && plan_.logits.empty() && plan_.embeddings.empty()) {
      return {};
    }
    return InvalidLlamaState("the layout of 2026 holds no logits and no embeddings");
  }
  KVD_CHECK_OK(Count("outputs", plan_.output_positions.size()));
  KVD_CHECK_OK(Bytes(std::as_bytes(plan_.output_positions)));
  KVD_CHECK_OK(Number(std::uint64_t{plan_.logits.size()}));
  KVD_CHECK_OK(Bytes(std::as_bytes(plan_.logits)));
  KVD_CHECK_OK(Number(std::uint64_t{plan_.embeddings.size()}));
  return Bytes(std::as_bytes(plan_.embeddings));
}

Status Walk::Cache(std::size_t index) {
  const LlamaCachePlan& cache = plan_.caches[index];
  // Caches of latent rows have no V; such caches always have streams.
  const bool lacks_values = !cache.stream_cells.empty() && cache.v.empty();
  if ((!lacks_values && cache.k.size() != cache.v.size()) ||
      cache.k.size() > cache.declared_layers) {
    return InvalidLlamaState(Concat(cache.k.size(), " layers of K and ", cache.v.size(),
                                    " of V in a cache of ", cache.declared_layers));
  }
  if (!cache.stream_cells.empty()) return Streams(index);
  KVD_CHECK_OK(Count("cells", cache.cells.size()));
  const Part all{.cache = index, .cell_count = static_cast<std::uint32_t>(cache.cells.size())};
  KVD_CHECK_OK(Cells(all));
  return Data(all);
}

Status Walk::Streams(std::size_t index) {
  const LlamaCachePlan& cache = plan_.caches[index];
  if (plan_.layout == LlamaLayout::kFebruary2025) {
    return InvalidLlamaState("the layout of 2025 has no streams");
  }
  if (cache.stream_cells.size() > kLlamaStreamsMax) {
    return InvalidLlamaState(
        Concat(cache.stream_cells.size(), " streams, limit ", kLlamaStreamsMax));
  }
  KVD_CHECK_OK(Count("streams", cache.stream_cells.size()));
  Part part{.cache = index};
  for (const std::uint32_t cells : cache.stream_cells) {
    KVD_ASSERT(cells <= cache.cells.size() - part.first_cell);
    part.cell_count = cells;
    KVD_CHECK_OK(Number(cells));
    if (cells != 0) {
      KVD_CHECK_OK(Cells(part));
      KVD_CHECK_OK(Data(part));
    }
    part.first_cell += cells;
  }
  KVD_ASSERT(part.first_cell == cache.cells.size());
  return {};
}

Status Walk::Cells(const Part& part) {
  const LlamaCachePlan& cache = plan_.caches[part.cache];
  for (const LlamaCell& cell : std::span(cache.cells).subspan(part.first_cell, part.cell_count)) {
    KVD_ASSERT(cell.id_count <= cache.sequence_ids.size() &&
               cell.first_id <= cache.sequence_ids.size() - cell.id_count);
    KVD_CHECK_OK(Number(cell.pos));
    KVD_CHECK_OK(Number(cell.id_count));
    if (cache.has_coordinates) {
      // For text both coordinates of a cell are its position.
      KVD_CHECK_OK(Number(cell.pos));
      KVD_CHECK_OK(Number(cell.pos));
    }
    const auto ids = std::span(cache.sequence_ids).subspan(cell.first_id, cell.id_count);
    KVD_CHECK_OK(Bytes(std::as_bytes(ids)));
  }
  return {};
}

Status Walk::Data(const Part& part) {
  const LlamaCachePlan& cache = plan_.caches[part.cache];
  KVD_CHECK_OK(Number(std::uint32_t{cache.is_v_transposed}));
  KVD_CHECK_OK(Number(cache.declared_layers));
  for (std::size_t layer = 0; layer < cache.k.size(); ++layer) {
    KVD_CHECK_OK(Rows(part, LlamaRowKind::kK, layer));
  }
  for (std::size_t layer = 0; layer < cache.v.size(); ++layer) {
    KVD_CHECK_OK(Rows(part, LlamaRowKind::kV, layer));
  }
  return {};
}

Status Walk::Rows(const Part& part, LlamaRowKind kind, std::size_t layer) {
  const LlamaCachePlan& plan = plan_.caches[part.cache];
  const LlamaRowShape& shape = kind == LlamaRowKind::kK ? plan.k[layer] : plan.v[layer];
  const std::uint64_t block = kernels::ElementsPerBlock(shape.type);
  if (block == 0 || shape.elements % block != 0) {
    return InvalidLlamaState(Concat(shape.elements, " elements of ",
                                    kernels::DataTypeName(shape.type),
                                    " are not a whole number of blocks"));
  }
  if (shape.elements > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidLlamaState(Concat(shape.elements, " elements in a row, limit 4294967295"));
  }
  const std::uint64_t row_bytes = kernels::RowBytes(shape.type, shape.elements);
  KVD_CHECK_OK(Number(std::uint32_t{static_cast<std::uint8_t>(shape.type)}));
  if (kind == LlamaRowKind::kV && plan.is_v_transposed) {
    if (block != 1) {
      return InvalidLlamaState(std::string(kernels::DataTypeName(shape.type)) +
                               " cannot be transposed: its elements share a scale");
    }
    KVD_CHECK_OK(Number(static_cast<std::uint32_t>(kernels::BytesPerBlock(shape.type))));
    KVD_CHECK_OK(Number(static_cast<std::uint32_t>(shape.elements)));
    return TransposedRows(part, layer, row_bytes);
  }
  KVD_CHECK_OK(Number(row_bytes));
  return PlainRows(part, kind, layer, row_bytes);
}

Status Walk::PlainRows(const Part& part, LlamaRowKind kind, std::size_t layer,
                       std::uint64_t row_bytes) {
  KVD_TRY(const std::uint64_t bytes, RowsBytes(part, row_bytes));
  if (sink_ == nullptr || bytes == 0) return Count(bytes);
  const auto at_once = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(kRowsAtOnceBytes / row_bytes, 1, part.cell_count));
  for (std::uint32_t first = 0; first < part.cell_count; first += at_once) {
    const std::uint32_t count = std::min(at_once, part.cell_count - first);
    rows_.resize(count * row_bytes);
    KVD_CHECK_OK(source_->ReadRows(part.cache, kind, layer, part.first_cell + first, count, rows_));
    KVD_CHECK_OK(Bytes(rows_));
  }
  return {};
}

Status Walk::TransposedRows(const Part& part, std::size_t layer, std::uint64_t row_bytes) {
  KVD_TRY(const std::uint64_t bytes, RowsBytes(part, row_bytes));
  if (sink_ == nullptr || bytes == 0) return Count(bytes);
  const LlamaRowShape& shape = plan_.caches[part.cache].v[layer];
  const std::uint32_t cells = part.cell_count;
  const std::size_t element_bytes = kernels::BytesPerBlock(shape.type);
  const auto at_once =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kRowsAtOnceBytes / row_bytes, 1, cells));
  lines_.resize(bytes);
  for (std::uint32_t first = 0; first < cells; first += at_once) {
    const std::uint32_t count = std::min(at_once, cells - first);
    rows_.resize(count * row_bytes);
    KVD_CHECK_OK(source_->ReadRows(part.cache, LlamaRowKind::kV, layer, part.first_cell + first,
                                   count, rows_));
    for (std::uint64_t element = 0; element < shape.elements; ++element) {
      std::byte* line = lines_.data() + (element * cells + first) * element_bytes;
      const std::byte* from = rows_.data() + element * element_bytes;
      for (std::uint32_t cell = 0; cell < count; ++cell) {
        std::memcpy(line + cell * element_bytes, from + cell * row_bytes, element_bytes);
      }
    }
  }
  return Bytes(lines_);
}

}  // namespace

Result<std::uint64_t> LlamaStateBytes(const LlamaStatePlan& plan) {
  Walk walk(plan, nullptr, nullptr);
  KVD_CHECK_OK(walk.Run());
  return walk.bytes();
}

Status WriteLlamaState(const LlamaStatePlan& plan, LlamaRowSource& source, LlamaSink& sink) {
  KVD_TRY(const std::uint64_t bytes, LlamaStateBytes(plan));
  KVD_CHECK_OK(sink.Begin(bytes));
  Walk walk(plan, &source, &sink);
  KVD_CHECK_OK(walk.Run());
  KVD_ASSERT(walk.bytes() == bytes);
  return {};
}

Status LlamaMemorySink::Begin(std::uint64_t file_bytes) {
  written_ = 0;
  if (file_bytes <= room_.size()) return {};
  return Fail(Code::kNoSpace, "size: ", room_.size(), " bytes, ", file_bytes, " needed");
}

Status LlamaMemorySink::Write(std::span<const std::byte> bytes) {
  KVD_ASSERT(bytes.size() <= room_.size() - written_);
  std::memcpy(room_.data() + written_, bytes.data(), bytes.size());
  written_ += bytes.size();
  return {};
}

}  // namespace kvd
