// Tests the signal handler that emulates the tile instructions (trapped_tiles.h): decoding,
// arithmetic and refused operations. On a machine with AMX the arithmetic tests run on the
// processor's tiles instead.
#include "tests/kernels/trapped_tiles.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/kernels/kernel_inputs.h"
#include "tests/kernels/tile_instruction.h"

namespace kvd::kernels {
namespace {

// ---- decoding

using Bytes = std::vector<std::uint8_t>;

std::uint64_t RegisterValue(unsigned number) { return 0x1000'0000u * (number + 1); }

std::optional<TileInstruction> Decode(Bytes code) {
  std::uint64_t general[16];
  for (unsigned i = 0; i < 16; ++i) general[i] = RegisterValue(i);
  code.resize(16, 0xcc);
  return DecodeTileInstruction(code.data(), general);
}

TEST(DecodeTileInstructionTest, DecodesProductsAndInstructionsWithoutMemory) {
  auto got = Decode({0xc4, 0xe2, 0x43, 0x5e, 0xd9});  // tdpbssd tmm3, tmm1, tmm7
  ASSERT_TRUE(got);
  EXPECT_EQ(got->operation, TileOperation::kAddProducts);
  EXPECT_EQ((std::array{got->tile, got->rows, got->columns}), (std::array{3, 1, 7}));
  EXPECT_EQ(got->byte_count, 5u);
  got = Decode({0xc4, 0xe2, 0x6a, 0x5c, 0xc5});  // tdpbf16ps tmm0, tmm5, tmm2
  ASSERT_TRUE(got);
  EXPECT_EQ(got->operation, TileOperation::kAddHalfProducts);
  EXPECT_EQ((std::array{got->tile, got->rows, got->columns}), (std::array{0, 5, 2}));
  got = Decode({0xc4, 0xe2, 0x7b, 0x49, 0xf0});  // tilezero tmm6
  ASSERT_TRUE(got);
  EXPECT_EQ(got->operation, TileOperation::kZero);
  EXPECT_EQ(got->tile, 6);
  got = Decode({0xc4, 0xe2, 0x78, 0x49, 0xc0});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->operation, TileOperation::kRelease);
  EXPECT_EQ(got->byte_count, 5u);
}

TEST(DecodeTileInstructionTest, DecodesEveryKindOfAddress) {
  struct Case {
    Bytes code;
    TileOperation operation;
    int tile;
    std::uint64_t address, stride;
  };
  const auto reg = RegisterValue;
  using enum TileOperation;
  for (const Case& c : std::vector<Case>{
           // ldtilecfg [rax], [rsp + 64], [r13 + 8 r14 - 0x200], [r12]
           {{0xc4, 0xe2, 0x78, 0x49, 0x00}, kConfigure, 0, reg(0), 0},
           {{0xc4, 0xe2, 0x78, 0x49, 0x44, 0x24, 0x40}, kConfigure, 0, reg(4) + 64, 0},
           {{0xc4, 0x82, 0x78, 0x49, 0x84, 0xf5, 0x00, 0xfe, 0xff, 0xff},
            kConfigure,
            0,
            reg(13) + 8 * reg(14) - 0x200,
            0},
           {{0xc4, 0xc2, 0x78, 0x49, 0x04, 0x24}, kConfigure, 0, reg(12), 0},
           // tileloadd tmm1, [rdi + rsi]; tmm7, [r13 + 4 r9 + 0x40]; tmm2, [rbx]
           {{0xc4, 0xe2, 0x7b, 0x4b, 0x0c, 0x37}, kLoad, 1, reg(7), reg(6)},
           {{0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0x8d, 0x40}, kLoad, 7, reg(13) + 64, 4 * reg(9)},
           {{0xc4, 0xe2, 0x7b, 0x4b, 0x14, 0x23}, kLoad, 2, reg(3), 0},
           // tileloadd tmm2, [2 r11 + 0x1000]; tmm5, [r12 + r12]; tileloaddt1 tmm4, [rsp + 8 rbp]
           {{0xc4, 0xa2, 0x7b, 0x4b, 0x14, 0x5d, 0, 0x10, 0, 0}, kLoad, 2, 0x1000, 2 * reg(11)},
           {{0xc4, 0x82, 0x7b, 0x4b, 0x2c, 0x24}, kLoad, 5, reg(12), reg(12)},
           {{0xc4, 0xe2, 0x79, 0x4b, 0x24, 0xec}, kLoad, 4, reg(4), 8 * reg(5)},
           // tilestored [rbp + rax - 0x80], tmm3; [r15 + rax - 0x81], tmm3
           {{0xc4, 0xe2, 0x7a, 0x4b, 0x5c, 0x05, 0x80}, kStore, 3, reg(5) - 0x80, reg(0)},
           {{0xc4, 0xc2, 0x7a, 0x4b, 0x9c, 0x07, 0x7f, 0xff, 0xff, 0xff},
            kStore,
            3,
            reg(15) - 0x81,
            reg(0)}}) {
    const auto got = Decode(c.code);
    ASSERT_TRUE(got) << ::testing::PrintToString(c.code);
    EXPECT_EQ(got->operation, c.operation) << ::testing::PrintToString(c.code);
    EXPECT_EQ(got->tile, c.tile) << ::testing::PrintToString(c.code);
    EXPECT_EQ(got->address, c.address) << ::testing::PrintToString(c.code);
    EXPECT_EQ(got->stride, c.stride) << ::testing::PrintToString(c.code);
    EXPECT_EQ(got->byte_count, c.code.size()) << ::testing::PrintToString(c.code);
  }
  // ldtilecfg [rip + 0x11223344]: the offset is relative to the next instruction.
  std::uint8_t code[16] = {0xc4, 0xe2, 0x78, 0x49, 0x05, 0x44, 0x33, 0x22, 0x11};
  const std::uint64_t general[16] = {};
  const auto got = DecodeTileInstruction(code, general);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->address, reinterpret_cast<std::uint64_t>(code) + 9 + 0x11223344);
  EXPECT_EQ(got->byte_count, 9u);
}

TEST(DecodeTileInstructionTest, RefusesEveryOtherInstruction) {
  for (const Bytes& code : std::vector<Bytes>{
           {0x0f, 0x0b},                    // ud2
           {0xc4, 0xe2, 0x79, 0x49, 0x00},  // sttilecfg
           {0xc4, 0xe2, 0x40, 0x5e, 0xd9},  // products of unsigned bytes and of f16
           {0xc4, 0xe2, 0x42, 0x5e, 0xd9},
           {0xc4, 0xe2, 0x41, 0x5e, 0xd9},
           {0xc4, 0xe2, 0x43, 0x5c, 0xd9},
           {0xc4, 0xe3, 0x43, 0x5e, 0xd9},  // another opcode map
           {0xc4, 0xe2, 0xc3, 0x5e, 0xd9},  // VEX.W is set
           {0xc4, 0xe2, 0x47, 0x5e, 0xd9},  // VEX.L is set (256 bits)
           {0xc4, 0x62, 0x43, 0x5e, 0xd9},  // a tile number above 7 in each operand
           {0xc4, 0xc2, 0x43, 0x5e, 0xd9},
           {0xc4, 0xe2, 0x3b, 0x5e, 0xd9},
           {0xc4, 0xe2, 0x43, 0x5e, 0x19},        // a product with a memory operand
           {0xc4, 0x62, 0x7b, 0x4b, 0x0c, 0x37},  // a load of tile 9
           {0xc4, 0xe2, 0x7b, 0x4b, 0x0f},        // a load without SIB
           {0xc4, 0xe2, 0x78, 0x4b, 0x0c, 0x37},  // a load without a prefix
           {0xc4, 0xe2, 0x73, 0x4b, 0x0c, 0x37},  // a load with a nonzero vvvv field
           {0xc4, 0xe2, 0x78, 0x49, 0x08},        // ldtilecfg /1
           {0xc4, 0xe2, 0x78, 0x49, 0xc8},        // tilerelease /1
           {0xc4, 0xe2, 0x78, 0x49, 0xc1},
           {0xc4, 0xe2, 0x7b, 0x49, 0xf1},        // tilezero with a second tile
           {0x62, 0xf2, 0x6d, 0x28, 0x50, 0xd9},  // vpdpbusd
       }) {
    EXPECT_FALSE(Decode(code)) << ::testing::PrintToString(code);
  }
}

// ---- arithmetic

struct alignas(64) Configuration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

Configuration Product(std::size_t rows, std::size_t words, std::size_t columns) {
  Configuration shapes;
  const auto set = [&](int tile, std::size_t tile_rows, std::size_t row_words) {
    shapes.rows[tile] = static_cast<std::uint8_t>(tile_rows);
    shapes.row_bytes[tile] = static_cast<std::uint16_t>(4 * row_words);
  };
  set(0, rows, columns);
  set(1, rows, words);
  set(2, words, columns);
  return shapes;
}

void Configure(const Configuration& shapes) {
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes) : "memory");
}
void Release() { __asm__ volatile("tilerelease"); }

// 16 rows of 64 bytes with a stride of 80 bytes.
struct Rows {
  static constexpr std::size_t kStride = 80;
  std::uint8_t bytes[16 * kStride] = {};

  std::uint8_t* operator[](std::size_t row) { return bytes + row * kStride; }
};

// Loads, multiplies and stores tiles. Each instruction addresses memory with different registers.
template <bool kHalves>
void Multiply(const Rows& rows, const Rows& columns, Rows* sums) {
  register std::uint64_t sums_at __asm__("r13") = reinterpret_cast<std::uint64_t>(sums);
  register std::uint64_t rows_at __asm__("rdx") = reinterpret_cast<std::uint64_t>(&rows) - 0x1234;
  register std::uint64_t columns_at __asm__("r12") = reinterpret_cast<std::uint64_t>(&columns);
  register std::uint64_t quarter __asm__("r9") = Rows::kStride / 4;
  register std::uint64_t whole __asm__("rcx") = Rows::kStride;
  __asm__ volatile(
      "tileloadd (%0,%3,4), %%tmm0\n"
      "tileloadd 0x1234(%1,%4,1), %%tmm1\n"
      "tileloaddt1 (%2,%4,1), %%tmm2\n"
      ".if %c5\n"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n"
      ".else\n"
      "tdpbssd %%tmm2, %%tmm1, %%tmm0\n"
      ".endif\n"
      "tilestored %%tmm0, (%0,%4,1)"
      :
      : "r"(sums_at), "r"(rows_at), "r"(columns_at), "r"(quarter), "r"(whole), "i"(kHalves ? 1 : 0)
      : "memory");
}

class TileInstructionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const KernelChoice amx = SelectOrTrap("amx");
    if (amx.table == nullptr) GTEST_SKIP() << amx.problem;
  }
};

TEST_F(TileInstructionsTest, MultiplyBytesInEveryShape) {
  Numbers numbers(81);
  for (std::size_t m = 1; m <= 16; m += 3) {
    for (std::size_t k = 1; k <= 16; k += 2) {
      for (const std::size_t n : {1u, 7u, 15u, 16u}) {
        Rows rows, columns, sums;
        for (std::uint8_t& byte : rows.bytes) byte = numbers.Byte();
        for (std::uint8_t& byte : columns.bytes) byte = numbers.Byte();
        for (std::uint8_t& byte : sums.bytes) byte = numbers.Byte();
        Rows expected = sums;
        for (std::size_t r = 0; r < m; ++r) {
          for (std::size_t c = 0; c < n; ++c) {
            std::uint32_t sum = 0;
            std::memcpy(&sum, expected[r] + 4 * c, 4);
            for (std::size_t j = 0; j < 4 * k; ++j) {
              const auto a = static_cast<std::int8_t>(rows[r][j]);
              const auto b = static_cast<std::int8_t>(columns[j / 4][4 * c + j % 4]);
              sum += static_cast<std::uint32_t>(a * b);
            }
            std::memcpy(expected[r] + 4 * c, &sum, 4);
          }
        }
        Configure(Product(m, k, n));
        Multiply<false>(rows, columns, &sums);
        Release();
        ASSERT_EQ(std::memcmp(sums.bytes, expected.bytes, sizeof sums.bytes), 0)
            << m << " " << k << " " << n;
      }
    }
  }
}

// Replaces a subnormal value by a zero of the same sign.
float Flushed(float value) {
  return std::fabs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
}

TEST_F(TileInstructionsTest, MultiplyPairsOfBf16InTheOrderThatIsDocumented) {
  Numbers numbers(82);
  for (const std::size_t m : {1u, 5u, 16u}) {
    for (const std::size_t k : {1u, 4u, 15u, 16u}) {
      for (const std::size_t n : {1u, 9u, 16u}) {
        Rows rows, columns, sums;
        const auto fill = [&](Rows* tile) {
          for (std::size_t r = 0; r < 16; ++r) {
            for (std::size_t j = 0; j < 32; ++j) {
              // Some products and some elements are subnormal.
              const float value = numbers.Next() * (numbers.Byte() % 16 == 0 ? 0x1p-70f : 1.0f);
              const std::uint16_t bits =
                  numbers.Byte() % 32 == 0 ? numbers.Bits() & 0x807fu : BF16FromF32(value);
              std::memcpy((*tile)[r] + 2 * j, &bits, 2);
            }
          }
        };
        fill(&rows);
        fill(&columns);
        fill(&sums);
        Rows expected = sums;
        for (std::size_t r = 0; r < m; ++r) {
          for (std::size_t c = 0; c < n; ++c) {
            float apart[2] = {};
            for (std::size_t j = 0; j < 2 * k; ++j) {
              std::uint16_t a = 0, b = 0;
              std::memcpy(&a, rows[r] + 2 * j, 2);
              std::memcpy(&b, columns[j / 2] + 4 * c + 2 * (j % 2), 2);
              apart[j % 2] =
                  Flushed(std::fma(Flushed(F32FromBF16(a)), Flushed(F32FromBF16(b)), apart[j % 2]));
            }
            float sum = 0;
            std::memcpy(&sum, expected[r] + 4 * c, 4);
            sum = Flushed(Flushed(sum) + Flushed(apart[0] + apart[1]));
            std::memcpy(expected[r] + 4 * c, &sum, 4);
          }
        }
        Configure(Product(m, k, n));
        Multiply<true>(rows, columns, &sums);
        Release();
        ASSERT_EQ(std::memcmp(sums.bytes, expected.bytes, sizeof sums.bytes), 0)
            << m << " " << k << " " << n;
      }
    }
  }
}

void StoreTile(Rows* to) {
  __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(to), "r"(Rows::kStride) : "memory");
}
void LoadTile(const Rows& from) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(&from), "r"(Rows::kStride) : "memory");
}

TEST_F(TileInstructionsTest, TilesAreZeroAfterConfigurationAndTilezero) {
  Rows ones, got;
  for (std::uint8_t& byte : ones.bytes) byte = 1;
  Configure(Product(3, 2, 5));
  LoadTile(ones);
  Configure(Product(3, 2, 5));
  got = ones;
  StoreTile(&got);
  for (std::size_t i = 0; i < sizeof got.bytes; ++i) {
    const bool is_inside = i / Rows::kStride < 3 && i % Rows::kStride < 20;
    ASSERT_EQ(got.bytes[i], is_inside ? 0 : 1) << i;
  }
  LoadTile(ones);
  __asm__ volatile("tilezero %tmm0");
  got = ones;
  StoreTile(&got);
  Release();
  EXPECT_EQ(got[2][19], 0);
  EXPECT_EQ(got[2][20], 1);
}

TEST_F(TileInstructionsTest, EachThreadHasItsOwnTiles) {
  Rows ones, twos, got;
  for (std::uint8_t& byte : ones.bytes) byte = 1;
  for (std::uint8_t& byte : twos.bytes) byte = 2;
  Configure(Product(16, 1, 16));
  LoadTile(ones);
  std::thread([&] {
    Configure(Product(4, 1, 4));
    LoadTile(twos);
    Release();
  }).join();
  StoreTile(&got);
  Release();
  EXPECT_EQ(got[15][63], 1);
}

// ---- refused operations

class TileFaultsDeathTest : public TileInstructionsTest {
 protected:
  void SetUp() override {
    TileInstructionsTest::SetUp();
    if (!IsSkipped() && !TilesAreTrapped())
      GTEST_SKIP() << "the machine has AMX, so no instruction is trapped";
  }
  static void Multiply() { __asm__ volatile("tdpbssd %tmm2, %tmm1, %tmm0"); }
};

TEST_F(TileFaultsDeathTest, AnInvalidConfigurationFaults) {
  Configuration shapes = Product(16, 8, 16);
  const auto expect = [&](const char* why) { EXPECT_DEATH(Configure(shapes), why); };
  shapes.palette = 2;
  expect("palette");
  shapes.palette = 1;
  shapes.start_row = 1;
  expect("start_row is not 0");
  shapes.start_row = 0;
  shapes.reserved[13] = 1;
  expect("reserved");
  shapes.reserved[13] = 0;
  shapes.rows[8] = 1;
  expect("more than eight tiles");
  shapes.rows[8] = 0;
  shapes.row_bytes[8] = 4;
  expect("more than eight tiles");
  shapes.row_bytes[8] = 0;
  shapes.rows[0] = 17;
  expect("more than 16 rows");
  shapes.rows[0] = 16;
  shapes.row_bytes[0] = 68;
  expect("more than 64 bytes");
  shapes.row_bytes[0] = 0;
  expect("rows without bytes");
  shapes.row_bytes[0] = 64;
  shapes.rows[0] = 0;
  expect("rows without bytes");
}

TEST_F(TileFaultsDeathTest, AnUnconfiguredTileFaults) {
  Rows rows;
  const auto fault = "no tiles are configured";
  EXPECT_DEATH(LoadTile(rows), fault);
  EXPECT_DEATH(StoreTile(&rows), fault);
  EXPECT_DEATH(__asm__ volatile("tilezero %tmm0"), fault);
  EXPECT_DEATH(Multiply(), fault);
  Configure(Product(16, 16, 16));
  Release();
  EXPECT_DEATH(Multiply(), fault);
  Configuration nothing;
  nothing.palette = 0;
  Configure(Product(16, 16, 16));
  Configure(nothing);
  EXPECT_DEATH(Multiply(), fault);
  Configure(Product(16, 16, 16));
  EXPECT_DEATH(__asm__ volatile("tilezero %tmm5"), "the tile is not configured");
  EXPECT_DEATH(__asm__ volatile("tdpbssd %tmm3, %tmm1, %tmm0"), "the tile is not configured");
  Release();
}

TEST_F(TileFaultsDeathTest, AProductOfMismatchedTilesFaults) {
  const auto expect = [&](const Configuration& shapes, const char* why) {
    Configure(shapes);
    EXPECT_DEATH(Multiply(), why);
    Release();
  };
  Configuration shapes = Product(16, 16, 16);
  shapes.rows[0] = 15;
  expect(shapes, "different row counts");
  shapes = Product(16, 16, 16);
  shapes.row_bytes[2] = 60;
  expect(shapes, "different column counts");
  shapes = Product(16, 16, 16);
  shapes.rows[2] = 15;
  expect(shapes, "different lengths");
  shapes = Product(16, 16, 16);
  shapes.row_bytes[1] = 62;
  expect(shapes, "not whole words");
  Configure(Product(16, 16, 16));
  // Assemblers refuse the following instructions, which name one tile twice: tdpbssd tmm0, tmm0,
  // tmm2; tdpbssd tmm0, tmm1, tmm0; tdpbf16ps tmm0, tmm1, tmm1.
  const auto why = "one tile twice";
  EXPECT_DEATH(__asm__ volatile(".byte 0xc4, 0xe2, 0x6b, 0x5e, 0xc0"), why);
  EXPECT_DEATH(__asm__ volatile(".byte 0xc4, 0xe2, 0x7b, 0x5e, 0xc1"), why);
  EXPECT_DEATH(__asm__ volatile(".byte 0xc4, 0xe2, 0x72, 0x5c, 0xc1"), why);
  Release();
}

TEST_F(TileFaultsDeathTest, AnotherIllegalInstructionEndsTheProcess) {
  EXPECT_DEATH(__asm__ volatile("ud2"), "not a tile instruction, or one that is not emulated");
}

}  // namespace
}  // namespace kvd::kernels
