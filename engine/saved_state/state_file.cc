#include "engine/saved_state/state_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/rounding.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/whole_file.h"
#include "engine/model/numeric_form.h"
#include "state_layout/section_plan.h"

namespace kvd {

// ---- state file reader
// Bytes of a file and bytes in memory are checked in the same way.

namespace {

using state_file::Packing;
using state_file::SectionEntry;

Status ReadFileAt(int file, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno("reading the state file");
    if (got == 0) return CorruptState("length", Concat("ends at byte ", offset));
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<StateFileReader> StateFileReader::Open(UniqueFd file) {
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return FailErrno("fstat of the state file");
  if (!S_ISREG(about.st_mode)) return CorruptState("type", "not a regular file");
  StateFileReader reader(std::move(file), {});
  KVD_CHECK_OK(reader.Read(static_cast<std::uint64_t>(about.st_size), Uncontrolled()));
  return reader;
}

Result<StateFileReader> StateFileReader::FromBytes(std::span<const std::byte> bytes,
                                                   WorkControl& work) {
  StateFileReader reader(UniqueFd(), bytes);
  KVD_CHECK_OK(reader.Read(bytes.size(), work));
  return reader;
}

std::string StateFileReader::architecture() const { return header_.architecture; }

Status StateFileReader::Read(std::uint64_t real_bytes, WorkControl& work) {
  if (real_bytes < sizeof header_) {
    return CorruptState("length", Concat(real_bytes, " bytes, less than a header"));
  }
  KVD_CHECK_OK(ReadAt(std::as_writable_bytes(std::span(&header_, 1)), 0));
  KVD_CHECK_OK(CheckStateHeader(header_, real_bytes));
  if (!IsNumericForm(header_.numeric_form)) {
    return CorruptState("numeric_form", std::to_string(header_.numeric_form));
  }
  sections_.resize(header_.section_count);
  KVD_CHECK_OK(ReadAt(std::as_writable_bytes(std::span(sections_)), sizeof header_));
  KVD_CHECK_OK(CheckStateTable(header_, sections_, work));
  Buffers buffers;
  const auto read = [&](std::size_t number) { return ReadSection(number, &buffers); };
  KVD_TRY(sequences_, FindStateSequences(sections_, read, work));
  return {};
}

Status StateFileReader::ReadAt(std::span<std::byte> to, std::uint64_t offset) const {
  if (file_) return ReadFileAt(file_.get(), to, offset);
  // The range lies inside bytes_, because the header's numbers have been compared with the real
  // length.
  if (!to.empty()) std::memcpy(to.data(), bytes_.subspan(offset, to.size()).data(), to.size());
  return {};
}

Result<std::span<const std::byte>> StateFileReader::ReadSection(std::size_t number,
                                                                Buffers* buffers) const {
  const SectionEntry& entry = sections_[number];
  const std::string name = Concat("section ", number);
  buffers->stored.resize(entry.stored_bytes);
  KVD_CHECK_OK(ReadAt(buffers->stored, entry.offset));
  if (Crc32c(0, buffers->stored) != entry.crc) {
    return CorruptState(name + " crc", "the bytes are damaged");
  }
  if (entry.packing == Packing::kNone) return std::span<const std::byte>(buffers->stored);
  auto raw = buffers->codec.Unpack(buffers->stored, entry.raw_bytes, entry.element_bytes);
  if (!raw) return CorruptState(name, raw.error().message);
  return raw;
}

// ---- state file writer
// The header and the table are at the beginning of the file and are written last. Until header and
// table are written, the file is not a valid state file, even under its temporary name.

namespace {

// ".kvd-PID-NUMBER". Clients cannot use names that start with a dot.
constexpr std::string_view kTemporaryPrefix = ".kvd-";

std::string TemporaryName() {
  static std::atomic<std::uint64_t> count{0};
  return Concat(kTemporaryPrefix, ::getpid(), "-", count.fetch_add(1));
}

Status WriteAt(int file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailWriting("writing the state file");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

// Makes the kernel start writing a section to disk while other sections are packed; only the fsync
// of Finish guarantees durability. Only whole pages are written to disk, because a page that is
// being written to disk blocks the thread that stores the next section into the same page.
void BeginWriteback(int file, std::uint64_t offset, std::uint64_t byte_count) {
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t begin = RoundUp(offset, kPage);
  const std::uint64_t end = (offset + byte_count) / kPage * kPage;
  if (begin >= end) return;
  (void)::sync_file_range(file, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                          SYNC_FILE_RANGE_WRITE);
}

}  // namespace

Result<std::unique_ptr<StateFileWriter>> StateFileWriter::Create(
    int directory, std::string name, std::vector<state_file::SectionEntry> sections) {
  if (sections.size() > state_file::kSectionsMax) {
    return Fail(Code::kUnsupported, "sections: ", sections.size(), ", a file has at most ",
                state_file::kSectionsMax);
  }
  std::string temporary = TemporaryName();
  UniqueFd file(::openat(directory, temporary.c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return FailWriting("creating " + temporary);
  return std::unique_ptr<StateFileWriter>(new StateFileWriter(
      directory, std::move(name), std::move(temporary), std::move(file), std::move(sections)));
}

StateFileWriter::StateFileWriter(int directory, std::string name, std::string temporary,
                                 UniqueFd file, std::vector<state_file::SectionEntry> sections)
    : directory_(directory),
      name_(std::move(name)),
      temporary_(std::move(temporary)),
      file_(std::move(file)),
      sections_(std::move(sections)),
      end_(StateHeadBytes(sections_.size())) {}

StateFileWriter::~StateFileWriter() {
  if (!is_finished_) (void)::unlinkat(directory_, temporary_.c_str(), 0);
}

Status StateFileWriter::Put(std::size_t number, const SectionCodec::Packed& packed) {
  const std::uint32_t crc = Crc32c(0, packed.bytes);
  std::uint64_t offset = 0;
  {
    const MutexLock lock(mutex_);
    while (turn_ != number && !gave_up_) turn_came_.Wait(mutex_);
    if (gave_up_) return Fail(Code::kCancelled, "another section of the state file failed");
    state_file::SectionEntry& section = sections_[number];
    section.offset = offset = end_;
    section.stored_bytes = static_cast<std::uint32_t>(packed.bytes.size());
    section.packing = packed.packing;
    if (packed.packing == state_file::Packing::kNone) section.element_bytes = 0;
    section.crc = crc;
    end_ += packed.bytes.size();
    ++turn_;
  }
  turn_came_.NotifyAll();
  KVD_CHECK_OK(WriteAt(file_.get(), packed.bytes, offset));
  BeginWriteback(file_.get(), offset, packed.bytes.size());
  return {};
}

void StateFileWriter::GiveUp() {
  {
    const MutexLock lock(mutex_);
    gave_up_ = true;
  }
  turn_came_.NotifyAll();
}

Result<std::uint64_t> StateFileWriter::Finish(state_file::FileHeader header, bool replace) {
  {
    const MutexLock lock(mutex_);
    KVD_ASSERT(turn_ == sections_.size() && !gave_up_);
    header.file_bytes = end_;
  }
  CompleteStateHeader(sections_, &header);
  KVD_CHECK_OK(WriteAt(file_.get(), std::as_bytes(std::span(sections_)), sizeof header));
  KVD_CHECK_OK(WriteAt(file_.get(), std::as_bytes(std::span(&header, 1)), 0));
  if (::fsync(file_.get()) != 0) return FailWriting("syncing the state file");
  const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
  if (::renameat2(directory_, temporary_.c_str(), directory_, name_.c_str(), flags) != 0) {
    if (errno == EEXIST) return Fail(Code::kExists, "'", name_, "': exists already");
    return FailWriting("naming the state file '" + name_ + "'");
  }
  is_finished_ = true;
  if (::fsync(directory_) != 0) return FailWriting("syncing the directory of '" + name_ + "'");
  return header.file_bytes;
}

namespace {

// Determines with pidfd_open whether the process has ended, because the daemon's sandbox allows
// pidfd_open and does not allow kill(2).
bool HasEnded(pid_t pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)));
  return !process && errno == ESRCH;
}

}  // namespace

Status RemoveStaleTemporaries(int directory) {
  const int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return FailErrno("opening the directory of state files");
  struct Closer {
    void operator()(DIR* open) const { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Closer> listing(::fdopendir(copy));
  if (listing == nullptr) {
    ::close(copy);
    return FailErrno("listing the directory of state files");
  }
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(kTemporaryPrefix)) continue;
    pid_t pid = 0;
    const char* digits = name.data() + kTemporaryPrefix.size();
    if (std::from_chars(digits, name.data() + name.size(), pid).ec != std::errc{} || pid <= 0) {
      continue;
    }
    if (HasEnded(pid)) (void)::unlinkat(directory, entry->d_name, 0);
  }
  return {};
}

}  // namespace kvd
