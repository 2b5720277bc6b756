#include "http/answer/slot_file.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/file_calls.h"

namespace kvd::http {

Result<SlotFile> SlotFile::Open(const std::string& path, std::uint32_t slot_count) {
  SlotFile file;
  file.handles_.resize(slot_count, SequenceHandle::kNone);
  if (path.empty()) return file;
  file.file_ =
      UniqueFd(FileCalls::Open(AT_FDCWD, path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.file_) return FailErrno(path);
  std::vector<std::uint64_t> stored(1 + std::size_t{slot_count});
  const ssize_t bytes =
      FileCalls::Read(file.file_.get(), stored.data(), stored.size() * sizeof(std::uint64_t), 0);
  if (bytes < 0) return FailErrno(path);
  stored.resize(static_cast<std::size_t>(bytes) / sizeof(std::uint64_t));
  if (!stored.empty()) file.session_ = stored.front();
  for (std::size_t i = 1; i < stored.size(); ++i) {
    file.handles_[i - 1] = static_cast<SequenceHandle>(stored[i]);
  }
  return file;
}

void SlotFile::Begin(std::uint64_t session) {
  session_ = session;
  std::ranges::fill(handles_, SequenceHandle::kNone);
  if (!file_) return;
  // Cut first, so that no handle is ever behind the number of another session.
  const bool is_written =
      FileCalls::Truncate(file_.get(), 0) == 0 &&
      FileCalls::WriteAt(file_.get(), &session, sizeof session, 0) == sizeof session;
  if (!is_written) file_.reset();
}

void SlotFile::Put(std::uint32_t slot, SequenceHandle handle) {
  if (!file_ || handles_[slot] == handle) return;
  const auto number = static_cast<std::uint64_t>(handle);
  const auto offset = static_cast<off_t>((1 + std::size_t{slot}) * sizeof number);
  if (FileCalls::WriteAt(file_.get(), &number, sizeof number, offset) == sizeof number) {
    handles_[slot] = handle;
  }
}

}  // namespace kvd::http
