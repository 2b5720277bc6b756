#include "state_layout/state_model.h"
#include "base/text.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kvd {
namespace {

using state_model::ModelHeader;
using state_model::PlaneEntry;
using state_model::StateEntry;

constexpr std::uint64_t kFloatsMax = std::numeric_limits<std::int32_t>::max();

std::unexpected<Error> Corrupt(const std::string& field, std::uint64_t number) {
  return Fail(Code::kCorrupt, "state model: ", field, ": ", number);
}

template <class T>
std::byte* Put(const T& value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
  return to + sizeof value;
}

template <class T>
T Get(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.subspan(offset, sizeof value).data(), sizeof value);
  return value;
}

Status CheckHeader(const ModelHeader& header, std::uint64_t byte_count) {
  if (header.magic != state_model::kMagic) return Corrupt("magic", header.magic);
  if (header.version != state_model::kVersion) {
    return Fail(Code::kVersionMismatch, "state model: version ", header.version,
                ", this build reads ", state_model::kVersion);
  }
  constexpr std::uint32_t kKnown = state_model::kHasEncoder | state_model::kValuesInKeys;
  if ((header.flags & ~kKnown) != 0) {
    return Corrupt("flags", header.flags);
  }
  if (header.architecture[sizeof header.architecture - 1] != 0) {
    return Fail(Code::kCorrupt, "state model: architecture: not terminated");
  }
  if (header.layer_count > state_model::kLayersMax) {
    return Corrupt("layer_count", header.layer_count);
  }
  if (header.vocab_size > kFloatsMax) return Corrupt("vocab_size", header.vocab_size);
  const bool has_values = (header.flags & state_model::kValuesInKeys) == 0;
  if ((has_values && header.plane_count % 2 != 0) ||
      header.plane_count > 4 * state_model::kLayersMax) {
    return Corrupt("plane_count", header.plane_count);
  }
  if (header.state_count > header.layer_count) return Corrupt("state_count", header.state_count);
  if (header.state_floats > kFloatsMax) return Corrupt("state_floats", header.state_floats);
  if (header.reserved != 0) return Corrupt("reserved", header.reserved);
  const std::uint64_t expected = sizeof header + header.plane_count * sizeof(PlaneEntry) +
                                 header.state_count * sizeof(StateEntry);
  if (byte_count != expected) return Corrupt("byte_count", byte_count);
  return {};
}

// Checks a plane that must have the given side. `last`: the preceding plane; null: `plane` is the
// first plane. The keys of a layer precede its values, and layers ascend.
Status CheckPlane(const std::string& name, const PlaneEntry& plane, std::size_t side,
                  const CachePlane* last) {
  if (plane.side != side) return Corrupt(name + " side", plane.side);
  const bool is_next =
      last == nullptr || (plane.side == 0 ? plane.layer > last->layer : plane.layer == last->layer);
  if (!is_next) return Corrupt(name + " layer", plane.layer);
  if (plane.side == 1 && plane.window != last->window)
    return Corrupt(name + " window", plane.window);
  if (plane.head_count == 0 || plane.head_count > state_model::kLayersMax) {
    return Corrupt(name + " head_count", plane.head_count);
  }
  if (plane.dim == 0 || plane.dim > state_model::kLayersMax)
    return Corrupt(name + " dim", plane.dim);
  const auto type = static_cast<kernels::DataType>(plane.type);
  if (!IsRowType(type) || plane.dim % kernels::ElementsPerBlock(type) != 0) {
    return Corrupt(name + " type", plane.type);
  }
  if (std::ranges::any_of(plane.reserved, [](std::uint8_t byte) { return byte != 0; })) {
    return Corrupt(name + " reserved", plane.reserved[0]);
  }
  return {};
}

Status CheckState(const std::string& name, const StateEntry& state, const ModelHeader& header,
                  const StateShape* last) {
  if (state.layer >= header.layer_count || (last != nullptr && state.layer <= last->layer)) {
    return Corrupt(name + " layer", state.layer);
  }
  if (state.kept > kFloatsMax) return Corrupt(name + " kept", state.kept);
  if (state.channels > kFloatsMax) return Corrupt(name + " channels", state.channels);
  if (state.scan_floats > kFloatsMax) return Corrupt(name + " scan_floats", state.scan_floats);
  const std::uint64_t floats = state.kept * state.channels + state.scan_floats;
  if (floats == 0 || floats > header.state_floats) return Corrupt(name + " floats", floats);
  if (state.offset > header.state_floats - floats) return Corrupt(name + " offset", state.offset);
  const std::uint64_t matrix_floats = std::uint64_t{state.matrix_side} * state.matrix_side;
  if (matrix_floats != 0 && state.scan_floats % matrix_floats != 0) {
    return Corrupt(name + " matrix_side", state.matrix_side);
  }
  return {};
}

}  // namespace

std::vector<std::byte> EncodeStateModel(const StateModel& model) {
  ModelHeader header = {
      .magic = state_model::kMagic,
      .version = state_model::kVersion,
      .flags = (model.has_encoder ? std::uint32_t{state_model::kHasEncoder} : 0u) |
               (model.values_in_keys ? std::uint32_t{state_model::kValuesInKeys} : 0u),
      .fingerprint = {},
      .architecture = {},
      .numeric_form = model.numeric_form,
      .layer_count = model.layer_count,
      .vocab_size = model.vocab_size,
      .plane_count = static_cast<std::uint32_t>(model.planes.size()),
      .state_count = static_cast<std::uint32_t>(model.states.size()),
      .reserved = 0,
      .state_floats = model.state_floats};
  std::ranges::copy(model.fingerprint, header.fingerprint);
  model.architecture.copy(header.architecture, sizeof header.architecture - 1);
  std::vector<std::byte> bytes(sizeof header + model.planes.size() * sizeof(PlaneEntry) +
                               model.states.size() * sizeof(StateEntry));
  std::byte* to = Put(header, bytes.data());
  for (const CachePlane& plane : model.planes) {
    to = Put(PlaneEntry{.layer = plane.layer,
                        .head_count = plane.head_count,
                        .dim = plane.dim,
                        .window = plane.window,
                        .side = static_cast<std::uint8_t>(plane.side),
                        .type = static_cast<std::uint8_t>(plane.type),
                        .reserved = {}},
             to);
  }
  for (const StateShape& state : model.states) {
    to = Put(StateEntry{.layer = state.layer,
                        .matrix_side = static_cast<std::uint32_t>(state.matrix_side),
                        .offset = state.offset,
                        .kept = state.kept,
                        .channels = state.channels,
                        .scan_floats = state.scan_floats},
             to);
  }
  return bytes;
}

Result<StateModel> ParseStateModel(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(ModelHeader)) return Corrupt("byte_count", bytes.size());
  const auto header = Get<ModelHeader>(bytes, 0);
  KVD_CHECK_OK(CheckHeader(header, bytes.size()));
  StateModel model{.architecture = header.architecture,
                   .numeric_form = header.numeric_form,
                   .layer_count = header.layer_count,
                   .vocab_size = header.vocab_size,
                   .has_encoder = (header.flags & state_model::kHasEncoder) != 0,
                   .values_in_keys = (header.flags & state_model::kValuesInKeys) != 0,
                   .state_floats = header.state_floats,
                   .planes = {},
                   .states = {}};
  std::ranges::copy(header.fingerprint, model.fingerprint.begin());
  std::size_t at = sizeof header;
  for (std::size_t number = 0; number < header.plane_count; ++number, at += sizeof(PlaneEntry)) {
    const auto plane = Get<PlaneEntry>(bytes, at);
    const CachePlane* const last = model.planes.empty() ? nullptr : &model.planes.back();
    const std::size_t side = model.values_in_keys ? 0 : number % 2;
    KVD_CHECK_OK(CheckPlane(Concat("plane ", number), plane, side, last));
    model.planes.push_back({.layer = plane.layer,
                            .side = static_cast<CacheSide>(plane.side),
                            .head_count = plane.head_count,
                            .dim = plane.dim,
                            .window = plane.window,
                            .type = static_cast<kernels::DataType>(plane.type)});
  }
  for (std::size_t number = 0; number < header.state_count; ++number, at += sizeof(StateEntry)) {
    const auto state = Get<StateEntry>(bytes, at);
    const StateShape* const last = model.states.empty() ? nullptr : &model.states.back();
    KVD_CHECK_OK(CheckState(Concat("state ", number), state, header, last));
    model.states.push_back({.layer = state.layer,
                            .offset = state.offset,
                            .kept = state.kept,
                            .channels = state.channels,
                            .scan_floats = state.scan_floats,
                            .matrix_side = state.matrix_side});
  }
  return model;
}

}  // namespace kvd
