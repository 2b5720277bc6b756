// Retries: requests that a client sends again after a connection or a daemon was lost. The records
// of applied requests are in `meta` and were committed together with the changes that the requests
// made.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "daemon/service.h"
#include "engine/model/model_config.h"

namespace kvd {
namespace {

std::string RequestText(RequestId request) {
  return Concat("request ", static_cast<std::uint64_t>(request));
}

}  // namespace

Result<std::optional<wire::Remembered>> Service::FindRemembered(const VerbRequest& request,
                                                                const wire::VerbRow& row,
                                                                std::vector<SequenceHandle>* made) {
  if (row.resend == wire::Resend::kResume || row.resend == wire::Resend::kHandler) {
    return std::nullopt;
  }
  const Result<AppliedReply> applied =
      memory_.sessions().FindApplied(request.caller.session, request.id());
  if (!applied && applied.error().code != Code::kNotFound) {
    // Read-only requests are not recorded; a retry executes them again.
    if (!row.is_remembered()) return std::nullopt;
    return std::unexpected(applied.error());
  }
  if (applied && applied->kind != request.submission.verb) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()),
                " was applied as another verb, ", applied->kind);
  }
  const bool drops_parts =
      row.parts == wire::Parts::kScratch || (row.parts == wire::Parts::kAnswer && !applied);
  if (drops_parts) DropPartsOf(request);
  if (!applied) return std::nullopt;
  if (row.parts == wire::Parts::kAnswer) {
    *made = memory_.sessions().CreatedBy(request.caller.session, request.id());
  }
  return wire::Remembered{.sequence = applied->sequence,
                          .cells = applied->cells,
                          .replayed = applied->replayed,
                          .made = *made,
                          .start_token = engine_.config().decoder_start_token};
}

void Service::DropPartsOf(const VerbRequest& request) {
  for (const SequenceHandle part :
       memory_.sessions().CreatedBy(request.caller.session, request.id())) {
    scheduler_.CancelSequence(part);
    (void)memory_.sequences().Drop(part);
  }
}

Result<Service::Progress> Service::ProgressOf(const VerbRequest& request, const SequenceInfo& info,
                                              std::span<const TokenId> prompt) const {
  Progress progress{.first_cell = info.cell_count, .done = 0, .predicted = {}, .is_known = false};
  if (!request.has(wire::kFlagRetry) || info.request_session != request.caller.session ||
      info.request < request.id()) {
    return progress;
  }
  const auto gone = [&](const char* why) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()), " was completed, but ",
                why, ", so its answer cannot be repeated");
  };
  if (info.request > request.id())
    return gone("another request has computed on its sequence since");
  if (!info.request_first_cell) return gone("its sequence was edited since");
  progress.is_known = true;
  progress.first_cell = *info.request_first_cell;
  progress.done = info.cell_count - progress.first_cell;
  std::vector<TokenId> tokens;
  std::vector<Pos> positions;
  KVD_CHECK_OK(memory_.holds().ReadCells(info.handle, progress.first_cell, info.cell_count, &tokens,
                                         &positions));
  const std::size_t own = std::min(tokens.size(), prompt.size());
  if (tokens.size() != progress.done ||
      !std::ranges::equal(std::span(tokens).first(own), prompt.first(own))) {
    return Fail(Code::kConflict, "request: ", RequestText(request.id()),
                ": the earlier attempt had other tokens");
  }
  progress.predicted.assign(tokens.begin() + static_cast<std::ptrdiff_t>(own), tokens.end());
  return progress;
}

}  // namespace kvd
