// One table of answers by need and relation, and one row for each verb.
#include "tests/e2e/support/every_verb.h"

#include <array>
#include <span>
#include <string_view>

#include "shm/check.h"
#include "shm/payload_codec.h"

namespace kvd::test {
namespace {

using wire::Verb;

constexpr std::size_t kNeeds = 8;
constexpr std::array<std::array<Code, kRelations>, kNeeds> kAnswers = [] {
  constexpr Code yes = Code::kOk;
  constexpr Code no = Code::kPermission;
  constexpr Code unseen = Code::kNotFound;
  return std::array<std::array<Code, kRelations>, kNeeds>{{
      // owner, sibling, by force, retained, published, stranger, stranger of a public snapshot
      {yes, yes, yes, yes, yes, yes, yes},        // kNothing
      {yes, yes, yes, yes, yes, no, no},          // kDaemonsUid
      {yes, yes, yes, yes, yes, unseen, yes},     // kLook
      {yes, no, yes, yes, no, unseen, no},        // kChange
      {yes, no, no, no, no, unseen, no},          // kOwnSession
      {yes, yes, yes, yes, yes, unseen, yes},     // kLookByName
      {yes, yes, yes, yes, yes, unseen, no},      // kChangeByName
      {yes, yes, yes, yes, yes, unseen, unseen},  // kSavedFile
  }};
}();
static_assert(static_cast<std::size_t>(Need::kSavedFile) + 1 == kNeeds);
static_assert(static_cast<std::size_t>(Relation::kStrangerPublic) + 1 == kRelations);

TestRequest Ask(Verb verb, std::int32_t p0 = 0, std::int32_t p1 = 0, std::int64_t argument = 0,
                std::vector<std::byte> payload = {}) {
  TestRequest request{.submission = {}, .payload = std::move(payload)};
  request.submission.verb = static_cast<std::uint16_t>(verb);
  request.submission.p0 = p0;
  request.submission.p1 = p1;
  request.submission.argument = argument;
  return request;
}

// The same of the target's sequence.
TestRequest About(const Target& target, TestRequest request) {
  request.submission.sequence = static_cast<std::uint64_t>(target.sequence);
  return request;
}

std::vector<std::byte> Text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <class T>
std::vector<std::byte> Bytes(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> Tokens() {
  constexpr std::array<TokenId, 2> tokens = {9, 11};
  const auto bytes = std::as_bytes(std::span(tokens));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> GeneratePayload() {
  constexpr std::array<TokenId, 1> tokens = {9};
  wire::GenerateView view;
  view.params.token_count = 1;
  view.params.predict_max = 1;
  view.params.top_p = view.params.typical_p = view.params.repeat_penalty = 1;
  view.tokens = tokens;
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  return payload;
}

std::vector<std::byte> ChatPayload() {
  const std::array<wire::ChatTurn, 1> turns = {{{.role = "user", .content = "hello"}}};
  std::vector<std::byte> payload(wire::ChatBytes(turns));
  wire::EncodeChat(turns, payload);
  return payload;
}

}  // namespace

std::vector<std::byte> ExportPayload(SequenceHandle sequence) {
  std::vector<std::byte> payload = Bytes(wire::ExportStateParams{
      .flags = 0, .k_type = wire::kPoolType, .v_type = wire::kPoolType, .reserved = 0});
  const auto handle = Bytes(sequence);
  payload.insert(payload.end(), handle.begin(), handle.end());
  return payload;
}

namespace {

// Positions from p0 on, of which the destination has none.
TestRequest Copy(SequenceHandle from, SequenceHandle to, std::int32_t p0) {
  TestRequest request = Ask(Verb::kCopyRange, p0, -1);
  request.submission.sequence = static_cast<std::uint64_t>(from);
  request.submission.sequence2 = static_cast<std::uint64_t>(to);
  return request;
}

using List = std::vector<TestRequest>;

}  // namespace

const char* NameOf(Relation relation) {
  switch (relation) {
    case Relation::kOwner: return "the owning session";
    case Relation::kSibling: return "another session of the uid";
    case Relation::kSiblingByForce: return "another session of the uid, by force";
    case Relation::kRetained: return "another session of the uid, retained";
    case Relation::kPublished: return "the uid of a snapshot";
    case Relation::kStranger: return "another uid";
    case Relation::kStrangerPublic: return "another uid, public snapshot";
  }
  return "";
}

std::vector<VerbUse> UsesOf(Verb verb) {
  using wire::kFlagForce;
  const auto one = [verb](VerbUse use) {
    use.verb = verb;
    return std::vector<VerbUse>{std::move(use)};
  };
  switch (verb) {
    case Verb::kPing:
      return one({.name = "ping", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kPing, 0, 0, 0, Text("ping"))};
                  }});
    case Verb::kInfo:
      return one({.name = "info", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kInfo)};
                  }});
    case Verb::kCreate:
      return one({.name = "create", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kCreate)};
                  }});
    case Verb::kFork:
      return one({.name = "fork", .need = Need::kLook, .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kFork, -1, 0, 2))};
                  }});
    case Verb::kDrop:
      return one(
          {.name = "drop",
           .need = Need::kChange,
           .flags = kFlagForce,
           .make = [](const Target& target) { return List{About(target, Ask(Verb::kDrop))}; }});
    case Verb::kCopyRange:
      return {{.name = "copy_range to",
               .verb = verb,
               .need = Need::kChange,
               .flags = kFlagForce,
               .make =
                   [](const Target& target) {
                     return List{Copy(target.own, target.sequence, target.cells)};
                   }},
              {.name = "copy_range from",
               .verb = verb,
               .need = Need::kLook,
               .flags = kFlagForce,
               .make = [](const Target& target) {
                 return List{Copy(target.sequence, target.empty, 0)};
               }}};
    case Verb::kRemoveRange:
      return one({.name = "remove_range",
                  .need = Need::kChange,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kRemoveRange, 0, 20))};
                  }});
    case Verb::kKeep:
      return one({.name = "keep", .need = Need::kOwnSession, .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kKeep))};
                  }});
    case Verb::kClear:
      return one(
          {.name = "clear",
           .need = Need::kChange,
           .flags = kFlagForce,
           .make = [](const Target& target) { return List{About(target, Ask(Verb::kClear))}; }});
    case Verb::kAdd:
      return one({.name = "add",
                  .need = Need::kChange,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kAdd, 0, -1, 5))};
                  }});
    case Verb::kDivide:
      return one({.name = "divide",
                  .need = Need::kChange,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kDivide, 0, -1, 1))};
                  }});
    case Verb::kQuery:
      return one({.name = "query", .need = Need::kLook, .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kQuery))};
                  }});
    case Verb::kDecode:
      return one({.name = "decode",
                  .need = Need::kChange,
                  .flags = kFlagForce | wire::kFlagProgress | wire::kFlagNoPrefix,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kDecode, target.cells, 0, 1, Tokens()))};
                  }});
    case Verb::kGenerate:
      return one({.name = "generate",
                  .need = Need::kChange,
                  .flags = kFlagForce | wire::kFlagProgress | wire::kFlagNoPrefix,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kGenerate, -1, 0, 0, GeneratePayload()))};
                  }});
    case Verb::kCancel:
      return one({.name = "cancel", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kCancel, 0, 0, 1)};
                  }});
    case Verb::kReadTokens:
      return one({.name = "read_tokens", .need = Need::kLook, .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kReadTokens, 0, 0, -1))};
                  }});
    case Verb::kReadText:
      return one(
          {.name = "read_text",
           .need = Need::kLook,
           .flags = wire::kFlagSpecial,
           .make = [](const Target& target) { return List{About(target, Ask(Verb::kReadText))}; }});
    case Verb::kList:
      return one({.name = "list", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kList)};
                  }});
    case Verb::kPublish:
      return one({.name = "publish",
                  .need = Need::kLook,
                  .flags = kFlagForce | wire::kFlagPublic,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kPublish, 0, 0, 0, Text(target.fresh)))};
                  }});
    case Verb::kUnpublish:
      return one({.name = "unpublish",
                  .need = Need::kChangeByName,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{Ask(Verb::kUnpublish, 0, 0, 0, Text(target.snapshot))};
                  }});
    case Verb::kAttach:
      return one({.name = "attach", .need = Need::kLookByName, .make = [](const Target& target) {
                    return List{Ask(Verb::kAttach, 0, 0, 0, Text(target.snapshot))};
                  }});
    case Verb::kSnapshots:
      return one({.name = "snapshots", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kSnapshots)};
                  }});
    case Verb::kTokenize:
      return one({.name = "tokenize",
                  .need = Need::kNothing,
                  .flags = wire::kFlagAddSpecial | wire::kFlagParseSpecial,
                  .make = [](const Target&) {
                    return List{Ask(Verb::kTokenize, 0, 0, 0, Text("some text"))};
                  }});
    case Verb::kDetokenize:
      return one(
          {.name = "detokenize",
           .need = Need::kNothing,
           .flags = wire::kFlagSpecial,
           .make = [](const Target&) { return List{Ask(Verb::kDetokenize, 0, 0, 0, Tokens())}; }});
    case Verb::kChat:
      return one(
          {.name = "chat",
           .need = Need::kNothing,
           .flags = wire::kFlagAddAssistant,
           .make = [](const Target&) { return List{Ask(Verb::kChat, 0, 0, 0, ChatPayload())}; }});
    case Verb::kDefrag:
      return one({.name = "defrag", .need = Need::kDaemonsUid, .make = [](const Target&) {
                    return List{Ask(Verb::kDefrag)};
                  }});
    case Verb::kEmbed:
      return one(
          {.name = "embed",
           .need = Need::kNothing,
           .flags = wire::kFlagNormalize,
           .model = ModelKind::kEncoder,
           .make = [](const Target&) { return List{Ask(Verb::kEmbed, 0, 0, 0, Tokens())}; }});
    case Verb::kEncode:
      return one({.name = "encode",
                  .need = Need::kChange,
                  .flags = kFlagForce,
                  .model = ModelKind::kEncoderDecoder,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kEncode, 0, 0, 0, Tokens()))};
                  }});
    case Verb::kRetain:
      return one(
          {.name = "retain",
           .need = Need::kChange,
           .flags = kFlagForce,
           .make = [](const Target& target) { return List{About(target, Ask(Verb::kRetain))}; }});
    case Verb::kPin:
      return one({.name = "pin",
                  .need = Need::kChange,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kPin, 0, 0, 1))};
                  }});
    case Verb::kDropRetained:
      return one({.name = "drop_retained",
                  .need = Need::kNothing,
                  .flags = kFlagForce,
                  .make = [](const Target&) { return List{Ask(Verb::kDropRetained)}; }});
    case Verb::kSave:
      return one({.name = "save",
                  .need = Need::kLook,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{About(target, Ask(Verb::kSave, 0, 0, 0, Text(target.fresh)))};
                  }});
    case Verb::kLoad:
      return one({.name = "load", .need = Need::kSavedFile, .make = [](const Target& target) {
                    return List{Ask(Verb::kLoad, 0, 0, 0, Text(target.saved))};
                  }});
    case Verb::kSaved:
      return one({.name = "saved", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kSaved)};
                  }});
    case Verb::kRemoveSaved:
      return one(
          {.name = "remove_saved", .need = Need::kSavedFile, .make = [](const Target& target) {
             return List{Ask(Verb::kRemoveSaved, 0, 0, 0, Text(target.saved))};
           }});
    case Verb::kSaveAll:
      return one({.name = "save_all",
                  .need = Need::kNothing,
                  .flags = kFlagForce,
                  .make = [](const Target& target) {
                    return List{Ask(Verb::kSaveAll, 0, 0, 0, Text(target.fresh))};
                  }});
    case Verb::kExportState:
      return one({.name = "export_state", .need = Need::kLook, .make = [](const Target& target) {
                    return List{Ask(Verb::kExportState, 0, 0, 0, ExportPayload(target.sequence))};
                  }});
    case Verb::kUploadState:
      return one({.name = "upload_state", .need = Need::kNothing, .make = [](const Target& target) {
                    return List{Ask(Verb::kUploadState, 0, 0, 0, target.state)};
                  }});
    case Verb::kImportState:
      return one({.name = "import_state", .need = Need::kNothing, .make = [](const Target& target) {
                    return List{Ask(Verb::kUploadState, 0, 0, 0, target.state),
                                Ask(Verb::kImportState)};
                  }});
    case Verb::kCache:
      return one({.name = "cache", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kCache)};
                  }});
    case Verb::kProfile:
      return one({.name = "profile", .need = Need::kNothing, .make = [](const Target&) {
                    return List{Ask(Verb::kProfile)};
                  }});
  }
  // EveryUse goes to kVerbLast, so a number without a name is seen by every test.
  KVD_ASSERT(false);
  return {};
}
static_assert(static_cast<std::uint16_t>(Verb::kProfile) == wire::kVerbLast,
              "EveryUse goes up to kVerbLast: name the new last verb here");

std::vector<VerbUse> EveryUse() {
  std::vector<VerbUse> uses;
  for (std::uint16_t verb = 1; verb <= wire::kVerbLast; ++verb) {
    for (VerbUse& use : UsesOf(static_cast<Verb>(verb))) uses.push_back(std::move(use));
  }
  return uses;
}

Code AnswerFor(const VerbUse& use, Relation relation) {
  const Code code =
      kAnswers[static_cast<std::size_t>(use.need)][static_cast<std::size_t>(relation)];
  // A flag that means nothing to the verb is refused before anything else is looked at.
  if (HasForce(use, relation) && !use.takes_force()) return Code::kInvalidArgument;
  // Only a sequence without cells is encoded for, and such a one is dropped instead of retained.
  if (use.verb == Verb::kEncode && relation == Relation::kRetained) return Code::kNotFound;
  return code;
}

bool HasForce(const VerbUse& use, Relation relation) {
  switch (relation) {
    case Relation::kOwner:
    case Relation::kSibling:
    case Relation::kRetained: return false;
    case Relation::kSiblingByForce: return true;
    case Relation::kPublished:
    case Relation::kStranger:
    case Relation::kStrangerPublic: return use.takes_force();
  }
  return false;
}

ModelShape EncoderDecoderShape() {
  return {.name = "tiny-t5",
          .architecture = Architecture::kT5,
          .layers = 2,
          .embedding = 64,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .vocab = 96,
          .type = kernels::DataType::kF32};
}

ModelShape EncoderShape() {
  return {.name = "tiny-bert",
          .architecture = Architecture::kBert,
          .layers = 2,
          .embedding = 64,
          .heads = 4,
          .kv_heads = 4,
          .ffn = 96,
          .vocab = 96,
          .context = 80,
          .type = kernels::DataType::kF32};
}

}  // namespace kvd::test
