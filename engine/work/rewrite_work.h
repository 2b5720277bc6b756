// RewriteWork: rewrites cells of a sequence (CellRewrite) as work in slices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/memory/memory.h"
#include "engine/work/engine_work.h"

namespace kvd {

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
