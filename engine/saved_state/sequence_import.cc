#include "engine/saved_state/sequence_import.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/model/rope_table.h"

namespace kvd {
namespace {

Status CheckTokens(const char* field, std::span<const TokenId> tokens, std::uint32_t vocab_size) {
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    if (tokens[at] >= 0 && std::cmp_less(tokens[at], vocab_size)) continue;
    return Fail(Code::kInvalidArgument, field, " ", at, ": id ", tokens[at],
                ", the vocabulary has ", vocab_size);
  }
  return {};
}

}  // namespace

SequenceImport::SequenceImport(Engine& engine, std::uint32_t cell_count)
    : engine_(engine),
      cell_count_(cell_count),
      planes_(CachePlanesOf(engine.config(), engine.cell_layout())),
      cells_fed_(planes_.size()) {}

Result<std::unique_ptr<SequenceImport>> SequenceImport::Begin(Engine& engine,
                                                              const ImportRequest& request) {
  KVD_CHECK_OK(CheckTokens("token", request.tokens, engine.config().vocab_size));
  KVD_CHECK_OK(CheckTokens("encoded token", request.cross_tokens, engine.config().vocab_size));
  const auto last = request.positions.empty() ? -1 : std::int64_t{request.positions.back().value};
  std::unique_ptr<SequenceImport> import(
      new SequenceImport(engine, static_cast<std::uint32_t>(request.tokens.size())));
  RestoreRequest restore{.handle = request.handle,
                         .tokens = request.tokens,
                         .positions = request.positions,
                         .cross_tokens = request.cross_tokens,
                         .key_form = KeyFormAt(engine.config(), last),
                         .pristine_cells = request.pristine_cells,
                         .first_cell = {},
                         .has_state = request.has_state,
                         .checkpoint_cells = request.checkpoint_cells,
                         .has_logits = request.has_logits};
  if (!request.first_cells.empty() && request.first_cells.size() != import->planes_.size()) {
    return Fail(Code::kInvalidArgument, "first cells: of ", request.first_cells.size(),
                " planes, the model has ", import->planes_.size());
  }
  for (std::size_t at = 0; at < request.first_cells.size(); ++at) {
    const CachePlane& plane = import->planes_[at];
    const std::uint32_t first = request.first_cells[at];
    // Group 0 holds all cells; with --swa-full it also has the layers with a window.
    if (first > 0 && plane.group == 0) {
      return Fail(Code::kWindowLost, PlaneText(plane), ": the cells before ", first,
                  " are missing, but this layer keeps all cells");
    }
    restore.first_cell[plane.group] = std::max(restore.first_cell[plane.group], first);
  }
  KVD_TRY(import->restore_, engine.memory().restores().Begin(restore));
  import->checkpoint_cells_.assign(request.checkpoint_cells.begin(),
                                   request.checkpoint_cells.end());
  import->has_state_ = request.has_state;
  import->has_logits_ = request.has_logits;
  return import;
}

Status SequenceImport::FeedRows(std::size_t plane_number, std::uint32_t begin, std::uint32_t end,
                                kernels::DataType type, RowPlacement placement,
                                const std::byte* rows) {
  KVD_ASSERT(restore_.reservation.is_open() && plane_number < planes_.size());
  const CachePlane& plane = planes_[plane_number];
  const GroupPart& part = restore_.parts[plane.group];
  KVD_ASSERT(begin <= end && end <= part.cell_count);
  KVD_CHECK_OK(CheckRowType(plane, type));
  std::uint32_t at = std::max(begin, part.first_cell);
  if (at >= end) return {};
  cells_fed_[plane_number].fetch_add(end - at, std::memory_order_relaxed);
  const ExtentView view = part.view();
  for (std::size_t e = FindExtent(view, at); at < end; ++e) {
    const layout::Extent& extent = view.entries[e];
    const std::uint32_t count = std::min(end, view.EndOf(e)) - at;
    KVD_CHECK_OK(PutRows(plane, engine_.memory().BlockBytes(plane.group, BlockId{extent.block}),
                         extent.first + (at - extent.start), count, type, placement,
                         rows + (at - begin) * placement.cell_stride_bytes));
    at += count;
  }
  return {};
}

Status SequenceImport::PutRows(const CachePlane& plane, std::byte* block, std::uint32_t cell,
                               std::uint32_t count, kernels::DataType type, RowPlacement placement,
                               const std::byte* rows) const {
  const CellLayout& cells = engine_.cell_layout();
  const kernels::KernelTable& kernels = engine_.kernels();
  const std::size_t row_bytes = plane.row_bytes(type);
  std::vector<float> row(type == plane.type ? 0 : plane.dim);
  bool is_finite = true;
  for (std::size_t head = 0; head < plane.head_count; ++head) {
    std::byte* out = block + (plane.side == CacheSide::kKeys ? cells.KRow(plane.layer, head, cell)
                                                             : cells.VRow(plane.layer, head, cell));
    const std::byte* source = rows + head * placement.head_stride_bytes;
    if (type == plane.type && placement.cell_stride_bytes == row_bytes) {
      is_finite &= AllFinite(type, source, std::size_t{count} * plane.dim);
      std::memcpy(out, source, count * row_bytes);
      continue;
    }
    for (std::size_t k = 0; k < count; ++k, source += placement.cell_stride_bytes) {
      if (type == plane.type) {
        is_finite &= AllFinite(type, source, plane.dim);
        std::memcpy(out + k * row_bytes, source, row_bytes);
      } else {
        kernels.decode_row(type, source, row.data(), plane.dim);
        is_finite &= kernels.encode_row(plane.type, row.data(),
                                        out + k * plane.row_bytes(plane.type), plane.dim);
      }
    }
  }
  if (is_finite) return {};
  return Fail(Code::kNumerical, PlaneText(plane), ": a value is not finite");
}

Status SequenceImport::FeedFloats(const char* what, std::byte* destination, std::size_t float_count,
                                  std::size_t first, std::span<const float> floats) {
  if (first > float_count || floats.size() > float_count - first) {
    return Fail(Code::kInvalidArgument, what, ": floats up to ", first + floats.size(), " of ",
                float_count);
  }
  if (!AllFinite(kernels::DataType::kF32, std::as_bytes(floats).data(), floats.size())) {
    return Fail(Code::kNumerical, what, ": a value is not finite");
  }
  if (destination == nullptr || floats.empty()) return {};
  std::memcpy(destination + first * sizeof(float), floats.data(), floats.size_bytes());
  floats_fed_.fetch_add(floats.size(), std::memory_order_relaxed);
  return {};
}

Status SequenceImport::FeedState(std::uint32_t cell_count, std::size_t first,
                                 std::span<const float> floats) {
  KVD_ASSERT(restore_.reservation.is_open());
  const bool is_last = has_state_ && cell_count == cell_count_;
  if (!is_last && !std::ranges::binary_search(checkpoint_cells_, cell_count)) {
    return Fail(Code::kInvalidArgument, "state: after ", cell_count, " cells, none was announced");
  }
  std::uint32_t slot = is_last ? restore_.state_slot : layout::kNoSlot;
  for (const layout::Checkpoint& checkpoint : restore_.checkpoints) {
    if (!is_last && checkpoint.cell_count == cell_count) slot = checkpoint.state_slot;
  }
  return FeedFloats("state", slot == layout::kNoSlot ? nullptr : engine_.memory().StateBytes(slot),
                    engine_.state_bytes() / sizeof(float), first, floats);
}

Status SequenceImport::FeedLogits(std::size_t first, std::span<const float> floats) {
  KVD_ASSERT(restore_.reservation.is_open());
  if (!has_logits_) return Fail(Code::kInvalidArgument, "logits: none were announced");
  const std::uint32_t slot = restore_.logits_slot;
  return FeedFloats("logits",
                    slot == layout::kNoSlot ? nullptr : engine_.memory().LogitsBytes(slot),
                    engine_.config().vocab_size, first, floats);
}

Status SequenceImport::CheckComplete() const {
  for (std::size_t at = 0; at < planes_.size(); ++at) {
    const GroupPart& part = restore_.parts[planes_[at].group];
    const std::uint64_t wanted = part.cell_count - part.first_cell;
    const std::uint64_t fed = cells_fed_[at].load(std::memory_order_relaxed);
    if (fed != wanted) {
      return Fail(Code::kInvalidArgument, PlaneText(planes_[at]), ": ", fed, " of ", wanted,
                  " cells given");
    }
  }
  std::uint64_t wanted = 0;
  const std::uint64_t state_floats = engine_.state_bytes() / sizeof(float);
  if (restore_.state_slot != layout::kNoSlot) wanted += state_floats;
  for (const layout::Checkpoint& checkpoint : restore_.checkpoints) {
    if (checkpoint.state_slot != restore_.state_slot) wanted += state_floats;
  }
  if (restore_.logits_slot != layout::kNoSlot) wanted += engine_.config().vocab_size;
  const std::uint64_t fed = floats_fed_.load(std::memory_order_relaxed);
  if (fed == wanted) return {};
  return Fail(Code::kInvalidArgument, "states and logits: ", fed, " of ", wanted, " floats given");
}

Status SequenceImport::Commit() {
  KVD_ASSERT(restore_.reservation.is_open());
  if (Status status = CheckComplete(); !status) {
    restore_.reservation.End();
    return status;
  }
  return engine_.memory().restores().Commit(restore_);
}

}  // namespace kvd
