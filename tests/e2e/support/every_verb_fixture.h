// EveryVerbTest: a daemon over a model of one kind, with the objects that the requests of
// every_verb.h refer to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/support/every_verb.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd::test {

class EveryVerbTest : public ServedDaemonTest, public ::testing::WithParamInterface<ModelKind> {
 protected:
  static constexpr std::int32_t kCells = 40;

  // Starts a daemon with a store that admits uid 65534.
  EveryVerbTest();
  void SetUp() override;
  std::vector<TokenId> Answer() override;

  // Returns the uses of the verbs that work on this model.
  std::vector<VerbUse> Uses() const;
  // Makes the objects that `use` names, in the session of `owner`: a new sequence, published or
  // retained if the relation requires it, and files and snapshots if the use names them. AddOwn
  // sets `own` and `empty`.
  Target MakeTarget(const Client& owner, const VerbUse& use, Relation relation);
  // Makes the target's sequences of the caller's session, `own` and `empty`.
  static void AddOwn(const Client& caller, ModelKind model, Target* target);
  // The number of cells that a new sequence of MakeTarget has.
  std::int32_t cells() const { return GetParam() == ModelKind::kDecoder ? kCells : 0; }
  const std::vector<std::byte>& state() const { return state_; }

 private:
  explicit EveryVerbTest(const std::shared_ptr<TemporaryFolder>& folder);
  SequenceHandle Filled(const Client& owner);

  const std::shared_ptr<TemporaryFolder> folder_;  // contains the store
  std::vector<std::byte> state_;
  int made_ = 0;  // the number of made objects, by which their tokens and names differ
};

// Sends the requests of a use, the last one with `flags` added, and returns the last answer. If an
// earlier request fails, its error is returned as kInternal.
Result<wire::Completion> Ask(const Client& client, const VerbUse& use, const Target& target,
                             std::uint16_t flags = 0);

std::string NameOfModel(const ::testing::TestParamInfo<ModelKind>& info);

}  // namespace kvd::test
