#include "daemon/stores/saved_states.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>

#include "base/clock.h"
#include "base/name.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "daemon/process/log.h"
#include "daemon/sessions/owners.h"
#include "daemon/stores/load_states.h"
#include "engine/saved_state/state_file.h"

namespace kvd {
namespace {

// The number of threads of one save; it is small, so that saves leave processor cores for steps.
constexpr unsigned kSaveThreads = 2;

// Opens a file inside `folder` without following symbolic links.
UniqueFd OpenBeneath(int folder, const std::string& name, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how)));
}

std::unexpected<Error> NoSuchState(const std::string& name) {
  return Fail(Code::kNotFound, "saved state ", Quoted(name), ": no such saved state");
}

Result<std::vector<std::string>> NamesIn(int folder) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return FailErrno("opening the folder of saved states");
  struct Closer {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Closer> listing(::fdopendir(copy));
  if (listing == nullptr) {
    ::close(copy);
    return FailErrno("listing the folder of saved states");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (IsName(entry->d_name)) names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  return names;
}

Result<std::uint64_t> BytesIn(int folder) {
  KVD_TRY(const std::vector<std::string> names, NamesIn(folder));
  std::uint64_t bytes = 0;
  for (const std::string& name : names) {
    struct stat about{};
    if (::fstatat(folder, name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0)
      bytes += static_cast<std::uint64_t>(about.st_size);
  }
  return bytes;
}

std::string FolderName(OwnerId owner) {
  if (!IsTenant(owner)) return std::to_string(static_cast<std::uint64_t>(owner));
  std::string name = OwnerText(owner);
  name.replace(name.find('='), 1, "-");
  return name;
}

Status CheckName(const std::string& name) {
  if (IsName(name)) return {};
  return Fail(Code::kInvalidArgument, "name: ", Quoted(name),
              " is not 1 to 63 letters, digits, '_', '-' or '.', or begins with '.'");
}

}  // namespace

Result<std::unique_ptr<SavedStates>> SavedStates::Open(const std::string& path, Engine& engine) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return FailErrno("--store " + path);
  UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory) return FailErrno("--store " + path);
  struct stat about{};
  if (::fstat(directory.get(), &about) != 0) return FailErrno("--store " + path);
  if (about.st_uid != ::geteuid() || (about.st_mode & 022) != 0) {
    return Fail(Code::kPermission, "--store ", path,
                ": must belong to the daemon's uid and must not be writable by group or others");
  }
  // This call checks at the daemon's start that the kernel has the system call openat2, so that a
  // kernel without openat2 is an error of the start and not of the first request.
  if (!OpenBeneath(directory.get(), ".", O_RDONLY | O_DIRECTORY)) {
    return FailErrno("--store " + path + ": openat2");
  }
  return std::unique_ptr<SavedStates>(new SavedStates(std::move(directory), engine));
}

Result<UniqueFd> SavedStates::OpenFolder(OwnerId owner, bool creates) const {
  const std::string name = FolderName(owner);
  if (creates && ::mkdirat(directory_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    return FailWriting("making the folder " + name);
  }
  UniqueFd folder = OpenBeneath(directory_.get(), name, O_RDONLY | O_DIRECTORY);
  if (folder) return folder;
  if (errno == ENOENT) return Fail(Code::kNotFound, "no saved states: there is no folder ", name);
  return FailErrno("opening the folder " + name);
}

Result<StateFileReader> SavedStates::OpenFile(int folder, const std::string& name) const {
  // With O_NONBLOCK, opening does not block if the file is a named pipe.
  UniqueFd file = OpenBeneath(folder, name, O_RDONLY | O_NONBLOCK);
  if (!file) {
    if (errno == ENOENT) return NoSuchState(name);
    return FailErrno("saved state " + Quoted(name));
  }
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno("saved state " + Quoted(name));
  if (about.st_uid != ::geteuid()) {
    return Fail(Code::kPermission, "saved state ", Quoted(name), ": belongs to uid ", about.st_uid);
  }
  return StateFileReader::Open(std::move(file));
}

Result<std::optional<AppliedReply>> SavedStates::Earlier(const FileAttempt& attempt) const {
  if (!attempt.is_again) return std::nullopt;
  const auto found =
      engine_.memory().sessions().FindApplied(attempt.applied.session, attempt.applied.request);
  if (found) return *found;
  if (found.error().code == Code::kNotFound) return std::nullopt;
  return std::unexpected(found.error());
}

wire::SaveReply SavedStates::SavedAlready(int folder, const std::string& name) const {
  wire::SaveReply reply;
  const Result<StateFileReader> file = OpenFile(folder, name);
  // The file was removed in the meantime, or is damaged, so the reply has no sizes.
  if (!file) return reply;
  reply.file_bytes = file->header().file_bytes;
  reply.unpacked_bytes = UnpackedFileBytes(file->sections());
  for (const SavedSequence& saved : file->sequences()) reply.cells += saved.header.cell_count;
  return reply;
}

Result<std::optional<wire::LoadReply>> SavedStates::LoadedAlready(
    const FileAttempt& attempt, const Result<StateFileReader>& file) {
  if (!attempt.is_again) return std::nullopt;
  Memory& memory = engine_.memory();
  KVD_TRY(const std::optional<AppliedReply> earlier, Earlier(attempt));
  const auto made = memory.sessions().CreatedBy(attempt.applied.session, attempt.applied.request);
  if (!earlier || (file && file->header().header_crc == earlier->cells)) {
    for (const SequenceHandle handle : made) (void)memory.sequences().Drop(handle);
    return std::nullopt;
  }
  // The answer can be rebuilt only if the load created one sequence with cells: the order of
  // several sequences is not recorded, and a state saved as tokens only has no cells.
  const auto info =
      memory.sequences().Query(made.size() == 1 ? made.front() : SequenceHandle::kNone);
  if (!info || info->cell_count == 0) {
    return Fail(
        Code::kConflict,
        "load: was completed, but its file has changed since, so its answer cannot be repeated");
  }
  wire::LoadedEntry entry{};
  entry.handle = static_cast<std::uint64_t>(info->handle);
  entry.cell_count = info->cell_count;
  wire::LoadReply reply{.first = info->handle, .count = 1};
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  reply.entries.assign(bytes.begin(), bytes.end());
  return std::optional(std::move(reply));
}

Result<Share> SavedStates::TakeShare(const std::shared_ptr<OwnerAccount>& account, int folder,
                                     std::uint64_t wanted_bytes) {
  for (;;) {
    Share share(account, Resource::kSavedBytes);
    const std::uint64_t written = files_written_.load();
    std::uint64_t file_bytes = 0;
    if (share.is_limited()) {
      KVD_TRY(file_bytes, BytesIn(folder));
    }
    const Status taken = share.Grow(wanted_bytes, file_bytes);
    // A file that another save finished after the call of BytesIn may be counted neither in BytesIn
    // nor in that save's share, so the check is repeated.
    if (written != files_written_.load()) continue;
    KVD_CHECK_OK(taken);
    return share;
  }
}

Result<wire::SaveReply> SavedStates::Save(const SaveCall& call, WorkControl& work) {
  const bool writes = !call.name.empty();
  if (writes) KVD_CHECK_OK(CheckName(call.name));
  KVD_TRY(const std::optional<AppliedReply> earlier, Earlier(call.attempt));
  if (writes && earlier && earlier->has_ended) {
    KVD_TRY(const UniqueFd folder, OpenFolder(call.owner, true));
    return SavedAlready(folder.get(), call.name);
  }
  KVD_CHECK_OK(call.readable);
  std::vector<SequenceExport> exports;
  exports.reserve(call.sequences.size());
  std::uint64_t cells = 0;
  for (const SequenceHandle handle : call.sequences) {
    KVD_CHECK_OK(work.Continue());
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine_, handle, call.owner));
    cells += opened.cell_count();
    exports.push_back(std::move(opened));
  }
  std::vector<SaveItem> items;
  std::vector<std::vector<std::byte>> samplers;
  samplers.reserve(exports.size());
  for (const SequenceExport& opened : exports) {
    const SequenceInfo& info = opened.info();
    samplers.emplace_back();
    if (call.samplers != nullptr && info.owner.id == call.owner) {
      if (const auto kept = call.samplers->Find(info.handle)) {
        samplers.back() = EncodeSampler(*kept);
      }
    }
    items.push_back({.sequence = &opened, .sampler = samplers.back()});
  }
  KVD_TRY(std::vector<state_file::SectionEntry> sections, PlanSections(items, call.profile));
  const std::uint64_t unpacked_bytes = UnpackedFileBytes(sections);
  wire::SaveReply reply{.unpacked_bytes = unpacked_bytes, .cells = cells};
  if (!writes) return reply;
  KVD_TRY(const UniqueFd folder, OpenFolder(call.owner, true));
  (void)RemoveStaleTemporaries(folder.get());
  KVD_TRY(const Share share, TakeShare(call.account, folder.get(), unpacked_bytes));
  struct stat about{};
  const bool exists = ::fstatat(folder.get(), call.name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
  const bool replaces = call.replace || earlier;
  if (exists && !replaces) return Fail(Code::kExists, "'", call.name, "': exists already");
  Memory& memory = engine_.memory();
  KVD_CHECK_OK(memory.sessions().Remember(call.attempt.applied, Sessions::Stage::kBegun, 0));
  const Result<SaveReport> report = SaveSequences(
      engine_, items, call.profile, std::move(sections),
      {.directory = folder.get(), .name = call.name, .replace = replaces}, kSaveThreads, work);
  ++files_written_;
  if (!report) return std::unexpected(report.error());
  KVD_CHECK_OK(memory.sessions().Remember(call.attempt.applied, Sessions::Stage::kEnded, 0));
  reply.file_bytes = report->file_bytes;
  Log(LogLevel::kInfo, "save",
      Concat("name=", call.name, " sequences=", call.sequences.size(), " cells=", cells,
             " bytes=", report->file_bytes, " ", OwnerText(call.owner)));
  return reply;
}

Result<wire::LoadReply> SavedStates::Load(const SequenceOwner& owner, const std::string& name,
                                          KeptSamplers* samplers, const FileAttempt& attempt,
                                          WorkControl& work) {
  KVD_CHECK_OK(CheckName(name));
  const Result<UniqueFd> folder = OpenFolder(owner.id, false);
  if (!folder && folder.error().code == Code::kNotFound) return NoSuchState(name);
  if (!folder) return std::unexpected(folder.error());
  const Result<StateFileReader> opened = OpenFile(folder->get(), name);
  KVD_TRY(std::optional<wire::LoadReply> answered, LoadedAlready(attempt, opened));
  if (answered) return *std::move(answered);
  if (!opened) return std::unexpected(opened.error());
  const StateFileReader& file = *opened;
  RequestTag part = attempt.applied;
  part.completes = false;
  const auto complete = [&]() -> Status {
    return engine_.memory().sessions().Remember(attempt.applied, Sessions::Stage::kEnded,
                                                file.header().header_crc);
  };
  KVD_TRY(wire::LoadReply reply, LoadStates({.engine = engine_,
                                             .samplers = samplers,
                                             .owner = owner,
                                             .part = part,
                                             .complete = complete},
                                            file, work));
  Log(LogLevel::kInfo, "load",
      Concat("name=", name, " sequences=", reply.count, " ", OwnerText(owner.id)));
  return reply;
}

wire::SavedEntry SavedStates::Describe(int folder, const std::string& name) const {
  wire::SavedEntry entry = {};
  CopyText(name, entry.name);
  const Result<StateFileReader> file = OpenFile(folder, name);
  if (!file) {
    entry.flags = wire::kSavedDamaged;
    return entry;
  }
  const std::uint64_t now_ms = NowUnixMs();
  entry.file_bytes = file->header().file_bytes;
  entry.raw_bytes = file->header().raw_bytes;
  entry.age_ms = now_ms - std::min(now_ms, file->header().saved_unix_ms);
  entry.sequence_count = file->header().sequence_count;
  CopyText(file->architecture(), entry.architecture);
  for (const SavedSequence& saved : file->sequences()) {
    entry.cell_count += saved.header.cell_count;
    const bool has_rows = (saved.header.flags & state_file::kHasRows) != 0;
    if (!has_rows) entry.flags |= wire::kSavedTokensOnly;
    if ((saved.header.flags & state_file::kHasLogits) != 0) entry.flags |= wire::kSavedLogits;
    if (has_rows && kernels::IsDataType(saved.header.k_type)) {
      CopyText(kernels::DataTypeName(static_cast<kernels::DataType>(saved.header.k_type)),
               entry.k_type);
    }
    if (has_rows && kernels::IsDataType(saved.header.v_type)) {
      CopyText(kernels::DataTypeName(static_cast<kernels::DataType>(saved.header.v_type)),
               entry.v_type);
    }
  }
  if (CheckModel(engine_, *file)) entry.flags |= wire::kSavedThisModel;
  return entry;
}

Result<wire::ListReply<wire::SavedEntry>> SavedStates::List(OwnerId owner, WorkControl& work) {
  wire::ListReply<wire::SavedEntry> reply;
  const Result<UniqueFd> folder = OpenFolder(owner, false);
  if (!folder && folder.error().code == Code::kNotFound) return reply;
  if (!folder) return std::unexpected(folder.error());
  KVD_TRY(const std::vector<std::string> names, NamesIn(folder->get()));
  for (const std::string& name : names) {
    KVD_CHECK_OK(work.Continue());
    reply.entries.push_back(Describe(folder->get(), name));
  }
  return reply;
}

Result<std::uint64_t> SavedStates::BytesOf(OwnerId owner) const {
  const Result<UniqueFd> folder = OpenFolder(owner, false);
  if (!folder && folder.error().code == Code::kNotFound) return 0;
  if (!folder) return std::unexpected(folder.error());
  return BytesIn(folder->get());
}

Result<wire::NoReply> SavedStates::Remove(OwnerId owner, const std::string& name,
                                          const FileAttempt& attempt) {
  KVD_CHECK_OK(CheckName(name));
  const Result<UniqueFd> folder = OpenFolder(owner, false);
  if (!folder && folder.error().code == Code::kNotFound) return NoSuchState(name);
  if (!folder) return std::unexpected(folder.error());
  KVD_TRY(const std::optional<AppliedReply> earlier, Earlier(attempt));
  if (earlier && earlier->has_ended) return wire::NoReply{};
  Memory& memory = engine_.memory();
  struct stat about{};
  const bool exists = ::fstatat(folder->get(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0;
  if (exists) KVD_CHECK_OK(memory.sessions().Remember(attempt.applied, Sessions::Stage::kBegun, 0));
  if (::unlinkat(folder->get(), name.c_str(), 0) != 0 && !(errno == ENOENT && earlier)) {
    if (errno == ENOENT) return NoSuchState(name);
    return FailErrno("removing the saved state " + Quoted(name));
  }
  KVD_CHECK_OK(memory.sessions().Remember(attempt.applied, Sessions::Stage::kEnded, 0));
  return wire::NoReply{};
}

}  // namespace kvd
