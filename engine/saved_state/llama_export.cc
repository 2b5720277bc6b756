#include "engine/saved_state/llama_export.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/model_config.h"

namespace kvd {
namespace {

constexpr std::uint32_t kCellsAtOnce = 1024;  // of one layer

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
  for (const CachePlane& plane : opened->planes_) {
    KVD_CHECK_OK(CheckRowType(plane, opened->TypeOf(plane)));
  }
  opened->sequences_.reserve(handles.size());
  for (SequenceHandle handle : handles) KVD_CHECK_OK(opened->Add(handle));
  KVD_CHECK_OK(opened->MakePlan());
  return opened;
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
  plan_.tokens = tokens_;
  if (!planes_.empty()) {
    KVD_TRY(LlamaCachePlan cells, CellsPlan());
    plan_.caches.push_back(std::move(cells));
  }
  if (!states_.empty()) plan_.caches.push_back(StatesPlan());
  if (options_.kind == LlamaFileKind::kSession) {
    plan_.architecture = engine_.config().architecture_name();
    if (sequences_.size() == 1 && !sequences_[0].logits().empty()) {
      output_positions_ = {0};
      plan_.output_positions = output_positions_;
      plan_.logits = sequences_[0].logits();
    }
  }
  KVD_TRY(bytes_, LlamaStateBytes(plan_));
  return {};
}

Result<LlamaCachePlan> LlamaExport::CellsPlan() const {
  LlamaCachePlan plan;
  plan.is_v_transposed = options_.is_v_transposed;
  plan.declared_layers = static_cast<std::uint32_t>(planes_.size() / 2);
  plan.cells.reserve(tokens_.size());
  for (std::size_t id = 0; id < sequences_.size(); ++id) {
    KVD_CHECK_OK(work_.Continue());
    for (Pos pos : sequences_[id].positions()) {
      LlamaCell cell{.pos = pos.value};
      if (options_.kind == LlamaFileKind::kSession) {
        cell.first_id = static_cast<std::uint32_t>(plan.sequence_ids.size());
        cell.id_count = 1;
        plan.sequence_ids.push_back(static_cast<std::int32_t>(id));
      }
      plan.cells.push_back(cell);
    }
  }
  for (const CachePlane& plane : planes_) {
    auto& shapes = plane.side == CacheSide::kKeys ? plan.k : plan.v;
    shapes.push_back({TypeOf(plane), std::uint64_t{plane.head_count} * plane.dim});
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
  if (cache + 1 == plan_.caches.size() && !states_.empty()) {
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
    return {};
  }
  const CachePlane& plane = planes_[2 * layer + (kind == LlamaRowKind::kK ? 0 : 1)];
  const std::size_t cell_bytes = plane.cell_bytes(TypeOf(plane));
  std::uint32_t start = 0;  // of the sequence, among the cells of all
  std::byte* to = rows.data();
  for (const SequenceExport& sequence : sequences_) {
    const std::uint32_t end = start + sequence.cell_count();
    const std::uint32_t from = std::max(start, first_cell);
    const std::uint32_t until = std::min(end, first_cell + cell_count);
    for (std::uint32_t at = from; at < until;) {
      const std::uint32_t piece_end = std::min(until, at + kCellsAtOnce);
      KVD_CHECK_OK(work_.Continue());
      KVD_CHECK_OK(ReadCells(sequence, plane, at - start, piece_end - start, to));
      to += (piece_end - at) * cell_bytes;
      at = piece_end;
    }
    start = end;
  }
  return {};
}

Status LlamaExport::ReadCells(const SequenceExport& sequence, const CachePlane& plane,
                              std::uint32_t begin, std::uint32_t end, std::byte* rows) const {
  const kernels::DataType type = TypeOf(plane);
  const std::uint32_t held = std::clamp(sequence.first_cell(plane), begin, end);
  const std::size_t dropped_bytes = (held - begin) * plane.cell_bytes(type);
  std::memset(rows, 0, dropped_bytes);
  if (held == end) return {};
  return sequence.ReadRows(plane, held, end, type, CellMajor(plane, type), rows + dropped_bytes);
}

}  // namespace kvd
