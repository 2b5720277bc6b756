// EveryVerbTest: a daemon over a model of one kind, and what the requests of every_verb.h are about.
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

  // Has a store; uid 65534 is let in.
  EveryVerbTest();
  void SetUp() override;
  std::vector<TokenId> Answer() override;

  // Those that work on this model.
  std::vector<VerbUse> Uses() const;
  // What `use` takes, in a session of `owner`, for that relation: a fresh sequence, published or
  // retained where the relation says so, and files and snapshots where the use names them. `own` and
  // `empty` are left for AddOwn.
  Target MakeTarget(const Client& owner, const VerbUse& use, Relation relation);
  // Makes what the target has of the caller's session.
  static void AddOwn(const Client& caller, ModelKind model, Target* target);
  // The number of cells that a new sequence of MakeTarget has.
  std::int32_t cells() const { return GetParam() == ModelKind::kDecoder ? kCells : 0; }
  const std::vector<std::byte>& state() const { return state_; }

 private:
  explicit EveryVerbTest(const std::shared_ptr<TemporaryFolder>& folder);
  SequenceHandle Filled(const Client& owner);

  const std::shared_ptr<TemporaryFolder> folder_;  // of the store
  std::vector<std::byte> state_;
  int made_ = 0;  // so that no two sequences and names are the same
};

// Sends the requests of a use, the last one with these flags added, and returns its answer; the
// error of an earlier one is returned as kInternal.
Result<wire::Completion> Ask(const Client& client, const VerbUse& use, const Target& target,
                             std::uint16_t flags = 0);

std::string NameOfModel(const ::testing::TestParamInfo<ModelKind>& info);

}  // namespace kvd::test
