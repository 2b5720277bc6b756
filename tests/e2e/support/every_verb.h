// Every verb of the protocol as tests use it: requests that are right, which access each needs, and
// the answer of the daemon to each kind of caller.
//
// All of it is made from the rows of shm/verb_table.h, so a verb that is added is tested; what the
// daemon answers whom is stated here a second time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shm/error.h"
#include "shm/ids.h"
#include "shm/verb_table.h"
#include "tools/make_model/model_shape.h"

namespace kvd::test {

// What a caller must be allowed to do with the target.
enum class Need : std::uint8_t {
  kNothing,       // no sequence and no name is involved
  kDaemonsUid,    // the verb is for the daemon's own uid
  kLook,          // at a sequence
  kChange,        // a sequence
  kOwnSession,    // the sequence belongs to the session that asks
  kLookByName,    // at a snapshot
  kChangeByName,  // a snapshot
  kSavedFile,     // a saved file of the caller's uid
};

// Who asks, and for what.
enum class Relation : std::uint8_t {
  kOwner,           // the session that owns the sequence
  kSibling,         // another session of the uid
  kSiblingByForce,  // the same with kFlagForce
  kRetained,        // another session of the uid; the sequence is retained
  kPublished,       // a session of the uid; the sequence is a snapshot's. With force where possible
  kStranger,        // another uid; private sequence or snapshot. With force where possible
  kStrangerPublic,  // another uid; public snapshot. With force where possible
};
inline constexpr std::size_t kRelations = 7;
const char* NameOf(Relation relation);

// What the requests of a use are about. All of it exists.
struct Target {
  SequenceHandle sequence = SequenceHandle::kNone;  // `cells` cells, the last of which ends it
  std::int32_t cells = 0;
  // Two sequences of the caller's session: with more than `cells` cells, and without any.
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

// Which models the verb works on; kUnsupported on others.
enum class ModelKind : std::uint8_t { kDecoder, kEncoderDecoder, kEncoder };

struct VerbUse {
  std::string name;
  wire::Verb verb{};
  Need need = Need::kNothing;
  std::uint16_t flags = 0;  // that the verb takes beside kFlagRetry
  ModelKind model = ModelKind::kDecoder;
  // The requests, in order. The last one is the use; those before it are its preparation and are
  // allowed to every caller.
  std::function<std::vector<TestRequest>(const Target& target)> make;

  bool takes_force() const { return (flags & wire::kFlagForce) != 0; }
  bool takes_sequence() const {
    return need == Need::kLook || need == Need::kChange || need == Need::kOwnSession;
  }
};

// The uses of a verb; more than one where it takes more than one sequence. Never empty.
std::vector<VerbUse> UsesOf(const wire::VerbRow& row);
// Of all verbs.
std::vector<VerbUse> EveryUse();

// The code that the use is answered with. REQUIRES: the model is one that the verb works on.
Code AnswerFor(const VerbUse& use, Relation relation);
// Whether the request of that relation carries kFlagForce.
bool HasForce(const VerbUse& use, Relation relation);

// Tiny models for the verbs that the bundled model does not have.
ModelShape EncoderDecoderShape();
ModelShape EncoderShape();

}  // namespace kvd::test
