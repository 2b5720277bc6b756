// The table of verbs, one row per verb. Dispatch, validation, permissions, retries, names and tests
// are derived from this table.
//
// To add a verb: define its argument and reply types (in a verbs_*.h header), add the verb's number
// and row to this file, and write a handler, an overload of Service::Do for the argument type. A
// row without a handler does not compile.
//
// The numbers of verbs are sent on the wire, so new verbs are only added at the end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/name.h"
#include "shm/verb_slots.h"
#include "shm/verbs_computing.h"
#include "shm/verbs_daemon.h"
#include "shm/verbs_saved.h"
#include "shm/verbs_sequences.h"
#include "shm/verbs_text.h"
#include "shm/wire_generate.h"
#include "shm/wire_messages.h"

namespace kvd::wire {

enum class Verb : std::uint16_t {
  kPing = 1,
  kInfo = 2,
  kCreate = 3,
  kFork = 4,
  kDrop = 5,
  kCopyRange = 6,
  kRemoveRange = 7,
  kKeep = 8,
  kClear = 9,
  kAdd = 10,
  kDivide = 11,
  kQuery = 12,
  kDecode = 13,
  kGenerate = 14,
  kCancel = 15,
  kReadTokens = 16,
  kReadText = 17,
  kList = 18,
  kPublish = 19,
  kUnpublish = 20,
  kAttach = 21,
  kSnapshots = 22,
  kTokenize = 23,
  kDetokenize = 24,
  kChatTemplates = 25,
  kDefrag = 26,
  kEmbed = 27,
  kEncode = 28,
  kRetain = 29,
  kPin = 30,
  kDropRetained = 31,
  kSave = 32,
  kLoad = 33,
  kSaved = 34,
  kRemoveSaved = 35,
  kSaveAll = 36,
  kExportState = 37,
  kUploadState = 38,
  kImportState = 39,
  kCache = 40,
  kProfile = 41,
  kWhy = 42,
  kLog = 43,
  kRank = 44,
  kSetLife = 45,
  kTenants = 46,
  kTuning = 47,
};

// The kind of a payload. The parsers of payloads are in shm/payload_codec.h.
enum class PayloadKind : std::uint8_t {
  kNone,
  kBytes,
  kSnapshotName,
  kSavedName,
  kText,
  kTokens,
  kGenerate,
  kExportState,
  kTokenLists,
  kTexts,
};

struct PayloadRule {
  PayloadKind kind = PayloadKind::kNone;
  std::uint32_t bytes_min = 0;
  std::uint32_t bytes_max = 0;  // largest number of bytes, not counting the bytes of tokens
  std::uint32_t unit = 1;       // the number of the payload's bytes is a multiple of `unit`
  bool has_tokens = false;  // the payload also holds tokens, at most as many as the pool has cells
  // Access that the caller needs to the object that the payload names.
  Access access = Access::kNone;

  // Returns the largest payload with at most `tokens_max` tokens.
  constexpr std::uint64_t BytesMax(std::uint64_t tokens_max) const {
    if (!has_tokens) return bytes_max;
    constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
    return tokens_max > (kAny - bytes_max) / sizeof(TokenId)
               ? kAny
               : bytes_max + tokens_max * sizeof(TokenId);
  }
};

// Which callers may use a verb.
// kTenantUid: the uid of the tenants, or the daemon's own.
enum class CallerRule : std::uint8_t { kAnyUid, kDaemonsUid, kTenantUid };

// How the daemon answers a retried request, which may have been applied before.
enum class Resend : std::uint8_t {
  kRepeat,   // the daemon executes the retry again, because the verb changes nothing
  kReply,    // Reply::Again builds the answer from the result that the request's commit stored
  kHandler,  // kReply's rule; in addition, the handler checks whether an earlier attempt still runs
  kResume,   // the retry continues after the tokens that the request has committed
};

// The role of the sequences that an attempt creates before its request is applied.
enum class Parts : std::uint8_t {
  kNone,  // an attempt creates no sequences
  // The created sequences are the answer if the request was applied; otherwise a retry drops them.
  kAnswer,
  kScratch,  // the created sequences are temporary; a retry drops them
};

// The unit in which Submission::received counts the part of the answer that the client has
// received.
enum class Received : std::uint8_t { kNothing, kRows, kTokens };

struct VerbRow {
  Verb verb{};
  std::string_view name{};  // name of the verb in logs and errors, which never changes
  std::uint16_t flags = 0;  // the SubmissionFlags that the verb accepts, without kFlagRetry
  PayloadRule payload{};
  CallerRule caller = CallerRule::kAnyUid;
  Resend resend = Resend::kRepeat;
  Parts parts = Parts::kNone;
  Received received = Received::kNothing;
  // The rules of the argument type's slots.
  std::array<SlotRule, kArgumentSlots> slots{};

  constexpr const SlotRule& slot(ArgumentSlot which) const {
    return slots[static_cast<std::size_t>(which)];
  }
  // Returns whether the session records the request after the request is applied
  // (layout::SessionRecord::applied). At most layout::kAppliedMax requests that are recorded may be
  // in flight at once.
  constexpr bool is_remembered() const {
    return resend == Resend::kReply || resend == Resend::kHandler;
  }
};

template <class ArgsType, class ReplyType>
struct TypedRow : VerbRow {
  using Args = ArgsType;
  using Reply = ReplyType;
};

template <class Args, class Reply>
consteval TypedRow<Args, Reply> Row(VerbRow row) {
  row.slots = SlotRulesOf<Args>();
  return {row};
}

// The rows as an array, and their types as a list. A std::tuple of as many rows takes every file
// that includes this header a second to compile.
template <class... TypedRows>
struct VerbTable {
  std::array<VerbRow, sizeof...(TypedRows)> rows;
  consteval explicit(false) VerbTable(const TypedRows&... typed) : rows{typed...} {}
};

inline constexpr PayloadRule kTokensPayload = {
    .kind = PayloadKind::kTokens, .bytes_min = 4, .unit = 4, .has_tokens = true};
constexpr PayloadRule NamePayload(PayloadKind kind, Access access, std::uint32_t bytes_min = 1) {
  return {.kind = kind, .bytes_min = bytes_min, .bytes_max = kNameMax, .access = access};
}
inline constexpr std::uint16_t kPromptFlags = kFlagForce | kFlagProgress | kFlagNoPrefix;

inline constexpr VerbTable kVerbTable{
    Row<PingArgs, PingReply>(
        {.verb = Verb::kPing,
         .name = "ping",
         .payload = {.kind = PayloadKind::kBytes, .bytes_max = kPingBytesMax}}),
    Row<InfoArgs, OneReply<InfoReply>>({.verb = Verb::kInfo, .name = "info"}),
    Row<CreateArgs, CreateReply>({.verb = Verb::kCreate,
                                  .name = "create",
                                  .flags = kFlagEphemeral,
                                  .resend = Resend::kReply}),
    Row<ForkArgs, ForkReply>({.verb = Verb::kFork,
                              .name = "fork",
                              .flags = kFlagEphemeral,
                              .resend = Resend::kReply,
                              .parts = Parts::kAnswer}),
    Row<DropArgs, NoReply>(
        {.verb = Verb::kDrop, .name = "drop", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<CopyRangeArgs, EditReply>({.verb = Verb::kCopyRange,
                                   .name = "copy_range",
                                   .flags = kFlagForce,
                                   .resend = Resend::kReply,
                                   .parts = Parts::kScratch}),
    Row<RemoveRangeArgs, EditReply>({.verb = Verb::kRemoveRange,
                                     .name = "remove_range",
                                     .flags = kFlagForce,
                                     .resend = Resend::kReply}),
    Row<KeepArgs, NoReply>({.verb = Verb::kKeep, .name = "keep", .resend = Resend::kReply}),
    Row<ClearArgs, NoReply>(
        {.verb = Verb::kClear, .name = "clear", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<AddArgs, NoReply>(
        {.verb = Verb::kAdd, .name = "add", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<DivideArgs, DivideReply>(
        {.verb = Verb::kDivide, .name = "divide", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<QueryArgs, QueryReply>({.verb = Verb::kQuery, .name = "query"}),
    Row<DecodeArgs, DecodeReply>({.verb = Verb::kDecode,
                                  .name = "decode",
                                  .flags = kPromptFlags,
                                  .payload = kTokensPayload,
                                  .resend = Resend::kResume,
                                  .received = Received::kRows}),
    Row<GenerateArgs, OneReply<GenerateResult>>(
        {.verb = Verb::kGenerate,
         .name = "generate",
         .flags = kPromptFlags,
         .payload = {.kind = PayloadKind::kGenerate,
                     .bytes_min = sizeof(GenerateParams),
                     .bytes_max = sizeof(GenerateParams) + kBiasesMax * sizeof(LogitBias) +
                                  kStopsMax * (sizeof(std::uint32_t) + kStopBytesMax) +
                                  kBreakersMax * (sizeof(std::uint32_t) + kBreakerBytesMax) +
                                  kTriggersMax *
                                      (sizeof(TokenId) + sizeof(std::uint32_t) + kTriggerBytesMax) +
                                  kGrammarBytesMax,
                     .has_tokens = true},
         .resend = Resend::kResume,
         .received = Received::kTokens}),
    Row<CancelArgs, CancelReply>({.verb = Verb::kCancel, .name = "cancel"}),
    Row<ReadTokensArgs, ReadTokensReply>({.verb = Verb::kReadTokens, .name = "read_tokens"}),
    Row<ReadTextArgs, ReadTextReply>(
        {.verb = Verb::kReadText, .name = "read_text", .flags = kFlagSpecial}),
    Row<ListArgs, ListReply<SequenceEntry>>({.verb = Verb::kList, .name = "list"}),
    Row<PublishArgs, PublishReply>(
        {.verb = Verb::kPublish,
         .name = "publish",
         .flags = kFlagForce | kFlagPublic | kFlagEphemeral,
         .payload = NamePayload(PayloadKind::kSnapshotName, Access::kNone),
         .resend = Resend::kReply}),
    Row<UnpublishArgs, NoReply>(
        {.verb = Verb::kUnpublish,
         .name = "unpublish",
         .flags = kFlagForce,
         .payload = NamePayload(PayloadKind::kSnapshotName, Access::kChange),
         .resend = Resend::kReply}),
    Row<AttachArgs, ForkedReply>({.verb = Verb::kAttach,
                                  .name = "attach",
                                  .payload = NamePayload(PayloadKind::kSnapshotName, Access::kRead),
                                  .resend = Resend::kReply}),
    Row<SnapshotsArgs, ListReply<SnapshotEntry>>({.verb = Verb::kSnapshots, .name = "snapshots"}),
    Row<TokenizeArgs, TokenizeReply>(
        {.verb = Verb::kTokenize,
         .name = "tokenize",
         .flags = kFlagAddSpecial | kFlagParseSpecial,
         .payload = {.kind = PayloadKind::kText, .bytes_max = kTextBytesMax}}),
    Row<DetokenizeArgs, TextReply>({.verb = Verb::kDetokenize,
                                    .name = "detokenize",
                                    .flags = kFlagSpecial,
                                    .payload = kTokensPayload}),
    Row<ChatTemplatesArgs, ChatTemplatesReply>(
        {.verb = Verb::kChatTemplates, .name = "chat_templates"}),
    Row<DefragArgs, OneReply<DefragReply>>(
        {.verb = Verb::kDefrag, .name = "defrag", .caller = CallerRule::kDaemonsUid}),
    Row<EmbedArgs, EmbedReply>({.verb = Verb::kEmbed,
                                .name = "embed",
                                .flags = kFlagNormalize,
                                .payload = {.kind = PayloadKind::kTokenLists,
                                            .bytes_min = 12,
                                            .bytes_max = kTokenListsBytesMax,
                                            .unit = 4}}),
    Row<EncodeArgs, EncodeReply>({.verb = Verb::kEncode,
                                  .name = "encode",
                                  .flags = kFlagForce,
                                  .payload = kTokensPayload,
                                  .resend = Resend::kReply}),
    Row<RetainArgs, RetainReply>(
        {.verb = Verb::kRetain, .name = "retain", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<PinArgs, PinReply>(
        {.verb = Verb::kPin, .name = "pin", .flags = kFlagForce, .resend = Resend::kReply}),
    Row<DropRetainedArgs, DropRetainedReply>({.verb = Verb::kDropRetained,
                                              .name = "drop_retained",
                                              .flags = kFlagForce,
                                              .resend = Resend::kReply}),
    Row<SaveArgs, SaveReply>({.verb = Verb::kSave,
                              .name = "save",
                              .flags = kFlagForce,
                              .payload = NamePayload(PayloadKind::kSavedName, Access::kNone, 0),
                              .resend = Resend::kHandler}),
    Row<LoadArgs, LoadReply>({.verb = Verb::kLoad,
                              .name = "load",
                              .payload = NamePayload(PayloadKind::kSavedName, Access::kRead),
                              .resend = Resend::kHandler}),
    Row<SavedArgs, ListReply<SavedEntry>>({.verb = Verb::kSaved, .name = "saved"}),
    Row<RemoveSavedArgs, NoReply>({.verb = Verb::kRemoveSaved,
                                   .name = "remove_saved",
                                   .payload = NamePayload(PayloadKind::kSavedName, Access::kChange),
                                   .resend = Resend::kHandler}),
    Row<SaveAllArgs, SaveReply>({.verb = Verb::kSaveAll,
                                 .name = "save_all",
                                 .flags = kFlagForce,
                                 .payload = NamePayload(PayloadKind::kSavedName, Access::kNone, 0),
                                 .resend = Resend::kHandler}),
    Row<ExportStateArgs, ExportStateReply>(
        {.verb = Verb::kExportState,
         .name = "export_state",
         .payload = {.kind = PayloadKind::kExportState,
                     .bytes_min = sizeof(ExportStateParams),
                     .bytes_max = sizeof(ExportStateParams) + kStateHandlesMax * 8,
                     .unit = 8,
                     .access = Access::kRead}}),
    Row<UploadStateArgs, UploadStateReply>({.verb = Verb::kUploadState,
                                            .name = "upload_state",
                                            .payload = {.kind = PayloadKind::kBytes,
                                                        .bytes_min = 1,
                                                        .bytes_max = kUploadPieceBytesMax}}),
    Row<ImportStateArgs, LoadReply>({.verb = Verb::kImportState, .name = "import_state"}),
    Row<CacheArgs, OneReply<CacheReply>>({.verb = Verb::kCache, .name = "cache"}),
    Row<ProfileArgs, OneReply<ProfileReply>>({.verb = Verb::kProfile, .name = "profile"}),
    Row<WhyArgs, OneReply<WhyRecord>>(
        {.verb = Verb::kWhy, .name = "why", .payload = kTokensPayload}),
    Row<LogArgs, ListReply<LogRecord>>({.verb = Verb::kLog, .name = "log"}),
    Row<RankArgs, RankReply>(
        {.verb = Verb::kRank,
         .name = "rank",
         .payload = {.kind = PayloadKind::kTexts, .bytes_min = 8, .bytes_max = kTextBytesMax}}),
    Row<SetLifeArgs, NoReply>({.verb = Verb::kSetLife,
                               .name = "set_life",
                               .flags = kFlagForce | kFlagEphemeral,
                               .resend = Resend::kReply}),
    Row<TenantsArgs, ListReply<TenantEntry>>(
        {.verb = Verb::kTenants, .name = "tenants", .caller = CallerRule::kTenantUid}),
    Row<TuningArgs, OneReply<TuningReply>>({.verb = Verb::kTuning, .name = "tuning"}),
};

// The rows of all verbs without the types of arguments and replies. Verb n has index n - 1.
inline constexpr const auto& kVerbRows = kVerbTable.rows;
inline constexpr std::uint16_t kVerbLast = static_cast<std::uint16_t>(kVerbRows.size());
static_assert(
    [] {
      for (std::size_t i = 0; i < kVerbRows.size(); ++i) {
        if (static_cast<std::size_t>(kVerbRows[i].verb) != i + 1) return false;
      }
      return true;
    }(),
    "rows must be in the order of their numbers, without a gap");

// Returns the row of verb `number`; null if no verb has this number.
constexpr const VerbRow* FindVerb(std::uint16_t number) {
  return number >= 1 && number <= kVerbLast ? &kVerbRows[number - 1u] : nullptr;
}

// The types of the row with an index. A row is found by its arguments or its index through one
// deduction, not by comparing each row.
template <std::size_t kIndex, class Row>
struct IndexedRow {
  static constexpr std::size_t index = kIndex;
  using Args = typename Row::Args;
  using Reply = typename Row::Reply;
};
template <class Indexes, class Table>
struct IndexedRows;
template <std::size_t... kIndexes, class... Rows>
struct IndexedRows<std::index_sequence<kIndexes...>, VerbTable<Rows...>>
    : IndexedRow<kIndexes, Rows>... {};
using VerbTypes =
    IndexedRows<std::make_index_sequence<kVerbLast>, std::remove_cv_t<decltype(kVerbTable)>>;

template <class Args, std::size_t kIndex, class Reply>
IndexedRow<kIndex, TypedRow<Args, Reply>> RowWith(
    const IndexedRow<kIndex, TypedRow<Args, Reply>>& row);
template <std::size_t kIndex, class Row>
IndexedRow<kIndex, Row> RowAt(const IndexedRow<kIndex, Row>& row);

template <class Args>
concept VerbArguments = requires(const VerbTypes& types) { RowWith<Args>(types); };

// The row and the reply type of the verb that has these arguments.
template <VerbArguments Args>
using TypesOf = decltype(RowWith<Args>(std::declval<const VerbTypes&>()));
template <VerbArguments Args>
inline constexpr const VerbRow& kRowOf = kVerbRows[TypesOf<Args>::index];
template <VerbArguments Args>
using ReplyOf = typename TypesOf<Args>::Reply;
// The types of verb kIndex + 1.
template <std::size_t kIndex>
using TypesAt = decltype(RowAt<kIndex>(std::declval<const VerbTypes&>()));

template <VerbArguments Args>
constexpr Submission MakeSubmission(const Args& args, std::uint16_t flags = 0) {
  Submission submission{};
  submission.verb = static_cast<std::uint16_t>(kRowOf<Args>.verb);
  submission.flags = flags;
  PutArguments(args, &submission);
  return submission;
}

}  // namespace kvd::wire
