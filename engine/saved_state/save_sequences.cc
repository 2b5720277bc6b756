#include "engine/saved_state/save_sequences.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/saved_state/section_workers.h"
#include "engine/saved_state/state_file.h"
#include "state_layout/section_plan.h"

namespace kvd {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;

kernels::DataType TypeOf(const CachePlane& plane, const SaveProfile& profile) {
  return (plane.side == CacheSide::kKeys ? profile.k_type : profile.v_type).value_or(plane.type);
}

Status AddRows(const SequenceExport& from, const SaveProfile& profile, std::uint32_t sequence,
               std::vector<SectionEntry>* sections) {
  for (const CachePlane& plane : from.planes()) {
    const kernels::DataType type = TypeOf(plane, profile);
    KVD_CHECK_OK(CheckRowType(plane, type));
    if (plane.cell_bytes(type) > state_file::kSectionBytesMax) {
      return Fail(Code::kUnsupported, PlaneText(plane), ": ", plane.cell_bytes(type),
                  " bytes of one cell, a section holds ", state_file::kSectionBytesMax);
    }
    SectionEntry part = SectionOf(SectionKind::kRows, sequence, kernels::BytesPerBlock(type));
    part.layer = plane.layer;
    part.side = static_cast<std::uint8_t>(plane.side);
    part.type = static_cast<std::uint32_t>(type);
    AddSections(part, from.first_cell(plane), from.end_cell(plane), plane.cell_bytes(type),
                sections);
  }
  return {};
}

void AddStates(const SequenceExport& from, const SaveProfile& profile, std::uint32_t sequence,
               std::vector<SectionEntry>* sections) {
  SectionEntry part = SectionOf(SectionKind::kState, sequence, sizeof(float));
  for (const layout::Checkpoint& checkpoint : from.checkpoints()) {
    if (!profile.with_checkpoints || checkpoint.cell_count == from.cell_count()) continue;
    part.cells = checkpoint.cell_count;
    AddSections(part, 0, from.state().size(), sizeof(float), sections);
  }
  part.cells = from.cell_count();
  AddSections(part, 0, from.state().size(), sizeof(float), sections);
}

state_file::SequenceHeader HeaderOf(const SaveItem& item, const SaveProfile& profile) {
  const SequenceExport& from = *item.sequence;
  state_file::SequenceHeader header = {};
  header.cell_count = from.cell_count();
  header.cross_cells = static_cast<std::uint32_t>(from.cross_tokens().size());
  header.sampler_bytes = static_cast<std::uint32_t>(item.sampler.size());
  header.handle = static_cast<std::uint64_t>(from.info().handle);
  if (profile.tokens_only) return header;
  header.flags = state_file::kHasRows;
  bool is_converted = false;
  for (const CachePlane& plane : from.planes()) {
    const kernels::DataType type = TypeOf(plane, profile);
    (plane.side == CacheSide::kKeys ? header.k_type : header.v_type) =
        static_cast<std::uint32_t>(type);
    is_converted |= type != plane.type;
  }
  header.pristine_cells = is_converted ? 0 : from.info().pristine_cells;
  if (!from.state().empty()) {
    header.flags |= state_file::kHasState;
    header.state_floats = from.state().size();
    const std::size_t checkpoints = profile.with_checkpoints ? from.checkpoints().size() : 0;
    header.checkpoint_count = static_cast<std::uint32_t>(checkpoints);
  }
  if (profile.with_logits && !from.logits().empty()) {
    header.flags |= state_file::kHasLogits;
    header.logits_floats = from.logits().size();
  }
  return header;
}

const CachePlane& PlaneOf(const SequenceExport& from, const SectionEntry& entry) {
  const auto plane = std::ranges::find_if(from.planes(), [&](const CachePlane& at) {
    return at.layer == entry.layer && static_cast<std::uint8_t>(at.side) == entry.side;
  });
  KVD_ASSERT(plane != from.planes().end());
  return *plane;
}

std::span<const float> StateOf(const SequenceExport& from, std::uint32_t cells) {
  if (cells == from.cell_count()) return from.state();
  const auto checkpoint =
      std::ranges::find(from.checkpoints(), cells, &layout::Checkpoint::cell_count);
  KVD_ASSERT(checkpoint != from.checkpoints().end());
  return from.checkpoint_state(*checkpoint);
}

// Returns the bytes of a section: a view of the export's content, or of `buffer`.
Result<std::span<const std::byte>> ReadRaw(const SaveItem& item, const SaveProfile& profile,
                                           const SectionEntry& entry,
                                           std::vector<std::byte>* buffer) {
  const SequenceExport& from = *item.sequence;
  const auto part = [&](auto values) -> std::span<const std::byte> {
    return std::as_bytes(values.subspan(entry.begin, entry.end - entry.begin));
  };
  switch (entry.kind) {
    case SectionKind::kTokens: return part(from.tokens());
    case SectionKind::kPositions: return part(from.positions());
    case SectionKind::kCrossTokens: return part(from.cross_tokens());
    case SectionKind::kState: return part(StateOf(from, entry.cells));
    case SectionKind::kLogits: return part(from.logits());
    case SectionKind::kSampler: return part(item.sampler);
    case SectionKind::kSequence: {
      const state_file::SequenceHeader header = HeaderOf(item, profile);
      buffer->resize(sizeof header);
      std::memcpy(buffer->data(), &header, sizeof header);
      return std::span<const std::byte>(*buffer);
    }
    case SectionKind::kRows: {
      buffer->resize(entry.raw_bytes);
      const CachePlane& plane = PlaneOf(from, entry);
      const kernels::DataType type = TypeOf(plane, profile);
      KVD_CHECK_OK(from.ReadRows(plane, static_cast<std::uint32_t>(entry.begin),
                                 static_cast<std::uint32_t>(entry.end), type,
                                 HeadMajor(plane, type, entry.end - entry.begin), buffer->data()));
      return std::span<const std::byte>(*buffer);
    }
  }
  return Fail(Code::kInternal, "unknown section kind");
}

}  // namespace

static_assert(sizeof(Pos) == sizeof(std::int32_t) && sizeof(TokenId) == sizeof(std::int32_t));

Result<std::vector<SectionEntry>> PlanSections(std::span<const SaveItem> items,
                                               const SaveProfile& profile) {
  if (items.empty() || items.size() > state_file::kSequencesMax) {
    return Fail(Code::kInvalidArgument, "sequences: ", items.size(), ", a file holds 1 to ",
                state_file::kSequencesMax);
  }
  std::vector<SectionEntry> sections;
  for (std::uint32_t number = 0; number < items.size(); ++number) {
    const SequenceExport& from = *items[number].sequence;
    const std::size_t sampler_bytes = items[number].sampler.size();
    if (sampler_bytes > state_file::kSamplerBytesMax) {
      return Fail(Code::kInvalidArgument, "sampler state: ", sampler_bytes, " bytes, at most ",
                  state_file::kSamplerBytesMax);
    }
    SectionEntry header = SectionOf(SectionKind::kSequence, number, 0);
    header.raw_bytes = sizeof(state_file::SequenceHeader);
    sections.push_back(header);
    const auto add = [&](SectionKind kind, std::size_t element_bytes, std::size_t count) {
      AddSections(SectionOf(kind, number, element_bytes), 0, count, element_bytes, &sections);
    };
    add(SectionKind::kTokens, sizeof(TokenId), from.tokens().size());
    add(SectionKind::kPositions, sizeof(Pos), from.positions().size());
    add(SectionKind::kCrossTokens, sizeof(TokenId), from.cross_tokens().size());
    if (!profile.tokens_only) {
      KVD_CHECK_OK(AddRows(from, profile, number, &sections));
      AddStates(from, profile, number, &sections);
      if (profile.with_logits) add(SectionKind::kLogits, sizeof(float), from.logits().size());
    }
    add(SectionKind::kSampler, 1, sampler_bytes);
  }
  return sections;
}

namespace {

state_file::FileHeader HeaderOf(const Engine& engine, std::uint32_t sequence_count) {
  state_file::FileHeader header = {};
  header.sequence_count = sequence_count;
  header.saved_unix_ms = NowUnixMs();
  std::ranges::copy(engine.fingerprint().words, header.fingerprint);
  header.numeric_form = static_cast<std::uint32_t>(engine.numeric_form());
  const std::string_view architecture = engine.config().architecture_name();
  architecture.copy(header.architecture, sizeof header.architecture - 1);
  return header;
}

struct Worker {
  std::vector<std::byte> raw;
  SectionCodec codec;
};

// read(entry, buffer) -> Result<std::span<const std::byte>> returns the bytes of a section.
template <class Read>
Result<SaveReport> WriteFile(const Engine& engine, std::uint32_t sequence_count,
                             const SaveProfile& profile, std::vector<SectionEntry> sections,
                             const SaveTarget& target, unsigned threads, WorkControl& work,
                             const Read& read) {
  KVD_ASSERT(threads > 0);
  const std::vector<SectionEntry> plan = sections;
  KVD_TRY(std::unique_ptr<StateFileWriter> writer,
          StateFileWriter::Create(target.directory, target.name, std::move(sections)));
  std::vector<Worker> workers(threads);
  const auto write = [&](unsigned number, std::size_t at) -> Status {
    Worker& worker = workers[number];
    const SectionEntry& entry = plan[at];
    KVD_TRY(const std::span<const std::byte> raw, read(entry, &worker.raw));
    const bool packs = profile.packed && entry.element_bytes != 0;
    return writer->Put(at, packs ? worker.codec.Pack(raw, entry.element_bytes)
                                 : SectionCodec::Packed{.bytes = raw});
  };
  KVD_CHECK_OK(ForSections(threads, plan.size(), work, write, [&] { writer->GiveUp(); }));
  state_file::FileHeader header = HeaderOf(engine, sequence_count);
  std::ranges::copy(target.name_space, header.name_space);
  SaveReport report;
  for (const SectionEntry& entry : plan) report.raw_bytes += entry.raw_bytes;
  Result<std::uint64_t> file_bytes;
  work.Block([&] { file_bytes = writer->Finish(header, target.replace); });
  KVD_TRY(report.file_bytes, std::move(file_bytes));
  return report;
}

}  // namespace

Result<SaveReport> SaveSequences(const Engine& engine, std::span<const SaveItem> items,
                                 const SaveProfile& profile, std::vector<SectionEntry> sections,
                                 const SaveTarget& target, unsigned threads, WorkControl& work) {
  return WriteFile(engine, static_cast<std::uint32_t>(items.size()), profile, std::move(sections),
                   target, threads, work,
                   [&](const SectionEntry& entry, std::vector<std::byte>* buffer) {
                     return ReadRaw(items[entry.sequence], profile, entry, buffer);
                   });
}

Result<SaveReport> SaveBriefly(const Engine& engine, SequenceExport& from,
                               const SaveProfile& profile, std::vector<SectionEntry> sections,
                               const SaveTarget& target, WorkControl& work) {
  const SaveItem item{.sequence = &from};
  const auto read = [&](const SectionEntry& entry,
                        std::vector<std::byte>* buffer) -> Result<std::span<const std::byte>> {
    KVD_CHECK_OK(from.Resume());
    const auto raw = ReadRaw(item, profile, entry, buffer);
    if (raw && raw->data() != buffer->data()) buffer->assign(raw->begin(), raw->end());
    from.Pause();
    if (!raw) return std::unexpected(raw.error());
    return std::span<const std::byte>(*buffer);
  };
  return WriteFile(engine, 1, profile, std::move(sections), target, 1, work, read);
}

Status WriteState(const Engine& engine, std::span<const SaveItem> items, const SaveProfile& profile,
                  std::vector<SectionEntry> sections, StateContent parts, std::span<std::byte> to,
                  WorkControl& work) {
  KVD_ASSERT(to.size() == StateBytes(sections, parts));
  PlaceUnpacked(sections);
  state_file::FileHeader header = HeaderOf(engine, static_cast<std::uint32_t>(items.size()));
  header.file_bytes = UnpackedFileBytes(sections);
  std::size_t at = StateHeadBytes(sections.size());
  std::vector<std::byte> buffer;
  for (SectionEntry& entry : sections) {
    if (IsLeftOut(entry, parts)) continue;
    KVD_CHECK_OK(work.Continue());
    KVD_TRY(const auto raw, ReadRaw(items[entry.sequence], profile, entry, &buffer));
    entry.crc = Crc32c(0, raw);
    std::memcpy(to.data() + at, raw.data(), raw.size());
    at += raw.size();
  }
  CompleteStateHeader(sections, &header);
  std::memcpy(to.data(), &header, sizeof header);
  const auto table = std::as_bytes(std::span(sections));
  std::memcpy(to.data() + sizeof header, table.data(), table.size());
  return {};
}

}  // namespace kvd
