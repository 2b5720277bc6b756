// StateModel describes a model as far as the format of saved states needs it: the rows that its
// layers cache, the composition of its recurrent state, and its fingerprint. An engine creates a
// StateModel, wire::Verb::kExportState sends its encoded form, and converters that cannot read
// model files use it.
//
//   0    ModelHeader
//   then PlaneEntry[plane_count]   keys, then values of each layer that caches rows, by layer; with
//                                  kValuesInKeys only keys
//   then StateEntry[state_count]   the layers that keep a recurrent state, by layer
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "state_layout/cached_rows.h"

namespace kvd {

namespace state_model {

inline constexpr std::uint64_t kMagic = 0x31444f4d5344564bull;  // "KVDSMOD1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kLayersMax = 1u << 16;

enum ModelFlags : std::uint32_t {
  kHasEncoder = 1u << 0,    // the model's sequences may hold an encoded text
  kValuesInKeys = 1u << 1,  // a value is the beginning of a key (latent rows)
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
  std::uint64_t state_floats;  // number of floats of one sequence's recurrent state
};
static_assert(sizeof(ModelHeader) == 112 && std::is_standard_layout_v<ModelHeader>);

struct PlaneEntry {
  std::uint32_t layer;
  std::uint32_t head_count;
  std::uint32_t dim;
  std::uint32_t window;
  std::uint8_t side;  // 0: the plane holds keys; 1: the plane holds values
  std::uint8_t type;  // kernels::DataType of the plane's rows in the pool
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
// then the floats that its scan carries. In RWKV models, `kept` is 1, and the inputs are the last
// token's input rows of the layer's two token shifts.
struct StateShape {
  std::uint32_t layer = 0;
  // Offset of the layer's state from the start of a sequence's state, in floats.
  std::size_t offset = 0;
  std::size_t kept = 0;
  std::size_t channels = 0;
  std::size_t scan_floats = 0;
  // Side of the square matrices [keys, values] that the scan carries; 0: no matrices.
  std::size_t matrix_side = 0;

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
  bool values_in_keys = false;
  std::uint64_t state_floats = 0;
  // The planes of the model; the encoded form omits CachePlane::group.
  std::vector<CachePlane> planes{};
  std::vector<StateShape> states{};
};

// REQUIRES: model.architecture has at most 31 bytes.
std::vector<std::byte> EncodeStateModel(const StateModel& model);
// Errors: kVersionMismatch; kCorrupt, naming the field.
Result<StateModel> ParseStateModel(std::span<const std::byte> bytes);

}  // namespace kvd
