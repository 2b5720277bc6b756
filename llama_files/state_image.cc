#include "llama_files/state_image.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/text.h"

namespace kvd {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;

std::string SectionName(std::size_t number) { return Concat("section ", number); }

template <class T>
void Append(std::span<const std::byte> bytes, std::vector<T>* values) {
  const std::size_t held = values->size();
  values->resize(held + bytes.size() / sizeof(T));
  std::memcpy(values->data() + held, bytes.data(), bytes.size());
}

Status CheckSameModel(const state_file::FileHeader& header, const StateModel& model) {
  if (std::ranges::equal(header.fingerprint, model.fingerprint)) return {};
  return Fail(Code::kConflict,
              "the saved state is of another model than the one that the daemon described before");
}

}  // namespace

Result<StateImage> StateImage::Open(const StateModel& model, std::span<const std::byte> bytes,
                                    StateContent parts) {
  state_file::FileHeader header = {};
  if (bytes.size() < sizeof header) {
    return CorruptState("length", Concat(bytes.size(), " bytes, less than a header"));
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const bool is_whole = parts == StateContent::kAll;
  KVD_CHECK_OK(CheckStateHeader(header, is_whole ? bytes.size() : header.file_bytes));
  KVD_CHECK_OK(CheckSameModel(header, model));
  if (StateHeadBytes(header.section_count) > bytes.size()) {
    return CorruptState("section_count", std::to_string(header.section_count));
  }
  StateImage image(model);
  image.sections_.resize(header.section_count);
  const auto table = std::as_writable_bytes(std::span(image.sections_));
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + sizeof header, table.size());
  KVD_CHECK_OK(CheckStateTable(header, image.sections_));
  KVD_CHECK_OK(image.PlaceSections(bytes, parts));
  KVD_TRY(const std::vector<SavedSequence> saved,
          FindStateSequences(image.sections_,
                             [&](std::size_t number) -> Result<std::span<const std::byte>> {
                               return image.section_bytes_[number];
                             }));
  for (const SavedSequence& sequence : saved) KVD_CHECK_OK(image.AddSequence(sequence));
  return image;
}

// Finds the bytes of each section of the saved state. A compressed section is an error;
// PlaceSections skips sections that `parts` leaves out.
Status StateImage::PlaceSections(std::span<const std::byte> bytes, StateContent parts) {
  std::size_t at = StateHeadBytes(sections_.size());
  for (std::size_t number = 0; number < sections_.size(); ++number) {
    const SectionEntry& entry = sections_[number];
    if (entry.packing != state_file::Packing::kNone) {
      return CorruptState(SectionName(number) + " packing", "was not asked for");
    }
    section_bytes_.emplace_back();
    if (IsLeftOut(entry, parts)) continue;
    if (entry.raw_bytes > bytes.size() - at) {
      return CorruptState(SectionName(number) + " raw_bytes", std::to_string(entry.raw_bytes));
    }
    section_bytes_.back() = bytes.subspan(at, entry.raw_bytes);
    at += entry.raw_bytes;
    if (Crc32c(0, section_bytes_.back()) != entry.crc) {
      return CorruptState(SectionName(number) + " crc", "the bytes are damaged");
    }
  }
  if (at == bytes.size()) return {};
  return CorruptState("length", Concat(bytes.size(), " bytes, the sections end at ", at));
}

Status StateImage::AddSequence(const SavedSequence& saved) {
  const state_file::SequenceHeader& header = saved.header;
  Sequence sequence{.cell_count = header.cell_count,
                    .tokens = {},
                    .positions = {},
                    .has_encoded_text = header.cross_cells != 0,
                    .rows = {},
                    .state = {},
                    .logits = {}};
  if ((header.flags & state_file::kHasLogits) != 0) sequence.logits_floats = header.logits_floats;
  const bool has_state = (header.flags & state_file::kHasState) != 0;
  if (has_state && header.state_floats != model_->state_floats) {
    return CorruptState("state_floats", std::to_string(header.state_floats));
  }
  for (std::uint32_t type : {header.k_type, header.v_type}) {
    if (!model_->planes.empty() &&
        (!kernels::IsDataType(type) || !IsRowType(static_cast<kernels::DataType>(type)))) {
      return CorruptState("type", std::to_string(type));
    }
  }
  const auto k_type = static_cast<kernels::DataType>(header.k_type);
  const auto v_type = static_cast<kernels::DataType>(header.v_type);
  if (!sequences_.empty() && (k_type != k_type_ || v_type != v_type_)) {
    return CorruptState("type", "another one in each sequence");
  }
  k_type_ = k_type;
  v_type_ = v_type;
  sequence.rows.resize(model_->planes.size());
  for (Run& run : sequence.rows) run.begin = header.cell_count;
  for (std::size_t number = saved.first_section + 1; number < saved.end_section; ++number) {
    KVD_CHECK_OK(AddSection(number, header, &sequence));
  }
  // If the sequence has an encoded text, the sequence's planes are not checked, because a
  // StateImage does not read the rows of such a sequence.
  for (std::size_t plane = 0; plane < sequence.rows.size() && !sequence.has_encoded_text; ++plane) {
    const Run& run = sequence.rows[plane];
    const std::uint64_t end = run.sections.empty() ? run.begin : sections_[run.sections.back()].end;
    if (end != header.cell_count) {
      return CorruptState(PlaneText(model_->planes[plane]),
                          Concat(end, " of ", header.cell_count, " cells"));
    }
  }
  if (header.cell_count != 0 && !model_->states.empty() && sequence.state.sections.empty()) {
    return CorruptState("state", "none after the last cell");
  }
  sequences_.push_back(std::move(sequence));
  return {};
}

Status StateImage::AddSection(std::size_t number, const state_file::SequenceHeader& header,
                              Sequence* sequence) {
  const SectionEntry& entry = sections_[number];
  switch (entry.kind) {
    case SectionKind::kTokens: Append(section_bytes_[number], &sequence->tokens); break;
    case SectionKind::kPositions: Append(section_bytes_[number], &sequence->positions); break;
    case SectionKind::kRows: return AddRows(number, sequence);
    case SectionKind::kState:
      if (entry.cells == header.cell_count) sequence->state.sections.push_back(number);
      break;
    case SectionKind::kLogits: sequence->logits.sections.push_back(number); break;
    case SectionKind::kSequence:
    case SectionKind::kCrossTokens:
    case SectionKind::kSampler: break;
  }
  return {};
}

Status StateImage::AddRows(std::size_t number, Sequence* sequence) const {
  const SectionEntry& entry = sections_[number];
  const auto found = std::ranges::find_if(model_->planes, [&](const CachePlane& plane) {
    return plane.layer == entry.layer && static_cast<std::uint8_t>(plane.side) == entry.side;
  });
  if (found == model_->planes.end()) {
    return CorruptState(SectionName(number) + " layer", std::to_string(entry.layer));
  }
  const kernels::DataType type = type_of(*found);
  if (entry.type != static_cast<std::uint32_t>(type)) {
    return CorruptState(SectionName(number) + " type", std::to_string(entry.type));
  }
  KVD_CHECK_OK(CheckRowType(*found, type));
  if ((entry.end - entry.begin) * found->cell_bytes(type) != entry.raw_bytes) {
    return CorruptState(SectionName(number) + " raw_bytes", std::to_string(entry.raw_bytes));
  }
  Run& run = sequence->rows[static_cast<std::size_t>(found - model_->planes.begin())];
  if (run.sections.empty()) run.begin = static_cast<std::uint32_t>(entry.begin);
  run.sections.push_back(number);
  return {};
}

void StateImage::ReadRows(const Sequence& sequence, std::size_t plane, std::uint32_t begin,
                          std::uint32_t end, std::byte* rows) const {
  const Run& run = sequence.rows[plane];
  KVD_ASSERT(run.begin <= begin && begin <= end && end <= sequence.cell_count);
  if (begin == end) return;
  const CachePlane& at = model_->planes[plane];
  const std::size_t row_bytes = at.row_bytes(type_of(at));
  auto next = std::ranges::partition_point(
      run.sections, [&](std::size_t number) { return sections_[number].end <= begin; });
  for (std::uint32_t cell = begin; cell < end; ++next) {
    const SectionEntry& entry = sections_[*next];
    const auto cells = static_cast<std::size_t>(entry.end - entry.begin);
    const auto first = static_cast<std::size_t>(cell - entry.begin);
    const std::size_t count = std::min<std::size_t>(cells - first, end - cell);
    for (std::size_t head = 0; head < at.head_count; ++head) {
      const std::byte* from = section_bytes_[*next].data() + (head * cells + first) * row_bytes;
      std::byte* to = rows + head * row_bytes;
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(to + i * at.head_count * row_bytes, from + i * row_bytes, row_bytes);
      }
    }
    rows += count * at.head_count * row_bytes;
    cell += static_cast<std::uint32_t>(count);
  }
}

void StateImage::ReadFloats(const Run& run, std::size_t first, std::span<float> floats) const {
  auto next = std::ranges::partition_point(
      run.sections, [&](std::size_t number) { return sections_[number].end <= first; });
  for (std::size_t done = 0; done < floats.size(); ++next) {
    KVD_ASSERT(next != run.sections.end());
    const SectionEntry& entry = sections_[*next];
    const std::size_t skipped = first + done - entry.begin;
    const std::size_t count =
        std::min<std::size_t>(entry.end - entry.begin - skipped, floats.size() - done);
    std::memcpy(floats.data() + done, section_bytes_[*next].data() + skipped * sizeof(float),
                count * sizeof(float));
    done += count;
  }
}

}  // namespace kvd
