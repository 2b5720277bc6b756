// To create a section of rows, the import copies the rows of the section's cells from the file in
// the order of the sequence, rotates them back if llama.cpp has rotated them, and stores them head
// by head.
#include "llama_files/llama_import.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "llama_files/llama_rows.h"
#include "llama_files/llama_state_file.h"
#include "state_layout/section_plan.h"

namespace kvd {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;

}  // namespace

struct LlamaImport::Source {
  struct Binding {
    const LlamaSequence::Cache* cache = nullptr;
    const LlamaRows* rows = nullptr;
  };
  LlamaSequence sequence;
  std::vector<Binding> bindings;  // the file's rows of each plane, indexed by plane
  kernels::DataType k_type = kernels::DataType::kF16;
  kernels::DataType v_type = kernels::DataType::kF16;

  std::uint32_t cell_count() const { return static_cast<std::uint32_t>(sequence.tokens.size()); }
  kernels::DataType type_of(const CachePlane& plane) const {
    return plane.side == CacheSide::kKeys ? k_type : v_type;
  }
};

LlamaImport::LlamaImport(std::span<const std::byte> file, const LlamaSequenceIndex& index,
                         const StateModel& model, const LlamaImportOptions& options)
    : file_(file), index_(index), model_(model), options_(options) {}

LlamaImport::~LlamaImport() = default;

Result<std::unique_ptr<LlamaImport>> LlamaImport::Open(std::span<const std::byte> bytes,
                                                       const LlamaSequenceIndex& index,
                                                       const StateModel& model,
                                                       const LlamaImportOptions& options) {
  const LlamaStateFile& file = index.file();
  if (file.kind == LlamaFileKind::kSession && file.architecture != model.architecture) {
    return InvalidLlamaState("architecture " + file.architecture + ", the model is " +
                             model.architecture);
  }
  if (model.has_encoder) {
    return Fail(Code::kUnsupported, "llama.cpp state: its files hold no encoded text");
  }
  std::unique_ptr<LlamaImport> import(new LlamaImport(bytes, index, model, options));
  KVD_CHECK_OK(CheckLlamaCaches(file, import->Kinds()));
  for (const LlamaCells& part : file.parts) KVD_CHECK_OK(import->CheckPart(part));
  if (options.sequence_id) {
    KVD_CHECK_OK(import->Add(*options.sequence_id));
  } else {
    if (index.ids().empty()) return InvalidLlamaState("no cells");
    for (const std::int32_t id : index.ids()) KVD_CHECK_OK(import->Add(id));
  }
  for (std::uint32_t number = 0; number < import->sources_.size(); ++number) {
    import->AddSequenceSections(number);
  }
  if (import->sections_.size() > state_file::kSectionsMax) {
    return Fail(Code::kUnsupported, "sections: ", import->sections_.size(), ", limit ",
                state_file::kSectionsMax);
  }
  PlaceUnpacked(import->sections_);
  return import;
}

LlamaCacheKinds LlamaImport::Kinds() const {
  return {.has_attention = !model_.planes.empty(),
          .has_states = !model_.states.empty(),
          .has_windows = HasWindows()};
}

bool LlamaImport::HasWindows() const {
  return std::ranges::any_of(model_.planes,
                             [](const CachePlane& plane) { return plane.window != 0; });
}

// Returns the index of the cache that has the plane's layer. The attention layers are in one cache,
// or the layers with a window are in a second cache. Each cache of a file lists its layers in the
// model's order.
std::size_t LlamaImport::CacheOf(const CachePlane& plane) const {
  const std::size_t caches = index_.file().cache_count - (model_.states.empty() ? 0u : 1u);
  return caches > 1 && plane.window != 0 ? 1 : 0;
}

Status LlamaImport::CheckPart(const LlamaCells& part) const {
  if (!model_.states.empty() && part.cache + 1 == index_.file().cache_count) {
    return CheckStates(part);
  }
  std::size_t layers = 0, values = 0;
  for (const CachePlane& plane : model_.planes) {
    if (CacheOf(plane) != part.cache) continue;
    const bool is_key = plane.side == CacheSide::kKeys;
    const std::vector<LlamaRows>& rows = is_key ? part.k : part.v;
    const std::size_t layer = is_key ? layers++ : values++;
    if (layer < rows.size()) KVD_CHECK_OK(CheckPlane(plane, rows[layer]));
  }
  if (part.k.size() == layers && part.v.size() == values) return {};
  if (part.k.size() == layers) {
    return InvalidLlamaState(Concat(part.v.size(), " layers of values in cache ", part.cache,
                                    ", the model has ", values));
  }
  return InvalidLlamaState(Concat(part.k.size(), " layers of attention in cache ", part.cache,
                                  ", the model has ", layers));
}

Status LlamaImport::CheckPlane(const CachePlane& plane, const LlamaRows& rows) const {
  const std::uint64_t elements = std::uint64_t{plane.head_count} * plane.dim;
  if (rows.elements != elements) {
    return InvalidLlamaState(Concat(PlaneText(plane), ": rows of ", rows.elements,
                                    " elements, the model has ", elements));
  }
  KVD_CHECK_OK(CheckRowType(plane, rows.type));
  KVD_CHECK_OK(CheckQuantizedRows(model_, rows.type));
  const std::size_t cell_bytes_max = plane.cell_bytes(kernels::DataType::kF32);
  if (cell_bytes_max <= state_file::kSectionBytesMax) return {};
  return Fail(Code::kUnsupported, PlaneText(plane), ": ", cell_bytes_max,
              " bytes of one cell, a section holds ", state_file::kSectionBytesMax);
}

Status LlamaImport::CheckStates(const LlamaCells& part) const {
  if (part.k.size() != model_.states.size()) {
    return InvalidLlamaState(
        Concat(part.k.size(), " layers of recurrent state, the model has ", model_.states.size()));
  }
  for (std::size_t at = 0; at < model_.states.size(); ++at) {
    const LlamaRows& r = part.k[at];
    const LlamaRows& s = part.v[at];
    const StateShape& shape = model_.states[at];
    if (r.elements != shape.convolution_floats() || s.elements != shape.scan_floats) {
      return InvalidLlamaState(Concat("recurrent state of layer ", shape.layer, ": rows of ",
                                      r.elements, " and ", s.elements, " elements, the model has ",
                                      shape.convolution_floats(), " and ", shape.scan_floats));
    }
    if (r.type != kernels::DataType::kF32 || s.type != kernels::DataType::kF32 || s.is_transposed) {
      return Fail(Code::kUnsupported, "llama.cpp state: recurrent state of layer ", shape.layer,
                  ": only f32 rows are supported");
    }
  }
  return {};
}

// Adds sequence `id` of the file to sources_, and finds the sequence's rows of every plane in the
// file.
Status LlamaImport::Add(std::int32_t id) {
  auto source = std::make_unique<Source>();
  KVD_TRY(source->sequence, SelectLlamaSequence(index_, id, Kinds()));
  const LlamaSequence& sequence = source->sequence;
  for (std::size_t at = 0; at < sequence.tokens.size(); ++at) {
    if (sequence.tokens[at] >= 0 && std::cmp_less(sequence.tokens[at], model_.vocab_size)) continue;
    return InvalidLlamaState(Concat("token ", at, ": id ", sequence.tokens[at],
                                    ", the vocabulary has ", model_.vocab_size));
  }
  LlamaImported imported{.cell_count = source->cell_count(),
                         .tokens_left_out = sequence.tokens_left_out,
                         .cells_left_out = sequence.cells_left_out};
  struct Layer {
    std::size_t k = 0, v = 0;
  };
  std::vector<Layer> next(sequence.caches.size());
  for (const CachePlane& plane : model_.planes) {
    const std::size_t cache = CacheOf(plane);
    const LlamaCells& part = *sequence.caches[cache].part;
    const bool is_key = plane.side == CacheSide::kKeys;
    const LlamaRows& rows = is_key ? part.k[next[cache].k++] : part.v[next[cache].v++];
    source->bindings.push_back({.cache = &sequence.caches[cache], .rows = &rows});
    imported.is_converted |= rows.type != plane.type;
  }
  source->k_type = TypeOf(*source, CacheSide::kKeys);
  source->v_type = TypeOf(*source, CacheSide::kValues);
  sources_.push_back(std::move(source));
  imported_.push_back(imported);
  return {};
}

std::size_t LlamaImport::RotationOf(const CachePlane& plane, const LlamaRows& rows) const {
  const bool may_be = index_.file().layout == LlamaLayout::kAugust2026 && !options_.is_unrotated;
  return may_be ? LlamaRotationOf(plane, rows.type) : 0;
}

kernels::DataType LlamaImport::TypeOf(const Source& source, CacheSide side) const {
  std::optional<kernels::DataType> type;
  for (std::size_t at = 0; at < model_.planes.size(); ++at) {
    const CachePlane& plane = model_.planes[at];
    const LlamaRows& rows = *source.bindings[at].rows;
    if (plane.side != side) continue;
    if (RotationOf(plane, rows) != 0 || type.value_or(rows.type) != rows.type) return plane.type;
    type = rows.type;
  }
  return type.value_or(kernels::DataType::kF16);
}

void LlamaImport::AddSequenceSections(std::uint32_t number) {
  const Source& source = *sources_[number];
  const std::uint32_t cells = source.cell_count();
  SectionEntry header = SectionOf(SectionKind::kSequence, number, 0);
  header.raw_bytes = sizeof(state_file::SequenceHeader);
  sections_.push_back(header);
  AddSections(SectionOf(SectionKind::kTokens, number, 0), 0, cells, sizeof(TokenId), &sections_);
  AddSections(SectionOf(SectionKind::kPositions, number, 0), 0, cells, sizeof(Pos), &sections_);
  for (std::size_t at = 0; at < model_.planes.size(); ++at) {
    const CachePlane& plane = model_.planes[at];
    const kernels::DataType type = source.type_of(plane);
    SectionEntry part = SectionOf(SectionKind::kRows, number, 0);
    part.layer = plane.layer;
    part.side = static_cast<std::uint8_t>(plane.side);
    part.type = static_cast<std::uint32_t>(type);
    AddSections(part, source.bindings[at].cache->first_cell, cells, plane.cell_bytes(type),
                &sections_);
  }
  if (source.sequence.states == nullptr) return;
  SectionEntry part = SectionOf(SectionKind::kState, number, 0);
  part.cells = cells;
  AddSections(part, 0, model_.state_floats, sizeof(float), &sections_);
}

// Returns the header of a sequence of the saved state. The recurrent state after the last cell is
// also stored as a checkpoint.
state_file::SequenceHeader LlamaImport::HeaderOf(const Source& source) const {
  state_file::SequenceHeader header = {};
  header.flags = state_file::kHasRows;
  header.cell_count = source.cell_count();
  if (!model_.planes.empty()) {
    header.k_type = static_cast<std::uint32_t>(source.k_type);
    header.v_type = static_cast<std::uint32_t>(source.v_type);
  }
  if (source.sequence.states != nullptr) {
    header.flags |= state_file::kHasState;
    header.state_floats = model_.state_floats;
    header.checkpoint_count = 1;
  }
  return header;
}

std::uint64_t LlamaImport::bytes() const { return UnpackedFileBytes(sections_); }

std::vector<std::byte> LlamaImport::Head() {
  for (std::size_t number = 0; number < sections_.size(); ++number) {
    sections_[number].crc = Crc32c(0, Section(number));
  }
  state_file::FileHeader header = {};
  header.file_bytes = bytes();
  header.sequence_count = static_cast<std::uint32_t>(sources_.size());
  header.saved_unix_ms = NowUnixMs();
  std::ranges::copy(model_.fingerprint, header.fingerprint);
  model_.architecture.copy(header.architecture, sizeof header.architecture - 1);
  header.numeric_form = model_.numeric_form;
  CompleteStateHeader(sections_, &header);
  const auto table = std::as_bytes(std::span(sections_));
  std::vector<std::byte> head(sizeof header + table.size());
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, table.data(), table.size());
  return head;
}

std::span<const std::byte> LlamaImport::Section(std::size_t number) {
  const SectionEntry& entry = sections_[number];
  const Source& source = *sources_[entry.sequence];
  const auto part = [&](auto values) -> std::span<const std::byte> {
    return std::as_bytes(std::span(values).subspan(entry.begin, entry.end - entry.begin));
  };
  switch (entry.kind) {
    case SectionKind::kTokens: return part(std::span(source.sequence.tokens));
    case SectionKind::kPositions: return part(std::span(source.sequence.positions));
    case SectionKind::kRows: MakeRows(source, entry); break;
    case SectionKind::kState:
      if (std::exchange(state_of_, entry.sequence) != entry.sequence) MakeState(source);
      return part(std::span(std::as_const(state_)));
    default: {
      const state_file::SequenceHeader header = HeaderOf(source);
      made_.resize(sizeof header);
      std::memcpy(made_.data(), &header, sizeof header);
    }
  }
  return made_;
}

namespace {

// Copies the rows of `count` cells of a cache, starting with the sequence's cell number `first` in
// that cache. Layout: [cell][elements].
void Gather(std::span<const std::byte> file, const LlamaRows& rows,
            const LlamaSequence::Cache& cache, std::size_t first, std::size_t count,
            std::byte* to) {
  const std::byte* from = file.data() + rows.offset;
  if (!rows.is_transposed) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * rows.row_bytes, from + cache.indices[first + i] * rows.row_bytes,
                  rows.row_bytes);
    }
    return;
  }
  const std::size_t element_bytes = kernels::BytesPerBlock(rows.type);
  const std::size_t line_bytes = cache.part->cells.size() * element_bytes;
  for (std::size_t element = 0; element < rows.elements; ++element) {
    const std::byte* line = from + element * line_bytes;
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(to + i * rows.row_bytes + element * element_bytes,
                  line + cache.indices[first + i] * element_bytes, element_bytes);
    }
  }
}

}  // namespace

void LlamaImport::MakeRows(const Source& source, const SectionEntry& entry) {
  const auto found = std::ranges::find_if(model_.planes, [&](const CachePlane& plane) {
    return plane.layer == entry.layer && static_cast<std::uint8_t>(plane.side) == entry.side;
  });
  const CachePlane& plane = *found;
  const Source::Binding& binding =
      source.bindings[static_cast<std::size_t>(found - model_.planes.begin())];
  const LlamaRows& rows = *binding.rows;
  const auto count = static_cast<std::size_t>(entry.end - entry.begin);
  gathered_.resize(count * rows.row_bytes);
  Gather(file_, rows, *binding.cache, entry.begin - binding.cache->first_cell, count,
         gathered_.data());
  const kernels::DataType type = source.type_of(plane);
  const std::byte* from = gathered_.data();
  const std::size_t side = RotationOf(plane, rows);
  if (side != 0 || type != rows.type) {
    floats_.resize(count * rows.elements);
    DecodeRows(rows.type, gathered_.data(), floats_.data(), floats_.size());
    if (side != 0) RotateHeads(floats_.data(), floats_.size(), side);
    gathered_.resize(entry.raw_bytes);
    // The import writes numbers that are not finite unchanged; the daemon rejects such numbers when
    // it loads the state.
    (void)EncodeRows(type, floats_.data(), gathered_.data(), floats_.size());
    from = gathered_.data();
  }
  const std::size_t row_bytes = plane.row_bytes(type);
  made_.resize(entry.raw_bytes);
  for (std::size_t head = 0; head < plane.head_count; ++head) {
    for (std::size_t cell = 0; cell < count; ++cell) {
      std::memcpy(made_.data() + (head * count + cell) * row_bytes,
                  from + (cell * plane.head_count + head) * row_bytes, row_bytes);
    }
  }
}

void LlamaImport::MakeState(const Source& source) {
  state_.assign(model_.state_floats, 0.0f);
  const LlamaSequence& sequence = source.sequence;
  for (std::size_t at = 0; at < model_.states.size(); ++at) {
    const StateShape& shape = model_.states[at];
    std::vector<float> r(shape.convolution_floats()), s(shape.scan_floats);
    const auto read = [&](const LlamaRows& rows, std::vector<float>& to) {
      if (to.empty()) return;
      std::memcpy(to.data(), file_.data() + rows.offset + sequence.state_index * rows.row_bytes,
                  rows.row_bytes);
    };
    read(sequence.states->k[at], r);
    read(sequence.states->v[at], s);
    StateFromLlama(shape, r, s, std::span(state_).subspan(shape.offset, shape.floats()));
  }
}

}  // namespace kvd
