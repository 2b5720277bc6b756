#include "engine/saved_state/load_sequence.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/model/model_config.h"
#include "engine/model/model_fingerprint.h"
#include "engine/saved_state/section_workers.h"
#include "engine/saved_state/sequence_import.h"

namespace kvd {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;

constexpr std::size_t kSectionUnits = 16;  // work units per section

std::unexpected<Error> Corrupt(std::size_t section, const std::string& what) {
  return Fail(Code::kCorrupt, "state file: section ", section, ": ", what);
}

template <class T>
Status AppendSection(const StateFileReader& file, std::size_t at, StateFileReader::Buffers* buffers,
                     std::vector<T>* values) {
  KVD_TRY(const auto bytes, file.ReadSection(at, buffers));
  const std::size_t held = values->size();
  values->resize(held + bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values->data() + held, bytes.data(), bytes.size());
  return {};
}

Status CheckTokens(std::span<const TokenId> tokens, std::uint32_t vocab_size) {
  for (const TokenId token : tokens) {
    if (token >= 0 && std::cmp_less(token, vocab_size)) continue;
    return Fail(Code::kCorrupt, "state file: token ", token, ", the vocabulary has ", vocab_size);
  }
  return {};
}

// The destination of a section of rows.
struct RowsPlace {
  std::size_t plane = 0;
  kernels::DataType type = kernels::DataType::kF16;
};

// Loader: loads one sequence. Each load uses a new Loader.
class Loader {
 public:
  Loader(Engine& engine, const StateFileReader& file, std::size_t number, unsigned threads,
         const LoadOptions& options)
      : engine_(engine),
        file_(file),
        saved_(file.sequences()[number]),
        header_(saved_.header),
        planes_(CachePlanesOf(engine.config(), engine.cell_layout())),
        buffers_(threads),
        origin_(options.origin) {
    const bool may_cut =
        engine.state_bytes() == 0 && engine.cell_layout().cross_group == layout::kNoSlot &&
        std::ranges::all_of(planes_, [](const CachePlane& plane) { return plane.group == 0; });
    if (may_cut && options.cells < header_.cell_count) end_cell_ = options.cells;
  }

  // Checks the structure of the saved sequence. Called before any cells or slots are reserved.
  Status Check(WorkControl& work);
  Result<std::unique_ptr<SequenceImport>> Begin(SequenceHandle handle, const SavedTokens& tokens);
  Status Feed(SequenceImport& import, unsigned worker, std::size_t section);
  bool is_converted() const { return is_converted_; }
  std::uint32_t cell_count() const { return std::min(end_cell_, header_.cell_count); }

 private:
  Result<RowsPlace> PlaceOf(std::size_t section) const;
  bool has_logits() const {
    return (header_.flags & state_file::kHasLogits) != 0 && end_cell_ >= header_.cell_count;
  }
  std::uint32_t pristine_cells() const {
    if (is_converted_ || origin_ == StateOrigin::kClient) return 0;
    return std::min(header_.pristine_cells, cell_count());
  }
  std::uint32_t EndCell(const CachePlane& plane) const {
    return plane.group == engine_.cell_layout().cross_group ? header_.cross_cells
                                                            : header_.cell_count;
  }

  Engine& engine_;
  const StateFileReader& file_;
  const SavedSequence& saved_;
  const state_file::SequenceHeader& header_;
  const std::vector<CachePlane> planes_;
  std::vector<StateFileReader::Buffers> buffers_;  // by worker
  const StateOrigin origin_;
  std::vector<std::uint32_t> first_cells_;  // by plane
  std::vector<std::uint32_t> checkpoint_cells_;
  bool is_converted_ = false;
  std::uint32_t end_cell_ = std::numeric_limits<std::uint32_t>::max();
};

Result<RowsPlace> Loader::PlaceOf(std::size_t section) const {
  const SectionEntry& entry = file_.sections()[section];
  const auto plane = std::ranges::find_if(planes_, [&](const CachePlane& at) {
    return at.layer == entry.layer && static_cast<std::uint8_t>(at.side) == entry.side;
  });
  if (plane == planes_.end()) {
    return Corrupt(section,
                   Concat("rows of layer ", entry.layer, ", which the model does not cache"));
  }
  const std::uint32_t type = plane->side == CacheSide::kKeys ? header_.k_type : header_.v_type;
  if (entry.type != type || !kernels::IsDataType(type)) {
    return Corrupt(section, Concat("rows of type ", entry.type));
  }
  const auto place = RowsPlace{.plane = static_cast<std::size_t>(plane - planes_.begin()),
                               .type = static_cast<kernels::DataType>(type)};
  KVD_CHECK_OK(CheckRowType(*plane, place.type));
  if (entry.end > EndCell(*plane)) {
    return Corrupt(section, Concat("rows up to cell ", entry.end));
  }
  if ((entry.end - entry.begin) * plane->cell_bytes(place.type) != entry.raw_bytes) {
    return Corrupt(section,
                   Concat(entry.raw_bytes, " bytes of ", entry.end - entry.begin, " cells"));
  }
  return place;
}

Status Loader::Check(WorkControl& work) {
  WorkMeter meter(work);
  if ((header_.flags & state_file::kHasRows) == 0 &&
      (header_.cell_count | header_.cross_cells) != 0) {
    return Fail(Code::kUnsupported, "only tokens were saved, so a load has to compute them again");
  }
  if ((header_.flags & state_file::kHasState) != 0 &&
      header_.state_floats != engine_.state_bytes() / sizeof(float)) {
    return Fail(Code::kCorrupt, "state file: state_floats: ", header_.state_floats);
  }
  if ((header_.flags & state_file::kHasLogits) != 0 &&
      header_.logits_floats != engine_.config().vocab_size) {
    return Fail(Code::kCorrupt, "state file: logits_floats: ", header_.logits_floats);
  }
  struct Cells {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  };
  std::vector<std::optional<Cells>> cells(planes_.size());
  for (std::size_t at = saved_.first_section; at < saved_.end_section; ++at) {
    const SectionEntry& entry = file_.sections()[at];
    KVD_CHECK_OK(meter.Spend(kSectionUnits + planes_.size()));
    if (entry.kind == SectionKind::kState && entry.begin == 0) {
      checkpoint_cells_.push_back(entry.cells);
    }
    if (entry.kind != SectionKind::kRows) continue;
    KVD_TRY(const RowsPlace place, PlaceOf(at));
    std::optional<Cells>& held = cells[place.plane];
    if (!held) held = Cells{.first = static_cast<std::uint32_t>(entry.begin)};
    held->end = static_cast<std::uint32_t>(entry.end);
    is_converted_ |= place.type != planes_[place.plane].type;
  }
  for (std::size_t at = 0; at < planes_.size(); ++at) {
    const std::uint32_t end = EndCell(planes_[at]);
    if (cells[at].value_or(Cells{end, end}).end != end) {
      return Fail(Code::kCorrupt, "state file: ", PlaneText(planes_[at]), ": ", cells[at]->end,
                  " of ", end, " cells");
    }
    first_cells_.push_back(cells[at].value_or(Cells{end, end}).first);
  }
  // The last section of states is the state after the last cell. The state after the last cell is
  // also a checkpoint if the checkpoint count equals the number of states.
  if (!checkpoint_cells_.empty() && header_.checkpoint_count + 1 == checkpoint_cells_.size()) {
    checkpoint_cells_.pop_back();
  }
  if (checkpoint_cells_.size() != header_.checkpoint_count) {
    return Fail(Code::kCorrupt, "state file: checkpoint_count: ", header_.checkpoint_count);
  }
  return {};
}

Result<std::unique_ptr<SequenceImport>> Loader::Begin(SequenceHandle handle,
                                                      const SavedTokens& tokens) {
  return SequenceImport::Begin(engine_,
                               {.handle = handle,
                                .tokens = std::span(tokens.tokens).first(cell_count()),
                                .positions = std::span(tokens.positions).first(cell_count()),
                                .cross_tokens = tokens.cross_tokens,
                                .pristine_cells = pristine_cells(),
                                .first_cells = first_cells_,
                                .has_state = (header_.flags & state_file::kHasState) != 0,
                                .checkpoint_cells = checkpoint_cells_,
                                .has_logits = has_logits()});
}

Status Loader::Feed(SequenceImport& import, unsigned worker, std::size_t section) {
  const SectionEntry& entry = file_.sections()[section];
  const bool is_fed = entry.kind == SectionKind::kRows || entry.kind == SectionKind::kState ||
                      (entry.kind == SectionKind::kLogits && has_logits());
  if (!is_fed) return {};
  if (entry.kind == SectionKind::kRows && entry.begin >= end_cell_) return {};
  KVD_TRY(const auto bytes, file_.ReadSection(section, &buffers_[worker]));
  if (entry.kind == SectionKind::kRows) {
    KVD_TRY(const RowsPlace place, PlaceOf(section));
    return import.FeedRows(place.plane, static_cast<std::uint32_t>(entry.begin),
                           std::min(static_cast<std::uint32_t>(entry.end), end_cell_), place.type,
                           HeadMajor(planes_[place.plane], place.type, entry.end - entry.begin),
                           bytes.data());
  }
  // The buffers come from the allocator, so they are aligned for any type.
  const std::span floats(reinterpret_cast<const float*>(bytes.data()),
                         bytes.size() / sizeof(float));
  if (entry.kind == SectionKind::kLogits) return import.FeedLogits(entry.begin, floats);
  return import.FeedState(entry.cells, entry.begin, floats);
}

}  // namespace

Status CheckModel(const Engine& engine, const StateFileReader& file) {
  ModelFingerprint saved;
  std::ranges::copy(file.header().fingerprint, saved.words.begin());
  const std::string difference = DescribeDifference(saved, engine.fingerprint());
  if (difference.empty()) return {};
  return Fail(Code::kUnsupported, "saved with another model, a ", file.architecture(),
              ", this one is a ", engine.config().architecture_name(),
              "; what differs: ", difference);
}

Status CheckNumericForm(const Engine& engine, const StateFileReader& file) {
  const auto saved = static_cast<NumericForm>(file.header().numeric_form);
  if (MayUse(engine.numeric_form(), saved)) return {};
  return Fail(Code::kUnsupported, "saved with another numeric form: ", NumericFormText(saved),
              "; this daemon uses, with --deterministic, ", NumericFormText(engine.numeric_form()));
}

Result<SavedTokens> ReadSavedTokens(const Engine& engine, const StateFileReader& file,
                                    std::size_t number) {
  const SavedSequence& saved = file.sequences()[number];
  for (const std::uint64_t cells : {saved.header.cell_count, saved.header.cross_cells}) {
    if (cells > engine.options().cells) {
      return Fail(Code::kNoSpace, "cells: ", cells, " needed, the pool has ",
                  engine.options().cells);
    }
  }
  SavedTokens read;
  StateFileReader::Buffers buffers;
  for (std::size_t at = saved.first_section; at < saved.end_section; ++at) {
    switch (file.sections()[at].kind) {
      case SectionKind::kTokens:
        KVD_CHECK_OK(AppendSection(file, at, &buffers, &read.tokens));
        break;
      case SectionKind::kPositions:
        KVD_CHECK_OK(AppendSection(file, at, &buffers, &read.positions));
        break;
      case SectionKind::kCrossTokens:
        KVD_CHECK_OK(AppendSection(file, at, &buffers, &read.cross_tokens));
        break;
      case SectionKind::kSampler:
        KVD_CHECK_OK(AppendSection(file, at, &buffers, &read.sampler));
        break;
      default: break;
    }
  }
  KVD_CHECK_OK(CheckTokens(read.tokens, engine.config().vocab_size));
  KVD_CHECK_OK(CheckTokens(read.cross_tokens, engine.config().vocab_size));
  std::int32_t last = 0;
  for (const Pos position : read.positions) {
    if (position.value < last) {
      return Fail(Code::kCorrupt, "state file: position ", position.value, " after ", last);
    }
    last = position.value;
  }
  return read;
}

Result<LoadReport> LoadSequence(Engine& engine, const StateFileReader& file, std::size_t number,
                                SequenceHandle handle, unsigned threads, WorkControl& work,
                                const LoadOptions& options) {
  KVD_CHECK_OK(CheckModel(engine, file));
  KVD_CHECK_OK(CheckNumericForm(engine, file));
  Loader loader(engine, file, number, threads, options);
  KVD_CHECK_OK(loader.Check(work));
  KVD_TRY(SavedTokens tokens, ReadSavedTokens(engine, file, number));
  KVD_TRY(std::unique_ptr<SequenceImport> import, loader.Begin(handle, tokens));
  const SavedSequence& saved = file.sequences()[number];
  const auto feed = [&](unsigned worker, std::size_t at) -> Status {
    return loader.Feed(*import, worker, saved.first_section + at);
  };
  KVD_CHECK_OK(ForSections(threads, saved.end_section - saved.first_section, work, feed, [] {}));
  KVD_CHECK_OK(import->Commit());
  LoadReport report{.cell_count = loader.cell_count(),
                    .k_type = static_cast<kernels::DataType>(saved.header.k_type),
                    .v_type = static_cast<kernels::DataType>(saved.header.v_type),
                    .is_converted = loader.is_converted(),
                    .sampler = std::move(tokens.sampler)};
  for (std::size_t at = saved.first_section; at < saved.end_section; ++at) {
    const SectionEntry& entry = file.sections()[at];
    const bool is_left_out = entry.kind == SectionKind::kRows && entry.begin >= loader.cell_count();
    if (!is_left_out) report.raw_bytes += entry.raw_bytes;
  }
  return report;
}

}  // namespace kvd
