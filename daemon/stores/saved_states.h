// SavedStates: the sequences that clients save, as files in the directory of --store, one folder
// for each owner.
//
// Owner: main. Any number of threads may use a SavedStates. Workers call the functions, so that
// neither steps nor metadata verbs wait for a disk. Calls of one session to SavedStates run one
// after another. A name is one path component that passes IsName; files are opened inside the
// owner's folder and not through symbolic links.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "base/work_control.h"
#include "daemon/sessions/shares.h"
#include "daemon/stores/kept_samplers.h"
#include "engine/engine.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"
#include "shm/verb_table.h"

namespace kvd {

// The request for which a function of SavedStates is called. A request that changes files is
// recorded before it begins and again when it has ended. A retry of a request that has ended is
// answered from the record. A retry of a request that had begun and not ended is executed again.
// The retry of a request that had begun and not ended assumes that the earlier attempt has created
// the file, if the file exists, or has removed the file, if the file is missing.
struct FileAttempt {
  // The tag of the request; a request whose tag has no session is not recorded.
  RequestTag applied{};
  bool is_again = false;  // true: a retry; an earlier attempt may have made some of the changes
};

class SavedStates {
 public:
  // Opens the directory and creates its last component if it is missing. The engine outlives the
  // SavedStates. Errors, naming the path: kPermission (another owner, others may write), kIo.
  static Result<std::unique_ptr<SavedStates>> Open(const std::string& path, Engine& engine);

  struct SaveCall {
    FileAttempt attempt{};
    OwnerId owner{};
    // The account that counts the bytes of the file; null: the bytes are not counted.
    std::shared_ptr<OwnerAccount> account;
    std::vector<SequenceHandle> sequences;
    // The error if the sequences cannot be read. The error `readable` is ignored if an earlier
    // attempt has completed the request.
    Status readable{};
    SaveProfile profile;
    std::string name;  // name of the saved state; empty: only the size is computed
    bool replace = false;
    // The samplers of the sequences; null: no samplers are saved.
    const KeptSamplers* samplers = nullptr;
  };
  // ---- Save, Load and List may also return kCancelled.
  Result<wire::SaveReply> Save(const SaveCall& call, WorkControl& work);
  // `samplers`: the object that receives the saved samplers; null: saved samplers are ignored.
  Result<wire::LoadReply> Load(const SequenceOwner& owner, const std::string& name,
                               KeptSamplers* samplers, const FileAttempt& attempt,
                               WorkControl& work);
  Result<wire::ListReply<wire::SavedEntry>> List(OwnerId owner, WorkControl& work);
  // Returns the bytes of the owner's files. Error: kIo.
  Result<std::uint64_t> BytesOf(OwnerId owner) const;
  Result<wire::NoReply> Remove(OwnerId owner, const std::string& name,
                               const FileAttempt& attempt = {});

 private:
  SavedStates(UniqueFd directory, Engine& engine)
      : directory_(std::move(directory)), engine_(engine) {}

  // Opens the owner's folder; creates the folder if it is missing and `creates` is true. The name
  // of the folder is the uid, and for a tenant "tenant-" and the owner's number in hexadecimal
  // digits. Error: kNotFound.
  Result<UniqueFd> OpenFolder(OwnerId owner, bool creates) const;
  Result<StateFileReader> OpenFile(int folder, const std::string& name) const;
  // Returns the record of an earlier attempt, or nullopt if no earlier attempt is recorded. Error:
  // kConflict.
  Result<std::optional<AppliedReply>> Earlier(const FileAttempt& attempt) const;
  // Returns the answer of a save that an earlier attempt has completed. The numbers of the answer
  // are 0 if the file was removed after the earlier attempt.
  wire::SaveReply SavedAlready(int folder, const std::string& name) const;
  // Returns the answer of a load that an earlier attempt has completed, if the file has changed or
  // was removed after that attempt. Returns nullopt if the earlier attempt did not complete the
  // load, or if the load can be repeated from the same file. If LoadedAlready returns nullopt, the
  // sequences that the earlier attempt created are dropped, since no client knows their handles.
  // Error: kConflict.
  Result<std::optional<wire::LoadReply>> LoadedAlready(const FileAttempt& attempt,
                                                       const Result<StateFileReader>& file);
  // Returns a share for the bytes that a save may write, counted together with the folder's
  // existing files. The caller keeps the share until the save has ended. Error: kNoSpace (the bytes
  // exceed the owner's limit).
  Result<Share> TakeShare(const std::shared_ptr<OwnerAccount>& account, int folder,
                          std::uint64_t wanted_bytes);
  wire::SavedEntry Describe(int folder, const std::string& name) const;

  const UniqueFd directory_;
  Engine& engine_;
  // The number of saves that may have created a file. A save increments the number before it gives
  // back its share.
  std::atomic<std::uint64_t> files_written_{0};
};

}  // namespace kvd
