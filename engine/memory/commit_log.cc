// The only reader of the commit record is a later process that attaches to the mapping after a
// kill. The later process depends on the order of the killed process's stores in the instruction
// stream: signal fences keep the compiler from moving stores of the record across the commit word.
#include "engine/memory/commit_log.h"

#include <cstring>
#include <string>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace kvd {
namespace {

using layout::CommitEntry;
using layout::CommitHeader;

constexpr std::uint64_t kBodyBytesMax = layout::kCommitRecordBytes - sizeof(CommitHeader);

std::byte* BodyOf(MetaView meta) {
  return meta.bytes().data() + meta.offsets().commit + sizeof(CommitHeader);
}

// CRC of the header's numbers and the body. REQUIRES: header.body_bytes <= kBodyBytesMax.
std::uint32_t RecordCrc(const CommitHeader& header, const std::byte* body) {
  std::uint32_t crc = Crc32cOf(0, header.number);
  crc = Crc32cOf(crc, header.entry_count);
  crc = Crc32cOf(crc, header.body_bytes);
  return Crc32c(crc, {body, header.body_bytes});
}

bool IsInRecords(const MetaOffsets& offsets, std::uint64_t offset, std::uint64_t byte_count) {
  return offset % 8 == 0 && byte_count % 8 == 0 && offset >= offsets.sequences &&
         offset <= offsets.lists && byte_count <= offsets.lists - offset;
}

Status CheckField(bool holds, const std::string& text) {
  if (holds) return {};
  return Fail(Code::kCorrupt, "commit record: ", text);
}

}  // namespace

CommitLog::CommitLog(MetaView meta) : meta_(meta) {
  CommitHeader header;
  std::memcpy(&header, meta.bytes().data() + meta.offsets().commit, sizeof header);
  next_number_ = header.number + 1 == 0 ? 1 : header.number + 1;
}

void CommitLog::Begin() {
  entry_count_ = 0;
  body_bytes_ = 0;
}

std::byte* CommitLog::Put(std::uint64_t offset, std::span<const std::byte> bytes) {
  KVD_ASSERT(IsInRecords(meta_.offsets(), offset, bytes.size()));
  const std::uint64_t entry_bytes = sizeof(CommitEntry) + bytes.size();
  std::byte* put = nullptr;
  if (body_bytes_ + entry_bytes <= kBodyBytesMax) {
    const CommitEntry entry{offset, static_cast<std::uint32_t>(bytes.size()), 0};
    std::byte* const to = BodyOf(meta_) + body_bytes_;
    std::memcpy(to, &entry, sizeof entry);
    std::memcpy(to + sizeof entry, bytes.data(), bytes.size());
    put = to + sizeof entry;
    Probe(Moment::kEntryWritten);
  }
  body_bytes_ += entry_bytes;
  ++entry_count_;
  return put;
}

Status CommitLog::CheckFits() const {
  if (body_bytes_ <= kBodyBytesMax) return {};
  return Fail(Code::kNoSpace, "commit record: ", body_bytes_, " bytes needed, at most ",
              kBodyBytesMax);
}

Status CommitLog::Commit() {
  KVD_CHECK_OK(CheckFits());
#ifdef KVD_BREAK_COMMIT
  // A deliberate bug, which a test must detect: the entries are applied before the record is
  // published.
  Apply();
#endif
  std::byte* const body = BodyOf(meta_);
  CommitHeader header{next_number_, entry_count_, static_cast<std::uint32_t>(body_bytes_), 0, 0};
  header.crc = RecordCrc(header, body);
  std::memcpy(body - sizeof header, &header, sizeof header);
  Probe(Moment::kRecordWritten);

  std::atomic<std::uint64_t>& commit_word = meta_.header().commit_word;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  commit_word.store(header.number, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Probe(Moment::kPublished);

  Apply();

  std::atomic_signal_fence(std::memory_order_seq_cst);
  commit_word.store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Probe(Moment::kCleared);
  if (++next_number_ == 0) next_number_ = 1;
  Begin();
  return {};
}

void CommitLog::Apply() {
  const std::byte* next = BodyOf(meta_);
  for (std::uint32_t index = 0; index < entry_count_; ++index) {
    CommitEntry entry;
    std::memcpy(&entry, next, sizeof entry);
    std::memcpy(meta_.bytes().data() + entry.offset, next + sizeof entry, entry.payload_bytes);
    next += sizeof entry + entry.payload_bytes;
    Probe(Moment::kEntryApplied);
  }
}

Result<bool> CommitLog::Replay(MetaView meta) {
  std::atomic<std::uint64_t>& commit_word = meta.header().commit_word;
  const std::uint64_t number = commit_word.load(std::memory_order_acquire);
  if (number == 0) return false;

  const std::byte* const body = BodyOf(meta);
  CommitHeader header;
  std::memcpy(&header, body - sizeof header, sizeof header);
  KVD_CHECK_OK(CheckField(header.number == number,
                          Concat("number: ", header.number, ", but commit_word is ", number)));
  KVD_CHECK_OK(CheckField(header.body_bytes <= kBodyBytesMax,
                          Concat("body_bytes: ", header.body_bytes, ", at most ", kBodyBytesMax)));
  KVD_CHECK_OK(CheckField(header.reserved == 0, "reserved: not zero"));
  KVD_CHECK_OK(CheckField(header.crc == RecordCrc(header, body), "crc: does not match"));

  // The record may be forged in spite of its valid CRC. A first pass therefore checks all entries,
  // and a second pass applies them.
  for (const bool applies : {false, true}) {
    std::uint64_t at = 0;
    for (std::uint32_t index = 0; index < header.entry_count; ++index) {
      CommitEntry entry;
      const std::string name = Concat("entry ", index);
      KVD_CHECK_OK(
          CheckField(header.body_bytes - at >= sizeof entry, name + ": begins after body_bytes"));
      std::memcpy(&entry, body + at, sizeof entry);
      at += sizeof entry;
      KVD_CHECK_OK(CheckField(entry.reserved == 0, name + " reserved: not zero"));
      KVD_CHECK_OK(CheckField(
          entry.payload_bytes <= header.body_bytes - at,
          Concat(name, " payload_bytes: ", entry.payload_bytes, ", ends after body_bytes")));
      KVD_CHECK_OK(
          CheckField(IsInRecords(meta.offsets(), entry.offset, entry.payload_bytes),
                     Concat(name, " offset: ", entry.offset, " is not inside the records")));
      if (applies) {
        std::memcpy(meta.bytes().data() + entry.offset, body + at, entry.payload_bytes);
      }
      at += entry.payload_bytes;
    }
    KVD_CHECK_OK(CheckField(at == header.body_bytes, "entry_count: entries end before body_bytes"));
  }
  commit_word.store(0, std::memory_order_release);
  return true;
}

}  // namespace kvd
