#include "engine/memory/geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/memory/memory_fixture.h"

namespace kvd {
namespace {

using testing::HasSubstr;

void ExpectRefused(const MemoryOptions& options, const char* field) {
  const Result<MemoryGeometry> geometry = ComputeGeometry(options);
  ASSERT_FALSE(geometry) << field;
  EXPECT_EQ(geometry.error().code, Code::kInvalidArgument);
  EXPECT_THAT(geometry.error().message, HasSubstr(field));
}

TEST(GeometryTest, BlocksHoldThePlanesOfEveryLayerOnCacheLines) {
  MemoryOptions options;
  options.groups = {{.cells = 100, .layers = {{2, 64, 32}, {1, 128, 128}}}};
  options.k_type = kernels::DataType::kQ8_0;
  const MemoryGeometry geometry = *ComputeGeometry(options);
  EXPECT_EQ(geometry.meta.block_count[0], 4u);
  ASSERT_EQ(geometry.groups[0].layers.size(), 2u);
  EXPECT_EQ(geometry.groups[0].layers[0].k_row_bytes, 68u);
  EXPECT_EQ(geometry.groups[0].layers[0].v_offset, 2u * 32 * 68);
  EXPECT_EQ(geometry.groups[0].layers[1].k_offset, 2u * 32 * 68 + 2u * 32 * 64);
  for (const LayerLayout& layer : geometry.groups[0].layers) {
    EXPECT_EQ(layer.k_offset % 64, 0u);
    EXPECT_EQ(layer.v_offset % 64, 0u);
    EXPECT_EQ(layer.k_head_bytes % 64, 0u);
  }
  EXPECT_EQ(geometry.meta.block_stride_bytes[0] % 4096, 0u);
  EXPECT_GE(geometry.meta.block_stride_bytes[0], geometry.groups[0].block_bytes);
  EXPECT_EQ(geometry.pool.total, 4 * geometry.meta.block_stride_bytes[0]);
  EXPECT_EQ(*LayOut(geometry.meta), geometry.offsets);
}

TEST(GeometryTest, ValuesStoredInKeysTakeNoBytes) {
  MemoryOptions options;
  options.groups = {{.cells = 100, .layers = {{1, 96, 64, true}, {1, 96, 64, false}}}};
  options.v_type = kernels::DataType::kF32;
  const MemoryGeometry geometry = *ComputeGeometry(options);
  const LayerLayout &latent = geometry.groups[0].layers[0], &plain = geometry.groups[0].layers[1];
  EXPECT_EQ(latent.v_offset, latent.k_offset);
  EXPECT_EQ(latent.v_row_bytes, 2u * 96);  // the distance between two rows of keys in bytes
  EXPECT_EQ(plain.k_offset, 32u * 2 * 96);
  EXPECT_EQ(plain.v_offset, 2 * 32u * 2 * 96);
  EXPECT_EQ(geometry.groups[0].block_bytes, 32u * (2 * 2 * 96 + 4 * 64));
  options.groups[0].layers[0].v_dim = 97;
  ExpectRefused(options, "layer 0 v_dim: 97");
}

TEST(GeometryTest, EveryOptionOutOfItsRangeIsNamed) {
  const MemoryOptions good = SmallOptions(32);
  ASSERT_TRUE(ComputeGeometry(good));
  const auto with = [&](auto change) {
    MemoryOptions options = good;
    change(options);
    return options;
  };
  ExpectRefused(with([](auto& o) { o.groups[0].cells = 0; }), "cells: 0");
  ExpectRefused(with([](auto& o) { o.groups[0].cells = ~0ull; }), "cells");
  ExpectRefused(with([](auto& o) { o.groups.clear(); }), "groups: 0");
  ExpectRefused(with([](auto& o) { o.groups.resize(5, o.groups[0]); }), "groups: 5");
  ExpectRefused(with([](auto& o) { o.groups[0].window = 1; }), "window: 1");
  ExpectRefused(with([](auto& o) { o.groups[0].is_cross = true; }), "group 0 is_cross");
  const auto with_second = [&](auto change) {
    return with([&](auto& o) {
      o.groups.resize(3, o.groups[0]);
      change(o.groups[1], o.groups[2]);
    });
  };
  ExpectRefused(with_second([](auto& second, auto&) { second.cells = 0; }), "group 1 cells: 0");
  ExpectRefused(with_second([](auto& second, auto&) { second.window = ~0u; }), "group 1 window");
  ExpectRefused(
      with_second([](auto& second, auto& third) { second.is_cross = third.is_cross = true; }),
      "group 2 is_cross");
  ExpectRefused(with_second([](auto& second, auto&) {
                  second.is_cross = true;
                  second.window = 8;
                }),
                "group 1 window: 8");
  ExpectRefused(with([](auto& o) { o.state_slots = 1; }), "state_bytes: 0");
  ExpectRefused(with([](auto& o) { o.state_bytes = 1; }), "state_bytes: 1");
  ExpectRefused(with([](auto& o) { o.state_slots = ~0u; }), "state_slots");
  ExpectRefused(with([](auto& o) { o.logits_rows = 1; }), "logits_bytes: 0");
  ExpectRefused(with([](auto& o) { o.groups[0].layers[0].kv_head_count = 0; }),
                "layer 0 kv_head_count");
  ExpectRefused(with([](auto& o) { o.groups[0].layers[0].k_dim = 0; }), "layer 0 k_dim");
  ExpectRefused(with([](auto& o) { o.groups[0].layers[0].v_dim = 1u << 31; }), "layer 0 v_dim");
  ExpectRefused(with([](auto& o) { o.k_type = kernels::DataType::kQ4_K; }), "k_type: q4_K");
  ExpectRefused(with([](auto& o) { o.v_type = kernels::DataType::kQ8_0; }),
                "layer 0 v_dim: 2 is not");
  ExpectRefused(with([](auto& o) { o.sequence_capacity = 0; }), "sequence_capacity");
  ExpectRefused(with([](auto& o) { o.snapshot_capacity = ~0u; }), "snapshot_capacity");
  ExpectRefused(with([](auto& o) { o.session_capacity = ~0u; }), "session_capacity");
  ExpectRefused(with([](auto& o) { o.list_unit_count = ~0u; }), "list_unit_count");
  ExpectRefused(
      with([](auto& o) { o.groups[0].layers.assign(1000, {1u << 16, 1u << 16, 1u << 16}); }),
      "bytes of one block");
  ExpectRefused(with([](auto& o) {
                  o.groups[0].layers.assign(2, {1u << 12, 1u << 16, 1u << 16});
                  o.groups[0].cells = 1ull << 31;
                }),
                "pool: ");
}

TEST(GeometryTest, EachGroupHasItsPartOfThePool) {
  MemoryOptions options = SmallOptions(64);
  options.groups.push_back({.cells = 33, .layers = {{2, 64, 64}}, .window = 16});
  options.groups.push_back({.cells = 32, .layers = {{1, 4, 4}}, .is_cross = true});
  const MemoryGeometry geometry = *ComputeGeometry(options);
  EXPECT_EQ(geometry.meta.group_count, 3u);
  EXPECT_EQ(geometry.meta.window[1], 16u);
  EXPECT_EQ(geometry.meta.cross_group, 2u);
  EXPECT_EQ(geometry.pool.blocks[0], 2 * geometry.meta.block_stride_bytes[0]);
  EXPECT_EQ(geometry.pool.blocks[1], 2 * geometry.meta.block_stride_bytes[1]);
  EXPECT_EQ(geometry.pool.blocks[2], geometry.meta.block_stride_bytes[2]);
  EXPECT_EQ(geometry.pool.blocks[3], 0u);
  EXPECT_EQ(geometry.pool.total,
            geometry.pool.blocks[0] + geometry.pool.blocks[1] + geometry.pool.blocks[2]);
  EXPECT_EQ(*LayOut(geometry.meta), geometry.offsets);
}

TEST(GeometryTest, StatesAndLogitsHaveTheirPartsOfThePool) {
  MemoryOptions options = SmallOptions(32);
  options.groups[0].layers.clear();
  options.state_bytes = 5000;
  options.state_slots = 3;
  options.logits_bytes = 100;
  options.logits_rows = 2;
  const MemoryGeometry geometry = *ComputeGeometry(options);
  EXPECT_EQ(geometry.meta.block_stride_bytes[0], 0u) << "cells of tokens alone";
  EXPECT_EQ(geometry.pool.blocks[0], 0u);
  EXPECT_EQ(geometry.pool.states, 3 * 8192u);
  EXPECT_EQ(geometry.pool.logits, 2 * 4096u);
  EXPECT_EQ(geometry.pool.total, 3 * 8192u + 2 * 4096u);
}

TEST(GeometryTest, AnotherSizeIsTellableFromAnotherConfiguration) {
  MemoryOptions options = SmallOptions(64);
  options.state_bytes = 5000;
  options.state_slots = 3;
  const layout::MetaGeometry base = ComputeGeometry(options)->meta;
  const auto is_resized = [&](auto change) {
    MemoryOptions other = options;
    change(other);
    return IsResized(base, ComputeGeometry(other)->meta);
  };
  EXPECT_TRUE(is_resized([](auto&) {}));
  EXPECT_TRUE(is_resized([](auto& o) { o.groups[0].cells = 320; }));
  EXPECT_TRUE(is_resized([](auto& o) { o.sequence_capacity = 5; }));
  EXPECT_TRUE(is_resized([](auto& o) { o.state_slots = 9; }));
  EXPECT_FALSE(is_resized([](auto& o) { o.k_type = kernels::DataType::kF16; }));
  EXPECT_FALSE(is_resized([](auto& o) { o.state_bytes = 9000; }));
  EXPECT_FALSE(is_resized([](auto& o) { o.state_bytes = o.state_slots = 0; }));
  EXPECT_FALSE(is_resized(
      [](auto& o) { o.groups.push_back({.cells = 64, .layers = {{1, 2, 2}}, .window = 16}); }));
}

TEST(GeometryTest, CountsOfAStoredMemoryAreTakenWithTheirOffsets) {
  MemoryOptions options = SmallOptions(64);
  const MemoryGeometry stored = *ComputeGeometry(options);
  options.groups[0].cells = 320;
  const MemoryGeometry taken = *WithCounts(*ComputeGeometry(options), stored.meta);
  EXPECT_EQ(taken.meta, stored.meta);
  EXPECT_EQ(taken.offsets, stored.offsets);
  EXPECT_EQ(taken.pool.total, stored.pool.total);
}

TEST(GeometryTest, ListsHaveSlackForOneMoreEntry) {
  EXPECT_EQ(ListUnitsFor(0), 0u);
  EXPECT_EQ(ListUnitsFor(1), 1u);
  EXPECT_EQ(ListUnitsFor(15), 1u);
  EXPECT_EQ(ListUnitsFor(16), 2u);
  EXPECT_EQ(ListUnitsFor(1024), 72u);
}

}  // namespace
}  // namespace kvd
