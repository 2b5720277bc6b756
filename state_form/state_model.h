// StateModel: what the form of saved states needs to be told of a model: which rows its layers
// cache, how its recurrent state is composed, whose it is. Made by an engine, sent by
// wire::Verb::kExportState, used by converters, which know no model files.
//
//   0    ModelHeader
//   then PlaneEntry[plane_count]   keys then values of each layer that caches rows, by layer
//   then StateEntry[state_count]   the layers that keep a recurrent state, by layer
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "shm/error.h"
#include "state_form/cache_plane.h"

namespace kvd {

namespace state_model {

inline constexpr std::uint64_t kMagic = 0x31444f4d5344564bull;  // "KVDSMOD1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kLayersMax = 1u << 16;

enum ModelFlags : std::uint32_t {
  kHasEncoder = 1u << 0,  // sequences may hold an encoded text
};

struct ModelHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t flags;  // ModelFlags
  std::uint64_t fingerprint[4];
  char architecture[32];  // zero padded
  std::uint32_t numeric_form;
  std::uint32_t layer_count;
  std::uint32_t vocab_size;
  std::uint32_t plane_count;
  std::uint32_t state_count;
  std::uint32_t reserved;
  std::uint64_t state_floats;  // of one sequence's recurrent state
};
static_assert(sizeof(ModelHeader) == 112 && std::is_standard_layout_v<ModelHeader>);

struct PlaneEntry {
  std::uint32_t layer;
  std::uint32_t head_count;
  std::uint32_t dim;
  std::uint32_t window;
  std::uint8_t side;  // 0 keys, 1 values
  std::uint8_t type;  // kernels::DataType in the pool
  std::uint8_t reserved[6];
};
static_assert(sizeof(PlaneEntry) == 24 && std::is_standard_layout_v<PlaneEntry>);

struct StateEntry {
  std::uint32_t layer;
  std::uint32_t matrix_side;
  std::uint64_t offset;
  std::uint64_t kept;
  std::uint64_t channels;
  std::uint64_t scan_floats;
};
static_assert(sizeof(StateEntry) == 40 && std::is_standard_layout_v<StateEntry>);

}  // namespace state_model

// The recurrent state of one layer: the inputs of its convolution [kept, channels], oldest first,
// then the floats that its scan carries. RWKV: the rows of the last token of its two halves.
struct StateShape {
  std::uint32_t layer = 0;
  std::size_t offset = 0;  // floats from the start of a sequence's state
  std::size_t kept = 0;
  std::size_t channels = 0;
  std::size_t scan_floats = 0;
  std::size_t matrix_side = 0;  // the scan carries square matrices [keys, values]; 0: it does not

  std::size_t convolution_floats() const { return kept * channels; }
  std::size_t floats() const { return convolution_floats() + scan_floats; }
};

struct StateModel {
  std::array<std::uint64_t, 4> fingerprint = {};  // ModelFingerprint::words
  std::string architecture;
  std::uint32_t numeric_form = 0;
  std::uint32_t layer_count = 0;
  std::uint32_t vocab_size = 0;
  bool has_encoder = false;
  std::uint64_t state_floats = 0;
  std::vector<CachePlane> planes{};  // groups are not told
  std::vector<StateShape> states{};
};

// REQUIRES: an architecture of at most 31 bytes.
std::vector<std::byte> EncodeStateModel(const StateModel& model);
// Errors: kVersionMismatch; kCorrupt, naming the field.
Result<StateModel> ParseStateModel(std::span<const std::byte> bytes);

}  // namespace kvd
