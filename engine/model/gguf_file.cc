// The header is parsed from a private copy, so that a process that rewrites the file after its
// validation cannot change a length that was already checked. Only weight bytes are read through
// the mapping; every bit pattern is a valid weight.
#include "engine/model/gguf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "engine/model/gguf_header.h"

namespace kvd {
namespace {

constexpr std::uint64_t kFirstWindowBytes = 1u << 18;
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
  if (error == ENOENT) return Fail(Code::kNotFound, path, ": no such file");
  if (error == EACCES || error == EPERM)
    return Fail(Code::kPermission, path, ": permission denied");
  errno = error;
  return FailErrno(path);
}

// Reads from the file until `window` has the file's first `bytes` bytes.
Status ReadWindow(int fd, std::uint64_t bytes, std::vector<std::byte>& window,
                  const std::string& path) {
  std::size_t have = window.size();
  window.resize(bytes);
  while (have < bytes) {
    ssize_t got = pread(fd, window.data() + have, bytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FailErrno(path);
    if (got == 0) return Fail(Code::kCorrupt, path, ": the file shrank while it was read");
    have += static_cast<std::size_t>(got);
  }
  return {};
}

const std::byte* AsBytes(const void* address) { return static_cast<const std::byte*>(address); }

using Storage = std::shared_ptr<const std::byte>;

bool IsMapped(const Storage& storage) {
  return std::get_deleter<ReleaseGgufBytes>(storage)->kind == ReleaseGgufBytes::Kind::kMapped;
}

// The address for calls that change how the kernel handles the pages, but never their contents.
std::byte* AddressOf(const Storage& storage) { return const_cast<std::byte*>(storage.get()); }

}  // namespace

void ReleaseGgufBytes::operator()(const std::byte* storage) const {
  void* address = const_cast<std::byte*>(storage);
  if (kind == Kind::kMapped) munmap(address, bytes);
  if (kind == Kind::kHeap) std::free(address);
}

GgufFile::~GgufFile() = default;

void GgufFile::Adopt(GgufHeader header, Part part) {
  version_ = header.version;
  alignment_ = header.alignment;
  entries_ = std::move(header.entries);
  tensors_ = std::move(header.tensors);
  entries_by_key_ = std::move(header.entries_by_key);
  tensors_by_name_ = std::move(header.tensors_by_name);
  for (GgufTensor& tensor : tensors_) tensor.data = part.storage.get() + tensor.byte_offset;
  parts_.push_back(std::move(part));
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  // O_NONBLOCK is set, so that the open does not block the daemon if the path is a FIFO.
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() < 0) return FailOpen(path);
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return FailErrno(path);
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalidArgument, path, ": not a regular file");
  auto file_bytes = static_cast<std::uint64_t>(status.st_size);

  Part part;
  std::optional<GgufHeader> header;
  for (std::uint64_t window_bytes = kFirstWindowBytes; !header; window_bytes *= 4) {
    window_bytes = std::min({window_bytes, file_bytes, kHeaderBytesMax});
    // The parser refuses a header that does not fit into the longest possible window, so this loop
    // ends.
    KVD_CHECK_OK(ReadWindow(fd.get(), window_bytes, part.header, path));
    auto parsed = ParseGgufHeader(part.header, file_bytes);
    if (!parsed) return FailWithin(path, parsed.error());
    header = std::move(*parsed);
  }
  // The header must keep its size: entries and names point into it.
  void* mapped = mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return FailErrno(path + ": mmap");
  part.storage =
      Storage(AsBytes(mapped), ReleaseGgufBytes{ReleaseGgufBytes::Kind::kMapped, file_bytes});
  part.file_bytes = file_bytes;
  GgufFile file;
  file.Adopt(std::move(*header), std::move(part));
  return file;
}

Result<GgufFile> GgufFile::Join(std::vector<GgufFile> parts) {
  GgufFile joined = std::move(parts.front());
  for (GgufFile& other : std::span(parts).subspan(1)) {
    std::ranges::move(other.tensors_, std::back_inserter(joined.tensors_));
    std::ranges::move(other.parts_, std::back_inserter(joined.parts_));
  }
  KVD_TRY(joined.tensors_by_name_, SortTensors(joined.tensors_));
  return joined;
}

std::uint64_t GgufFile::file_bytes() const {
  std::uint64_t bytes = 0;
  for (const Part& part : parts_) bytes += part.file_bytes;
  return bytes;
}

void GgufFile::Advise(Access access) const {
  for (const Part& part : parts_) {
    if (!IsMapped(part.storage)) continue;
    (void)madvise(AddressOf(part.storage), part.file_bytes,
                  access == Access::kRandom ? MADV_RANDOM : MADV_NORMAL);
  }
}

void GgufFile::StartReading(std::span<const std::byte> range) const {
  for (const Part& part : parts_) {
    const std::byte* const begin = part.storage.get();
    if (!IsMapped(part.storage) || range.data() < begin ||
        range.data() >= begin + part.file_bytes) {
      continue;
    }
    const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t into_page =
        reinterpret_cast<std::uintptr_t>(range.data()) & (page_bytes - 1);
    auto* const first = const_cast<std::byte*>(range.data()) - into_page;
    (void)madvise(first, range.size() + into_page, MADV_WILLNEED);
  }
}

WeightReader GgufFile::weight_reader() const {
  std::vector<WeightReader::Range> ranges;
  for (const Part& part : parts_) {
    if (IsMapped(part.storage)) ranges.push_back({part.storage, part.file_bytes});
  }
  return WeightReader(std::move(ranges));
}

Status GgufFile::Lock() const {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (!IsMapped(part.storage) ||
        mlock2(part.storage.get(), part.file_bytes, MLOCK_ONFAULT) == 0) {
      continue;
    }
    const std::string reason = FailErrno("mlock2").error().message;
    for (const Part& locked : std::span(parts_).first(i)) {
      if (IsMapped(locked.storage)) (void)munlock(locked.storage.get(), locked.file_bytes);
    }
    return Fail(Code::kNoSpace, file_bytes(),
                " bytes of weights cannot be locked in memory: ", reason);
  }
  return {};
}

Result<GgufFile> GgufFile::FromBorrowedOrHeap(Storage storage, std::span<const std::byte> bytes) {
  auto header = ParseGgufHeader(bytes, bytes.size());
  if (!header) return std::unexpected(std::move(header).error());
  // A window as long as the file cannot be too short.
  if (!*header) return Fail(Code::kInternal, "header: longer than the file");
  GgufFile file;
  file.Adopt(std::move(**header),
             {.header = {}, .storage = std::move(storage), .file_bytes = bytes.size()});
  return file;
}

Result<GgufFile> GgufFile::FromStaticBytes(std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kStaticAlignment != 0) {
    return Fail(Code::kInvalidArgument, "bytes: the address must be a multiple of 32");
  }
  return FromBorrowedOrHeap(
      Storage(bytes.data(), ReleaseGgufBytes{ReleaseGgufBytes::Kind::kBorrowed, bytes.size()}),
      bytes);
}

Result<GgufFile> GgufFile::FromBytes(std::span<const std::byte> bytes) {
  std::size_t padded = (bytes.size() / kHeapAlignment + 1) * kHeapAlignment;
  void* copy = std::aligned_alloc(kHeapAlignment, padded);
  if (copy == nullptr) {
    return Fail(Code::kNoSpace, "bytes: no memory for a copy, bytes needed: ", bytes.size());
  }
  if (!bytes.empty()) std::memcpy(copy, bytes.data(), bytes.size());
  return FromBorrowedOrHeap(
      Storage(AsBytes(copy), ReleaseGgufBytes{ReleaseGgufBytes::Kind::kHeap, bytes.size()}),
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
