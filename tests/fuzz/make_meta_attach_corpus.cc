// Writes the seeds of meta_attach_fuzz into a directory: a used `meta` of every kind of memory with
// forks, edits, retained and pinned sequences, snapshots and a session's window; the same `meta` as
// a process leaves it that ends during a commit; and tables that break a rule by a consistent
// change of several numbers.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/memory/holds_and_restores.h"
#include "engine/memory/memory.h"
#include "engine/memory/memory_segments.h"
#include "tests/fuzz/meta_image.h"
#include "tests/support/into.h"

namespace kvd::meta_attach_corpus {
namespace {

using namespace kvd;

constexpr SequenceOwner kOwner{.id = OwnerId{1000}, .session = SessionId{1}};
constexpr SequenceOwner kOther{.id = OwnerId{1001}, .session = SessionId{2}, .namespace_salt = 9};

bool WriteSeed(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return file.good();
}

Status Append(Memory& memory, SequenceHandle handle, TokenId first, std::size_t count) {
  std::vector<TokenId> tokens;
  for (std::size_t k = 0; k < count; ++k) tokens.push_back(first + static_cast<TokenId>(k));
  KVD_TRY(const SequenceInfo info, memory.sequences().Query(handle));
  const AppendRequest request{
      .handle = handle,
      .pos = info.next_pos,
      .tokens = tokens,
      .applied = {.session = SessionId{1}, .request = RequestId{4}, .kind = 14}};
  StepPlan plan;
  KVD_CHECK_OK(memory.steps().Reserve({&request, 1}, plan));
  const Status status = memory.steps().Commit(plan, 0);
  memory.steps().EndStep(plan);
  return status;
}

Status Encode(Memory& memory, SequenceHandle handle, std::size_t count) {
  const std::vector<TokenId> tokens(count, 500);
  Restore restore;
  KVD_CHECK_OK(Into(memory.restores().Begin({.handle = handle, .cross_tokens = tokens}), &restore));
  return memory.restores().Commit(restore);
}

Status Fill(Memory& memory, fuzz::MetaKind kind, std::uint32_t variant) {
  KVD_CHECK_OK(memory.sessions().Open({.id = SessionId{1}, .owner = OwnerId{1000}}));
  KVD_TRY(const SequenceHandle base,
          memory.sequences().Create(kOwner,
                                    {.session = SessionId{1}, .request = RequestId{3}, .kind = 3}));
  if (kind == fuzz::MetaKind::kEncoder) KVD_CHECK_OK(Encode(memory, base, 10));
  KVD_CHECK_OK(Append(memory, base, 100, 40));
  (void)memory.states().KeepCheckpoint(base);
  const float logits[16] = {};
  (void)memory.states().KeepLogits(base, logits);
  KVD_CHECK_OK(Append(memory, base, 200, variant == 0 ? 9 : 30));
  SequenceHandle forks[2] = {};
  KVD_CHECK_OK(memory.sequences().Fork(base, kOwner, forks));
  if (variant == 0) {
    (void)memory.sequences().RemoveRange(forks[0], {Pos{10}, Pos{20}});
    (void)memory.sequences().AddPositions(forks[0], {Pos{20}, kPosEnd}, -5);
    KVD_TRY([[maybe_unused]] const SequenceHandle shown,
            memory.snapshots().Publish(base, kOwner, "snap", true, false));
    KVD_TRY([[maybe_unused]] const SequenceHandle hidden,
            memory.snapshots().Publish(forks[1], kOwner, "own", false, false));
  } else {
    KVD_CHECK_OK(Append(memory, forks[0], 300, 3));
    (void)memory.prefixes().Retain(forks[0]);
    KVD_CHECK_OK(memory.sequences().SetOwner(forks[1], kOther, layout::kSequencePinned, 0));
    layout::SamplerRecord sampler = {};
    sampler.seed = 5;
    sampler.flags = layout::kSamplerKept;
    KVD_CHECK_OK(memory.sequences().SetSampler(base, sampler));
    KVD_TRY([[maybe_unused]] const SequenceHandle empty, memory.sequences().Create(kOther));
  }
  return {};
}

layout::SequenceRecord* FirstLive(MetaView meta) {
  for (layout::SequenceRecord& record : meta.sequences()) {
    if ((record.flags & layout::kSequenceLive) != 0) return &record;
  }
  return nullptr;
}

void GiveSnapshotsOneName(MetaView meta) {
  std::memcpy(meta.snapshots()[1].name, meta.snapshots()[0].name, sizeof meta.snapshots()[0].name);
}

void GiveSessionsOneId(MetaView meta) { meta.sessions()[1] = meta.sessions()[0]; }

// Splits the first sequence's extent into two, of which the second continues the first one in the
// same block.
void SplitExtent(MetaView meta) {
  layout::SequenceRecord& record = *FirstLive(meta);
  record.cell_count = record.pristine_cells = layout::kBlockCells;
  record.next_pos = static_cast<std::int32_t>(layout::kBlockCells);
  record.extents[0].entry_count = 2;
  const auto entries = meta.entries(record.extents[0]);
  entries[1] = entries[0];
  entries[1].start = entries[1].first = 10;
}

// Removes cells from the sliding window's block group that are still inside the window.
void ShortenWindow(MetaView meta) {
  layout::SequenceRecord& record = *FirstLive(meta);
  const auto entries = meta.entries(record.extents[1]);
  layout::Extent last = entries.back();
  record.first_cell[1] = record.cell_count - 1;
  last.first = static_cast<std::uint16_t>(last.first + record.first_cell[1] - last.start);
  last.start = record.first_cell[1];
  entries[0] = last;
  record.extents[1].entry_count = 1;
}

void AddCheckpoints(MetaView meta) {
  FirstLive(meta)->checkpoints = {meta.geometry().list_unit_count - 1, 1, 1, 0};
}

struct Change {
  const char* name;
  fuzz::MetaKind kind;
  void (*make)(MetaView meta);
};
constexpr Change kChanges[] = {
    {"one-name", fuzz::MetaKind::kAttention, GiveSnapshotsOneName},
    {"one-session", fuzz::MetaKind::kAttention, GiveSessionsOneId},
    {"split-extent", fuzz::MetaKind::kAttention, SplitExtent},
    {"short-window", fuzz::MetaKind::kWindow, ShortenWindow},
    {"checkpoints-without-state", fuzz::MetaKind::kAttention, AddCheckpoints},
};

// Writes the tables of `meta` once with each of the kind's changes.
bool WriteChanged(const std::string& folder, fuzz::MetaKind kind, MetaView meta) {
  const std::vector<std::byte> before(meta.bytes().begin(), meta.bytes().end());
  bool is_written = true;
  for (const Change& change : kChanges) {
    if (change.kind != kind) continue;
    change.make(meta);
    is_written = WriteSeed(folder + "/" + change.name, fuzz::PackImage(kind, meta)) && is_written;
    std::memcpy(meta.bytes().data(), before.data(), before.size());
  }
  return is_written;
}

bool WriteSeeds(const std::string& folder, fuzz::MetaKind kind, std::uint32_t variant) {
  auto geometry = ComputeGeometry(fuzz::OptionsOf(kind));
  auto segments = MemorySegments::CreateAnonymous(*geometry);
  if (!segments) return false;
  const MetaView meta = segments->meta.view();
  auto memory = Memory::Create(std::move(*segments));
  if (const Status filled = Fill(*memory, kind, variant); !filled) {
    std::fprintf(stderr, "make_corpus meta_attach: %s\n", filled.error().message.c_str());
    return false;
  }
  const std::string name =
      folder + "/" + std::to_string(static_cast<int>(kind)) + "-" + std::to_string(variant);
  bool is_written = WriteSeed(name, fuzz::PackImage(kind, meta));
  if (variant == 0) is_written = WriteChanged(folder, kind, meta) && is_written;
  memory->commit_log_for_test().set_probe_for_test([&](CommitLog::Moment moment) {
    if (moment != CommitLog::Moment::kPublished) return;
    is_written = WriteSeed(name + "-published", fuzz::PackImage(kind, meta)) && is_written;
  });
  (void)memory->sequences().Create(kOwner,
                                   {.session = SessionId{1}, .request = RequestId{8}, .kind = 3});
  return is_written;
}

}  // namespace

int Make(const std::string& folder) {
  for (std::size_t kind = 0; kind < kvd::fuzz::kMetaKinds; ++kind) {
    for (const std::uint32_t variant : {0u, 1u}) {
      if (!WriteSeeds(folder, static_cast<kvd::fuzz::MetaKind>(kind), variant)) return 1;
    }
  }
  return 0;
}

}  // namespace kvd::meta_attach_corpus
