// One walk over the plan serves both: with a destination it writes, without one it counts. So the
// size told before is the size written.
#include "engine/saved_state/llama_state_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "shm/check.h"

namespace kvd {
namespace {

constexpr std::uint64_t kTransposeBytes = 256 << 10;  // of rows at a time

std::unexpected<Error> Invalid(const std::string& what) {
  return Fail(Code::kInvalidArgument, "llama.cpp state: " + what);
}

class Walk {
 public:
  // `file` empty: counts only.
  Walk(const LlamaStatePlan& plan, LlamaRowSource* source, std::span<std::byte> file)
      : plan_(plan), source_(source), file_(file) {}

  Status Run();
  std::uint64_t bytes() const { return at_; }

 private:
  Status Cache(std::size_t index);
  Status Rows(std::size_t cache, LlamaRowKind kind, std::size_t layer);
  Status PlainRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                   std::uint64_t row_bytes);
  Status TransposedRows(std::size_t cache, std::size_t layer, std::uint64_t row_bytes);

  template <class T>
  Status Number(T number) {
    return Bytes(std::as_bytes(std::span(&number, 1)));
  }
  Status Count(const char* what, std::uint64_t count) {
    if (count > std::numeric_limits<std::uint32_t>::max()) {
      return Invalid(std::to_string(count) + " " + what + ", limit 4294967295");
    }
    return Number(static_cast<std::uint32_t>(count));
  }
  Status Bytes(std::span<const std::byte> bytes) {
    KVD_TRY(std::byte * to, Advance(bytes.size()));
    if (to != nullptr && !bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return {};
  }
  // Null while counting.
  Result<std::byte*> Advance(std::uint64_t bytes) {
    constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 63;
    if (bytes > kBytesMax - at_) return Invalid("more than 2^63 bytes");
    const std::uint64_t from = at_;
    at_ += bytes;
    if (source_ == nullptr) return nullptr;
    KVD_ASSERT(at_ <= file_.size());
    return file_.data() + from;
  }

  const LlamaStatePlan& plan_;
  LlamaRowSource* source_;
  std::span<std::byte> file_;
  std::uint64_t at_ = 0;
};

Status Walk::Run() {
  const bool is_session = plan_.kind == LlamaFileKind::kSession;
  KVD_CHECK_OK(Number(is_session ? kLlamaSessionMagic : kLlamaSequenceMagic));
  KVD_CHECK_OK(Number(is_session ? kLlamaSessionVersion : kLlamaSequenceVersion));
  KVD_CHECK_OK(Count("tokens", plan_.tokens.size()));
  KVD_CHECK_OK(Bytes(std::as_bytes(plan_.tokens)));
  if (is_session) {
    if (plan_.architecture.size() > kLlamaArchitectureBytesMax) {
      return Invalid("an architecture's name of " + std::to_string(plan_.architecture.size()) +
                     " bytes, limit " + std::to_string(kLlamaArchitectureBytesMax));
    }
    KVD_CHECK_OK(Count("bytes of a name", plan_.architecture.size()));
    KVD_CHECK_OK(Bytes(std::as_bytes(std::span(plan_.architecture))));
    KVD_CHECK_OK(Count("outputs", plan_.output_positions.size()));
    KVD_CHECK_OK(Bytes(std::as_bytes(plan_.output_positions)));
    KVD_CHECK_OK(Number(std::uint64_t{plan_.logits.size()}));
    KVD_CHECK_OK(Bytes(std::as_bytes(plan_.logits)));
    KVD_CHECK_OK(Number(std::uint64_t{plan_.embeddings.size()}));
    KVD_CHECK_OK(Bytes(std::as_bytes(plan_.embeddings)));
  }
  for (std::size_t cache = 0; cache < plan_.caches.size(); ++cache) KVD_CHECK_OK(Cache(cache));
  return {};
}

Status Walk::Cache(std::size_t index) {
  const LlamaCachePlan& cache = plan_.caches[index];
  KVD_CHECK_OK(Count("cells", cache.cells.size()));
  for (const LlamaCell& cell : cache.cells) {
    KVD_ASSERT(cell.id_count <= cache.sequence_ids.size() &&
               cell.first_id <= cache.sequence_ids.size() - cell.id_count);
    KVD_CHECK_OK(Number(cell.pos));
    KVD_CHECK_OK(Number(cell.id_count));
    const auto ids = std::span(cache.sequence_ids).subspan(cell.first_id, cell.id_count);
    KVD_CHECK_OK(Bytes(std::as_bytes(ids)));
  }
  KVD_CHECK_OK(Number(std::uint32_t{cache.is_v_transposed}));
  if (cache.k.size() != cache.v.size() || cache.k.size() > cache.declared_layers) {
    return Invalid(std::to_string(cache.k.size()) + " layers of K and " +
                   std::to_string(cache.v.size()) + " of V in a cache of " +
                   std::to_string(cache.declared_layers));
  }
  KVD_CHECK_OK(Number(cache.declared_layers));
  for (std::size_t layer = 0; layer < cache.k.size(); ++layer) {
    KVD_CHECK_OK(Rows(index, LlamaRowKind::kK, layer));
  }
  for (std::size_t layer = 0; layer < cache.v.size(); ++layer) {
    KVD_CHECK_OK(Rows(index, LlamaRowKind::kV, layer));
  }
  return {};
}

Status Walk::Rows(std::size_t cache, LlamaRowKind kind, std::size_t layer) {
  const LlamaCachePlan& plan = plan_.caches[cache];
  const LlamaRowShape& shape = kind == LlamaRowKind::kK ? plan.k[layer] : plan.v[layer];
  const std::uint64_t block = kernels::ElementsPerBlock(shape.type);
  if (block == 0 || shape.elements % block != 0) {
    return Invalid(std::to_string(shape.elements) + " elements of " +
                   kernels::DataTypeName(shape.type) + " are no whole blocks");
  }
  if (shape.elements > std::numeric_limits<std::uint32_t>::max()) {
    return Invalid(std::to_string(shape.elements) + " elements in a row, limit 4294967295");
  }
  const std::uint64_t row_bytes = kernels::RowBytes(shape.type, shape.elements);
  KVD_CHECK_OK(Number(std::uint32_t{static_cast<std::uint8_t>(shape.type)}));
  if (kind == LlamaRowKind::kV && plan.is_v_transposed) {
    if (block != 1) {
      return Invalid(std::string(kernels::DataTypeName(shape.type)) +
                     " cannot lie transposed: its elements share a scale");
    }
    KVD_CHECK_OK(Number(static_cast<std::uint32_t>(kernels::BytesPerBlock(shape.type))));
    KVD_CHECK_OK(Number(static_cast<std::uint32_t>(shape.elements)));
    return TransposedRows(cache, layer, row_bytes);
  }
  KVD_CHECK_OK(Number(row_bytes));
  return PlainRows(cache, kind, layer, row_bytes);
}

Status Walk::PlainRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                       std::uint64_t row_bytes) {
  const auto cells = static_cast<std::uint32_t>(plan_.caches[cache].cells.size());
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(row_bytes, std::uint64_t{cells}, &bytes)) {
    return Invalid("more than 2^63 bytes");
  }
  KVD_TRY(std::byte * to, Advance(bytes));
  if (to == nullptr || bytes == 0) return {};
  return source_->ReadRows(cache, kind, layer, 0, cells, std::span(to, bytes));
}

Status Walk::TransposedRows(std::size_t cache, std::size_t layer, std::uint64_t row_bytes) {
  const LlamaRowShape& shape = plan_.caches[cache].v[layer];
  const auto cells = static_cast<std::uint32_t>(plan_.caches[cache].cells.size());
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(row_bytes, std::uint64_t{cells}, &bytes)) {
    return Invalid("more than 2^63 bytes");
  }
  KVD_TRY(std::byte * to, Advance(bytes));
  if (to == nullptr || bytes == 0) return {};
  const std::size_t element_bytes = kernels::BytesPerBlock(shape.type);
  const std::uint64_t cells_at_once =
      std::clamp<std::uint64_t>(kTransposeBytes / row_bytes, 1, cells);
  std::vector<std::byte> rows(cells_at_once * row_bytes);
  for (std::uint32_t first = 0; first < cells;) {
    const auto count =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(cells_at_once, cells - first));
    KVD_CHECK_OK(source_->ReadRows(cache, LlamaRowKind::kV, layer, first, count,
                                   std::span(rows).first(count * row_bytes)));
    for (std::uint64_t element = 0; element < shape.elements; ++element) {
      std::byte* line = to + (element * cells + first) * element_bytes;
      const std::byte* from = rows.data() + element * element_bytes;
      for (std::uint32_t cell = 0; cell < count; ++cell) {
        std::memcpy(line + cell * element_bytes, from + cell * row_bytes, element_bytes);
      }
    }
    first += count;
  }
  return {};
}

}  // namespace

Result<std::uint64_t> LlamaStateBytes(const LlamaStatePlan& plan) {
  Walk walk(plan, nullptr, {});
  KVD_CHECK_OK(walk.Run());
  return walk.bytes();
}

Status WriteLlamaState(const LlamaStatePlan& plan, LlamaRowSource& source,
                       std::span<std::byte> file) {
  KVD_TRY(const std::uint64_t bytes, LlamaStateBytes(plan));
  if (bytes != file.size()) {
    return Invalid(std::to_string(file.size()) + " bytes of room for " + std::to_string(bytes));
  }
  return Walk(plan, &source, file).Run();
}

}  // namespace kvd
