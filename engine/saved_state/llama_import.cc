// Rows are gathered from the file, some hundred cells of one layer at a time, into the order of the
// sequence, turned back where the peer has rotated them, and fed to a SequenceImport.
#include "engine/saved_state/llama_import.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/model_config.h"
#include "engine/saved_state/llama_rotation.h"
#include "engine/saved_state/llama_states.h"
#include "engine/saved_state/sequence_import.h"

namespace kvd {
namespace {

constexpr std::size_t kGatherBytes = 256 << 10;

std::unexpected<Error> Invalid(const std::string& why) {
  return Fail(Code::kInvalidArgument, "llama.cpp state: " + why);
}

// The matrix's side by which the peer has rotated a plane's rows; 0: it has not.
std::size_t RotationOf(const LlamaStateFile& file, const LlamaImportOptions& options,
                       const CachePlane& plane, const LlamaRows& rows) {
  const bool may_be = file.layout == LlamaLayout::kAugust2026 && !options.is_unrotated;
  return may_be ? LlamaRotationOf(plane, rows.type) : 0;
}

class Importer {
 public:
  Importer(Engine& engine, std::span<const std::byte> bytes, const LlamaSequenceIndex& index,
           const LlamaImportOptions& options, WorkControl& work)
      : engine_(engine),
        bytes_(bytes),
        index_(index),
        file_(index.file()),
        options_(options),
        work_(work),
        planes_(CachePlanesOf(engine.config(), engine.cell_layout())),
        states_(LlamaStateShapesOf(engine.config())) {}

  Result<LlamaImported> Run(SequenceHandle destination);

 private:
  LlamaCacheKinds Kinds() const;
  bool HasWindow(const CachePlane& plane) const {
    return engine_.config().window[plane.layer] != 0;
  }
  std::size_t CacheOf(const CachePlane& plane) const;
  // Whether layers, widths and types are the model's. Errors: kInvalidArgument, kUnsupported.
  Status CheckPart(const LlamaCells& part) const;
  Status CheckPlane(const CachePlane& plane, const LlamaRows& rows) const;
  Status CheckStates(const LlamaCells& part) const;
  // Finds for every plane its rows in the file.
  void Bind();
  Status FeedPlane(SequenceImport& import, std::size_t plane);
  Status FeedStates(SequenceImport& import) const;
  // Rows of the cells [first, first + count) of a cache, by their order in the sequence.
  void Gather(const LlamaRows& rows, const LlamaSequence::Cache& cache, std::size_t first,
              std::size_t count, std::byte* to) const;

  Engine& engine_;
  const std::span<const std::byte> bytes_;
  const LlamaSequenceIndex& index_;
  const LlamaStateFile& file_;
  const LlamaImportOptions& options_;
  WorkControl& work_;
  const std::vector<CachePlane> planes_;
  const std::vector<LlamaStateShape> states_;
  LlamaSequence sequence_;
  struct Binding {
    const LlamaSequence::Cache* cache = nullptr;
    const LlamaRows* rows = nullptr;
  };
  std::vector<Binding> bindings_;  // by plane
  std::vector<std::byte> gathered_;
  std::vector<float> floats_;
};

LlamaCacheKinds Importer::Kinds() const {
  LlamaCacheKinds kinds{.has_attention = !planes_.empty(), .has_states = !states_.empty()};
  const auto has_window = [&](const CachePlane& plane) { return HasWindow(plane); };
  kinds.has_windows = std::ranges::any_of(planes_, has_window);
  return kinds;
}

Result<LlamaImported> Importer::Run(SequenceHandle destination) {
  const ModelConfig& config = engine_.config();
  if (file_.kind == LlamaFileKind::kSession && file_.architecture != config.architecture_name()) {
    return Invalid("architecture " + file_.architecture + ", the model is " +
                   std::string(config.architecture_name()));
  }
  if (config.encoder.layer_count != 0) {
    return Fail(Code::kUnsupported, "llama.cpp state: its files hold no encoded text");
  }
  KVD_CHECK_OK(CheckLlamaCaches(file_, Kinds()));
  for (const LlamaCells& part : file_.parts) KVD_CHECK_OK(CheckPart(part));
  KVD_TRY(sequence_, SelectLlamaSequence(index_, options_.sequence_id, Kinds(), work_));
  Bind();

  const auto cell_count = static_cast<std::uint32_t>(sequence_.tokens.size());
  std::vector<std::uint32_t> first_cells;
  for (const Binding& binding : bindings_) first_cells.push_back(binding.cache->first_cell);
  std::vector<std::uint32_t> checkpoints;
  if (sequence_.states != nullptr) checkpoints.push_back(cell_count);
  KVD_TRY(const std::unique_ptr<SequenceImport> import,
          SequenceImport::Begin(engine_, {.handle = destination,
                                          .tokens = sequence_.tokens,
                                          .positions = sequence_.positions,
                                          .first_cells = first_cells,
                                          .has_state = sequence_.states != nullptr,
                                          .checkpoint_cells = checkpoints}));
  LlamaImported imported{.cell_count = cell_count,
                         .tokens_left_out = sequence_.tokens_left_out,
                         .cells_left_out = sequence_.cells_left_out};
  for (std::size_t plane = 0; plane < planes_.size(); ++plane) {
    imported.is_converted |= bindings_[plane].rows->type != planes_[plane].type;
    KVD_CHECK_OK(FeedPlane(*import, plane));
  }
  if (sequence_.states != nullptr) KVD_CHECK_OK(FeedStates(*import));
  KVD_CHECK_OK(import->Commit());
  return imported;
}

// The layers of attention are in one cache, or those with a window in a second one; each lists its
// layers in the model's order.
std::size_t Importer::CacheOf(const CachePlane& plane) const {
  const std::size_t caches = file_.cache_count - (states_.empty() ? 0u : 1u);
  return caches > 1 && HasWindow(plane) ? 1 : 0;
}

Status Importer::CheckPart(const LlamaCells& part) const {
  if (!states_.empty() && part.cache + 1 == file_.cache_count) return CheckStates(part);
  std::size_t layers = 0;
  for (const CachePlane& plane : planes_) {
    if (CacheOf(plane) != part.cache) continue;
    const bool is_key = plane.side == CacheSide::kKeys;
    if (layers < part.k.size()) {
      KVD_CHECK_OK(CheckPlane(plane, is_key ? part.k[layers] : part.v[layers]));
    }
    if (!is_key) ++layers;
  }
  if (part.k.size() == layers) return {};
  return Invalid(std::to_string(part.k.size()) + " layers of attention in cache " +
                 std::to_string(part.cache) + ", the model has " + std::to_string(layers));
}

void Importer::Bind() {
  std::vector<std::size_t> next(sequence_.caches.size(), 0);
  for (const CachePlane& plane : planes_) {
    const std::size_t cache = CacheOf(plane);
    const LlamaCells& part = *sequence_.caches[cache].part;
    const bool is_key = plane.side == CacheSide::kKeys;
    bindings_.push_back({.cache = &sequence_.caches[cache],
                         .rows = is_key ? &part.k[next[cache]] : &part.v[next[cache]]});
    if (!is_key) ++next[cache];
  }
}

Status Importer::CheckPlane(const CachePlane& plane, const LlamaRows& rows) const {
  const std::uint64_t elements = std::uint64_t{plane.head_count} * plane.dim;
  if (rows.elements != elements) {
    return Invalid(PlaneText(plane) + ": rows of " + std::to_string(rows.elements) +
                   " elements, the model has " + std::to_string(elements));
  }
  return CheckRowType(plane, rows.type);
}

Status Importer::CheckStates(const LlamaCells& part) const {
  if (part.k.size() != states_.size()) {
    return Invalid(std::to_string(part.k.size()) + " layers of recurrent state, the model has " +
                   std::to_string(states_.size()));
  }
  for (std::size_t at = 0; at < states_.size(); ++at) {
    const LlamaRows& r = part.k[at];
    const LlamaRows& s = part.v[at];
    if (r.elements != states_[at].r_floats() || s.elements != states_[at].s_floats()) {
      return Invalid("recurrent state of layer " + std::to_string(states_[at].layer) +
                     ": rows of " + std::to_string(r.elements) + " and " +
                     std::to_string(s.elements) + " elements, the model has " +
                     std::to_string(states_[at].r_floats()) + " and " +
                     std::to_string(states_[at].s_floats()));
    }
    if (r.type != kernels::DataType::kF32 || s.type != kernels::DataType::kF32 || s.is_transposed) {
      return Fail(Code::kUnsupported, "llama.cpp state: recurrent state of layer " +
                                          std::to_string(states_[at].layer) +
                                          ": only rows of f32 are read");
    }
  }
  return {};
}

void Importer::Gather(const LlamaRows& rows, const LlamaSequence::Cache& cache, std::size_t first,
                      std::size_t count, std::byte* to) const {
  const std::byte* from = bytes_.data() + rows.offset;
  if (!rows.is_transposed) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * rows.row_bytes, from + cache.indices[first + i] * rows.row_bytes,
                  rows.row_bytes);
    }
    return;
  }
  const std::size_t element_bytes = kernels::BytesPerBlock(rows.type);
  const std::size_t line_bytes = cache.part->cells.size() * element_bytes;
  for (std::size_t element = 0; element < rows.elements; ++element) {
    const std::byte* line = from + element * line_bytes;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * rows.row_bytes + element * element_bytes,
                  line + cache.indices[first + i] * element_bytes, element_bytes);
    }
  }
}

Status Importer::FeedPlane(SequenceImport& import, std::size_t at) {
  const CachePlane& plane = planes_[at];
  const LlamaRows& rows = *bindings_[at].rows;
  const LlamaSequence::Cache& cache = *bindings_[at].cache;
  const std::size_t rotation = RotationOf(file_, options_, plane, rows);
  const std::size_t at_once = std::max<std::size_t>(1, kGatherBytes / rows.row_bytes);
  gathered_.resize(std::min(at_once, cache.indices.size()) * rows.row_bytes);
  for (std::size_t first = 0; first < cache.indices.size(); first += at_once) {
    const std::size_t count = std::min(at_once, cache.indices.size() - first);
    KVD_CHECK_OK(work_.Continue());
    Gather(rows, cache, first, count, gathered_.data());
    const std::byte* fed = gathered_.data();
    kernels::DataType type = rows.type;
    if (rotation != 0) {
      floats_.resize(count * rows.elements);
      engine_.kernels().decode_row(type, gathered_.data(), floats_.data(), floats_.size());
      RotateHeads(floats_.data(), floats_.size(), rotation);
      fed = std::as_bytes(std::span(floats_)).data();
      type = kernels::DataType::kF32;
    }
    const auto begin = static_cast<std::uint32_t>(cache.first_cell + first);
    KVD_CHECK_OK(import.FeedRows(at, begin, begin + static_cast<std::uint32_t>(count), type,
                                 CellMajor(plane, type), fed));
  }
  return {};
}

Status Importer::FeedStates(SequenceImport& import) const {
  std::vector<float> state(engine_.state_bytes() / sizeof(float));
  const LlamaCells& part = *sequence_.states;
  for (std::size_t at = 0; at < states_.size(); ++at) {
    const LlamaStateShape& shape = states_[at];
    KVD_CHECK_OK(work_.Continue());
    std::vector<float> r(shape.r_floats()), s(shape.s_floats());
    const auto read = [&](const LlamaRows& rows, std::vector<float>& to) {
      if (to.empty()) return;
      std::memcpy(to.data(), bytes_.data() + rows.offset + sequence_.state_index * rows.row_bytes,
                  rows.row_bytes);
    };
    read(part.k[at], r);
    read(part.v[at], s);
    StateFromLlama(shape, r, s, std::span(state).subspan(shape.offset, shape.floats()));
  }
  return import.FeedState(static_cast<std::uint32_t>(sequence_.tokens.size()), 0, state);
}

}  // namespace

Result<LlamaImported> ImportLlamaSequence(Engine& engine, std::span<const std::byte> bytes,
                                          const LlamaSequenceIndex& index,
                                          SequenceHandle destination,
                                          const LlamaImportOptions& options, WorkControl& work) {
  return Importer(engine, bytes, index, options, work).Run(destination);
}

}  // namespace kvd
