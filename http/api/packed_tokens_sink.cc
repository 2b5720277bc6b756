#include "http/api/packed_tokens_sink.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "llama_files/llama_state_file.h"

namespace kvd::http {
namespace {

// Magic, version and number of tokens.
constexpr std::size_t kHeadBytes = 12;

}  // namespace

Status PackedTokensSink::Begin(std::uint64_t file_bytes) {
  head_.clear();
  token_bytes_ = 0;
  is_behind_tokens_ = false;
  return inner_.Begin(file_bytes + kPackedTokensBytes);
}

Status PackedTokensSink::WriteHead() {
  std::array<std::uint32_t, 6> words = {0,
                                        0,
                                        0,
                                        static_cast<std::uint32_t>(kNoToken),
                                        static_cast<std::uint32_t>(kLlamaPackedVersion),
                                        0};
  std::memcpy(words.data(), head_.data(), kHeadBytes);
  const std::uint32_t count = words[2];
  words[5] = count;
  words[2] = static_cast<std::uint32_t>(count + kPackedTokensBytes / sizeof(TokenId));
  token_bytes_ = count * std::uint64_t{sizeof(TokenId)};
  return inner_.Write(std::as_bytes(std::span(words)));
}

Status PackedTokensSink::Write(std::span<const std::byte> bytes) {
  if (head_.size() < kHeadBytes) {
    const std::size_t taken = std::min(bytes.size(), kHeadBytes - head_.size());
    head_.insert(head_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
    bytes = bytes.subspan(taken);
    if (head_.size() < kHeadBytes) return {};
    KVD_CHECK_OK(WriteHead());
  }
  if (!is_behind_tokens_) {
    const auto taken =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), token_bytes_));
    KVD_CHECK_OK(inner_.Write(bytes.first(taken)));
    bytes = bytes.subspan(taken);
    token_bytes_ -= taken;
    if (token_bytes_ != 0) return {};
    is_behind_tokens_ = true;
    const std::uint32_t image_count = 0;
    KVD_CHECK_OK(inner_.Write(std::as_bytes(std::span(&image_count, 1))));
  }
  return bytes.empty() ? Status() : inner_.Write(bytes);
}

}  // namespace kvd::http
