// The generations of the scripted daemon.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "shm/piece_codec.h"
#include "tests/fuzz/scripted_daemon.h"
#include "tests/fuzz/scripted_vocabulary.h"

namespace kvd::test {
namespace {

constexpr std::size_t kGenerationsMax = 16;  // of an input; later answers are empty

std::vector<std::byte> Encoded(const wire::PieceView& piece) {
  std::vector<std::byte> bytes(wire::PieceBytes(piece));
  wire::EncodePiece(piece, bytes);
  return bytes;
}

// Leaves out what an earlier process has received.
Status Skip(ScriptedGeneration& generation, std::uint32_t received) {
  std::size_t left = received;
  while (left != 0) {
    if (generation.at == generation.pieces.size()) {
      return Fail(Code::kConflict, "received: more tokens than were sent");
    }
    ScriptedPiece& piece = generation.pieces[generation.at];
    if (piece.tokens.size() > left) return Fail(Code::kConflict, "received: inside a piece");
    left -= piece.tokens.size();
    ++generation.at;
  }
  return {};
}

}  // namespace

void ScriptedDaemon::Generate(const Request& request) {
  auto running = Begun(request);
  if (!running) return PushError(request, running.error());
  const auto& script = script_.answers;
  const bool is_slow = !script.empty() && script[(generations_ - 1) % script.size()].is_slow;
  Running& kept = running_.emplace_back(std::move(*running));
  if (is_slow) return;
  while (Advance(kept)) continue;
  running_.pop_back();
}

Result<ScriptedDaemon::Running> ScriptedDaemon::Resumed(const Request& request,
                                                        const wire::GenerateRequest& read) {
  const auto begun = state_.begun.find(request.submission.request);
  if (begun == state_.begun.end()) return Fail(Code::kConflict, "request: never begun");
  Running running = begun->second;
  running.submission = request.submission;
  running.generation.at = 0;
  if (read.params.predict_max < 0 && read.params.seed == 0) return Fail(Code::kConflict, "seed");
  KVD_CHECK_OK(Skip(running.generation, request.submission.received));
  KVD_TRY(ScriptedSequence* const sequence,
          state_.sequences.FindIdle(request.session, running.sequence));
  ++sequence->computing;
  return running;
}

Result<ScriptedDaemon::Running> ScriptedDaemon::Begun(const Request& request) {
  const wire::Submission& submission = request.submission;
  KVD_TRY(const wire::GenerateRequest read,
          wire::ParseGenerate(request.payload, kScriptedVocabulary));
  const auto args = wire::ReadArguments<wire::GenerateArgs>(submission);
  const auto& script = script_.answers;
  ScriptedAnswer answer = script.empty() ? ScriptedAnswer() : script[generations_ % script.size()];
  // An answer that shifts its context has no end of its own.
  if (++generations_ > kGenerationsMax) answer = {.text = {}, .ends_always = true};
  if ((submission.flags & wire::kFlagRetry) != 0) return Resumed(request, read);
  KVD_TRY(ScriptedSequence* const sequence,
          state_.sequences.FindIdle(request.session, args.sequence));
  if (args.pos && args.pos->value != sequence->next_pos) {
    return Fail(Code::kInvalidArgument, "pos: ", args.pos->value, ", the next one is ",
                sequence->next_pos);
  }
  const bool continues = (read.params.flags & wire::kContinue) != 0;
  if (continues == !read.tokens.empty()) return Fail(Code::kInvalidArgument, "tokens: count");
  if (continues && sequence->cells.empty()) return Fail(Code::kInvalidArgument, "tokens: none");
  const std::size_t reused = sequence->cells.size();
  const bool shares = reused == 0 && (submission.flags & wire::kFlagNoPrefix) == 0;
  const std::size_t shared = shares ? state_.sequences.SharedPrefix(read.tokens) : 0;
  sequence->Append(read.tokens);
  const std::size_t pool = At(request.session).model->context * std::size_t{4};
  const std::size_t room = sequence->cells.size() < pool ? pool - sequence->cells.size() : 0;
  Running running{.session = request.session,
                  .sequence = args.sequence,
                  .submission = submission,
                  .skips_last = (read.params.flags & wire::kSkipLast) != 0,
                  .generation = Generated(answer, read, room)};
  running.generation.result.prompt_reused = static_cast<std::uint32_t>(reused);
  running.generation.result.prompt_shared = static_cast<std::uint32_t>(shared);
  running.generation.result.prompt_computed =
      static_cast<std::uint32_t>(read.tokens.size() - shared);
  if (shared != 0) {
    running.generation.result.shared_origin = static_cast<std::uint8_t>(PrefixOrigin::kRetained);
  }
  ++sequence->computing;
  state_.begun[submission.request] = running;
  if ((submission.flags & wire::kFlagProgress) != 0) {
    wire::Completion completion{};
    completion.flags = wire::kMore;
    const std::uint64_t total = read.tokens.size();
    for (const std::uint64_t done : {total / 2, total}) {
      Push(request, completion,
           Encoded({.kind = wire::kPieceProgress, .done = done, .total = total}));
    }
  }
  return running;
}

bool ScriptedDaemon::Advance(Running& running) {
  ScriptedGeneration& generation = running.generation;
  const auto sequence = state_.sequences.Find(running.session, running.sequence);
  if (!sequence) {
    const Error gone{Code::kNotFound, "sequence: dropped"};
    Finish(running, &gone);
    return false;
  }
  if (generation.at == generation.pieces.size()) {
    Finish(running, nullptr);
    return false;
  }
  const ScriptedPiece& piece = generation.pieces[generation.at++];
  std::span<const TokenId> committed(piece.tokens);
  const bool is_last = generation.at == generation.pieces.size();
  if (is_last && running.skips_last) committed = committed.first(committed.size() - 1);
  (*sequence)->Append(committed);
  wire::Completion completion{};
  completion.flags = wire::kMore;
  Push({running.session, running.submission, {}, {}}, completion,
       Encoded({.kind = wire::kPieceTokens,
                .done = generation.at,
                .total = 0,
                .tokens = piece.tokens,
                .text = piece.text,
                .logprobs = piece.logprobs}));
  return true;
}

void ScriptedDaemon::Finish(Running& running, const Error* error) {
  const auto sequence = state_.sequences.Find(running.session, running.sequence);
  if (sequence) --(*sequence)->computing;
  const Request request{running.session, running.submission, {}, {}};
  if (error != nullptr) return PushError(request, *error);
  const auto bytes = std::as_bytes(std::span(&running.generation.result, 1));
  Push(request, {}, {bytes.begin(), bytes.end()});
}

}  // namespace kvd::test
