#include "http/api/slot_actions.h"

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "http/api/packed_tokens_sink.h"
#include "http/api/slot_directory.h"

namespace kvd::http {
namespace {

// Bytes of a slot's file: each cell at most as large as f32 beside q4_0, and the rest.
constexpr std::uint64_t kFileGrowthMax = 8;
constexpr std::uint64_t kFileRestBytes = std::uint64_t{64} << 20;

std::uint64_t FileBytesMax(const ServedModel& model) {
  const wire::InfoReply& info = model.info();
  return (info.cell_bytes * model.slot_cells() + info.state_bytes) * kFileGrowthMax +
         kFileRestBytes;
}

// Opens the file when the export begins, and again when it begins anew.
class SlotFileSink final : public LlamaSink {
 public:
  SlotFileSink(const SlotDirectory& directory, std::string name)
      : directory_(directory), name_(std::move(name)) {}

  Status Begin(std::uint64_t file_bytes) override {
    file_.reset();
    KVD_CHECK_OK(directory_.CheckRoom(name_, file_bytes));
    KVD_TRY(file_, directory_.Create(name_));
    return {};
  }
  Status Write(std::span<const std::byte> bytes) override { return file_->Write(bytes); }
  Status Commit() { return file_->Commit(); }

 private:
  const SlotDirectory& directory_;
  const std::string name_;
  std::unique_ptr<NewSlotFile> file_;
};

// On a worker. Returns the file's bytes.
Result<std::uint64_t> Export(const Client& client, SequenceHandle sequence,
                             const Settings& settings, const SlotFolder& slot_folder,
                             const std::string& name) {
  KVD_TRY(const SlotDirectory directory, SlotDirectory::Open(slot_folder));
  SlotFileSink file(directory, name);
  PackedTokensSink packed(file);
  LlamaFileOptions options;
  // llama-server has a stream for each slot, or one for all if they share its cache.
  options.streams =
      settings.is_unified ? std::uint16_t{1} : static_cast<std::uint16_t>(settings.slot_count);
  KVD_TRY(const std::uint64_t bytes, client.ExportLlama(std::span(&sequence, 1), options, packed));
  KVD_CHECK_OK(file.Commit());
  return bytes + kPackedTokensBytes;
}

struct Imported {
  ImportedSequence sequence;
  std::uint64_t file_bytes = 0;
};

// On a worker.
Result<Imported> Import(const Client& client, const SlotFolder& slot_folder,
                        const std::string& name, std::uint64_t bytes_max) {
  KVD_TRY(const SlotDirectory directory, SlotDirectory::Open(slot_folder));
  KVD_TRY(const std::vector<std::byte> file, directory.Read(name, bytes_max));
  KVD_TRY(const std::vector<ImportedSequence> sequences, client.ImportLlama(file));
  return Imported{.sequence = sequences.front(), .file_bytes = file.size()};
}

// Returns the cells that llama-server would have computed: all but that of an answer's last token.
std::uint32_t CellsWithoutLast(const GatewaySlot& slot, const wire::SequenceEntry& entry) {
  const bool has_last = slot.decoded_tokens != 0 && !slot.lacks_last && entry.cell_count != 0;
  return entry.cell_count - (has_last ? 1 : 0);
}

// What is wrong with a file is wrong with the request.
Error RestoreError(Error error) {
  switch (error.code) {
    case Code::kCorrupt:
    case Code::kUnsupported:
    case Code::kNumerical:
    case Code::kInvalidArgument:
      return {Code::kInvalidArgument, "Unable to restore slot: " + error.message};
    default: return error;
  }
}

// The lock of the files of one tenant.
class HeldFileLock {
 public:
  explicit HeldFileLock(FileLock& lock) : lock_(lock) { lock_.is_taken = true; }
  ~HeldFileLock() {
    lock_.is_taken = false;
    lock_.ended.Notify();
  }
  HeldFileLock(const HeldFileLock&) = delete;
  HeldFileLock& operator=(const HeldFileLock&) = delete;

 private:
  FileLock& lock_;
};

}  // namespace

Await<Result<SlotFileInfo>> SaveSlot(TenantSession& tenant, const SlotLease& lease,
                                     SlotFolder slot_folder, const std::string& name,
                                     FileLock& lock) {
  const auto start = std::chrono::steady_clock::now();
  KVD_CO_TRY(const auto session, tenant.session());
  const GatewaySlot& slot = lease.slot();
  std::uint32_t cells = 0;
  if (slot.sequence != SequenceHandle::kNone) {
    KVD_CO_TRY(const wire::SequenceEntry entry, co_await session->Query(slot.sequence));
    cells = CellsWithoutLast(slot, entry);
  }
  if (cells == 0) {
    co_return Fail(Code::kInvalidArgument, "slot ", slot.number, ": has no tokens to save");
  }
  KVD_CO_TRY(const SequenceHandle fork,
             co_await session->Fork(slot.sequence, static_cast<std::int32_t>(cells)));
  const Settings& settings = tenant.model().settings();
  while (lock.is_taken) co_await lock.ended.Wait();
  const HeldFileLock taken(lock);
  const auto write = [&] { return Export(session->client(), fork, settings, slot_folder, name); };
  const Result<std::uint64_t> bytes = co_await tenant.workers().Run(write);
  session->DropLater(fork);
  if (!bytes) co_return std::unexpected(bytes.error());
  co_return SlotFileInfo{
      .token_count = cells, .file_bytes = *bytes, .time = std::chrono::steady_clock::now() - start};
}

Await<Result<SlotFileInfo>> RestoreSlot(TenantSession& tenant, const SlotLease& lease,
                                        SlotFolder slot_folder, const std::string& name,
                                        FileLock& lock) {
  const auto start = std::chrono::steady_clock::now();
  KVD_CO_TRY(const auto session, tenant.session());
  while (lock.is_taken) co_await lock.ended.Wait();
  std::optional<HeldFileLock> taken(lock);
  const std::uint64_t bytes_max = FileBytesMax(tenant.model());
  const auto read = [&] { return Import(session->client(), slot_folder, name, bytes_max); };
  const Result<Imported> imported = co_await tenant.workers().Run(read);
  taken.reset();
  if (!imported) co_return std::unexpected(RestoreError(imported.error()));
  const SequenceHandle sequence = imported->sequence.handle;
  const std::uint32_t cells = imported->sequence.cell_count;
  if (cells > tenant.model().slot_cells()) {
    session->DropLater(sequence);
    co_return Fail(Code::kInvalidArgument, "Unable to restore slot: ", cells,
                   " tokens, a slot has ", tenant.model().slot_cells());
  }
  auto tokens = co_await session->ReadTokens(sequence, 0, -1);
  if (!tokens) {
    session->DropLater(sequence);
    co_return std::unexpected(std::move(tokens).error());
  }
  GatewaySlot& slot = lease.slot();
  if (slot.sequence != SequenceHandle::kNone) session->DropLater(slot.sequence);
  slot.sequence = sequence;
  slot.tokens = std::move(*tokens);
  slot.are_tokens_unknown = slot.is_edited = false;
  slot.kept = 0;
  slot.prompt_tokens = slot.cached_tokens = slot.decoded_tokens = 0;
  co_return SlotFileInfo{.token_count = cells,
                         .file_bytes = imported->file_bytes,
                         .time = std::chrono::steady_clock::now() - start};
}

Await<Result<std::uint64_t>> EraseSlot(TenantSession& tenant, const SlotLease& lease) {
  KVD_CO_TRY(const auto session, tenant.session());
  GatewaySlot& slot = lease.slot();
  std::uint64_t token_count = 0;
  if (slot.sequence != SequenceHandle::kNone) {
    const auto entry = co_await session->Query(slot.sequence);
    if (entry) token_count = CellsWithoutLast(slot, *entry);
    session->DropLater(slot.sequence);
  }
  slot.sequence = SequenceHandle::kNone;
  slot.tokens.clear();
  slot.are_tokens_unknown = slot.is_edited = false;
  slot.kept = 0;
  slot.prompt_tokens = slot.cached_tokens = slot.decoded_tokens = 0;
  co_return token_count;
}

}  // namespace kvd::http
