// Requests that are sent again after a connection or a daemon was lost: what is known of them is in
// `meta`, since it was committed with what they changed.
#include <algorithm>
#include <string>

#include "daemon/service.h"
#include "engine/model_config.h"
#include "shm/wire_check.h"

namespace kvd {
namespace {

std::string RequestText(RequestId request) {
  return "request " + std::to_string(static_cast<std::uint64_t>(request));
}

bool MakesSequences(wire::Verb verb) {
  return verb == wire::Verb::kFork || verb == wire::Verb::kCopyRange;
}

// Those look themselves, on the thread where an earlier attempt may still be at work.
bool IsOfFiles(wire::Verb verb) {
  return verb == wire::Verb::kSave || verb == wire::Verb::kSaveAll || verb == wire::Verb::kLoad ||
         verb == wire::Verb::kRemoveSaved;
}

}  // namespace

Result<std::optional<Reply>> Service::AnswerAgain(const Request& request) {
  const auto verb = static_cast<wire::Verb>(request.submission.verb);
  if (verb == wire::Verb::kDecode || verb == wire::Verb::kGenerate || IsOfFiles(verb)) {
    return std::nullopt;
  }
  const Result<AppliedReply> applied =
      memory_.sessions().FindApplied(request.caller.session, request.id());
  if (!applied && applied.error().code != Code::kNotFound) {
    // Of what changes nothing nothing is remembered.
    if (!wire::IsRemembered(verb)) return std::nullopt;
    return std::unexpected(applied.error());
  }
  if (applied && applied->kind != request.submission.verb) {
    return Fail(Code::kConflict, "request: " + RequestText(request.id()) +
                                     " was applied as another verb, " +
                                     std::to_string(applied->kind));
  }
  // What it made on its way, where its end was not reached; or did not give back.
  if (MakesSequences(verb) && (!applied || verb == wire::Verb::kCopyRange)) {
    DropPartsOf(request);
  }
  if (!applied) return std::nullopt;
  KVD_TRY(Reply reply, RememberedReply(request, *applied));
  return std::optional(std::move(reply));
}

void Service::DropPartsOf(const Request& request) {
  for (const SequenceHandle part :
       memory_.sessions().CreatedBy(request.caller.session, request.id())) {
    scheduler_.CancelSequence(part);
    (void)memory_.sequences().Drop(part);
  }
}

Result<Reply> Service::RememberedReply(const Request& request, const AppliedReply& applied) const {
  using wire::Verb;
  Reply reply;
  switch (static_cast<Verb>(request.submission.verb)) {
    case Verb::kCreate: reply.sequence = applied.sequence; break;
    case Verb::kAttach:
    case Verb::kPublish:
      reply.sequence = applied.sequence;
      reply.value1 = applied.cells;
      break;
    case Verb::kFork: {
      const auto forks = memory_.sessions().CreatedBy(request.caller.session, request.id());
      if (std::ssize(forks) != request.submission.argument) {
        return Fail(Code::kConflict, "fork: " + RequestText(request.id()) +
                                         " was applied, and of its " +
                                         std::to_string(request.submission.argument) + " forks " +
                                         std::to_string(forks.size()) + " are left");
      }
      reply.sequence = forks.front();
      reply.value1 = request.submission.p0 < 0 ? applied.cells : request.submission.p0;
      reply.value2 = applied.replayed;
      reply.AppendBytes(std::as_bytes(std::span(forks)));
      break;
    }
    case Verb::kRetain:
      reply.sequence = request.sequence();
      reply.value0 = applied.sequence != SequenceHandle::kNone ? 1 : 0;
      break;
    case Verb::kPin: reply.sequence = applied.sequence; break;
    case Verb::kDropRetained: reply.value0 = applied.cells; break;
    case Verb::kDivide:
      reply.sequence = applied.sequence;
      reply.value0 = applied.cells;
      break;
    case Verb::kEncode:
      reply.sequence = applied.sequence;
      reply.value0 = applied.cells;
      reply.value1 = engine_.config().decoder_start_token;
      break;
    case Verb::kCopyRange:
    case Verb::kRemoveRange:
      reply.value0 = applied.cells;
      reply.value1 = applied.replayed;
      break;
    default: break;
  }
  return reply;
}

Result<Service::Progress> Service::ProgressOf(const Request& request, const SequenceInfo& info,
                                              std::span<const TokenId> prompt) const {
  Progress progress{.first_cell = info.cell_count, .done = 0, .predicted = {}, .is_known = false};
  if (!request.has(wire::kFlagRetry) || info.request_session != request.caller.session ||
      info.request < request.id()) {
    return progress;
  }
  const auto gone = [&](const char* why) {
    return Fail(Code::kConflict, "request: " + RequestText(request.id()) + " had ended, and " +
                                     why + ": its answer is not known any more");
  };
  if (info.request > request.id()) return gone("another one has computed on its sequence since");
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
    return Fail(Code::kConflict,
                "request: " + RequestText(request.id()) + " had other tokens than are sent now");
  }
  progress.predicted.assign(tokens.begin() + static_cast<std::ptrdiff_t>(own), tokens.end());
  return progress;
}

}  // namespace kvd
