// EngineWork: what an engine computes beside its steps and takes long: a text through the encoder,
// cells that are rewritten. Done in slices on the engine thread; steps may run between two of them.
//
// Owned by the caller, who may destroy it at any time between two slices: then nothing has changed,
// and what was reserved for it is free. The engine outlives it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/encoder.h"
#include "shm/error.h"

namespace kvd {

class EngineWork {
 public:
  EngineWork() = default;
  virtual ~EngineWork() = default;
  EngineWork(const EngineWork&) = delete;
  EngineWork& operator=(const EngineWork&) = delete;

  // What is left, in tokens (of a text) or cells; above 0 until it is done. Falls with every slice.
  virtual std::size_t tokens_left() const = 0;
  // Does about that many of them, at least a little. Returns whether it is done. After an error it is
  // over and nothing has changed.
  virtual Result<bool> Advance(std::size_t tokens) = 0;
};

// Rewrites cells of a sequence.
class CellWork : public EngineWork {
 public:
  virtual std::uint32_t cell_count() const = 0;  // that are rewritten in all
};

class EmbedWork : public EngineWork {
 public:
  virtual Embedding TakeEmbedding() = 0;  // REQUIRES: it is done
};

}  // namespace kvd
