// Sequence: the cells, recurrent states and encoded text that a reference model keeps for a
// sequence, and the edits of its cells.
//
// Keys are stored without rotation and are rotated whenever a query is compared with them. An edit
// of positions therefore changes only the position of a cell, not its key.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "tests/reference/linear_algebra.h"

namespace kvd::reference {

// Keys and values of one token. The heads of a layer are concatenated in one vector; the vector is
// empty for a layer without attention.
struct Cell {
  TokenId token = 0;
  std::int32_t pos = 0;
  std::vector<Vector> keys;    // by layer
  std::vector<Vector> values;  // by layer
};

// The state of one recurrent layer.
struct RecurrentState {
  std::vector<Vector> recent;  // the last inputs of its convolution, oldest first
  std::vector<Vector> hidden;  // the state of each channel
};

// The encoded text of a sequence: keys and values, indexed by decoder layer and token.
struct EncodedText {
  std::vector<std::vector<Vector>> keys;
  std::vector<std::vector<Vector>> values;
};

struct Sequence {
  std::vector<Cell> cells;
  std::vector<RecurrentState> states;  // by layer
  EncodedText text;

  // Remove, AddToPositions and DividePositions edit the cells at positions [begin, end).
  void Remove(std::int32_t begin, std::int32_t end);
  void AddToPositions(std::int32_t begin, std::int32_t end, std::int32_t delta);
  void DividePositions(std::int32_t begin, std::int32_t end, std::int32_t divisor);
  // Returns a sequence with the cells at positions [begin, end), all states and the encoded text.
  Sequence Copy(std::int32_t begin, std::int32_t end) const;
};

}  // namespace kvd::reference
