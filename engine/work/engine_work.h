// EngineWork: a long computation outside of steps, such as encoding a text or rewriting cells. An
// EngineWork runs in slices on the engine thread; steps may run between two slices.
//
// Owned by the caller, who may destroy the work between any two slices. Destroying unfinished work
// frees its reservations and leaves all sequences unchanged. The engine must outlive the work.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "engine/forward/encoder.h"

namespace kvd {

class EngineWork {
 public:
  EngineWork() = default;
  virtual ~EngineWork() = default;
  EngineWork(const EngineWork&) = delete;
  EngineWork& operator=(const EngineWork&) = delete;

  // The remaining work, in tokens (of a text) or cells. The number falls with every slice and is
  // above 0 until the work is done.
  virtual std::size_t tokens_left() const = 0;
  // Runs one slice: about `tokens` tokens or cells, at least a few. Returns whether the work is
  // done. After an error the work has ended and all sequences are unchanged.
  virtual Result<bool> Advance(std::size_t tokens) = 0;
};

// Work that rewrites cells of a sequence.
class CellWork : public EngineWork {
 public:
  virtual std::uint32_t cell_count() const = 0;  // cells rewritten in total
};

class EmbedWork : public EngineWork {
 public:
  virtual Embedding TakeEmbedding() = 0;  // REQUIRES: the work is done
};

}  // namespace kvd
