// The bytes of a saved state, as plain structs: this header is the whole format. States lie in
// files, and go between a client and the daemon (wire::Verb::kExportState, kUploadState).
//
//   0              FileHeader
//   64 * k ...     SectionEntry[section_count], the table
//   then           the sections' bytes, back to back in the order of the table
//
// Little-endian. One file holds one or several sequences of one model. Everything a sequence
// consists of lies in sections of at most kSectionBytesMax; a section is stored as it is, or with
// its bytes sorted by their place in an element ("planes") and packed as one LZ4 block, and has a
// CRC32C of its stored bytes. The order of the table is fixed, so that a sequence has one form:
//   for each sequence  kSequence, kTokens..., kPositions..., kCrossTokens..., kRows (by plane: the
//   keys then the values of each layer; by cells)..., kState (the checkpoints by cells, then the
//   state itself; by floats)..., kLogits..., kSampler
// Rows are [head][cell][dim] of the section's cells, keys as if computed at the cells' effective
// positions. So the bytes depend neither on blocks nor on what was shifted or forked.
//
// kVersion is raised with every change:
//   1  first format
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace kvd::state_file {

inline constexpr std::uint64_t kMagic = 0x315441545344564bull;  // "KVDSTAT1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kSectionBytesMax = 4u << 20;  // not packed
inline constexpr std::uint32_t kSequencesMax = 1u << 16;     // of one file
inline constexpr std::uint32_t kSectionsMax = 1u << 20;      // 4 TiB
inline constexpr std::uint32_t kSamplerBytesMax = 64u << 10;
inline constexpr std::uint32_t kPlaneElementBytesMax = 64;

struct FileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;  // sizeof(FileHeader)
  std::uint64_t file_bytes;    // all of it
  std::uint64_t raw_bytes;     // of all sections, not packed
  std::uint32_t sequence_count;
  std::uint32_t section_count;
  std::uint64_t saved_unix_ms;
  std::uint64_t fingerprint[4];  // ModelFingerprint::words
  char architecture[32];         // zero padded, for the message when the fingerprint differs
  // Of an entry of a prompt cache: keyed hash of who may find it (PromptStore). Zero: a saved state.
  std::uint64_t name_space[2];
  std::uint32_t numeric_form;  // NumericForm of the rows and states; 0 also in older files
  std::uint8_t reserved[52];
  std::uint32_t table_crc;   // CRC32C of the table
  std::uint32_t header_crc;  // CRC32C of the bytes above
};
static_assert(sizeof(FileHeader) == 192 && std::is_standard_layout_v<FileHeader>);

enum class SectionKind : std::uint8_t {
  kSequence = 1,     // SequenceHeader
  kTokens = 2,       // i32 of the cells [begin, end)
  kPositions = 3,    // i32, effective, none below the one before
  kCrossTokens = 4,  // i32 of the encoded text's cells [begin, end)
  kRows = 5,         // of one plane, of the cells [begin, end)
  kState = 6,        // f32 [begin, end) of the state behind `cells` cells
  kLogits = 7,       // f32 [begin, end)
  kSampler = 8,      // bytes [begin, end) of the caller's
};

enum class Packing : std::uint8_t {
  kNone = 0,
  kPlanesLz4 = 1,  // planes of element_bytes, then one LZ4 block
};

struct SectionEntry {
  std::uint64_t offset;  // from the start of the file
  std::uint32_t stored_bytes;
  std::uint32_t raw_bytes;  // 1 to kSectionBytesMax
  std::uint32_t crc;        // CRC32C of the stored bytes
  std::uint32_t sequence;   // of the file, from 0
  SectionKind kind;
  Packing packing;
  std::uint8_t element_bytes;  // of the planes; 0 where it is not packed
  std::uint8_t side;           // kRows: 0 keys, 1 values
  std::uint32_t layer;         // kRows
  std::uint32_t cells;         // kState
  std::uint32_t type;          // kRows: kernels::DataType
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t reserved;
};
static_assert(sizeof(SectionEntry) == 64 && std::is_standard_layout_v<SectionEntry>);

enum SequenceFlags : std::uint32_t {
  kHasRows = 1u << 0,  // else tokens and positions alone
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
  std::uint64_t handle;  // when it was saved
  std::uint8_t reserved[8];
};
static_assert(sizeof(SequenceHeader) == 64 && std::is_standard_layout_v<SequenceHeader>);

}  // namespace kvd::state_file
