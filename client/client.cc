// The functions of Client: each function converts its arguments, makes one call, and returns the
// parts of the reply that the function's result type has.
#include "client/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace kvd {
namespace {

Status CheckRange(PosRange range) {
  if (range.begin.value >= 0 && range.end >= range.begin) return {};
  return Fail(Code::kInvalidArgument, "range: [", range.begin.value, ", ", range.end.value,
              ") is not within 0 <= begin <= end");
}

std::uint16_t ForceFlag(Force force) { return FlagIf(force == Force::kYes, wire::kFlagForce); }
std::uint16_t EphemeralFlag(const SequenceLifetime& life) {
  return FlagIf(life.is_ephemeral, wire::kFlagEphemeral);
}

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string TextOf(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Converts a caller's number of cells to the verb's argument, which cannot be negative: a negative
// number becomes nullopt, which means all cells.
std::optional<std::uint32_t> CellsOrAll(std::int32_t cell_count) {
  if (cell_count < 0) return std::nullopt;
  return static_cast<std::uint32_t>(cell_count);
}

// Converts the caller's options to the payload's form. The error of ViewOf names the invalid
// option.
Result<wire::GenerateView> ViewOf(const GenerateOptions& options, std::uint32_t vocab_size) {
  wire::GenerateView view;
  view.tokens = options.tokens;
  view.biases = options.biases;
  view.stops = options.stops;
  if (options.breakers) view.breakers = *options.breakers;
  view.grammar = options.grammar;
  view.triggers = options.triggers;
  const std::uint32_t own_breakers = options.breakers ? wire::kOwnBreakers : 0u;
  view.params = {.token_count = static_cast<std::uint32_t>(options.tokens.size()),
                 .predict_max = options.predict_max,
                 .sampling = options.sampling,
                 .logprob_count = options.logprob_count,
                 .flags = options.flags | own_breakers,
                 .seed = options.seed,
                 .bias_count = static_cast<std::uint32_t>(options.biases.size()),
                 .stop_count = static_cast<std::uint32_t>(options.stops.size()),
                 .stop_bytes = 0,
                 .breaker_count = static_cast<std::uint32_t>(view.breakers.size()),
                 .breaker_bytes = 0,
                 .grammar_bytes = static_cast<std::uint32_t>(
                     std::min(options.grammar.size(), std::size_t{wire::kGrammarBytesMax} + 1)),
                 .trigger_count = static_cast<std::uint32_t>(options.triggers.size()),
                 .trigger_bytes = 0,
                 .room_wait_ms = options.room_wait_ms,
                 .reserved = 0};
  KVD_CHECK_OK(wire::ValidateGenerateParams(view.params));
  for (const wire::LogitBias& bias : options.biases) {
    KVD_CHECK_OK(wire::ValidateLogitBias(bias, vocab_size));
  }
  for (const std::string_view stop : options.stops) KVD_CHECK_OK(wire::ValidateStop(stop));
  for (const std::string_view breaker : view.breakers) {
    KVD_CHECK_OK(wire::ValidateBreaker(breaker));
  }
  for (const wire::TriggerView& trigger : options.triggers) {
    KVD_CHECK_OK(wire::ValidateTrigger(trigger, vocab_size));
  }
  return view;
}

}  // namespace

Payload TokenListsPayload(const std::span<const std::span<const TokenId>>& texts) {
  return {wire::TokenListsBytes(texts),
          [](const void* context, std::span<std::byte> out) {
            wire::EncodeTokenLists(
                *static_cast<const std::span<const std::span<const TokenId>>*>(context), out);
          },
          &texts};
}

Payload TextsPayload(const std::span<const std::string_view>& texts) {
  return {wire::TextsBytes(texts),
          [](const void* context, std::span<std::byte> out) {
            wire::EncodeTexts(*static_cast<const std::span<const std::string_view>*>(context), out);
          },
          &texts};
}

Status CheckScores(const wire::RankReply& reply, std::size_t document_count) {
  if (reply.scores.size() == document_count) return {};
  return Fail(Code::kCorrupt, "answer to rank: ", reply.scores.size(), " scores of ",
              document_count, " documents");
}

Status CheckEmbedding(const wire::EmbedReply& reply, std::size_t text_count,
                      std::size_t token_count) {
  if (reply.rows != text_count && reply.rows != token_count) {
    return Fail(Code::kCorrupt, "answer to embed: ", reply.rows, " rows of ", text_count,
                " texts with ", token_count, " tokens");
  }
  const std::size_t numbers = reply.values.size();
  if (reply.rows != 0 && reply.rows <= numbers && reply.width == numbers / reply.rows &&
      reply.rows * reply.width == numbers) {
    return {};
  }
  return Fail(Code::kCorrupt, "answer to embed: ", numbers, " numbers, not ", reply.rows,
              " rows of ", reply.width);
}

Result<std::vector<TextEmbedding>> EmbeddingsFrom(const wire::EmbedReply& reply,
                                                  std::span<const std::span<const TokenId>> texts) {
  std::size_t token_count = 0;
  for (const std::span<const TokenId> text : texts) token_count += text.size();
  KVD_CHECK_OK(CheckEmbedding(reply, texts.size(), token_count));
  const bool is_by_token = reply.rows != texts.size();
  std::vector<TextEmbedding> embeddings;
  auto values = std::span(reply.values);
  for (const std::span<const TokenId> text : texts) {
    const std::size_t rows = is_by_token ? text.size() : 1;
    const auto own = values.first(rows * reply.width);
    values = values.subspan(own.size());
    embeddings.push_back({.values = {own.begin(), own.end()},
                          .row_count = rows,
                          .width = reply.width,
                          .is_normalised = reply.is_normalised != 0});
  }
  return embeddings;
}

Status CheckForkCount(const wire::ForkReply& reply, std::uint32_t count) {
  if (reply.handles.size() == count) return {};
  return Fail(Code::kCorrupt, "answer to fork: ", reply.handles.size(), " forks, ", count,
              " expected");
}

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
          connection_->Call(wire::MakeSubmission(wire::PingArgs{}), PayloadOf(payload), &received));
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  if (received != sent)
    return Fail(Code::kCorrupt, "ping: the received bytes differ from those sent");
  return RoundTrip{static_cast<std::uint64_t>(std::chrono::nanoseconds(elapsed).count())};
}

Result<wire::InfoReply> Client::Info() const {
  KVD_TRY(const auto reply, Call(wire::InfoArgs{}));
  return reply.record;
}

Result<bool> Client::Retain(SequenceHandle sequence, Force force) const {
  KVD_TRY(const auto reply, Call(wire::RetainArgs{sequence}, {}, ForceFlag(force)));
  return reply.stays;
}

Result<std::vector<wire::SequenceEntry>> Client::List() const {
  KVD_TRY(auto reply, Call(wire::ListArgs{}));
  return std::move(reply.entries);
}

Result<std::vector<Snapshot>> Client::Snapshots() const {
  KVD_TRY(const auto reply, Call(wire::SnapshotsArgs{}));
  std::vector<Snapshot> snapshots;
  for (const wire::SnapshotEntry& entry : reply.entries) {
    snapshots.push_back({std::string(entry.name, ::strnlen(entry.name, sizeof entry.name)),
                         static_cast<SequenceHandle>(entry.sequence), entry.owner_uid,
                         entry.is_public != 0, entry.is_own != 0, entry.cell_count, entry.age_ms,
                         entry.expires_in_seconds, entry.is_ephemeral != 0});
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

Result<SequenceHandle> Client::Create(std::uint64_t cache_salt,
                                      const SequenceLifetime& life) const {
  KVD_TRY(const auto reply,
          Call(wire::CreateArgs{.cache_salt = cache_salt, .ttl_seconds = life.ttl_seconds}, {},
               EphemeralFlag(life)));
  return reply.sequence;
}

Result<SequenceHandle> Client::Attach(std::string_view name, ForkInfo* info) const {
  const auto payload = BytesOf(name);
  KVD_TRY(const auto reply, Call(wire::AttachArgs{}, PayloadOf(payload)));
  if (info != nullptr) *info = {.engine_ns = reply.nanoseconds, .cell_count = reply.cells};
  return reply.sequence;
}

Result<std::vector<SequenceHandle>> Client::Fork(SequenceHandle source, std::int32_t cell_count,
                                                 std::uint32_t count, ForkInfo* info,
                                                 const SequenceLifetime& life) const {
  KVD_TRY(auto reply, Call(wire::ForkArgs{.sequence = source,
                                          .cells = CellsOrAll(cell_count),
                                          .count = count,
                                          .ttl_seconds = life.ttl_seconds},
                           {}, EphemeralFlag(life)));
  KVD_CHECK_OK(CheckForkCount(reply, count));
  if (info != nullptr) {
    *info = {.engine_ns = reply.nanoseconds,
             .cell_count = reply.cells,
             .tokens_replayed = reply.replayed};
  }
  return std::move(reply.handles);
}

Status Client::Drop(SequenceHandle sequence, Force force) const {
  return CallForNothing(wire::DropArgs{sequence}, {}, ForceFlag(force));
}

void Client::DropLater(SequenceHandle sequence) const {
  connection_->SubmitAndForget(wire::MakeSubmission(wire::DropArgs{sequence}), {});
}

Result<std::uint64_t> Client::CopyRange(SequenceHandle source, SequenceHandle destination,
                                        PosRange range, std::uint64_t* replayed) const {
  KVD_CHECK_OK(CheckRange(range));
  KVD_TRY(const auto reply, Call(wire::CopyRangeArgs{source, destination, range}));
  if (replayed != nullptr) *replayed = reply.replayed;
  return reply.cells;
}

Result<std::uint64_t> Client::RemoveRange(SequenceHandle sequence, PosRange range,
                                          std::uint64_t* replayed) const {
  KVD_CHECK_OK(CheckRange(range));
  KVD_TRY(const auto reply, Call(wire::RemoveRangeArgs{sequence, range}));
  if (replayed != nullptr) *replayed = reply.replayed;
  return reply.cells;
}

Status Client::Keep(SequenceHandle sequence) const {
  return CallForNothing(wire::KeepArgs{sequence});
}

Status Client::Clear(SequenceHandle sequence) const {
  return CallForNothing(wire::ClearArgs{sequence});
}

Status Client::Add(SequenceHandle sequence, PosRange range, std::int32_t delta) const {
  KVD_CHECK_OK(CheckRange(range));
  return CallForNothing(wire::AddArgs{sequence, range, delta});
}

Result<std::uint64_t> Client::Divide(SequenceHandle sequence, PosRange range,
                                     std::int32_t divisor) const {
  KVD_CHECK_OK(CheckRange(range));
  KVD_TRY(const auto reply, Call(wire::DivideArgs{sequence, range, divisor}));
  return reply.cells;
}

Result<wire::SequenceEntry> Client::Query(SequenceHandle sequence) const {
  KVD_TRY(const auto reply, Call(wire::QueryArgs{sequence}));
  return reply.entry;
}

Result<std::vector<TokenAt>> Client::ReadTokens(SequenceHandle sequence, std::int32_t first_cell,
                                                std::int32_t cell_count) const {
  KVD_TRY(const auto reply,
          Call(wire::ReadTokensArgs{
              .sequence = sequence, .first_cell = first_cell, .count = CellsOrAll(cell_count)}));
  std::vector<TokenAt> tokens;
  tokens.reserve(reply.cells.size());
  for (const wire::TokenAndPosition& cell : reply.cells) {
    tokens.push_back({.token = cell.token, .pos = Pos{cell.pos}});
  }
  return tokens;
}

Result<std::string> Client::ReadText(SequenceHandle sequence, std::uint16_t flags) const {
  KVD_TRY(const auto reply, Call(wire::ReadTextArgs{sequence}, {}, flags));
  return TextOf(reply.text);
}

Result<Decoding> Client::StartDecode(SequenceHandle sequence, std::span<const TokenId> tokens,
                                     Pos pos, wire::LogitsWanted wanted,
                                     std::uint16_t flags) const {
  const auto payload = std::as_bytes(tokens);
  KVD_TRY(const RequestId request,
          connection_->Submit(
              wire::MakeSubmission(
                  wire::DecodeArgs{.sequence = sequence, .pos = pos, .logits = wanted}, flags),
              PayloadOf(payload), OutputMode::kInPlace));
  return Decoding(connection_, request);
}

Result<Generation> Client::SendGenerate(SequenceHandle sequence, const GenerateOptions& options,
                                        const EarlierAttempt* earlier) const {
  KVD_TRY(const wire::GenerateView view, ViewOf(options, session().vocab_size));
  const auto flags =
      static_cast<std::uint16_t>(FlagIf(options.wants_progress, wire::kFlagProgress) |
                                 FlagIf(!options.shares_prefix, wire::kFlagNoPrefix));
  const wire::Submission submission =
      wire::MakeSubmission(wire::GenerateArgs{.sequence = sequence, .pos = options.pos}, flags);
  const Payload payload{wire::GenerateBytes(view),
                        [](const void* context, std::span<std::byte> out) {
                          wire::EncodeGenerate(*static_cast<const wire::GenerateView*>(context),
                                               out);
                        },
                        &view};
  if (earlier != nullptr) {
    KVD_CHECK_OK(connection_->Repeat(*earlier, submission, payload, OutputMode::kInPlace));
    return Generation(connection_, earlier->request);
  }
  KVD_TRY(const RequestId request, connection_->Submit(submission, payload, OutputMode::kInPlace));
  return Generation(connection_, request);
}

Result<Generation> Client::StartGenerate(SequenceHandle sequence,
                                         const GenerateOptions& options) const {
  return SendGenerate(sequence, options, nullptr);
}

Result<Generation> Client::ResumeGenerate(RequestId request, SequenceHandle sequence,
                                          const GenerateOptions& options, std::uint32_t received,
                                          TokenId last) const {
  const EarlierAttempt earlier{.request = request, .received = received, .last_token = last};
  return SendGenerate(sequence, options, &earlier);
}

Result<std::vector<TextEmbedding>> Client::Embed(std::span<const std::span<const TokenId>> texts,
                                                 std::optional<wire::PoolingChoice> pooling,
                                                 std::uint16_t flags) const {
  KVD_TRY(const auto reply,
          Call(wire::EmbedArgs{.pooling = pooling}, TokenListsPayload(texts), flags));
  return EmbeddingsFrom(reply, texts);
}

Result<TextEmbedding> Client::Embed(std::span<const TokenId> tokens, std::uint16_t flags) const {
  KVD_TRY(std::vector<TextEmbedding> embeddings, Embed({&tokens, 1}, std::nullopt, flags));
  return std::move(embeddings.front());
}

Result<std::vector<float>> Client::Rank(std::string_view query,
                                        std::span<const std::string_view> documents) const {
  std::vector<std::string_view> texts = {query};
  texts.insert(texts.end(), documents.begin(), documents.end());
  const std::span<const std::string_view> views(texts);
  KVD_TRY(auto reply, Call(wire::RankArgs{}, TextsPayload(views)));
  KVD_CHECK_OK(CheckScores(reply, documents.size()));
  return std::move(reply.scores);
}

Result<EncodedText> Client::Encode(SequenceHandle sequence, std::span<const TokenId> tokens) const {
  const auto payload = std::as_bytes(tokens);
  KVD_TRY(const auto reply, Call(wire::EncodeArgs{sequence}, PayloadOf(payload)));
  return EncodedText{.token_count = reply.tokens, .start_token = reply.start_token};
}

Result<SequenceHandle> Client::Publish(SequenceHandle sequence, std::string_view name,
                                       std::uint16_t flags, const SequenceLifetime& life) const {
  const auto payload = BytesOf(name);
  KVD_TRY(const auto reply, Call(wire::PublishArgs{sequence, life.ttl_seconds}, PayloadOf(payload),
                                 static_cast<std::uint16_t>(flags | EphemeralFlag(life))));
  return reply.sequence;
}

Status Client::Unpublish(std::string_view name, Force force) const {
  const auto payload = BytesOf(name);
  return CallForNothing(wire::UnpublishArgs{}, PayloadOf(payload), ForceFlag(force));
}

Result<std::vector<TokenId>> Client::Tokenize(std::string_view text, std::uint16_t flags) const {
  const auto payload = BytesOf(text);
  KVD_TRY(auto reply, Call(wire::TokenizeArgs{}, PayloadOf(payload), flags));
  return std::move(reply.tokens);
}

Result<std::string> Client::Detokenize(std::span<const TokenId> tokens, std::uint16_t flags) const {
  if (tokens.empty()) return std::string();
  const auto payload = std::as_bytes(tokens);
  KVD_TRY(const auto reply, Call(wire::DetokenizeArgs{}, PayloadOf(payload), flags));
  return TextOf(reply.text);
}

Result<ChatTexts> Client::ChatTemplates() const {
  KVD_TRY(const auto reply, Call(wire::ChatTemplatesArgs{}));
  return ChatTextsFrom(reply);
}

}  // namespace kvd
