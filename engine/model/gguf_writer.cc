#include "engine/model/gguf_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "engine/model/gguf_parts.h"

namespace kvd {
namespace {

constexpr std::size_t kBufferBytes = 1u << 20;

template <class T>
void AppendNumber(std::vector<std::byte>& bytes, T number) {
  std::size_t end = bytes.size();
  bytes.resize(end + sizeof number);
  std::memcpy(bytes.data() + end, &number, sizeof number);
}

std::uint64_t PaddingAfter(std::uint64_t bytes, std::uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

class BytesSink : public GgufSink {
 public:
  Status Append(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Status AppendHole(std::uint64_t bytes) override {
    bytes_.resize(bytes_.size() + bytes);
    return {};
  }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// FileSink: a buffered file. The destructor deletes the file unless Commit succeeded.
class FileSink : public GgufSink {
 public:
  FileSink(std::string path, int fd) : path_(std::move(path)), fd_(fd) {
    buffer_.reserve(kBufferBytes);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  ~FileSink() override {
    if (fd_ < 0) return;
    close(fd_);
    unlink(path_.c_str());
  }

  Status Append(std::span<const std::byte> bytes) override {
    if (buffer_.size() + bytes.size() > kBufferBytes) KVD_CHECK_OK(Flush());
    if (bytes.size() >= kBufferBytes) return WriteAll(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return {};
  }

  Status AppendHole(std::uint64_t bytes) override {
    KVD_CHECK_OK(Flush());
    if (lseek(fd_, static_cast<off_t>(bytes), SEEK_CUR) < 0) return FailErrno(path_);
    return {};
  }

  Status Commit(const std::string& final_path) {
    KVD_CHECK_OK(Flush());
    // A hole at the end of the file belongs to the file only after this call.
    if (ftruncate(fd_, lseek(fd_, 0, SEEK_CUR)) != 0) return FailErrno(path_);
    int fd = std::exchange(fd_, -1);
    if (close(fd) != 0 || rename(path_.c_str(), final_path.c_str()) != 0) {
      auto failure = FailErrno(final_path);
      unlink(path_.c_str());
      return failure;
    }
    return {};
  }

 private:
  Status Flush() {
    KVD_CHECK_OK(WriteAll(buffer_));
    buffer_.clear();
    return {};
  }

  Status WriteAll(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0 && (errno == ENOSPC || errno == EDQUOT)) {
        return Fail(Code::kNoSpace, path_, ": no space left");
      }
      if (written < 0) return FailErrno(path_);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  std::string path_;
  int fd_;
  std::vector<std::byte> buffer_;
};

// Counts the bytes that a producer appends.
class CountingSink : public GgufSink {
 public:
  explicit CountingSink(GgufSink& sink) : sink_(sink) {}
  Status Append(std::span<const std::byte> bytes) override {
    bytes_ += bytes.size();
    return sink_.Append(bytes);
  }
  Status AppendHole(std::uint64_t bytes) override {
    bytes_ += bytes;
    return sink_.AppendHole(bytes);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  GgufSink& sink_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

GgufWriter::GgufWriter(std::uint32_t alignment) : alignment_(alignment) {
  if (alignment != kGgufAlignment) AddU32("general.alignment", alignment);
}

void GgufWriter::AppendRaw(const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  metadata_.insert(metadata_.end(), begin, begin + bytes);
}

void GgufWriter::AppendString(std::string_view text) {
  AppendNumber(metadata_, std::uint64_t{text.size()});
  AppendRaw(text.data(), text.size());
}

void GgufWriter::Begin(std::string_view key, GgufType type) {
  AppendString(key);
  AppendNumber(metadata_, type);
  ++entry_count_;
}

void GgufWriter::BeginArray(std::string_view key, GgufType element_type, std::uint64_t count) {
  Begin(key, GgufType::kArray);
  AppendNumber(metadata_, element_type);
  AppendNumber(metadata_, count);
}

void GgufWriter::AddU16(std::string_view key, std::uint16_t value) {
  Begin(key, GgufType::kU16);
  AppendNumber(metadata_, value);
}
void GgufWriter::AddU32(std::string_view key, std::uint32_t value) {
  Begin(key, GgufType::kU32);
  AppendNumber(metadata_, value);
}
void GgufWriter::AddI32(std::string_view key, std::int32_t value) {
  Begin(key, GgufType::kI32);
  AppendNumber(metadata_, value);
}
void GgufWriter::AddU64(std::string_view key, std::uint64_t value) {
  Begin(key, GgufType::kU64);
  AppendNumber(metadata_, value);
}
void GgufWriter::AddF32(std::string_view key, float value) {
  Begin(key, GgufType::kF32);
  AppendNumber(metadata_, value);
}
void GgufWriter::AddBool(std::string_view key, bool value) {
  Begin(key, GgufType::kBool);
  AppendNumber(metadata_, std::uint8_t{value});
}
void GgufWriter::AddString(std::string_view key, std::string_view value) {
  Begin(key, GgufType::kString);
  AppendString(value);
}
void GgufWriter::AddU32Array(std::string_view key, std::span<const std::uint32_t> values) {
  BeginArray(key, GgufType::kU32, values.size());
  AppendRaw(values.data(), values.size_bytes());
}
void GgufWriter::AddI32Array(std::string_view key, std::span<const std::int32_t> values) {
  BeginArray(key, GgufType::kI32, values.size());
  AppendRaw(values.data(), values.size_bytes());
}
void GgufWriter::AddF32Array(std::string_view key, std::span<const float> values) {
  BeginArray(key, GgufType::kF32, values.size());
  AppendRaw(values.data(), values.size_bytes());
}
void GgufWriter::AddBoolArray(std::string_view key, const std::vector<bool>& values) {
  BeginArray(key, GgufType::kBool, values.size());
  for (const bool value : values) {
    const auto byte = static_cast<std::uint8_t>(value);
    AppendRaw(&byte, 1);
  }
}
void GgufWriter::AddStringArray(std::string_view key, std::span<const std::string_view> values) {
  BeginArray(key, GgufType::kString, values.size());
  for (std::string_view value : values) AppendString(value);
}
void GgufWriter::AddEntry(const GgufEntry& entry) {
  if (entry.type == GgufType::kArray) {
    BeginArray(entry.key, entry.element_type, entry.count);
  } else {
    Begin(entry.key, entry.type);
  }
  AppendRaw(entry.value.data(), entry.value.size());
}

std::size_t GgufWriter::AddTensor(std::string_view name, kernels::DataType type,
                                  std::span<const std::uint64_t> dims) {
  std::uint64_t bytes = kernels::RowBytes(type, dims[0]);
  for (std::uint64_t dim : dims.subspan(1)) bytes *= dim;
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, bytes});
  return tensors_.size() - 1;
}

std::vector<std::byte> GgufWriter::Header() const {
  std::vector<std::byte> header;
  for (char c : {'G', 'G', 'U', 'F'}) header.push_back(static_cast<std::byte>(c));
  AppendNumber(header, std::uint32_t{3});
  AppendNumber(header, std::uint64_t{tensors_.size()});
  AppendNumber(header, entry_count_);
  header.insert(header.end(), metadata_.begin(), metadata_.end());
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    AppendNumber(header, std::uint64_t{tensor.name.size()});
    for (char c : tensor.name) header.push_back(static_cast<std::byte>(c));
    AppendNumber(header, static_cast<std::uint32_t>(tensor.dims.size()));
    for (std::uint64_t dim : tensor.dims) AppendNumber(header, dim);
    AppendNumber(header, static_cast<std::uint32_t>(tensor.type));
    AppendNumber(header, offset);
    offset += tensor.bytes + PaddingAfter(tensor.bytes, alignment_);
  }
  header.resize(header.size() + PaddingAfter(header.size(), alignment_));
  return header;
}

Status GgufWriter::Stream(GgufSink& sink, const Producer& producer) const {
  KVD_CHECK_OK(sink.Append(Header()));
  const std::vector<std::byte> zeros(alignment_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    CountingSink counting(sink);
    KVD_CHECK_OK(producer(i, counting));
    if (counting.bytes() != tensors_[i].bytes) {
      return Fail(Code::kInternal, "tensor ", tensors_[i].name, ": ", counting.bytes(),
                  " bytes produced, the tensor has ", tensors_[i].bytes);
    }
    std::uint64_t padding = PaddingAfter(tensors_[i].bytes, alignment_);
    KVD_CHECK_OK(sink.Append(std::span(zeros).first(padding)));
  }
  return {};
}

Status GgufWriter::WriteFile(const std::string& path, const Producer& producer) const {
  std::string temporary = path + ".tmp";
  int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FailErrno(temporary);
  FileSink sink(temporary, fd);
  KVD_CHECK_OK(Stream(sink, producer));
  return sink.Commit(path);
}

void GgufWriter::AddPartKeys(std::uint32_t number, std::uint32_t count, std::size_t all_tensors) {
  AddU16("split.no", static_cast<std::uint16_t>(number));
  AddU16("split.count", static_cast<std::uint16_t>(count));
  AddI32("split.tensors.count", static_cast<std::int32_t>(all_tensors));
}

Result<std::vector<std::string>> GgufWriter::WriteParts(const std::string& path,
                                                        std::uint32_t part_count,
                                                        const Producer& producer) const {
  PartName name{.base = path, .number = 1, .count = part_count};
  if (name.base.ends_with(".gguf")) name.base.resize(name.base.size() - 5);
  std::uint64_t bytes_left = 0;
  for (const Tensor& tensor : tensors_) bytes_left += tensor.bytes;
  std::vector<std::string> paths;
  std::size_t first = 0;
  for (std::uint32_t number = 0; number < part_count; ++number) {
    GgufWriter part = number == 0 ? *this : GgufWriter(alignment_);
    part.tensors_.clear();
    part.AddPartKeys(number, part_count, tensors_.size());
    // Each part takes its share of the bytes that are left; the last takes all.
    const std::uint64_t share = bytes_left / (part_count - number);
    const bool is_last = number + 1 == part_count;
    std::uint64_t bytes = 0;
    std::size_t end = first;
    while (end < tensors_.size() && (is_last || bytes < share)) {
      bytes += tensors_[end].bytes;
      part.tensors_.push_back(tensors_[end++]);
    }
    const auto produce = [&](std::size_t index, GgufSink& sink) {
      return producer(first + index, sink);
    };
    KVD_CHECK_OK(part.WriteFile(name.PathOf(number + 1), produce));
    paths.push_back(name.PathOf(number + 1));
    bytes_left -= bytes;
    first = end;
  }
  return paths;
}

Result<std::vector<std::byte>> GgufWriter::ToBytes(const Producer& producer) const {
  BytesSink sink;
  KVD_CHECK_OK(Stream(sink, producer));
  return sink.Take();
}

}  // namespace kvd
