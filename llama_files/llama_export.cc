#include "llama_files/llama_export.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/text.h"
#include "llama_files/llama_rows.h"
#include "llama_files/llama_state_file.h"

namespace kvd {
namespace {

// Number of cells whose rows are converted in one call.
constexpr std::uint32_t kConvertedCells = 128;
// For models of the architecture qwen35, llama.cpp's cells have image coordinates; for text both
// coordinates are the cell's position.
constexpr std::string_view kArchitectureWithCoordinates = "qwen35";

bool IsNewer(const LlamaExportOptions& options) {
  return options.layout == LlamaLayout::kAugust2026;
}

// Returns the type of the plane's rows in the file.
kernels::DataType TypeOf(const CachePlane& plane, const LlamaExportOptions& options) {
  return (plane.side == CacheSide::kKeys ? options.k_type : options.v_type).value_or(plane.type);
}

// Returns the side of the matrix that rotates the plane's rows in the file; 0: not rotated.
std::size_t RotationOf(const CachePlane& plane, const LlamaExportOptions& options) {
  const bool may_rotate = IsNewer(options) && !options.is_unrotated;
  return may_rotate ? LlamaRotationOf(plane, TypeOf(plane, options)) : 0;
}

}  // namespace

Status CheckLlamaExport(const StateModel& model, const LlamaExportOptions& options) {
  if (options.streams == 0 || options.streams > kLlamaStreamsMax) {
    return InvalidLlamaState(
        Concat(options.streams, " streams, not in [1, ", kLlamaStreamsMax, "]"));
  }
  if (options.streams != 1 && !IsNewer(options)) {
    return InvalidLlamaState("the layout of 2025 has no streams");
  }
  for (const CachePlane& plane : model.planes) {
    KVD_CHECK_OK(CheckRowType(plane, TypeOf(plane, options)));
    KVD_CHECK_OK(CheckQuantizedRows(model, TypeOf(plane, options)));
  }
  if (model.values_in_keys && !IsNewer(options)) {
    return Fail(Code::kUnsupported, "llama.cpp state: the layout of 2025 has no latent rows");
  }
  return {};
}

LlamaRowTypes RowTypesFor(const StateModel& model, const LlamaExportOptions& options) {
  LlamaRowTypes types{.k = options.k_type, .v = options.v_type};
  for (const CachePlane& plane : model.planes) {
    if (RotationOf(plane, options) == 0) continue;
    (plane.side == CacheSide::kKeys ? types.k : types.v).reset();
  }
  return types;
}

Result<std::unique_ptr<LlamaExport>> LlamaExport::Open(const StateModel& model,
                                                       const StateImage& image,
                                                       const LlamaExportOptions& options) {
  KVD_CHECK_OK(CheckLlamaExport(model, options));
  std::unique_ptr<LlamaExport> opened(new LlamaExport(model, image, options));
  KVD_CHECK_OK(opened->CheckSequences());
  KVD_CHECK_OK(opened->MakePlan());
  return opened;
}

Status LlamaExport::CheckSequences() const {
  const std::vector<Sequence>& sequences = image_.sequences();
  if (sequences.empty()) return InvalidLlamaState("no sequences");
  if (options_.kind == LlamaFileKind::kSequence && sequences.size() > 1) {
    return InvalidLlamaState(Concat(sequences.size(), " sequences in a sequence file"));
  }
  if (options_.streams != 1 && sequences.size() > options_.streams) {
    return InvalidLlamaState(
        Concat(sequences.size(), " sequences in ", options_.streams, " streams"));
  }
  for (const Sequence& sequence : sequences) {
    if (sequence.cell_count == 0) return InvalidLlamaState("a sequence without cells");
    if (sequence.has_encoded_text) {
      return Fail(Code::kUnsupported, "llama.cpp state: its files hold no encoded text");
    }
  }
  return {};
}

Status LlamaExport::MakePlan() {
  for (const Sequence& sequence : image_.sequences()) {
    tokens_.insert(tokens_.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
  plan_.kind = options_.kind;
  plan_.layout = options_.layout;
  plan_.tokens = tokens_;
  GroupLayers();
  for (const Layers& layers : layers_) plan_.caches.push_back(CellsPlan(layers));
  if (!model_.states.empty()) plan_.caches.push_back(StatesPlan());
  if (options_.kind == LlamaFileKind::kSession) {
    plan_.architecture = model_.architecture;
    const Sequence& first = image_.sequences().front();
    if (!is_newer_layout() && image_.sequences().size() == 1 && first.logits_floats != 0) {
      output_positions_ = {0};
      plan_.output_positions = output_positions_;
      logits_.resize(first.logits_floats);
      plan_.logits = logits_;
    }
  }
  KVD_TRY(bytes_, LlamaStateBytes(plan_));
  return {};
}

// The first cache is for layers without a window. As in llama.cpp, the cache for layers without a
// window exists even if all layers have a window.
void LlamaExport::GroupLayers() {
  const std::vector<CachePlane>& planes = model_.planes;
  if (planes.empty()) return;
  const auto has_window = [&](const CachePlane& plane) {
    return is_newer_layout() && plane.window != 0;
  };
  layers_.resize(std::ranges::any_of(planes, has_window) ? 2 : 1);
  layers_[0].first_cells.assign(image_.sequences().size(), 0);
  for (std::size_t plane = 0; plane < planes.size(); ++plane) {
    if (planes[plane].side != CacheSide::kKeys) continue;
    layers_[has_window(planes[plane]) ? 1 : 0].planes.push_back(plane);
  }
  if (layers_.size() == 1) return;
  for (const Sequence& sequence : image_.sequences()) {
    layers_[1].first_cells.push_back(FirstInWindow(sequence, layers_[1].planes[0]));
  }
}

// Returns the index of the first cell in the last token's window. llama.cpp keeps the cells from
// this index on and has room for few earlier cells. The pool may have dropped the first cells of
// the last token's window, because no later token attends to these cells.
std::uint32_t LlamaExport::FirstInWindow(const Sequence& sequence, std::size_t plane) const {
  const std::span<const Pos> positions = sequence.positions;
  const std::int64_t last = positions.back().value;
  const std::int64_t window = model_.planes[plane].window;
  const auto reached =
      std::ranges::partition_point(positions, [&](Pos pos) { return last - pos.value >= window; });
  return std::max(static_cast<std::uint32_t>(reached - positions.begin()),
                  sequence.rows[plane].begin);
}

LlamaCachePlan LlamaExport::CellsPlan(const Layers& layers) const {
  const bool has_ids = options_.kind == LlamaFileKind::kSession || is_newer_layout();
  LlamaCachePlan plan;
  plan.is_v_transposed = options_.is_v_transposed;
  plan.has_coordinates = is_newer_layout() && model_.architecture == kArchitectureWithCoordinates;
  plan.declared_layers = static_cast<std::uint32_t>(layers.planes.size());
  if (is_newer_layout()) plan.stream_cells.resize(options_.streams);
  for (std::uint32_t id = 0; id < image_.sequences().size(); ++id) {
    const std::span<const Pos> all = image_.sequences()[id].positions;
    const auto positions = all.subspan(layers.first_cells[id]);
    for (const Pos pos : positions) {
      plan.cells.push_back({.pos = pos.value, .first_id = id, .id_count = has_ids ? 1u : 0u});
    }
    plan.sequence_ids.push_back(static_cast<std::int32_t>(id));
    if (is_newer_layout()) {
      plan.stream_cells[options_.streams == 1 ? 0 : id] +=
          static_cast<std::uint32_t>(positions.size());
    }
  }
  for (const std::size_t keys : layers.planes) {
    const CachePlane& k = model_.planes[keys];
    plan.k.push_back({TypeOf(k, options_), std::uint64_t{k.head_count} * k.dim});
    if (model_.values_in_keys) continue;
    const CachePlane& v = model_.planes[keys + 1];
    plan.v.push_back({TypeOf(v, options_), std::uint64_t{v.head_count} * v.dim});
  }
  return plan;
}

LlamaCachePlan LlamaExport::StatesPlan() const {
  LlamaCachePlan plan;
  plan.declared_layers = model_.layer_count;
  for (std::size_t id = 0; id < image_.sequences().size(); ++id) {
    LlamaCell cell{.pos = image_.sequences()[id].positions.back().value};
    if (options_.kind == LlamaFileKind::kSession) {
      cell.first_id = static_cast<std::uint32_t>(id);
      cell.id_count = 1;
      plan.sequence_ids.push_back(static_cast<std::int32_t>(id));
    }
    plan.cells.push_back(cell);
  }
  for (const StateShape& shape : model_.states) {
    plan.k.push_back({kernels::DataType::kF32, shape.convolution_floats()});
    plan.v.push_back({kernels::DataType::kF32, shape.scan_floats});
  }
  return plan;
}

Status LlamaExport::Write(LlamaSink& sink) {
  if (!logits_.empty()) {
    image_.ReadFloats(image_.sequences().front().logits, 0, logits_);
  }
  return WriteLlamaState(plan_, *this, sink);
}

Status LlamaExport::ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                             std::uint32_t first_cell, std::uint32_t cell_count,
                             std::span<std::byte> rows) {
  if (cache == layers_.size()) {
    ReadStates(kind, layer, first_cell, cell_count, rows);
    return {};
  }
  const Layers& layers = layers_[cache];
  const std::size_t plane = layers.planes[layer] + (kind == LlamaRowKind::kK ? 0 : 1);
  const std::size_t cell_bytes =
      model_.planes[plane].cell_bytes(TypeOf(model_.planes[plane], options_));
  std::uint32_t start = 0;  // index of the sequence's first cell among the cells of all sequences
  std::byte* to = rows.data();
  for (std::size_t id = 0; id < image_.sequences().size(); ++id) {
    const Sequence& sequence = image_.sequences()[id];
    const std::uint32_t skipped = layers.first_cells[id];
    const std::uint32_t end = start + sequence.cell_count - skipped;
    const std::uint32_t from = std::max(start, first_cell);
    const std::uint32_t until = std::min(end, first_cell + cell_count);
    if (from < until) {
      KVD_CHECK_OK(ReadCells(sequence, plane, skipped + from - start, skipped + until - start, to));
      to += (until - from) * cell_bytes;
    }
    start = end;
  }
  return {};
}

void LlamaExport::ReadStates(LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                             std::uint32_t cell_count, std::span<std::byte> rows) const {
  const StateShape& shape = model_.states[layer];
  const bool is_convolution = kind == LlamaRowKind::kK;
  std::vector<float> row(is_convolution ? shape.convolution_floats() : shape.scan_floats);
  std::vector<float> state(shape.floats());
  for (std::uint32_t i = 0; i < cell_count; ++i) {
    image_.ReadFloats(image_.sequences()[first_cell + i].state, shape.offset, state);
    if (is_convolution) {
      StateToLlamaR(shape, state, row);
    } else {
      StateToLlamaS(shape, state, row);
    }
    const auto bytes = std::as_bytes(std::span(row));
    std::memcpy(rows.data() + i * bytes.size(), bytes.data(), bytes.size());
  }
}

Status LlamaExport::ReadCells(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                              std::uint32_t end, std::byte* rows) const {
  const CachePlane& at = model_.planes[plane];
  const kernels::DataType type = TypeOf(at, options_);
  const std::uint32_t held = std::clamp(sequence.rows[plane].begin, begin, end);
  const std::size_t dropped_bytes = (held - begin) * at.cell_bytes(type);
  std::memset(rows, 0, dropped_bytes);
  rows += dropped_bytes;
  const std::size_t side = RotationOf(at, options_);
  if (side != 0 || image_.type_of(at) != type) {
    return ReadConverted(sequence, plane, held, end, side, rows);
  }
  image_.ReadRows(sequence, plane, held, end, rows);
  return {};
}

Status LlamaExport::ReadConverted(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                                  std::uint32_t end, std::size_t side, std::byte* rows) const {
  const CachePlane& at = model_.planes[plane];
  const kernels::DataType type = TypeOf(at, options_);
  const kernels::DataType from = image_.type_of(at);
  const std::size_t cell_floats = std::size_t{at.head_count} * at.dim;
  std::vector<float> floats(std::min(end - begin, kConvertedCells) * cell_floats);
  std::vector<std::byte> read(std::min(end - begin, kConvertedCells) * at.cell_bytes(from));
  for (std::uint32_t first = begin; first < end; first += kConvertedCells) {
    const std::uint32_t count = std::min(end - first, kConvertedCells);
    image_.ReadRows(sequence, plane, first, first + count, read.data());
    DecodeRows(from, read.data(), floats.data(), count * cell_floats);
    if (side != 0) RotateHeads(floats.data(), count * cell_floats, side);
    if (!EncodeRows(type, floats.data(), rows, count * cell_floats)) {
      return Fail(Code::kNumerical, "llama.cpp state: ", PlaneText(at), ": a row is not finite as ",
                  kernels::DataTypeName(type));
    }
    rows += count * at.cell_bytes(type);
  }
  return {};
}

}  // namespace kvd
