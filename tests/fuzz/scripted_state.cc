#include "tests/fuzz/scripted_state.h"

#include <cstdint>
#include <string_view>

#include "base/crc32c.h"
#include "kernels/data_type.h"
#include "llama_files/state_image.h"
#include "state_layout/section_plan.h"
#include "state_layout/state_layout.h"
#include "tests/fuzz/scripted_vocabulary.h"

namespace kvd::test {
namespace {

using state_file::SectionEntry;
using state_file::SectionKind;

constexpr std::uint32_t kDim = 4;
constexpr kernels::DataType kType = kernels::DataType::kF16;

template <class T>
void Append(std::span<const T> values, std::vector<std::byte>& bytes) {
  const auto added = std::as_bytes(values);
  bytes.insert(bytes.end(), added.begin(), added.end());
}

}  // namespace

const StateModel& ScriptedStateModel() {
  static const StateModel model{
      .fingerprint = {1, 2, 3, 4},
      .architecture = "llama",
      .layer_count = 1,
      .vocab_size = kScriptedVocabulary,
      .planes = {
          {.layer = 0, .side = CacheSide::kKeys, .head_count = 1, .dim = kDim, .type = kType},
          {.layer = 0, .side = CacheSide::kValues, .head_count = 1, .dim = kDim, .type = kType}}};
  return model;
}

std::vector<std::byte> ScriptedState(std::span<const wire::TokenAndPosition> cells) {
  const StateModel& model = ScriptedStateModel();
  const auto count = static_cast<std::uint32_t>(cells.size());
  const state_file::SequenceHeader sequence{.flags = state_file::kHasRows,
                                            .cell_count = count,
                                            .pristine_cells = count,
                                            .k_type = static_cast<std::uint32_t>(kType),
                                            .v_type = static_cast<std::uint32_t>(kType)};
  std::vector<std::int32_t> tokens, positions;
  for (const wire::TokenAndPosition& cell : cells) {
    tokens.push_back(cell.token);
    positions.push_back(cell.pos);
  }
  std::vector<SectionEntry> sections;
  std::vector<std::byte> contents;
  SectionEntry head = SectionOf(SectionKind::kSequence, 0, 0);
  head.raw_bytes = sizeof sequence;
  sections.push_back(head);
  Append(std::span(&sequence, 1), contents);
  AddSections(SectionOf(SectionKind::kTokens, 0, 0), 0, count, sizeof(TokenId), &sections);
  Append(std::span<const std::int32_t>(tokens), contents);
  AddSections(SectionOf(SectionKind::kPositions, 0, 0), 0, count, sizeof(TokenId), &sections);
  Append(std::span<const std::int32_t>(positions), contents);
  for (const CachePlane& plane : model.planes) {
    SectionEntry rows = SectionOf(SectionKind::kRows, 0, 0);
    rows.side = static_cast<std::uint8_t>(plane.side);
    rows.type = static_cast<std::uint32_t>(kType);
    AddSections(rows, 0, count, plane.cell_bytes(kType), &sections);
    contents.resize(contents.size() + count * plane.cell_bytes(kType));
  }
  PlaceUnpacked(sections);
  std::size_t at = 0;
  for (SectionEntry& section : sections) {
    section.crc = Crc32c(0, std::span(contents).subspan(at, section.raw_bytes));
    at += section.raw_bytes;
  }
  state_file::FileHeader header{};
  header.file_bytes = UnpackedFileBytes(sections);
  header.sequence_count = 1;
  std::ranges::copy(model.fingerprint, header.fingerprint);
  model.architecture.copy(header.architecture, sizeof header.architecture - 1);
  CompleteStateHeader(sections, &header);
  std::vector<std::byte> state;
  Append(std::span<const state_file::FileHeader>(&header, 1), state);
  Append(std::span<const SectionEntry>(sections), state);
  Append(std::span<const std::byte>(contents), state);
  return state;
}

Result<std::vector<std::vector<wire::TokenAndPosition>>> ReadScriptedState(
    std::span<const std::byte> state) {
  KVD_TRY(const StateImage image,
          StateImage::Open(ScriptedStateModel(), state, StateContent::kAll));
  std::vector<std::vector<wire::TokenAndPosition>> sequences;
  for (const StateImage::Sequence& sequence : image.sequences()) {
    auto& cells = sequences.emplace_back();
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      cells.push_back({sequence.tokens[i], sequence.positions[i].value});
    }
  }
  return sequences;
}

}  // namespace kvd::test
