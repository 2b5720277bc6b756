#include "daemon/defragment_request.h"

#include <algorithm>
#include <cstring>

namespace kvd {

void DefragmentRequest::DoWork(Engine& engine, std::size_t cells) {
  if (!work_) work_.emplace(engine.StartDefragmentation());
  const auto cells_max = std::min<std::size_t>(cells, Defragmentation::kSliceCells);
  const Result<bool> is_done = work_->Slice(static_cast<std::uint32_t>(cells_max));
  if (!is_done) return EndWith(is_done.error());
  if (!*is_done) return;
  const DefragReport& report = work_->report();
  const wire::DefragReply reply{
      .cells_moved = report.cells_moved,
      .cells_settled = report.cells_settled,
      .blocks_freed = report.blocks_freed,
      .bytes_returned = report.bytes_returned,
      .packing_ns = static_cast<std::uint64_t>(report.packing.count()),
      .returning_ns = static_cast<std::uint64_t>(report.returning.count()),
      .settling_ns = static_cast<std::uint64_t>(report.settling.count()),
      .sequences_settled = report.sequences_settled,
      .reserved = 0};
  SetReply(wire::OneReply<wire::DefragReply>{reply});
}

void DefragmentRequest::OnCancel() {
  work_.reset();
  ComputingRequest::OnCancel();
}

}  // namespace kvd
