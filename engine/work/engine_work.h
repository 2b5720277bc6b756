// EngineWork: a long computation outside of steps, such as encoding a text or rewriting cells. An
// EngineWork runs in slices on the engine thread; steps may run between two slices.
//
// Owned by the caller, who may destroy the work between any two slices. Destroying unfinished work
// frees its reservations and leaves all sequences unchanged. The engine must outlive the work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "engine/forward/encoder.h"
#include "engine/memory/memory.h"

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

// RewriteWork: rewrites cells of a sequence (CellRewrite) as work in slices.
class RewriteWork final : public CellWork {
 public:
  // Takes over a rewrite that has begun. The references outlive the RewriteWork.
  RewriteWork(Memory& memory, CellRotator& rotator, CellRewrite rewrite)
      : memory_(memory), rotator_(rotator), rewrite_(std::move(rewrite)) {}

  std::size_t tokens_left() const override { return rewrite_.is_open() ? rewrite_.cells_left : 0; }
  Result<bool> Advance(std::size_t tokens) override {
    const auto cells = static_cast<std::uint32_t>(std::min<std::size_t>(tokens, 1u << 30));
    return memory_.rewrites().Advance(rewrite_, cells, rotator_);
  }
  std::uint32_t cell_count() const override { return rewrite_.cell_count(); }

 private:
  Memory& memory_;
  CellRotator& rotator_;
  CellRewrite rewrite_;
};

}  // namespace kvd
