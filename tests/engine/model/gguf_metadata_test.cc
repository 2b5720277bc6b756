#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/model/gguf_file.h"
#include "engine/model/gguf_writer.h"
#include "tests/engine/model/gguf_bytes.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GgufFile Written(const GgufWriter& writer) {
  return std::move(*GgufFile::FromBytes(*writer.ToBytes({})));
}

GgufFile AllTypes() {
  return std::move(*GgufBytes::WithHeader(0, 10)
                        .Key("u8", GgufType::kU8)
                        .U8(200)
                        .Key("i8", GgufType::kI8)
                        .Number(std::int8_t{-3})
                        .Key("u16", GgufType::kU16)
                        .Number(std::uint16_t{60000})
                        .Key("i16", GgufType::kI16)
                        .Number(std::int16_t{-30000})
                        .Key("u32", GgufType::kU32)
                        .U32(0xffffffff)
                        .Key("i32", GgufType::kI32)
                        .Number(std::int32_t{-7})
                        .Key("u64", GgufType::kU64)
                        .U64(1ull << 40)
                        .Key("i64", GgufType::kI64)
                        .Number(std::int64_t{-1})
                        .Key("f64", GgufType::kF64)
                        .Number(0.5)
                        .Key("huge", GgufType::kF64)
                        .Number(1e300)
                        .Parse());
}

TEST(GgufMetadataTest, IntegerGettersTakeEveryIntegerTypeThatFits) {
  GgufFile file = AllTypes();
  EXPECT_EQ(file.GetU32("u8"), 200u);
  EXPECT_EQ(file.GetI32("i8"), -3);
  EXPECT_EQ(file.GetU32("u16"), 60000u);
  EXPECT_EQ(file.GetI32("i16"), -30000);
  EXPECT_EQ(file.GetU32("u32"), 0xffffffffu);
  EXPECT_EQ(file.GetU64("u64"), 1ull << 40);
  EXPECT_EQ(file.GetU64("u32"), 0xffffffffull);
}

TEST(GgufMetadataTest, ValuesOfEveryTypeAreNamedInMessages) {
  GgufFile file = AllTypes();
  for (const char* key : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f64"}) {
    EXPECT_EQ(file.GetString(key).error().message,
              std::string(key) + ": must be string, is " + key);
  }
  EXPECT_EQ(GgufTypeName(static_cast<GgufType>(99)), "unknown");
}

TEST(GgufMetadataTest, AnIntegerThatDoesNotFitIsNamed) {
  GgufFile file = AllTypes();
  EXPECT_EQ(file.GetU32("u64").error().message, "u64: 1099511627776 does not fit u32");
  EXPECT_EQ(file.GetU32("i32").error().message, "i32: -7 does not fit u32");
  EXPECT_EQ(file.GetU64("i64").error().message, "i64: -1 does not fit u64");
  EXPECT_EQ(file.GetI32("u32").error().message, "u32: 4294967295 does not fit i32");
}

TEST(GgufMetadataTest, FloatsComeFromBothWidthsAndOverflowToInfinity) {
  GgufFile file = AllTypes();
  EXPECT_EQ(file.GetF32("f64"), 0.5f);
  EXPECT_TRUE(std::isinf(*file.GetF32("huge")));
  EXPECT_EQ(file.GetF32("u32").error().message, "u32: must be f32, is u32");
}

TEST(GgufMetadataTest, AMissingKeyIsNotFoundAndAFallbackServesOnlyForThat) {
  GgufWriter writer;
  writer.AddString("text", "hello");
  GgufFile file = Written(writer);
  EXPECT_EQ(file.GetU32("none").error().code, Code::kNotFound);
  EXPECT_EQ(file.GetString("none").error().message, "none: missing from the metadata");
  EXPECT_EQ(file.GetU32Or("none", 5), 5u);
  EXPECT_EQ(file.GetI32Or("none", -5), -5);
  EXPECT_EQ(file.GetU64Or("none", 6), 6u);
  EXPECT_EQ(file.GetF32Or("none", 0.5f), 0.5f);
  EXPECT_EQ(file.GetBoolOr("none", true), true);
  EXPECT_EQ(file.GetStringOr("none", "x"), "x");
  EXPECT_EQ(file.GetU32Or("text", 5).error().message, "text: must be u32, is string");
  EXPECT_EQ(file.GetBoolOr("text", true).error().code, Code::kCorrupt);
  EXPECT_EQ(file.GetString("text"), "hello");
}

TEST(GgufMetadataTest, ArraysAreReadAndTheirTypesChecked) {
  GgufWriter writer;
  writer.AddU32Array("u32s", std::array{1u, 2u, 3u});
  writer.AddI32Array("i32s", std::array{-1, 2});
  writer.AddF32Array("f32s", std::array{0.5f, 1.5f});
  writer.AddStringArray("strings", std::array<std::string_view, 3>{"a", "", "ccc"});
  writer.AddStringArray("no_strings", {});
  writer.AddBool("flag", true);
  GgufFile file = Written(writer);
  EXPECT_THAT(*file.GetU32Array("u32s"), ElementsAre(1u, 2u, 3u));
  EXPECT_THAT(*file.GetI32Array("u32s"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*file.GetI32Array("i32s"), ElementsAre(-1, 2));
  EXPECT_THAT(*file.GetF32Array("f32s"), ElementsAre(0.5f, 1.5f));
  EXPECT_THAT(*file.GetStringArray("strings"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*file.GetStringArray("no_strings"), IsEmpty());
  EXPECT_EQ(file.GetArrayCount("strings"), 3u);
  EXPECT_EQ(file.GetBool("flag"), true);
  EXPECT_EQ(file.GetU32Array("i32s").error().message, "i32s: -1 does not fit array of u32");
  EXPECT_EQ(file.GetU32Array("strings").error().message,
            "strings: must be array of u32, is array of string");
  EXPECT_EQ(file.GetStringArray("u32s").error().message,
            "u32s: must be array of string, is array of u32");
  EXPECT_EQ(file.GetU32("u32s").error().message, "u32s: must be u32, is array of u32");
  EXPECT_EQ(file.GetF32Array("u32s").error().code, Code::kCorrupt);
  EXPECT_EQ(file.GetBoolArray("u32s").error().code, Code::kCorrupt);
  EXPECT_EQ(file.GetArrayCount("flag").error().message, "flag: must be array, is bool");
  EXPECT_EQ(file.GetU32("flag").error().message, "flag: must be u32, is bool");
}

}  // namespace
}  // namespace kvd
