// Test requests for every verb of the protocol: valid requests, the access that each needs, and the
// daemon's answer to each kind of caller.
//
// The requests are derived from the rows of shm/verb_table.h, so a new verb is tested too. This
// file states the expected answers independently of the daemon's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "shm/verb_table.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

// The right to the target that a verb requires of the caller.
enum class Need : std::uint8_t {
  kNothing,       // no sequence and no name is involved
  kDaemonsUid,    // the verb is for the daemon's own uid (which is also the tenants' uid)
  kLook,          // reads a sequence
  kChange,        // changes a sequence
  kOwnSession,    // the sequence must belong to the caller's session
  kLookByName,    // reads a snapshot
  kChangeByName,  // changes a snapshot
  kSavedFile,     // uses a saved file of the caller's uid
};

// The relation of the caller to the target.
enum class Relation : std::uint8_t {
  kOwner,           // the session that owns the sequence
  kSibling,         // another session of the owner's uid
  kSiblingByForce,  // another session of the owner's uid; the request has kFlagForce
  kRetained,        // another session of the uid; the sequence is retained
  kPublished,       // a session of the uid; the sequence is a snapshot's. With force where possible
  kStranger,        // another uid; private sequence or snapshot. With force where possible
  kStrangerPublic,  // another uid; public snapshot. With force where possible
};
inline constexpr std::size_t kRelations = 7;
const char* NameOf(Relation relation);

// The objects that the requests of a use name. Each object that a Target names exists, except
// `fresh`.
struct Target {
  SequenceHandle sequence = SequenceHandle::kNone;  // has `cells` cells
  std::int32_t cells = 0;
  // Two sequences of the caller's session: `own` has more than `cells` cells, `empty` has none.
  SequenceHandle own = SequenceHandle::kNone;
  SequenceHandle empty = SequenceHandle::kNone;
  std::string snapshot;          // name of a snapshot
  std::string saved;             // name of a saved file of the uid that owns `sequence`
  std::string fresh;             // a name that is not taken
  std::vector<std::byte> state;  // a saved state of this model
};

struct TestRequest {
  wire::Submission submission{};
  std::vector<std::byte> payload;
};

// The kinds of models. A verb that does not work on the model is answered with kUnsupported.
enum class ModelKind : std::uint8_t { kDecoder, kEncoderDecoder, kEncoder };

struct VerbUse {
  std::string name;
  wire::Verb verb{};
  Need need = Need::kNothing;
  std::uint16_t flags = 0;  // the flags that the verb takes in addition to kFlagRetry
  ModelKind model = ModelKind::kDecoder;
  // Makes the requests in the order in which they are sent. The last request is the use of the
  // verb; the earlier requests prepare it and are allowed to every caller.
  std::function<std::vector<TestRequest>(const Target& target)> make;

  bool takes_force() const { return (flags & wire::kFlagForce) != 0; }
  bool takes_sequence() const {
    return need == Need::kLook || need == Need::kChange || need == Need::kOwnSession;
  }
};

// Returns the uses of a verb: one for each sequence that it takes, at least one.
std::vector<VerbUse> UsesOf(const wire::VerbRow& row);
// Returns the uses of all verbs.
std::vector<VerbUse> EveryUse();

// Returns the code with which the daemon must answer the use. REQUIRES: the verb works on the
// model.
Code AnswerFor(const VerbUse& use, Relation relation);
// Returns whether a request whose caller has the given relation to the object is sent with
// kFlagForce.
bool HasForce(const VerbUse& use, Relation relation);

// Shapes of tiny models for the verbs that the bundled model does not support.
ModelShape EncoderDecoderShape();
ModelShape EncoderShape();

}  // namespace kvd::test
