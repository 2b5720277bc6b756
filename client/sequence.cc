#include <utility>

#include "client/client.h"

namespace kvd {

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(handle_, other.handle_);
  return *this;
}

Sequence::~Sequence() {
  if (handle_ != SequenceHandle::kNone) client_.DropLater(handle_);
}

Result<Sequence> Sequence::Fork(std::int32_t cell_count, ForkInfo* info) const {
  KVD_TRY(const auto forks, client_.Fork(handle_, cell_count, 1, info));
  return Sequence(client_, forks.front());
}

Result<std::vector<Sequence>> Sequence::ForkMany(std::uint32_t count, std::int32_t cell_count,
                                                 ForkInfo* info) const {
  KVD_TRY(const auto forks, client_.Fork(handle_, cell_count, count, info));
  std::vector<Sequence> sequences;
  sequences.reserve(forks.size());
  for (const SequenceHandle fork : forks) sequences.emplace_back(client_, fork);
  return sequences;
}

Result<std::uint64_t> Sequence::CopyRangeTo(const Sequence& destination, PosRange range,
                                            std::uint64_t* replayed) const {
  return client_.CopyRange(handle_, destination.handle_, range, replayed);
}
Result<std::uint64_t> Sequence::RemoveRange(PosRange range, std::uint64_t* replayed) const {
  return client_.RemoveRange(handle_, range, replayed);
}
Status Sequence::Keep() const { return client_.Keep(handle_); }
Status Sequence::Clear() const { return client_.Clear(handle_); }
Status Sequence::Add(PosRange range, std::int32_t delta) const {
  return client_.Add(handle_, range, delta);
}
Result<std::uint64_t> Sequence::Divide(PosRange range, std::int32_t divisor) const {
  return client_.Divide(handle_, range, divisor);
}
Result<wire::SequenceEntry> Sequence::Query() const { return client_.Query(handle_); }
Result<std::string> Sequence::ReadText(std::uint16_t flags) const {
  return client_.ReadText(handle_, flags);
}
Result<SequenceHandle> Sequence::Publish(std::string_view name, std::uint16_t flags) const {
  return client_.Publish(handle_, name, flags);
}

Result<Logits> Sequence::Decode(std::span<const TokenId> tokens, Pos pos,
                                wire::LogitsWanted wanted) const {
  KVD_TRY(auto decoding, client_.StartDecode(handle_, tokens, pos, wanted));
  KVD_TRY(auto logits, decoding.Next());
  if (logits.has_more()) {
    return Fail(Code::kNoSpace,
                "decode: the rows exceed the output arena; take them in pieces "
                "with StartDecode, or connect with a larger result_arena_bytes");
  }
  return logits;
}

Result<Decoding> Sequence::StartDecode(std::span<const TokenId> tokens, Pos pos,
                                       wire::LogitsWanted wanted) const {
  return client_.StartDecode(handle_, tokens, pos, wanted);
}

Result<EncodedText> Sequence::Encode(std::span<const TokenId> tokens) const {
  return client_.Encode(handle_, tokens);
}

Result<Generation> Sequence::Generate(const GenerateOptions& options) const {
  return client_.StartGenerate(handle_, options);
}

}  // namespace kvd
