// Makes the form of saved states (state_form/state_layout.h) of sequences of a llama.cpp state
// file: checked against the model (layers, widths, types), rows in the file's type and order of
// cells made those of the form. The daemon converts to the pool's types.
//
// What such a file cannot say is asked for or refused: which of several sequences of a session, and
// the tokens of sequences that it lists none for. Its cells are not counted as computed by this
// model: they are never shared with other prompts (docs/decisions/0016).
//
// The form is made section by section, as often as it is asked for, so that it need not be held:
// once for the sums, which come first in it, and once for the bytes. Threads: one at a time. File,
// index and model outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/llama_state/llama_sequence.h"
#include "shm/error.h"
#include "shm/ids.h"
#include "state_form/state_layout.h"
#include "state_form/state_model.h"

namespace kvd {

struct LlamaImportOptions {
  // Of a session; -1: the only one that it has; absent: all of them.
  std::optional<std::int32_t> sequence_id = -1;
  // llama.cpp of 2026 rotates the heads of quantised caches by Hadamard's matrix before it stores
  // them, and does not say so in the file. True: the file is of a build (or of a run with
  // LLAMA_ATTN_ROT_DISABLE) that does not.
  bool is_unrotated = false;
};

// One sequence that an import makes.
struct LlamaImported {
  std::uint32_t cell_count = 0;
  std::uint32_t tokens_left_out = 0;  // of the file: behind the last cell
  std::uint32_t cells_left_out = 0;   // of the file: behind the last token
  bool is_converted = false;          // K or V had another type than the pool's
};

class LlamaImport {
 public:
  // `file`: the bytes that `index` is of. Errors: kInvalidArgument (the file is of another model,
  // with what differs; no such sequence; tokens and cells that do not fit together), kUnsupported.
  static Result<std::unique_ptr<LlamaImport>> Open(std::span<const std::byte> file,
                                                   const LlamaSequenceIndex& index,
                                                   const StateModel& model,
                                                   const LlamaImportOptions& options);
  ~LlamaImport();
  LlamaImport(const LlamaImport&) = delete;
  LlamaImport& operator=(const LlamaImport&) = delete;

  const std::vector<LlamaImported>& sequences() const { return imported_; }  // in the form's order
  std::uint64_t bytes() const;                                               // of the form
  // Header and table of the form. Computes the sums of all sections.
  std::vector<std::byte> Head();
  std::size_t section_count() const { return sections_.size(); }
  // The bytes of a section, in the order of which they lie behind the head. Valid until the next
  // call.
  std::span<const std::byte> Section(std::size_t number);

 private:
  struct Source;  // a sequence of the file, and where its rows are

  LlamaImport(std::span<const std::byte> file, const LlamaSequenceIndex& index,
              const StateModel& model, const LlamaImportOptions& options);
  bool HasWindows() const;
  LlamaCacheKinds Kinds() const;
  std::size_t CacheOf(const CachePlane& plane) const;
  // Whether layers, widths and types are the model's. Errors: kInvalidArgument, kUnsupported.
  Status CheckPart(const LlamaCells& part) const;
  Status CheckPlane(const CachePlane& plane, const LlamaRows& rows) const;
  Status CheckStates(const LlamaCells& part) const;
  Status Add(std::int32_t id);
  // The matrix's side by which the peer has rotated a plane's rows; 0: it has not.
  std::size_t RotationOf(const CachePlane& plane, const LlamaRows& rows) const;
  // Of the form's rows of one side: the file's, or the pool's where layers differ or rows are
  // turned back.
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
  std::uint32_t state_of_ = ~0u;  // sequence whose state is in state_
  std::vector<float> state_;
};

}  // namespace kvd
