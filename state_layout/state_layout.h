// The byte format of a saved state as plain structs; this header is the whole format. States are
// stored in files and sent between a client and the daemon (wire::Verb::kExportState,
// kUploadState).
//
//   0              FileHeader
//   64 * k ...     SectionEntry[section_count], the table
//   then           the sections' bytes, back to back in the order of the table
//
// Numbers are little-endian. A state holds one or several sequences of one model. All data of a
// sequence is stored in sections, each of at most kSectionBytesMax bytes before packing. A section
// is stored either unchanged or packed: in a packed section, the first bytes of all elements come
// first, then the second bytes of all elements and so on (byte planes), and the result is
// compressed as one LZ4 block. Each section has a CRC32C of its stored bytes.
//
// The order of the sections is fixed, so that equal sequences give equal tables. Sections are
// ordered by sequence, then by kind: kSequence, kTokens..., kPositions..., kCrossTokens...,
// kRows..., kState..., kLogits..., kSampler. kRows sections are ordered by layer, with the keys of
// a layer before its values; kState sections by the number of cells, so that the checkpoints
// precede the state after the last cell. Sections of the same data are ordered by the begin of
// their range.
//
// A section of rows has the shape [head][cell][dim] over the section's cells. Keys are stored as
// rotated for the cells' effective positions, so the stored bytes depend neither on blocks nor on
// shifts or forks.
//
// kVersion increases with every change of the format:
//   1  first format
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvd::state_file {

inline constexpr std::uint64_t kMagic = 0x315441545344564bull;  // "KVDSTAT1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kSectionBytesMax =
    4u << 20;  // largest size of a section before packing
// Largest number of sequences in one file.
inline constexpr std::uint32_t kSequencesMax = 1u << 16;
// Largest number of sections, which together have at most 4 TiB.
inline constexpr std::uint32_t kSectionsMax = 1u << 20;
inline constexpr std::uint32_t kSamplerBytesMax = 64u << 10;
inline constexpr std::uint32_t kPlaneElementBytesMax = 64;

struct FileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;  // sizeof(FileHeader)
  std::uint64_t file_bytes;    // size of the whole file
  std::uint64_t raw_bytes;     // size of all sections before packing
  std::uint32_t sequence_count;
  std::uint32_t section_count;
  std::uint64_t saved_unix_ms;
  std::uint64_t fingerprint[4];  // ModelFingerprint::words
  // Name of the architecture, zero padded; shown in the error message if the fingerprint differs.
  char architecture[32];
  // In an entry of the prompt cache, `name_space` is a keyed hash of the namespace whose prompts
  // may reuse the entry (PromptStore). In a saved state, `name_space` is zero.
  std::uint64_t name_space[2];
  std::uint32_t numeric_form;  // the NumericForm of rows and states; 0: unknown
  std::uint8_t reserved[52];
  std::uint32_t table_crc;   // CRC32C of the section table
  std::uint32_t header_crc;  // CRC32C of the header's bytes before this field
};
static_assert(sizeof(FileHeader) == 192 && std::is_standard_layout_v<FileHeader>);

enum class SectionKind : std::uint8_t {
  kSequence = 1,  // SequenceHeader
  kTokens = 2,    // i32 token ids of the cells [begin, end)
  // The i32 effective positions of the cells [begin, end), in ascending or equal order.
  kPositions = 3,
  kCrossTokens = 4,  // i32 token ids of the encoded text's cells [begin, end)
  kRows = 5,         // rows of one plane, of the cells [begin, end)
  kState = 6,        // f32 numbers [begin, end) of the recurrent state after `cells` cells
  kLogits = 7,       // f32 numbers [begin, end) of the last row of logits
  kSampler = 8,      // bytes [begin, end) of the sampler, which the caller supplies
};

enum class Packing : std::uint8_t {
  kNone = 0,
  kPlanesLz4 = 1,  // as many byte planes as an element has bytes, compressed as one LZ4 block
};

struct SectionEntry {
  std::uint64_t offset;  // offset of the section's stored bytes from the start of the file
  std::uint32_t stored_bytes;
  std::uint32_t raw_bytes;  // size of the section before packing, 1 to kSectionBytesMax
  std::uint32_t crc;        // CRC32C of the stored bytes
  std::uint32_t sequence;   // index of the sequence in the file, from 0
  SectionKind kind;
  Packing packing;
  std::uint8_t element_bytes;  // bytes of an element of a packed section; 0 if not packed
  std::uint8_t side;           // kRows: 0: the section has keys; 1: the section has values
  std::uint32_t layer;         // layer of the rows of a kRows section
  std::uint32_t cells;         // kState: number of cells before the recurrent state
  std::uint32_t type;          // kRows: kernels::DataType
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t reserved;
};
static_assert(sizeof(SectionEntry) == 64 && std::is_standard_layout_v<SectionEntry>);

enum SequenceFlags : std::uint32_t {
  kHasRows = 1u << 0,  // the sequence has rows; without this flag it has only tokens and positions
  kHasState = 1u << 1,
  kHasLogits = 1u << 2,
};
inline constexpr std::uint32_t kSequenceFlagsAll = (1u << 3) - 1;

struct SequenceHeader {
  std::uint32_t flags;  // SequenceFlags
  std::uint32_t cell_count;
  std::uint32_t pristine_cells;
  std::uint32_t cross_cells;
  std::uint32_t checkpoint_count;
  std::uint32_t sampler_bytes;
  std::uint32_t k_type;  // kernels::DataType of the rows
  std::uint32_t v_type;
  std::uint64_t state_floats;
  std::uint64_t logits_floats;
  std::uint64_t handle;  // the sequence's handle at the time of saving
  std::uint8_t reserved[8];
};
static_assert(sizeof(SequenceHeader) == 64 && std::is_standard_layout_v<SequenceHeader>);

}  // namespace kvd::state_file
