#include "engine/saved_state/llama_export.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/model_config.h"
#include "engine/saved_state/llama_rotation.h"

namespace kvd {
namespace {

constexpr std::uint32_t kCellsAtOnce = 1024;  // of one layer
constexpr std::uint32_t kRotatedCells = 128;  // at a time

std::unexpected<Error> Invalid(const std::string& why) {
  return Fail(Code::kInvalidArgument, "llama.cpp state: " + why);
}

}  // namespace

LlamaExport::LlamaExport(Engine& engine, const LlamaExportOptions& options, WorkControl& work)
    : engine_(engine),
      options_(options),
      work_(work),
      planes_(CachePlanesOf(engine.config(), engine.cell_layout())),
      states_(LlamaStateShapesOf(engine.config())) {}

Result<std::unique_ptr<LlamaExport>> LlamaExport::Open(Engine& engine,
                                                       std::span<const SequenceHandle> handles,
                                                       const LlamaExportOptions& options,
                                                       WorkControl& work) {
  if (handles.empty()) return Invalid("no sequences");
  if (options.kind == LlamaFileKind::kSequence && handles.size() > 1) {
    return Invalid(std::to_string(handles.size()) + " sequences in a sequence file");
  }
  std::unique_ptr<LlamaExport> opened(new LlamaExport(engine, options, work));
  KVD_CHECK_OK(opened->CheckStreams(handles.size()));
  for (const CachePlane& plane : opened->planes_) {
    KVD_CHECK_OK(CheckRowType(plane, opened->TypeOf(plane)));
  }
  opened->sequences_.reserve(handles.size());
  for (SequenceHandle handle : handles) KVD_CHECK_OK(opened->Add(handle));
  KVD_CHECK_OK(opened->MakePlan());
  return opened;
}

Status LlamaExport::CheckStreams(std::size_t sequence_count) const {
  if (options_.streams == 0 || options_.streams > kLlamaStreamsMax) {
    return Invalid(std::to_string(options_.streams) + " streams, not in [1, " +
                   std::to_string(kLlamaStreamsMax) + "]");
  }
  if (options_.streams == 1) return {};
  if (!is_newer_layout()) return Invalid("the layout of 2025 has no streams");
  if (sequence_count > options_.streams) {
    return Invalid(std::to_string(sequence_count) + " sequences in " +
                   std::to_string(options_.streams) + " streams");
  }
  return {};
}

Status LlamaExport::Add(SequenceHandle handle) {
  KVD_CHECK_OK(work_.Continue());
  KVD_TRY(SequenceExport sequence, SequenceExport::Open(engine_, handle));
  if (sequence.cell_count() == 0) return Invalid("a sequence without cells");
  if (!sequence.cross_tokens().empty()) {
    return Fail(Code::kUnsupported, "llama.cpp state: its files hold no encoded text");
  }
  tokens_.insert(tokens_.end(), sequence.tokens().begin(), sequence.tokens().end());
  sequences_.push_back(std::move(sequence));
  return {};
}

Status LlamaExport::MakePlan() {
  plan_.kind = options_.kind;
  plan_.layout = options_.layout;
  plan_.tokens = tokens_;
  GroupLayers();
  for (const Layers& layers : layers_) {
    KVD_TRY(LlamaCachePlan cells, CellsPlan(layers));
    plan_.caches.push_back(std::move(cells));
  }
  if (!states_.empty()) plan_.caches.push_back(StatesPlan());
  if (options_.kind == LlamaFileKind::kSession) {
    plan_.architecture = engine_.config().architecture_name();
    if (!is_newer_layout() && sequences_.size() == 1 && !sequences_[0].logits().empty()) {
      output_positions_ = {0};
      plan_.output_positions = output_positions_;
      plan_.logits = sequences_[0].logits();
    }
  }
  KVD_TRY(bytes_, LlamaStateBytes(plan_));
  return {};
}

// The cache of layers without a window is there even if all have one, as the peer's is.
void LlamaExport::GroupLayers() {
  if (planes_.empty()) return;
  const auto has_window = [&](const CachePlane& plane) {
    return is_newer_layout() && engine_.config().window[plane.layer] != 0;
  };
  layers_.resize(std::ranges::any_of(planes_, has_window) ? 2 : 1);
  layers_[0].first_cells.assign(sequences_.size(), 0);
  for (std::size_t plane = 0; plane < planes_.size(); plane += 2) {
    layers_[has_window(planes_[plane]) ? 1 : 0].planes.push_back(plane);
  }
  if (layers_.size() == 1) return;
  for (const SequenceExport& sequence : sequences_) {
    layers_[1].first_cells.push_back(FirstInWindow(sequence, planes_[layers_[1].planes[0]]));
  }
}

// The peer keeps the cells that the last token reaches, and has no room for many more. The pool may
// have dropped the first of them, which no coming token reaches.
std::uint32_t LlamaExport::FirstInWindow(const SequenceExport& sequence,
                                         const CachePlane& plane) const {
  const std::span<const Pos> positions = sequence.positions();
  const std::int64_t last = positions.back().value;
  const std::int64_t window = engine_.config().window[plane.layer];
  const auto reached =
      std::ranges::partition_point(positions, [&](Pos pos) { return last - pos.value >= window; });
  return std::max(static_cast<std::uint32_t>(reached - positions.begin()),
                  sequence.first_cell(plane));
}

Result<LlamaCachePlan> LlamaExport::CellsPlan(const Layers& layers) const {
  const bool has_ids = options_.kind == LlamaFileKind::kSession || is_newer_layout();
  LlamaCachePlan plan;
  plan.is_v_transposed = options_.is_v_transposed;
  plan.has_coordinates =
      is_newer_layout() && engine_.config().architecture == Architecture::kQwen35;
  plan.declared_layers = static_cast<std::uint32_t>(layers.planes.size());
  if (is_newer_layout()) plan.stream_cells.resize(options_.streams);
  for (std::uint32_t id = 0; id < sequences_.size(); ++id) {
    KVD_CHECK_OK(work_.Continue());
    const auto positions = sequences_[id].positions().subspan(layers.first_cells[id]);
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
    const CachePlane& k = planes_[keys];
    const CachePlane& v = planes_[keys + 1];
    plan.k.push_back({TypeOf(k), std::uint64_t{k.head_count} * k.dim});
    plan.v.push_back({TypeOf(v), std::uint64_t{v.head_count} * v.dim});
  }
  return plan;
}

LlamaCachePlan LlamaExport::StatesPlan() const {
  LlamaCachePlan plan;
  plan.declared_layers = engine_.config().layer_count;
  for (std::size_t id = 0; id < sequences_.size(); ++id) {
    LlamaCell cell{.pos = sequences_[id].positions().back().value};
    if (options_.kind == LlamaFileKind::kSession) {
      cell.first_id = static_cast<std::uint32_t>(id);
      cell.id_count = 1;
      plan.sequence_ids.push_back(static_cast<std::int32_t>(id));
    }
    plan.cells.push_back(cell);
  }
  for (const LlamaStateShape& shape : states_) {
    plan.k.push_back({kernels::DataType::kF32, shape.r_floats()});
    plan.v.push_back({kernels::DataType::kF32, shape.s_floats()});
  }
  return plan;
}

Status LlamaExport::Write(std::span<std::byte> file) { return WriteLlamaState(plan_, *this, file); }

Status LlamaExport::ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                             std::uint32_t first_cell, std::uint32_t cell_count,
                             std::span<std::byte> rows) {
  if (cache == layers_.size()) {
    ReadStates(kind, layer, first_cell, cell_count, rows);
    return {};
  }
  const Layers& layers = layers_[cache];
  const CachePlane& plane = planes_[layers.planes[layer] + (kind == LlamaRowKind::kK ? 0 : 1)];
  const std::size_t cell_bytes = plane.cell_bytes(TypeOf(plane));
  std::uint32_t start = 0;  // of the sequence, among the cells of all
  std::byte* to = rows.data();
  for (std::size_t id = 0; id < sequences_.size(); ++id) {
    const SequenceExport& sequence = sequences_[id];
    const std::uint32_t skipped = layers.first_cells[id];
    const std::uint32_t end = start + sequence.cell_count() - skipped;
    const std::uint32_t from = std::max(start, first_cell);
    const std::uint32_t until = std::min(end, first_cell + cell_count);
    for (std::uint32_t at = from; at < until;) {
      const std::uint32_t piece_end = std::min(until, at + kCellsAtOnce);
      KVD_CHECK_OK(work_.Continue());
      KVD_CHECK_OK(
          ReadCells(sequence, plane, skipped + at - start, skipped + piece_end - start, to));
      to += (piece_end - at) * cell_bytes;
      at = piece_end;
    }
    start = end;
  }
  return {};
}

void LlamaExport::ReadStates(LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                             std::uint32_t cell_count, std::span<std::byte> rows) const {
  const LlamaStateShape& shape = states_[layer];
  std::vector<float> row(kind == LlamaRowKind::kK ? shape.r_floats() : shape.s_floats());
  for (std::uint32_t i = 0; i < cell_count; ++i) {
    const auto state = sequences_[first_cell + i].state().subspan(shape.offset, shape.floats());
    if (kind == LlamaRowKind::kK) {
      StateToLlamaR(shape, state, row);
    } else {
      StateToLlamaS(shape, state, row);
    }
    const auto bytes = std::as_bytes(std::span(row));
    std::memcpy(rows.data() + i * bytes.size(), bytes.data(), bytes.size());
  }
}

Status LlamaExport::ReadCells(const SequenceExport& sequence, const CachePlane& plane,
                              std::uint32_t begin, std::uint32_t end, std::byte* rows) const {
  const kernels::DataType type = TypeOf(plane);
  const std::uint32_t held = std::clamp(sequence.first_cell(plane), begin, end);
  const std::size_t dropped_bytes = (held - begin) * plane.cell_bytes(type);
  std::memset(rows, 0, dropped_bytes);
  if (held == end) return {};
  const bool may_rotate = is_newer_layout() && !options_.is_unrotated;
  if (const std::size_t side = may_rotate ? LlamaRotationOf(plane, type) : 0; side != 0) {
    return ReadRotated(sequence, plane, held, end, side, rows + dropped_bytes);
  }
  return sequence.ReadRows(plane, held, end, type, CellMajor(plane, type), rows + dropped_bytes);
}

Status LlamaExport::ReadRotated(const SequenceExport& sequence, const CachePlane& plane,
                                std::uint32_t begin, std::uint32_t end, std::size_t side,
                                std::byte* rows) const {
  const kernels::DataType type = TypeOf(plane);
  const std::size_t cell_floats = std::size_t{plane.head_count} * plane.dim;
  std::vector<float> floats(std::min(end - begin, kRotatedCells) * cell_floats);
  for (std::uint32_t first = begin; first < end; first += kRotatedCells) {
    const std::uint32_t count = std::min(end - first, kRotatedCells);
    const auto f32 = kernels::DataType::kF32;
    KVD_CHECK_OK(sequence.ReadRows(plane, first, first + count, f32, CellMajor(plane, f32),
                                   std::as_writable_bytes(std::span(floats)).data()));
    RotateHeads(floats.data(), count * cell_floats, side);
    if (!engine_.kernels().encode_row(type, floats.data(), rows, count * cell_floats)) {
      return Fail(Code::kNumerical, "llama.cpp state: " + PlaneText(plane) +
                                        ": a row is not finite as " + kernels::DataTypeName(type));
    }
    rows += count * plane.cell_bytes(type);
  }
  return {};
}

}  // namespace kvd
