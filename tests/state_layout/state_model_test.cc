// StateModel reads a daemon's description of its model exactly, and refuses an invalid description
// by naming the wrong field.
#include "state_layout/state_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace kvd {
namespace {

using ::testing::HasSubstr;

StateModel Hybrid() {
  StateModel model{.fingerprint = {1, 2, 3, 4},
                   .architecture = "jamba",
                   .numeric_form = 1,
                   .layer_count = 4,
                   .vocab_size = 300,
                   .has_encoder = false,
                   .state_floats = 160,
                   .planes = {},
                   .states = {}};
  for (const std::uint32_t layer : {1u, 3u}) {
    for (const CacheSide side : {CacheSide::kKeys, CacheSide::kValues}) {
      model.planes.push_back({.layer = layer,
                              .side = side,
                              .head_count = 2,
                              .dim = 64,
                              .window = layer == 3 ? 16u : 0u,
                              .type = kernels::DataType::kQ8_0});
    }
  }
  model.states.push_back(
      {.layer = 0, .offset = 0, .kept = 3, .channels = 4, .scan_floats = 32, .matrix_side = 4});
  model.states.push_back(
      {.layer = 2, .offset = 48, .kept = 3, .channels = 4, .scan_floats = 32, .matrix_side = 0});
  return model;
}

TEST(StateModelTest, AWrittenModelIsReadBack) {
  for (const bool has_encoder : {false, true}) {
    StateModel model = Hybrid();
    model.has_encoder = has_encoder;
    const auto read = ParseStateModel(EncodeStateModel(model));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->fingerprint, model.fingerprint);
    EXPECT_EQ(read->architecture, "jamba");
    EXPECT_EQ(read->numeric_form, 1u);
    EXPECT_EQ(read->layer_count, 4u);
    EXPECT_EQ(read->vocab_size, 300u);
    EXPECT_EQ(read->has_encoder, has_encoder);
    EXPECT_EQ(read->state_floats, 160u);
    ASSERT_EQ(read->planes.size(), 4u);
    EXPECT_EQ(read->planes[3].layer, 3u);
    EXPECT_EQ(read->planes[3].side, CacheSide::kValues);
    EXPECT_EQ(read->planes[3].head_count, 2u);
    EXPECT_EQ(read->planes[3].dim, 64u);
    EXPECT_EQ(read->planes[3].window, 16u);
    EXPECT_EQ(read->planes[3].type, kernels::DataType::kQ8_0);
    ASSERT_EQ(read->states.size(), 2u);
    EXPECT_EQ(read->states[1].layer, 2u);
    EXPECT_EQ(read->states[1].offset, 48u);
    EXPECT_EQ(read->states[1].floats(), 44u);
    EXPECT_EQ(read->states[0].matrix_side, 4u);
  }
}

TEST(StateModelTest, AModelWithoutSavedPlanesIsRead) {
  const auto read = ParseStateModel(EncodeStateModel({.architecture = "bert"}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->planes.empty() && read->states.empty());
}

TEST(StateModelTest, AModelWhoseValuesAreInItsKeysHasOnlyKeyPlanes) {
  StateModel model = Hybrid();
  model.values_in_keys = true;
  std::erase_if(model.planes,
                [](const CachePlane& plane) { return plane.side == CacheSide::kValues; });
  model.planes.push_back(model.planes.back());
  model.planes.back().layer = 4;
  const auto read = ParseStateModel(EncodeStateModel(model));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->values_in_keys);
  ASSERT_EQ(read->planes.size(), 3u);
  EXPECT_EQ(read->planes[2].layer, 4u);
  EXPECT_EQ(read->planes[2].side, CacheSide::kKeys);
}

// A description of a model, of which a test changes one field to check the refusal.
struct Changed {
  state_model::ModelHeader header;
  state_model::PlaneEntry planes[4];
  state_model::StateEntry states[2];
};
std::string Refusal(const std::function<void(Changed&)>& change) {
  std::vector<std::byte> bytes = EncodeStateModel(Hybrid());
  Changed changed;
  static_assert(sizeof changed == sizeof(state_model::ModelHeader) +
                                      4 * sizeof(state_model::PlaneEntry) +
                                      2 * sizeof(state_model::StateEntry));
  EXPECT_EQ(bytes.size(), sizeof changed);
  std::memcpy(&changed, bytes.data(), sizeof changed);
  change(changed);
  std::memcpy(bytes.data(), &changed, sizeof changed);
  const auto read = ParseStateModel(bytes);
  EXPECT_FALSE(read);
  return read ? std::string() : read.error().message;
}

TEST(StateModelTest, EveryWrongFieldIsNamed) {
  const struct {
    const char* words;
    std::function<void(Changed&)> change;
  } cases[] = {
      {"magic: 7", [](Changed& c) { c.header.magic = 7; }},
      {"version 2, this build reads 1", [](Changed& c) { c.header.version = 2; }},
      {"flags: 4", [](Changed& c) { c.header.flags = 4; }},
      {"plane 1 side: 1", [](Changed& c) { c.header.flags = state_model::kValuesInKeys; }},
      {"architecture: not terminated",
       [](Changed& c) { std::memset(c.header.architecture, 'a', sizeof c.header.architecture); }},
      {"layer_count: 65537", [](Changed& c) { c.header.layer_count = 65537; }},
      {"vocab_size: 4294967295", [](Changed& c) { c.header.vocab_size = ~0u; }},
      {"plane_count: 3", [](Changed& c) { c.header.plane_count = 3; }},
      {"plane_count: 4294967294", [](Changed& c) { c.header.plane_count = ~1u; }},
      {"state_count: 5", [](Changed& c) { c.header.state_count = 5; }},
      {"state_floats: 4294967296",
       [](Changed& c) { c.header.state_floats = std::uint64_t{1} << 32; }},
      {"reserved: 1", [](Changed& c) { c.header.reserved = 1; }},
      {"byte_count: 288", [](Changed& c) { c.header.plane_count = 2; }},
      {"plane 0 side: 1", [](Changed& c) { c.planes[0].side = 1; }},
      {"plane 1 layer: 2", [](Changed& c) { c.planes[1].layer = 2; }},
      {"plane 2 layer: 1", [](Changed& c) { c.planes[2].layer = 1; }},
      {"plane 1 window: 9", [](Changed& c) { c.planes[1].window = 9; }},
      {"plane 3 head_count: 0", [](Changed& c) { c.planes[3].head_count = 0; }},
      {"plane 3 head_count: 65537", [](Changed& c) { c.planes[3].head_count = 65537; }},
      {"plane 3 dim: 0", [](Changed& c) { c.planes[3].dim = 0; }},
      {"plane 3 dim: 65568", [](Changed& c) { c.planes[3].dim = 65568; }},
      {"plane 3 type: 3", [](Changed& c) { c.planes[3].type = 3; }},
      {"plane 3 type: 8", [](Changed& c) { c.planes[3].dim = 48; }},
      {"plane 3 reserved: 1", [](Changed& c) { c.planes[3].reserved[0] = 1; }},
      {"state 0 layer: 4", [](Changed& c) { c.states[0].layer = 4; }},
      {"state 1 layer: 0", [](Changed& c) { c.states[1].layer = 0; }},
      {"state 0 kept: 4294967296", [](Changed& c) { c.states[0].kept = std::uint64_t{1} << 32; }},
      {"state 0 channels: 4294967296",
       [](Changed& c) { c.states[0].channels = std::uint64_t{1} << 32; }},
      {"state 0 scan_floats: 4294967296",
       [](Changed& c) { c.states[0].scan_floats = std::uint64_t{1} << 32; }},
      {"state 0 floats: 0", [](Changed& c) { c.states[0].kept = c.states[0].scan_floats = 0; }},
      {"state 0 floats: 172", [](Changed& c) { c.states[0].scan_floats = 160; }},
      {"state 1 offset: 117", [](Changed& c) { c.states[1].offset = 117; }},
      {"state 0 matrix_side: 5", [](Changed& c) { c.states[0].matrix_side = 5; }},
  };
  for (const auto& [words, change] : cases) {
    EXPECT_THAT(Refusal(change), HasSubstr(words));
  }
  const auto bytes = EncodeStateModel(Hybrid());
  for (std::size_t count = 0; count < bytes.size(); ++count) {
    const auto read = ParseStateModel(std::span(bytes).first(count));
    ASSERT_FALSE(read) << count;
    EXPECT_THAT(read.error().message, HasSubstr("byte_count: " + std::to_string(count)));
  }
}

}  // namespace
}  // namespace kvd
