// StateFiles: the files of a stored memory in their directory: which of them belong together, and
// which are kept aside. Their names are in shm/state_names.h.
//
// A `meta` names its pool in its header, so renaming `meta.new` to `meta` replaces both together.
// Every function may be killed at any point: the directory then has the earlier `meta` with its
// pool, or the new one with its pool, and files that the next Sweep removes.
//
// The caller holds the directory's lock. Threads: one.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"

namespace kvd {

// Called before each change of a file; `step` names the change. A test ends the process, or
// returns the error that the change then has. Empty: no call.
using FileProbe = std::function<Status(const char* step)>;

class StateFiles {
 public:
  // `directory` must stay open as long as the object is used.
  explicit StateFiles(int directory, FileProbe probe = {})
      : directory_(directory), probe_(std::move(probe)) {}

  static std::string PoolFileName(std::uint64_t pool_number, std::size_t part);
  static std::string AsideName(std::uint64_t pool_number);

  // Errors of Open and Create: kNotFound (no such file), kPermission (a symbolic link), kNoSpace,
  // kIo. Create removes an earlier file of that name.
  Result<UniqueFd> Open(const std::string& name) const;
  Result<UniqueFd> Create(const std::string& name) const;
  // Calls the probe.
  Status Step(const char* step) const { return probe_ ? probe_(step) : Status(); }

  bool HasMeta() const { return Exists("meta"); }
  // The model's name in the header of `meta`; empty: there is no such header.
  std::string ReadModelName() const;
  // Renames `meta.new` to `meta`.
  Status Publish() const;
  // Removes `meta.new`.
  void Discard() const { Remove("meta.new"); }
  // A number for a new pool: neither a pool nor a file that is kept aside has it.
  std::uint64_t NewPoolNumber() const;
  // Gives the present `meta` a second name, under which it stays when another `meta` is published.
  // Returns that name; empty: there is no `meta`, or it is not a regular file. Errors: kIo.
  Result<std::string> KeepAside() const;
  // Removes files that an interrupted start has left, and all but the newest kAsidesMax files that
  // are kept aside, with their pools. `pool_number`: the pool of the present `meta`. Returns the
  // names of the removed files that were kept aside.
  static constexpr std::size_t kAsidesMax = 4;
  std::vector<std::string> Sweep(std::uint64_t pool_number) const;
  // Removes files that are kept aside, the oldest first, until `needed_bytes` are free or none is
  // left. Returns the names of the removed `meta` files.
  std::vector<std::string> MakeRoom(std::uint64_t needed_bytes) const;
  bool HasRoom(std::uint64_t needed_bytes) const { return FreeBytes() >= needed_bytes; }
  // Removes the present `meta` under the name `aside`, if that is not empty, and its pool.
  void RemovePresent(const std::string& aside) const;
  // Removes the present `meta` with its pool; what is kept aside stays. Returns whether there was a
  // `meta`.
  bool RemoveUsed() const;
  // Removes every file of the state. Returns whether there was one.
  bool RemoveAll() const;
  // Bytes that the file system has for all files of the state, and for those that are kept aside.
  std::uint64_t HeldBytes() const;
  std::uint64_t AsideBytes() const;

 private:
  bool Exists(const std::string& name) const;
  // Whether the file is also the present `meta`.
  bool IsPresentMeta(const struct stat& file) const;
  std::vector<std::string> List() const;
  void Remove(const std::string& name) const;
  void RemovePool(std::uint64_t number) const;
  std::uint64_t FreeBytes() const;
  // What the header of a `meta` of this layout says, without its checksum being verified.
  struct Names {
    std::uint64_t pool_number = 0;
    std::string model_name;
  };
  std::optional<Names> ReadNames(const std::string& meta_name) const;
  // The number of the pool of a `meta` that may be damaged.
  std::uint64_t GuessPoolNumber(const std::string& meta_name) const;

  int directory_;
  FileProbe probe_;
};

}  // namespace kvd
