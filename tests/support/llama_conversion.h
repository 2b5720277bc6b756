// Converts state files of llama.cpp to and from sequences of an engine. The conversion uses the
// format of saved states: the client code (llama_files) converts between it and llama.cpp's
// format, and the engine writes and loads it. The two sides exchange bytes, as client and daemon
// do.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/saved_state/describe_model.h"
#include "engine/saved_state/load_sequence.h"
#include "engine/saved_state/save_sequences.h"
#include "llama_files/llama_export.h"
#include "llama_files/llama_import.h"
#include "llama_files/state_image.h"

namespace kvd::test {

inline StateModel SentModel(const Engine& engine) {
  const auto model = ParseStateModel(EncodeStateModel(DescribeModel(engine)));
  KVD_ASSERT(model.has_value());
  return *model;
}

inline Result<std::vector<std::byte>> SentState(Engine& engine,
                                                std::span<const SequenceHandle> handles,
                                                const SaveProfile& profile, StateContent parts) {
  std::vector<SequenceExport> exports;
  for (const SequenceHandle handle : handles) {
    KVD_TRY(SequenceExport opened, SequenceExport::Open(engine, handle));
    exports.push_back(std::move(opened));
  }
  std::vector<SaveItem> items;
  for (const SequenceExport& opened : exports) items.push_back({.sequence = &opened});
  KVD_TRY(auto sections, PlanSections(items, profile));
  std::vector<std::byte> bytes(StateBytes(sections, parts));
  KVD_CHECK_OK(WriteState(engine, items, profile, std::move(sections), parts, bytes));
  return bytes;
}

inline Result<std::vector<std::byte>> ExportLlama(Engine& engine,
                                                  std::span<const SequenceHandle> handles,
                                                  const LlamaExportOptions& options) {
  const StateModel model = SentModel(engine);
  KVD_CHECK_OK(CheckLlamaExport(model, options));
  const LlamaRowTypes types = RowTypesFor(model, options);
  const SaveProfile profile{
      .packed = false, .k_type = types.k, .v_type = types.v, .with_checkpoints = false};
  KVD_TRY(const auto outline, SentState(engine, handles, profile, StateContent::kOutline));
  KVD_TRY(const StateImage sketch, StateImage::Open(model, outline, StateContent::kOutline));
  KVD_TRY(const auto told, LlamaExport::Open(model, sketch, options));
  KVD_TRY(const auto state, SentState(engine, handles, profile, StateContent::kAll));
  KVD_TRY(const StateImage image, StateImage::Open(model, state, StateContent::kAll));
  KVD_TRY(const auto opened, LlamaExport::Open(model, image, options));
  KVD_ASSERT(told->bytes() == opened->bytes());
  std::vector<std::byte> file(opened->bytes());
  LlamaMemorySink sink(file);
  KVD_CHECK_OK(opened->Write(sink));
  return file;
}

inline std::vector<std::byte> StateOf(LlamaImport& import) {
  std::vector<std::byte> state = import.Head();
  for (std::size_t number = 0; number < import.section_count(); ++number) {
    const auto section = import.Section(number);
    state.insert(state.end(), section.begin(), section.end());
  }
  KVD_ASSERT(state.size() == import.bytes());
  return state;
}

// Imports the file's only sequence into `destination`. REQUIRES: `destination` is empty.
inline Result<LlamaImported> ImportLlama(Engine& engine, std::span<const std::byte> file,
                                         const LlamaSequenceIndex& index,
                                         SequenceHandle destination,
                                         const LlamaImportOptions& options) {
  const StateModel model = SentModel(engine);
  KVD_TRY(const auto import, LlamaImport::Open(file, index, model, options));
  KVD_ASSERT(import->sequences().size() == 1);
  const std::vector<std::byte> state = StateOf(*import);
  KVD_TRY(const StateFileReader reader, StateFileReader::FromBytes(state));
  KVD_TRY(const LoadReport report, LoadSequence(engine, reader, 0, destination, 1, Uncontrolled(),
                                                {.origin = StateOrigin::kClient}));
  KVD_ASSERT(report.cell_count == import->sequences().front().cell_count);
  return import->sequences().front();
}

}  // namespace kvd::test
