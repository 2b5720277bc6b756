#include "tests/reference/sequence.h"

namespace kvd::reference {
namespace {

bool IsIn(const Cell& cell, std::int32_t begin, std::int32_t end) {
  return cell.pos >= begin && cell.pos < end;
}

}  // namespace

void Sequence::Remove(std::int32_t begin, std::int32_t end) {
  std::erase_if(cells, [&](const Cell& cell) { return IsIn(cell, begin, end); });
}

void Sequence::AddToPositions(std::int32_t begin, std::int32_t end, std::int32_t delta) {
  for (Cell& cell : cells) {
    if (IsIn(cell, begin, end)) cell.pos += delta;
  }
}

void Sequence::DividePositions(std::int32_t begin, std::int32_t end, std::int32_t divisor) {
  for (Cell& cell : cells) {
    if (IsIn(cell, begin, end)) cell.pos /= divisor;
  }
}

Sequence Sequence::Copy(std::int32_t begin, std::int32_t end) const {
  Sequence copy(*this);
  std::erase_if(copy.cells, [&](const Cell& cell) { return !IsIn(cell, begin, end); });
  return copy;
}

}  // namespace kvd::reference
