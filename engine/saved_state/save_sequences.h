// Saving: sequences to one state file, or to bytes of the same form.
//
// What is saved is what the exports hold: the sequences go on meanwhile. Any thread, for as long as
// it takes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/saved_state/sequence_export.h"
#include "shm/work_control.h"
#include "state_form/section_plan.h"
#include "state_form/state_layout.h"

namespace kvd {

struct SaveProfile {
  bool with_logits = true;
  bool tokens_only = false;                   // no rows, states and logits: they are computed again
  bool packed = true;                         // LZ4
  std::optional<kernels::DataType> k_type{};  // of the rows; unset: as in the pool
  std::optional<kernels::DataType> v_type{};
  bool with_checkpoints = true;  // else of the states the one behind all cells alone
};

struct SaveItem {
  const SequenceExport* sequence = nullptr;
  std::span<const std::byte> sampler{};  // at most kSamplerBytesMax, given back by loading
};

struct SaveReport {
  std::uint64_t file_bytes = 0;
  std::uint64_t raw_bytes = 0;  // of the sections, not packed
};

// The sections of a file with these sequences. Errors: kUnsupported (a type that the model's heads
// do not allow, a cell larger than a section), kInvalidArgument (none or too many sequences, sampler
// bytes).
Result<std::vector<state_file::SectionEntry>> PlanSections(std::span<const SaveItem> items,
                                                           const SaveProfile& profile);

struct SaveTarget {
  int directory = -1;  // open
  std::string name;
  bool replace = false;
  std::array<std::uint64_t, 2> name_space = {};  // FileHeader::name_space
};

// Writes the planned sections on up to `threads` threads. Errors: kIo,
// kExists, kNumerical (a row does not fit the wanted type), kCancelled; no file is there then that
// was not before.
Result<SaveReport> SaveSequences(const Engine& engine, std::span<const SaveItem> items,
                                 const SaveProfile& profile,
                                 std::vector<state_file::SectionEntry> sections,
                                 const SaveTarget& target, unsigned threads,
                                 WorkControl& work = Uncontrolled());

// One sequence on the calling thread, holding it only while a section is copied out: steps and verbs
// wait for that long at most. REQUIRES: `from` is paused. Errors: also kConflict (Resume).
Result<SaveReport> SaveBriefly(const Engine& engine, SequenceExport& from,
                               const SaveProfile& profile,
                               std::vector<state_file::SectionEntry> sections,
                               const SaveTarget& target, WorkControl& work = Uncontrolled());

// The form of a file in memory. Asks `work` before each section. Errors: kNumerical, kCancelled.
// REQUIRES: to.size() == StateBytes(sections, parts).
Status WriteState(const Engine& engine, std::span<const SaveItem> items, const SaveProfile& profile,
                  std::vector<state_file::SectionEntry> sections, StateParts parts,
                  std::span<std::byte> to, WorkControl& work = Uncontrolled());

}  // namespace kvd
