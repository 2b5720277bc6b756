// LlamaImport: converts sequences of a llama.cpp state file to a saved state
// (state_layout/state_layout.h). LlamaImport checks the file against the model (layers, widths,
// types) and writes the rows ordered by position, in the file's types. The daemon converts the
// imported rows to the pool's types.
//
// The caller chooses the sequences of a session file that are imported. A sequence for which the
// file lists no tokens is an error. The daemon never lets other prompts reuse imported cells,
// because its own model may not have computed these cells (docs/decisions/0016).
//
// LlamaImport creates the saved state section by section, so the saved state need not be in memory
// as a whole. LlamaImport creates every section twice: first for the checksums in the head, then
// for the section's bytes. A LlamaImport is used by one thread at a time. The file, the index and
// the model outlive the LlamaImport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "llama_files/llama_sequence.h"
#include "state_layout/state_layout.h"
#include "state_layout/state_model.h"

namespace kvd {

struct LlamaImportOptions {
  // Id of the sequence to import from a session file; -1: the file's only sequence; nullopt: all
  // sequences.
  std::optional<std::int32_t> sequence_id = -1;
  // llama.cpp of 2026 multiplies the heads of quantised caches by Hadamard's matrix before it
  // stores them, and the file does not record this multiplication. `is_unrotated` is true if the
  // file was written by a llama.cpp that did not multiply heads: an older build, or a run with
  // LLAMA_ATTN_ROT_DISABLE.
  bool is_unrotated = false;
};

// One sequence of the saved state that an import creates.
struct LlamaImported {
  std::uint32_t cell_count = 0;
  // Number of tokens of the file that have no cell and are left out.
  std::uint32_t tokens_left_out = 0;
  // Number of cells of the file that have no token and are left out.
  std::uint32_t cells_left_out = 0;
  bool is_converted = false;  // true: K or V has another type in the file than in the pool
};

class LlamaImport {
 public:
  // `file`: the bytes that `index` describes. Errors: kInvalidArgument (the file is of another
  // model, and the message names the difference; no sequence has the id; tokens and cells do not
  // match), kUnsupported.
  static Result<std::unique_ptr<LlamaImport>> Open(std::span<const std::byte> file,
                                                   const LlamaSequenceIndex& index,
                                                   const StateModel& model,
                                                   const LlamaImportOptions& options);
  ~LlamaImport();
  LlamaImport(const LlamaImport&) = delete;
  LlamaImport& operator=(const LlamaImport&) = delete;

  // Returns the imported sequences, in the order of the saved state.
  const std::vector<LlamaImported>& sequences() const { return imported_; }
  std::uint64_t bytes() const;  // returns the size of the saved state in bytes
  // Header and section table of the saved state. Head computes the checksums of all sections.
  std::vector<std::byte> Head();
  std::size_t section_count() const { return sections_.size(); }
  // Returns the bytes of one section. In the saved state, the sections follow the head in ascending
  // order of their numbers. The returned span is valid until the next call of Section.
  std::span<const std::byte> Section(std::size_t number);

 private:
  struct Source;  // a sequence of the file and the offsets of its rows

  LlamaImport(std::span<const std::byte> file, const LlamaSequenceIndex& index,
              const StateModel& model, const LlamaImportOptions& options);
  bool HasWindows() const;
  LlamaCacheKinds Kinds() const;
  std::size_t CacheOf(const CachePlane& plane) const;
  // Checks layers, widths and types against the model. Errors: kInvalidArgument, kUnsupported.
  Status CheckPart(const LlamaCells& part) const;
  Status CheckPlane(const CachePlane& plane, const LlamaRows& rows) const;
  Status CheckStates(const LlamaCells& part) const;
  Status Add(std::int32_t id);
  // Returns the side of the matrix by which llama.cpp has multiplied a plane's rows; 0: the rows
  // are not multiplied.
  std::size_t RotationOf(const CachePlane& plane, const LlamaRows& rows) const;
  // Returns the type that rows of keys, or of values, get in the saved state that the import
  // writes: the type in llama.cpp's file, or the pool's type if layers differ in type or if
  // llama.cpp rotated the rows (RotationOf), which the import undoes.
  kernels::DataType TypeOf(const Source& source, CacheSide side) const;
  void AddSequenceSections(std::uint32_t number);
  state_file::SequenceHeader HeaderOf(const Source& source) const;
  void MakeRows(const Source& source, const state_file::SectionEntry& entry);
  void MakeState(const Source& source);

  const std::span<const std::byte> file_;
  const LlamaSequenceIndex& index_;
  const StateModel& model_;
  const LlamaImportOptions options_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<LlamaImported> imported_;
  std::vector<state_file::SectionEntry> sections_;
  std::vector<std::byte> gathered_;
  std::vector<float> floats_;
  std::vector<std::byte> made_;
  std::uint32_t state_of_ = ~0u;  // index of the sequence whose recurrent state is in state_
  std::vector<float> state_;
};

}  // namespace kvd
