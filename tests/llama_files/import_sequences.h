// Exports sequences as files of llama.cpp and imports files into sequences of an engine, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "llama_files/llama_import.h"
#include "llama_files/llama_sequence.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/tiny_model.h"

namespace kvd::llama_import {

inline constexpr LlamaLayout kLayouts[] = {LlamaLayout::kFebruary2025, LlamaLayout::kAugust2026};

inline EngineOptions Options() {
  return {.cells = 4096, .checkpoint_every = 32, .threads = 2, .deterministic = true};
}

// Returns a new sequence of random tokens.
inline SequenceHandle Sequence(Engine& engine, std::size_t tokens, std::uint64_t seed = 3) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  (void)test::Feed(engine, sequence, test::RandomTokens(seed, tokens, engine.config().vocab_size),
                   50);
  return sequence;
}

inline std::vector<std::byte> Exported(Engine& engine, std::vector<SequenceHandle> sequences,
                                       LlamaExportOptions options = {}) {
  auto file = test::ExportLlama(engine, sequences, options);
  if (file) return std::move(*file);
  ADD_FAILURE() << file.error().message;
  return {};
}

// Imports the only sequence of the file.
inline Result<LlamaImported> Import(Engine& engine, const std::vector<std::byte>& bytes,
                                    SequenceHandle destination, LlamaImportOptions options = {}) {
  KVD_TRY(const LlamaStateFile file, ReadLlamaStateFile(bytes));
  KVD_TRY(const LlamaSequenceIndex index, LlamaSequenceIndex::Create(file));
  return test::ImportLlama(engine, bytes, index, destination, options);
}

// Returns a new sequence with the imported cells; a failed import fails the test.
inline SequenceHandle Imported(Engine& engine, const std::vector<std::byte>& bytes,
                               LlamaImportOptions options = {}) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  const auto imported = Import(engine, bytes, sequence, options);
  EXPECT_TRUE(imported) << imported.error().message;
  return sequence;
}

// Returns the error of an import that must fail and must change nothing.
inline std::string Refused(Engine& engine, const std::vector<std::byte>& bytes,
                           LlamaImportOptions options = {}) {
  const SequenceHandle sequence = *engine.memory().sequences().Create({});
  const PoolUsage before = engine.memory().Usage();
  const auto imported = Import(engine, bytes, sequence, options);
  const PoolUsage after = engine.memory().Usage();
  EXPECT_EQ(after.free_blocks, before.free_blocks);
  EXPECT_EQ(after.free_state_slots, before.free_state_slots);
  EXPECT_EQ(engine.memory().sequences().Query(sequence)->cell_count, 0u);
  EXPECT_FALSE(imported);
  return imported ? std::string() : imported.error().message;
}

}  // namespace kvd::llama_import
