// The header is parsed from a private copy, so that a file rewritten after its validation cannot
// move a length that was already checked; only weight bytes, of which every pattern is valid, are
// read through the mapping.
#include "engine/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "engine/gguf_header.h"

namespace kvd {
namespace {

constexpr std::uint64_t kFirstWindowBytes = 1u << 18;
constexpr std::uint64_t kBroughtInAtOnce = 1u << 25;
constexpr std::size_t kStaticAlignment = 32;
constexpr std::size_t kHeapAlignment = 64;

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<Error> FailOpen(const std::string& path) {
  int error = errno;
  if (error == ENOENT) return Fail(Code::kNotFound, path + ": no such file");
  if (error == EACCES || error == EPERM)
    return Fail(Code::kPermission, path + ": permission denied");
  errno = error;
  return FailErrno(path);
}

std::unexpected<Error> WithPath(const std::string& path, const Error& error) {
  return Fail(error.code, path + ": " + error.message);
}

// Extends `window` to `bytes` from the file.
Status ReadWindow(int fd, std::uint64_t bytes, std::vector<std::byte>& window,
                  const std::string& path) {
  std::size_t have = window.size();
  window.resize(bytes);
  while (have < bytes) {
    ssize_t got = pread(fd, window.data() + have, bytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(path);
    if (got == 0) return Fail(Code::kCorrupt, path + ": the file shrank while it was read");
    have += static_cast<std::size_t>(got);
  }
  return {};
}

const std::byte* AsBytes(const void* address) { return static_cast<const std::byte*>(address); }

}  // namespace

void ReleaseGgufBytes::operator()(const std::byte* storage) const {
  void* address = const_cast<std::byte*>(storage);
  if (kind == Kind::kMapped) munmap(address, bytes);
  if (kind == Kind::kHeap) std::free(address);
}

GgufFile::~GgufFile() = default;

void GgufFile::Adopt(GgufHeader header, Storage storage, std::uint64_t file_bytes) {
  storage_ = std::move(storage);
  version_ = header.version;
  alignment_ = header.alignment;
  file_bytes_ = file_bytes;
  entries_ = std::move(header.entries);
  tensors_ = std::move(header.tensors);
  entries_by_key_ = std::move(header.entries_by_key);
  tensors_by_name_ = std::move(header.tensors_by_name);
  for (GgufTensor& tensor : tensors_) tensor.data = storage_.get() + tensor.byte_offset;
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  // Non-blocking, so that a FIFO of that name cannot hold the daemon.
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) return FailOpen(path);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return FailErrno(path);
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalidArgument, path + ": not a regular file");
  auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  GgufFile file;
  std::optional<GgufHeader> header;
  for (std::uint64_t window_bytes = kFirstWindowBytes; !header; window_bytes *= 4) {
    window_bytes = std::min({window_bytes, file_bytes, kHeaderBytesMax});
    // A header that the longest possible window does not hold is refused by the parser, so this
    // loop ends.
    KVD_CHECK_OK(ReadWindow(fd.get(), window_bytes, file.header_, path));
    auto parsed = ParseGgufHeader(file.header_, file_bytes);
    if (!parsed) return WithPath(path, std::move(parsed).error());
    header = std::move(*parsed);
  }
  // The window keeps its size: entries and names point into it.
  void* mapped = mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return FailErrno(path + ": mmap");
  file.Adopt(std::move(*header),
             Storage(AsBytes(mapped), {ReleaseGgufBytes::Kind::kMapped, file_bytes}), file_bytes);
  return file;
}

void GgufFile::BringIn(const std::stop_token& stop) const {
  if (storage_.get_deleter().kind != ReleaseGgufBytes::Kind::kMapped) return;
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (file_bytes_ / 3 > static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page_bytes / 4)
    return;
  auto* const address = const_cast<std::byte*>(storage_.get());
  for (std::uint64_t at = 0; at < file_bytes_ && !stop.stop_requested(); at += kBroughtInAtOnce) {
    const std::uint64_t bytes = std::min(kBroughtInAtOnce, file_bytes_ - at);
    if (madvise(address + at, bytes, MADV_POPULATE_READ) != 0) return;
  }
}

Result<GgufFile> GgufFile::FromBorrowedOrHeap(Storage storage, std::span<const std::byte> bytes) {
  auto header = ParseGgufHeader(bytes, bytes.size());
  if (!header) return std::unexpected(std::move(header).error());
  // A window as long as the file is never too short.
  if (!*header) return Fail(Code::kInternal, "header: longer than its file");
  GgufFile file;
  file.Adopt(std::move(**header), std::move(storage), bytes.size());
  return file;
}

Result<GgufFile> GgufFile::FromStaticBytes(std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kStaticAlignment != 0) {
    return Fail(Code::kInvalidArgument, "bytes: their address must be a multiple of 32");
  }
  return FromBorrowedOrHeap(
      Storage(bytes.data(), {ReleaseGgufBytes::Kind::kBorrowed, bytes.size()}), bytes);
}

Result<GgufFile> GgufFile::FromBytes(std::span<const std::byte> bytes) {
  std::size_t padded = (bytes.size() / kHeapAlignment + 1) * kHeapAlignment;
  void* copy = std::aligned_alloc(kHeapAlignment, padded);
  if (copy == nullptr) {
    return Fail(Code::kNoSpace, "bytes: no memory for a copy of " + std::to_string(bytes.size()));
  }
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return FromBorrowedOrHeap(Storage(AsBytes(copy), {ReleaseGgufBytes::Kind::kHeap, bytes.size()}),
                            {AsBytes(copy), bytes.size()});
}

const GgufEntry* GgufFile::FindEntry(std::string_view key) const {
  auto at = std::ranges::lower_bound(entries_by_key_, key, {},
                                     [&](std::uint32_t i) { return entries_[i].key; });
  if (at == entries_by_key_.end() || entries_[*at].key != key) return nullptr;
  return &entries_[*at];
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  auto at = std::ranges::lower_bound(tensors_by_name_, name, {},
                                     [&](std::uint32_t i) { return tensors_[i].name; });
  if (at == tensors_by_name_.end() || tensors_[*at].name != name) return nullptr;
  return &tensors_[*at];
}

std::string PrintableText(std::string_view text) {
  constexpr std::size_t kBytesMax = 80;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string printable;
  for (char c : text.substr(0, kBytesMax)) {
    if (c >= 0x20 && c <= 0x7e) {
      printable += c;
    } else {
      auto byte = static_cast<unsigned char>(c);
      printable += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  if (text.size() > kBytesMax) printable += "...";
  return printable;
}

}  // namespace kvd
