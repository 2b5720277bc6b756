// Saving: sequences to one state file.
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
#include "engine/saved_state/state_layout.h"
#include "engine/work_control.h"

namespace kvd {

struct SaveProfile {
  bool with_logits = true;
  bool tokens_only = false;  // no rows, states and logits: they are computed again
  bool packed = true;        // LZ4
  std::optional<kernels::DataType> rows_type{};  // unset: as in the pool
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

}  // namespace kvd
