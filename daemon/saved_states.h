// SavedStates: the sequences that clients save, as files in the directory of --store, one folder for
// each uid.
//
// Owner: main. Threads: any; calls are made by workers, so that neither steps nor metadata verbs wait
// for a disk. Calls of one session come one after another. A name is one safe path component; it is
// opened inside the uid's folder, through no symbolic link.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/reply.h"
#include "daemon/sampler_states.h"
#include "daemon/shares.h"
#include "engine/engine.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"
#include "shm/unique_fd.h"
#include "shm/verb_table.h"
#include "shm/work_control.h"

namespace kvd {

// Whose call it is. What changes files is remembered of a request before it is done, and as ended
// after it: one that is sent again is answered, or, where it had begun, done again: then a file that
// is there, or is not there, is its own doing.
struct FileAttempt {
  RequestTag applied{};   // of no client: nothing is remembered
  bool is_again = false;  // an earlier one may have come to any point
};

class SavedStates {
 public:
  // Opens the directory, making its last component if it is missing. Everything given outlives it.
  // Errors, naming the path: kPermission (another owner, others may write), kIo.
  static Result<std::unique_ptr<SavedStates>> Open(const std::string& path, Engine& engine);

  struct SaveCall {
    FileAttempt attempt{};
    std::uint32_t uid = 0;
    std::shared_ptr<OwnerAccount> account;  // null: its bytes are not counted
    std::vector<SequenceHandle> sequences;
    Status readable{};  // an error of the sequences, where the call is not answered already
    SaveProfile profile;
    std::string name;  // empty: the size alone is wanted
    bool replace = false;
    const SamplerStates* samplers = nullptr;  // of the sequences; null: they have none
  };
  // ---- Errors: also kCancelled.
  Result<wire::SaveReply> Save(const SaveCall& call, WorkControl& work);
  // Samplers that were saved come back to `samplers`, if it is not null.
  Result<wire::LoadReply> Load(const SequenceOwner& owner, const std::string& name,
                               SamplerStates* samplers, const FileAttempt& attempt,
                               WorkControl& work);
  Result<wire::ListReply<wire::SavedEntry>> List(std::uint32_t uid, WorkControl& work);
  Result<wire::NoReply> Remove(std::uint32_t uid, const std::string& name,
                               const FileAttempt& attempt = {});

 private:
  SavedStates(UniqueFd directory, Engine& engine)
      : directory_(std::move(directory)), engine_(engine) {}

  // The uid's folder; made if `creates`. Error: kNotFound.
  Result<UniqueFd> OpenFolder(std::uint32_t uid, bool creates) const;
  Result<StateFileReader> OpenFile(int folder, const std::string& name) const;
  // What is known of an earlier attempt; nullopt: it has changed nothing. Error: kConflict.
  Result<std::optional<AppliedReply>> Earlier(const FileAttempt& attempt) const;
  // The answer of a save that had ended, as far as its file is there.
  wire::SaveReply SavedAlready(int folder, const std::string& name) const;
  // The answer of a load that had ended and whose file is another one now or gone. nullopt: it had
  // not, or can be done again from the same file: what it had made is dropped, since nobody has
  // heard of it. Error: kConflict.
  Result<std::optional<wire::LoadReply>> LoadedAlready(const FileAttempt& attempt,
                                                       const Result<StateFileReader>& file);
  // A share of the bytes that a save may write, beside the files of the folder; to be kept until
  // the save has ended. Error: kNoSpace (the owner may not hold that many more bytes).
  Result<Share> TakeShare(const std::shared_ptr<OwnerAccount>& account, int folder,
                          std::uint64_t wanted_bytes);
  wire::SavedEntry Describe(int folder, const std::string& name) const;

  const UniqueFd directory_;
  Engine& engine_;
  // Files that saves may have made, each counted before the save gives its share back.
  std::atomic<std::uint64_t> files_written_{0};
};

}  // namespace kvd
