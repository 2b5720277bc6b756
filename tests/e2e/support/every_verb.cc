// kAnswers defines the expected answers by need and relation. The requests are derived from the
// table of verbs.
#include "tests/e2e/support/every_verb.h"

#include <array>
#include <string>

#include "tests/support/good_request.h"

namespace kvd::test {
namespace {

using wire::ArgumentSlot;
using wire::PayloadKind;
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

using List = std::vector<TestRequest>;

// Returns the right to the named object that an argument with this access requires of the caller.
Need NeedOf(wire::Access access) {
  switch (access) {
    case wire::Access::kNone: return Need::kNothing;
    case wire::Access::kRead: return Need::kLook;
    case wire::Access::kChange:
    case wire::Access::kEdit: return Need::kChange;
    case wire::Access::kOwn: return Need::kOwnSession;
  }
  return Need::kNothing;
}

Need NeedOf(const wire::PayloadRule& payload) {
  if (payload.access == wire::Access::kNone) return Need::kNothing;
  switch (payload.kind) {
    case PayloadKind::kSnapshotName:
      return payload.access == wire::Access::kRead ? Need::kLookByName : Need::kChangeByName;
    case PayloadKind::kSavedName: return Need::kSavedFile;
    default: return NeedOf(payload.access);
  }
}

std::string NameFor(const wire::PayloadRule& payload, const Target& target) {
  if (payload.access == wire::Access::kNone) return target.fresh;
  return payload.kind == PayloadKind::kSavedName ? target.saved : target.snapshot;
}

// Makes the verb's request about the target. If the verb takes two sequences, the target's sequence
// is in slot `about`.
TestRequest RequestOf(const wire::VerbRow& row, const Target& target, ArgumentSlot about) {
  const bool has_two = row.slot(ArgumentSlot::kSequence2).kind == wire::SlotKind::kHandle;
  const bool is_second = about == ArgumentSlot::kSequence2;
  GoodRequest good = MakeGoodRequest(
      row, {.sequence = is_second ? target.own : target.sequence,
            .sequence2 = is_second ? target.sequence : target.empty,
            .next_pos = target.cells,
            .name = NameFor(row.payload, target),
            .tokens = {9, 11},
            .bytes = row.verb == Verb::kUploadState ? target.state : BytesOf("ping")});
  if (row.verb == Verb::kUploadState) good.submission.argument = 0;
  // The source positions begin after the destination's last position.
  if (has_two && is_second) good.submission.p0 = target.cells;
  return {.submission = good.submission, .payload = std::move(good.payload)};
}

// Returns the kind of model on which the verb works; most verbs are tested on a decoder.
ModelKind ModelOf(Verb verb) {
  if (verb == Verb::kEmbed || verb == Verb::kRank) return ModelKind::kEncoder;
  if (verb == Verb::kEncode) return ModelKind::kEncoderDecoder;
  return ModelKind::kDecoder;
}

VerbUse UseOf(const wire::VerbRow& row, ArgumentSlot about, Need need) {
  return {.name = std::string(row.name),
          .verb = row.verb,
          .need = need,
          .flags = row.flags,
          .model = ModelOf(row.verb),
          .make = [&row, about](const Target& target) {
            List requests;
            if (row.verb == Verb::kImportState) {
              requests.push_back(
                  RequestOf(wire::kRowOf<wire::UploadStateArgs>, target, ArgumentSlot::kSequence));
            }
            requests.push_back(RequestOf(row, target, about));
            return requests;
          }};
}

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

std::vector<VerbUse> UsesOf(const wire::VerbRow& row) {
  std::vector<VerbUse> uses;
  for (const ArgumentSlot slot : {ArgumentSlot::kSequence, ArgumentSlot::kSequence2}) {
    const wire::SlotRule& rule = row.slot(slot);
    if (rule.kind != wire::SlotKind::kHandle) continue;
    uses.push_back(UseOf(row, slot, NeedOf(rule.access)));
    uses.back().name += " " + std::string(rule.name);
  }
  if (!uses.empty()) return uses;
  const bool is_for_daemon = row.caller != wire::CallerRule::kAnyUid;
  return {
      UseOf(row, ArgumentSlot::kSequence, is_for_daemon ? Need::kDaemonsUid : NeedOf(row.payload))};
}

std::vector<VerbUse> EveryUse() {
  std::vector<VerbUse> uses;
  for (const wire::VerbRow& row : wire::kVerbRows) {
    for (VerbUse& use : UsesOf(row)) uses.push_back(std::move(use));
  }
  return uses;
}

Code AnswerFor(const VerbUse& use, Relation relation) {
  const Code code =
      kAnswers[static_cast<std::size_t>(use.need)][static_cast<std::size_t>(relation)];
  // A flag that the verb does not take is refused before the target is examined.
  if (HasForce(use, relation) && !use.takes_force()) return Code::kInvalidArgument;
  // kEncode takes a sequence without cells. Retaining a sequence without cells drops it, so that
  // later requests do not find the sequence.
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
          .pooling = Pooling::kRank,
          .type = kernels::DataType::kF32};
}

}  // namespace kvd::test
