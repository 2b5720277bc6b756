// Each verb: fill a Submission, call, take the answer apart. Lists come back as arrays of plain
// structs and are copied out of the collected bytes.
#include "client/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>
#include <utility>

namespace kvd {
namespace {

using wire::Verb;

wire::Submission Request(Verb verb, SequenceHandle sequence = SequenceHandle::kNone,
                         std::uint16_t flags = 0) {
  wire::Submission submission{};
  submission.verb = static_cast<std::uint16_t>(verb);
  submission.flags = flags;
  submission.sequence = static_cast<std::uint64_t>(sequence);
  return submission;
}

wire::Submission RangeRequest(Verb verb, SequenceHandle sequence, PosRange range,
                              std::int64_t argument = 0) {
  wire::Submission submission = Request(verb, sequence);
  submission.p0 = range.begin.value;
  // The largest position is what an open end is called here; on the wire it is negative.
  submission.p1 = range.end == kPosEnd ? -1 : range.end.value;
  submission.argument = argument;
  return submission;
}

Status CheckRange(PosRange range) {
  if (range.begin.value >= 0 && range.end >= range.begin) return {};
  return Fail(Code::kInvalidArgument, "range: [" + std::to_string(range.begin.value) + ", " +
                                          std::to_string(range.end.value) +
                                          ") is not within 0 <= begin <= end");
}

std::uint16_t ForceFlag(Force force) { return force == Force::kYes ? wire::kFlagForce : 0; }

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::unexpected<Error> BadAnswer(Verb verb, std::size_t found_bytes, std::size_t unit_bytes) {
  return Fail(Code::kCorrupt, "answer to verb " + std::to_string(static_cast<std::uint16_t>(verb)) +
                                  ": " + std::to_string(found_bytes) + " bytes, records of " +
                                  std::to_string(unit_bytes) + " wanted");
}

template <class T>
  requires std::is_trivially_copyable_v<T>
Result<std::vector<T>> CallForList(Connection& connection, const wire::Submission& submission,
                                   const Payload& payload = {}) {
  std::vector<std::byte> output;
  KVD_TRY([[maybe_unused]] const auto completion, connection.Call(submission, payload, &output));
  if (output.size() % sizeof(T) != 0) {
    return BadAnswer(static_cast<Verb>(submission.verb), output.size(), sizeof(T));
  }
  std::vector<T> list(output.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), output.data(), output.size());
  return list;
}

template <class T>
Result<T> CallForOne(Connection& connection, const wire::Submission& submission) {
  KVD_TRY(auto list, CallForList<T>(connection, submission));
  if (list.size() != 1) {
    return BadAnswer(static_cast<Verb>(submission.verb), list.size() * sizeof(T), sizeof(T));
  }
  return list.front();
}

Result<std::string> CallForText(Connection& connection, const wire::Submission& submission,
                                const Payload& payload = {}) {
  std::vector<std::byte> output;
  KVD_TRY([[maybe_unused]] const auto completion, connection.Call(submission, payload, &output));
  return TextOf(output);
}

// `replayed` (may be null): tokens computed again.
Result<std::uint64_t> CallForCells(Connection& connection, const wire::Submission& submission,
                                   std::uint64_t* replayed = nullptr) {
  KVD_TRY(const auto completion, connection.Call(submission, {}, nullptr));
  if (replayed != nullptr) *replayed = static_cast<std::uint64_t>(completion.value1);
  return static_cast<std::uint64_t>(completion.value0);
}

Status CallForNothing(Connection& connection, const wire::Submission& submission,
                      const Payload& payload = {}) {
  KVD_TRY([[maybe_unused]] const auto completion, connection.Call(submission, payload, nullptr));
  return {};
}

Result<SequenceHandle> HandleOf(const wire::Completion& completion) {
  if (completion.sequence == 0) return Fail(Code::kCorrupt, "answer: no sequence in it");
  return static_cast<SequenceHandle>(completion.sequence);
}

ForkInfo ForkInfoOf(const wire::Completion& completion) {
  return {static_cast<std::uint64_t>(completion.value0),
          static_cast<std::uint64_t>(completion.value1),
          static_cast<std::uint64_t>(completion.value2)};
}

// What the user asked, as the wire has it, with the user's own mistakes named here.
Result<wire::GenerateView> ViewOf(const GenerateOptions& options, std::uint32_t vocab_size) {
  wire::GenerateView view;
  view.tokens = options.tokens;
  view.biases = options.biases;
  view.stops = options.stops;
  view.params = {.token_count = static_cast<std::uint32_t>(options.tokens.size()),
                 .predict_max = options.predict_max,
                 .temperature = options.temperature,
                 .top_k = options.top_k,
                 .top_p = options.top_p,
                 .min_p = options.min_p,
                 .typical_p = options.typical_p,
                 .repeat_penalty = options.repeat_penalty,
                 .presence_penalty = options.presence_penalty,
                 .frequency_penalty = options.frequency_penalty,
                 .repeat_last = options.repeat_last,
                 .logprob_count = options.logprob_count,
                 .seed = options.seed,
                 .flags = options.flags,
                 .bias_count = static_cast<std::uint32_t>(options.biases.size()),
                 .stop_count = static_cast<std::uint32_t>(options.stops.size()),
                 .stop_bytes = 0};
  KVD_CHECK_OK(wire::ValidateGenerateParams(view.params));
  for (const wire::LogitBias& bias : options.biases) {
    KVD_CHECK_OK(wire::ValidateLogitBias(bias, vocab_size));
  }
  for (const std::string_view stop : options.stops) KVD_CHECK_OK(wire::ValidateStop(stop));
  return view;
}

}  // namespace

Result<Client> Client::Connect(const ConnectOptions& options) {
  KVD_TRY(auto connection, Connection::Open(options));
  return Client(std::move(connection));
}

Result<RoundTrip> Client::Ping(std::size_t payload_bytes) const {
  thread_local std::vector<std::byte> sent;
  thread_local std::vector<std::byte> received;
  sent.assign(payload_bytes, std::byte{0x5a});
  const std::span<const std::byte> payload(sent);
  const auto begin = std::chrono::steady_clock::now();
  KVD_TRY([[maybe_unused]] const auto completion,
          connection_->Call(Request(Verb::kPing), PayloadOf(payload), &received));
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  if (received != sent) return Fail(Code::kCorrupt, "ping: other bytes came back than were sent");
  return RoundTrip{static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count())};
}

Result<wire::InfoReply> Client::Info() const {
  return CallForOne<wire::InfoReply>(*connection_, Request(Verb::kInfo));
}

Result<wire::CacheReply> Client::CacheInfo() const {
  return CallForOne<wire::CacheReply>(*connection_, Request(Verb::kCache));
}

Result<wire::ProfileReply> Client::Profile() const {
  return CallForOne<wire::ProfileReply>(*connection_, Request(Verb::kProfile));
}

Result<bool> Client::Retain(SequenceHandle sequence, Force force) const {
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kRetain, sequence, ForceFlag(force)), {}, nullptr));
  return completion.value0 != 0;
}

Status Client::Pin(SequenceHandle sequence, bool is_pinned, Force force) const {
  wire::Submission submission = Request(Verb::kPin, sequence, ForceFlag(force));
  submission.argument = is_pinned ? 1 : 0;
  KVD_CHECK_OK(connection_->Call(submission, {}, nullptr));
  return {};
}

Result<std::uint64_t> Client::DropRetained(Force force) const {
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kDropRetained, SequenceHandle::kNone, ForceFlag(force)),
                            {}, nullptr));
  return static_cast<std::uint64_t>(completion.value0);
}

Result<std::vector<wire::SequenceEntry>> Client::List() const {
  return CallForList<wire::SequenceEntry>(*connection_, Request(Verb::kList));
}

Result<std::vector<Snapshot>> Client::Snapshots() const {
  KVD_TRY(const auto entries,
          CallForList<wire::SnapshotEntry>(*connection_, Request(Verb::kSnapshots)));
  std::vector<Snapshot> snapshots;
  for (const wire::SnapshotEntry& entry : entries) {
    snapshots.push_back({std::string(entry.name, ::strnlen(entry.name, sizeof entry.name)),
                         static_cast<SequenceHandle>(entry.sequence), entry.owner_uid,
                         entry.is_public != 0, entry.cell_count, entry.age_ms});
  }
  return snapshots;
}

Result<Sequence> Client::NewSequence() const {
  KVD_TRY(const SequenceHandle handle, Create());
  return Sequence(*this, handle);
}

Result<Sequence> Client::AttachSnapshot(std::string_view name, ForkInfo* info) const {
  KVD_TRY(const SequenceHandle handle, Attach(name, info));
  return Sequence(*this, handle);
}

Result<SequenceHandle> Client::Create(std::uint64_t cache_salt) const {
  wire::Submission submission = Request(Verb::kCreate);
  submission.argument = static_cast<std::int64_t>(cache_salt);
  KVD_TRY(const auto completion, connection_->Call(submission, {}, nullptr));
  return HandleOf(completion);
}

Result<SequenceHandle> Client::Attach(std::string_view name, ForkInfo* info) const {
  const auto payload = BytesOf(name);
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kAttach), PayloadOf(payload), nullptr));
  if (info != nullptr) *info = ForkInfoOf(completion);
  return HandleOf(completion);
}

Result<std::vector<SequenceHandle>> Client::Fork(SequenceHandle source, std::int32_t cell_count,
                                                 std::uint32_t count, ForkInfo* info) const {
  wire::Submission submission = Request(Verb::kFork, source);
  submission.p0 = cell_count < 0 ? -1 : cell_count;
  submission.argument = count;
  std::vector<std::byte> output;
  KVD_TRY(const auto completion, connection_->Call(submission, {}, &output));
  if (output.size() != count * sizeof(SequenceHandle)) {
    return BadAnswer(Verb::kFork, output.size(), sizeof(SequenceHandle));
  }
  std::vector<SequenceHandle> forks(count);
  std::memcpy(forks.data(), output.data(), output.size());
  if (info != nullptr) *info = ForkInfoOf(completion);
  return forks;
}

Status Client::Drop(SequenceHandle sequence, Force force) const {
  return CallForNothing(*connection_, Request(Verb::kDrop, sequence, ForceFlag(force)));
}

void Client::DropLater(SequenceHandle sequence) const {
  connection_->SubmitAndForget(Request(Verb::kDrop, sequence), {});
}

Result<std::uint64_t> Client::CopyRange(SequenceHandle source, SequenceHandle destination,
                                        PosRange range, std::uint64_t* replayed) const {
  KVD_CHECK_OK(CheckRange(range));
  wire::Submission submission = RangeRequest(Verb::kCopyRange, source, range);
  submission.sequence2 = static_cast<std::uint64_t>(destination);
  return CallForCells(*connection_, submission, replayed);
}

Result<std::uint64_t> Client::RemoveRange(SequenceHandle sequence, PosRange range,
                                          std::uint64_t* replayed) const {
  KVD_CHECK_OK(CheckRange(range));
  return CallForCells(*connection_, RangeRequest(Verb::kRemoveRange, sequence, range), replayed);
}

Status Client::Keep(SequenceHandle sequence) const {
  return CallForNothing(*connection_, Request(Verb::kKeep, sequence));
}

Status Client::Clear(SequenceHandle sequence) const {
  return CallForNothing(*connection_, Request(Verb::kClear, sequence));
}

Status Client::Add(SequenceHandle sequence, PosRange range, std::int32_t delta) const {
  KVD_CHECK_OK(CheckRange(range));
  return CallForNothing(*connection_, RangeRequest(Verb::kAdd, sequence, range, delta));
}

Result<std::uint64_t> Client::Divide(SequenceHandle sequence, PosRange range,
                                     std::int32_t divisor) const {
  KVD_CHECK_OK(CheckRange(range));
  return CallForCells(*connection_, RangeRequest(Verb::kDivide, sequence, range, divisor));
}

Result<wire::DefragReply> Client::Defrag() const {
  return CallForOne<wire::DefragReply>(*connection_, Request(Verb::kDefrag));
}

Result<wire::SequenceEntry> Client::Query(SequenceHandle sequence) const {
  return CallForOne<wire::SequenceEntry>(*connection_, Request(Verb::kQuery, sequence));
}

Result<std::vector<TokenAt>> Client::ReadTokens(SequenceHandle sequence, std::int32_t first_cell,
                                                std::int32_t cell_count) const {
  static_assert(sizeof(TokenAt) == 2 * sizeof(std::int32_t));
  wire::Submission submission = Request(Verb::kReadTokens, sequence);
  submission.p0 = first_cell;
  submission.argument = cell_count < 0 ? -1 : cell_count;
  return CallForList<TokenAt>(*connection_, submission);
}

Result<std::string> Client::ReadText(SequenceHandle sequence, std::uint16_t flags) const {
  return CallForText(*connection_, Request(Verb::kReadText, sequence, flags));
}

Result<Decoding> Client::StartDecode(SequenceHandle sequence, std::span<const TokenId> tokens,
                                     Pos pos, wire::LogitsWanted wanted,
                                     std::uint16_t flags) const {
  wire::Submission submission = Request(Verb::kDecode, sequence, flags);
  submission.p0 = pos.value;
  submission.argument = static_cast<std::int64_t>(wanted);
  const auto payload = std::as_bytes(tokens);
  KVD_TRY(const RequestId request,
          connection_->Submit(submission, PayloadOf(payload), OutputMode::kInPlace));
  return Decoding(connection_, request);
}

Result<Generation> Client::StartGenerate(SequenceHandle sequence,
                                         const GenerateOptions& options) const {
  KVD_TRY(const wire::GenerateView view, ViewOf(options, session().vocab_size));
  wire::Submission submission =
      Request(Verb::kGenerate, sequence,
              static_cast<std::uint16_t>(FlagIf(options.wants_progress, wire::kFlagProgress) |
                                         FlagIf(!options.shares_prefix, wire::kFlagNoPrefix)));
  submission.p0 = options.pos ? options.pos->value : -1;
  const Payload payload{wire::GenerateBytes(view),
                        [](const void* context, std::span<std::byte> out) {
                          wire::EncodeGenerate(*static_cast<const wire::GenerateView*>(context),
                                               out);
                        },
                        &view};
  KVD_TRY(const RequestId request, connection_->Submit(submission, payload, OutputMode::kInPlace));
  return Generation(connection_, request);
}

Result<TextEmbedding> Client::Embed(std::span<const TokenId> tokens, std::uint16_t flags) const {
  const auto payload = std::as_bytes(tokens);
  std::vector<std::byte> output;
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kEmbed, SequenceHandle::kNone, flags), PayloadOf(payload),
                            &output));
  TextEmbedding embedding;
  embedding.values.resize(output.size() / sizeof(float));
  const auto rows = static_cast<std::uint64_t>(completion.value0);
  const auto width = static_cast<std::uint64_t>(completion.value1);
  if (rows == 0 || rows > embedding.values.size() || width != embedding.values.size() / rows ||
      rows * width * sizeof(float) != output.size()) {
    return BadAnswer(Verb::kEmbed, output.size(), sizeof(float));
  }
  std::memcpy(embedding.values.data(), output.data(), output.size());
  embedding.row_count = rows;
  embedding.width = width;
  return embedding;
}

Result<EncodedText> Client::Encode(SequenceHandle sequence, std::span<const TokenId> tokens) const {
  const auto payload = std::as_bytes(tokens);
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kEncode, sequence), PayloadOf(payload), nullptr));
  EncodedText text{.token_count = static_cast<std::uint64_t>(completion.value0)};
  if (completion.value1 >= 0) text.start_token = static_cast<TokenId>(completion.value1);
  return text;
}

Result<SequenceHandle> Client::Publish(SequenceHandle sequence, std::string_view name,
                                       std::uint16_t flags) const {
  const auto payload = BytesOf(name);
  KVD_TRY(const auto completion,
          connection_->Call(Request(Verb::kPublish, sequence, flags), PayloadOf(payload), nullptr));
  return HandleOf(completion);
}

Status Client::Unpublish(std::string_view name, Force force) const {
  const auto payload = BytesOf(name);
  return CallForNothing(*connection_,
                        Request(Verb::kUnpublish, SequenceHandle::kNone, ForceFlag(force)),
                        PayloadOf(payload));
}

Result<std::vector<TokenId>> Client::Tokenize(std::string_view text, std::uint16_t flags) const {
  const auto payload = BytesOf(text);
  return CallForList<TokenId>(*connection_, Request(Verb::kTokenize, SequenceHandle::kNone, flags),
                              PayloadOf(payload));
}

Result<std::string> Client::Detokenize(std::span<const TokenId> tokens, std::uint16_t flags) const {
  if (tokens.empty()) return std::string();
  const auto payload = std::as_bytes(tokens);
  return CallForText(*connection_, Request(Verb::kDetokenize, SequenceHandle::kNone, flags),
                     PayloadOf(payload));
}

Result<std::string> Client::Chat(std::span<const wire::ChatTurn> turns, std::uint16_t flags) const {
  const Payload payload{wire::ChatBytes(turns),
                        [](const void* context, std::span<std::byte> out) {
                          wire::EncodeChat(
                              *static_cast<const std::span<const wire::ChatTurn>*>(context), out);
                        },
                        &turns};
  return CallForText(*connection_, Request(Verb::kChat, SequenceHandle::kNone, flags), payload);
}

}  // namespace kvd
