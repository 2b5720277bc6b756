// Rewrites a sequence file of llama.cpp's layout of February 2025 in the layout of August 2026:
// with streams, cells in any order, a separate cache for layers with a sliding window, and rotated
// quantised heads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "llama_files/llama_state_file.h"

namespace kvd::test {

struct LlamaRewrite {
  bool has_states = false;  // the last cache holds recurrent states
  // For each attention layer, whether it has a sliding window. Empty: no layer has a sliding
  // window.
  std::vector<bool> windowed{};
  std::uint32_t window_cells = 0;
  bool shuffles = false;
  bool has_coordinates = false;
  std::uint32_t streams = 1;
  std::uint32_t sequence_id = 5;  // written to each cell of a cache with streams
  // If set, the function is applied to every row of K and V before the row is written.
  std::function<void(bool is_key, const LlamaRows&, std::byte* row)> change{};
};

class LlamaRewriter {
 public:
  LlamaRewriter(std::span<const std::byte> bytes, const LlamaStateFile& file,
                const LlamaRewrite& options)
      : bytes_(bytes), file_(file), options_(options) {}

  std::vector<std::byte> Run() {
    U32(kLlamaSequenceMagic);
    U32(kLlamaSequenceVersion);
    U32(file_.tokens.size());
    for (TokenId token : file_.tokens) U32(static_cast<std::uint32_t>(token));
    for (const LlamaCells& part : file_.parts) {
      if (options_.has_states && &part == &file_.parts.back()) {
        Cache(part, false, AllOf(part, false), 0);
        continue;
      }
      if (options_.windowed.empty()) {
        Cache(part, true, AllOf(part, false), 0);
      } else {
        Cache(part, true, AllOf(part, false), 0);
        Cache(part, true, AllOf(part, true), part.cells.size() - options_.window_cells);
      }
    }
    return out_;
  }

 private:
  void U32(std::uint64_t number) {
    const auto narrow = static_cast<std::uint32_t>(number);
    Raw(&narrow, sizeof narrow);
  }
  void Raw(const void* data, std::size_t count) {
    const auto* begin = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), begin, begin + count);
  }
  std::vector<std::size_t> AllOf(const LlamaCells& part, bool windowed) const {
    std::vector<std::size_t> layers;
    for (std::size_t layer = 0; layer < part.k.size(); ++layer) {
      const bool is_state = options_.has_states && &part == &file_.parts.back();
      if (options_.windowed.empty() || is_state || options_.windowed[layer] == windowed) {
        layers.push_back(layer);
      }
    }
    return layers;
  }

  void Cache(const LlamaCells& part, bool has_streams, const std::vector<std::size_t>& layers,
             std::size_t first_cell) {
    std::vector<std::size_t> cells;
    for (std::size_t cell = first_cell; cell < part.cells.size(); ++cell) cells.push_back(cell);
    std::mt19937_64 random(3);
    if (options_.shuffles) std::ranges::shuffle(cells, random);
    if (has_streams) {
      U32(options_.streams);
      for (std::uint32_t stream = 1; stream < options_.streams; ++stream) U32(0);
    }
    U32(cells.size());
    for (std::size_t cell : cells) {
      U32(static_cast<std::uint32_t>(part.cells[cell].pos));
      U32(has_streams ? 1 : 0);
      if (has_streams && options_.has_coordinates) {
        U32(static_cast<std::uint32_t>(part.cells[cell].pos));
        U32(static_cast<std::uint32_t>(part.cells[cell].pos));
      }
      if (has_streams) U32(options_.sequence_id);
    }
    U32(has_streams && part.v[0].is_transposed);
    U32(has_streams ? layers.size() : part.declared_layers);
    for (std::size_t layer : layers) Rows(true, part, part.k[layer], cells);
    for (std::size_t layer : layers) Rows(false, part, part.v[layer], cells);
  }

  void Rows(bool is_key, const LlamaCells& part, const LlamaRows& rows,
            const std::vector<std::size_t>& cells) {
    U32(static_cast<std::uint32_t>(rows.type));
    const std::size_t element_bytes = kernels::BytesPerBlock(rows.type);
    if (rows.is_transposed) {
      U32(element_bytes);
      U32(rows.elements);
      for (std::size_t element = 0; element < rows.elements; ++element) {
        for (std::size_t cell : cells) {
          Raw(bytes_.data() + rows.offset + (element * part.cells.size() + cell) * element_bytes,
              element_bytes);
        }
      }
      return;
    }
    Raw(&rows.row_bytes, sizeof rows.row_bytes);
    std::vector<std::byte> row(rows.row_bytes);
    for (std::size_t cell : cells) {
      if (row.empty()) continue;
      std::memcpy(row.data(), bytes_.data() + rows.offset + cell * rows.row_bytes, row.size());
      if (options_.change) options_.change(is_key, rows, row.data());
      Raw(row.data(), row.size());
    }
  }

  const std::span<const std::byte> bytes_;
  const LlamaStateFile& file_;
  const LlamaRewrite& options_;
  std::vector<std::byte> out_;
};

}  // namespace kvd::test
