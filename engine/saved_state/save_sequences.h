// Saving: writes sequences to one state file, or to bytes of the same form.
//
// A save writes the content of the given exports, so the sequences can be used during the save. Any
// thread may save; the call blocks until the save has ended.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/work_control.h"
#include "engine/engine.h"
#include "engine/saved_state/sequence_export.h"
#include "state_layout/section_plan.h"
#include "state_layout/state_layout.h"

namespace kvd {

struct SaveProfile {
  bool with_logits = true;
  bool tokens_only = false;  // no rows, states and logits; a load has to compute them again
  bool packed = true;        // compress the sections with LZ4
  std::optional<kernels::DataType> k_type{};  // type of the saved rows; unset: the pool's type
  std::optional<kernels::DataType> v_type{};
  bool with_checkpoints = true;  // false: only the state after all cells is saved
};

struct SaveItem {
  const SequenceExport* sequence = nullptr;
  // Sampler state, at most kSamplerBytesMax bytes; a load returns it.
  std::span<const std::byte> sampler{};
};

struct SaveReport {
  std::uint64_t file_bytes = 0;
  std::uint64_t raw_bytes = 0;  // bytes of the sections, unpacked
};

// Plans the sections of a file with the sequences of `items`. Errors: kUnsupported (a type that
// does not fit the head size, a cell larger than a section), kInvalidArgument (no sequence, too
// many sequences, too many sampler bytes).
Result<std::vector<state_file::SectionEntry>> PlanSections(std::span<const SaveItem> items,
                                                           const SaveProfile& profile);

struct SaveTarget {
  int directory = -1;  // open descriptor of the directory
  std::string name;
  bool replace = false;
  std::array<std::uint64_t, 2> name_space = {};  // FileHeader::name_space
};

// Writes the planned sections with up to `threads` threads. Errors: kIo, kNoSpace, kExists,
// kNumerical (a row does not fit the requested type), kCancelled. On error no new file is left.
Result<SaveReport> SaveSequences(const Engine& engine, std::span<const SaveItem> items,
                                 const SaveProfile& profile,
                                 std::vector<state_file::SectionEntry> sections,
                                 const SaveTarget& target, unsigned threads,
                                 WorkControl& work = Uncontrolled());

// Saves one sequence on the calling thread and holds the sequence only while a section is copied.
// Steps and verbs are delayed by at most the copy of one section. REQUIRES: `from` is paused.
// Errors: as SaveSequences; kConflict (the sequence has changed, see SequenceExport::Resume).
Result<SaveReport> SaveBriefly(const Engine& engine, SequenceExport& from,
                               const SaveProfile& profile,
                               std::vector<state_file::SectionEntry> sections,
                               const SaveTarget& target, WorkControl& work = Uncontrolled());

// Writes the content that a state file would have to memory, unpacked. Calls work.Continue() before
// each section. Errors: kNumerical, kCancelled. REQUIRES: to.size() == StateBytes(sections, parts).
Status WriteState(const Engine& engine, std::span<const SaveItem> items, const SaveProfile& profile,
                  std::vector<state_file::SectionEntry> sections, StateContent parts,
                  std::span<std::byte> to, WorkControl& work = Uncontrolled());

}  // namespace kvd
