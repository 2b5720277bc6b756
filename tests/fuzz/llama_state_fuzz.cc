// Reads any bytes as a state file of llama.cpp, and reads the first and the last byte of all rows
// that the resulting description names.
//
// Seeds: make_corpus llama_state FOLDER.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "llama_files/llama_state_file.h"

namespace {

unsigned Touch(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return 0;
  KVD_ASSERT(offset < file.size() && bytes <= file.size() - offset);
  return std::to_integer<unsigned>(file[offset]) +
         std::to_integer<unsigned>(file[offset + bytes - 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto file = std::as_bytes(std::span(data, bytes));
  const auto read = kvd::ReadLlamaStateFile(file);
  if (!read) {
    KVD_ASSERT(!read.error().message.empty());
    return 0;
  }
  unsigned sum = Touch(file, read->logits.offset, read->logits.count * sizeof(float));
  sum += Touch(file, read->embeddings.offset, read->embeddings.count * sizeof(float));
  for (const kvd::LlamaCells& part : read->parts) {
    // Cells of latent attention have no values.
    KVD_ASSERT(part.cache < read->cache_count);
    KVD_ASSERT(part.v.empty() || part.v.size() == part.k.size());
    for (const kvd::LlamaCell& cell : part.cells) {
      KVD_ASSERT(cell.pos >= 0 && cell.first_id + cell.id_count <= part.sequence_ids.size());
    }
    for (const auto& side : {part.k, part.v}) {
      for (const kvd::LlamaRows& rows : side) {
        sum += Touch(file, rows.offset, rows.row_bytes * part.cells.size());
      }
    }
  }
  // The assertion always holds; it uses the sum of the read bytes, so that the compiler does not
  // remove the reads.
  KVD_ASSERT(sum != ~0u);
  return 0;
}
