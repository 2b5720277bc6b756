// Tests the types of rows in files of llama.cpp: conversions, rotated rows, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/data_type.h"
#include "tests/llama_files/import_sequences.h"
#include "tests/llama_files/llama_rewrite.h"
#include "tests/support/llama_conversion.h"
#include "tests/support/tiny_model.h"

namespace kvd::llama_import {
namespace {

using kernels::DataType;
using test::Feed;
using test::LlamaRewrite;
using test::LlamaRewriter;
using test::MakeEngine;
using test::RandomTokens;
using test::TinyLlama;
using ::testing::HasSubstr;

ModelShape WideHeads() {
  ModelShape shape = TinyLlama();
  shape.name = "tiny-heads-64";
  shape.embedding = 128;
  shape.head_dim = 64;
  return shape;
}

double RelativeError(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(double{got[i]} - expected[i], 2);
    square += std::pow(double{expected[i]}, 2);
  }
  return difference / square;
}

TEST(LlamaImportTypesTest, FilesOfEveryTypeAreConverted) {
  const ModelShape shape = WideHeads();
  const auto source =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle sequence = Sequence(*source, 90);
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  std::vector<std::pair<double, std::vector<float>>> all;  // the limit of the error, the logits
  for (const DataType type : kernels::kCellTypes) {
    for (const DataType pool : {DataType::kF16, DataType::kQ8_0}) {
      for (const LlamaLayout layout : kLayouts) {
        const auto file =
            Exported(*source, {sequence}, {.layout = layout, .k_type = type, .v_type = type});
        EXPECT_EQ(ReadLlamaStateFile(file)->parts[0].k[0].type, type);
        const auto engine = MakeEngine(shape, {.cells = 512, .k_type = pool, .v_type = pool});
        const SequenceHandle copy = *engine->memory().sequences().Create({});
        const auto imported = Import(*engine, file, copy);
        ASSERT_TRUE(imported) << imported.error().message;
        EXPECT_EQ(imported->is_converted, pool != type);
        all.emplace_back(type == DataType::kQ4_0 ? 1e-1 : 1e-3, Feed(*engine, copy, next, 20));
      }
    }
  }
  const std::vector<float> expected = Feed(*source, sequence, next, 20);
  for (const auto& [limit, got] : all) EXPECT_LT(RelativeError(got, expected), limit);
}

// Computes y = H x for Hadamard's matrix H; each element of y is a sum over all elements of x.
void RotateNaively(std::span<float> x, std::size_t side) {
  for (std::size_t piece = 0; piece < x.size(); piece += side) {
    std::vector<float> y(side);
    for (std::size_t row = 0; row < side; ++row) {
      for (std::size_t column = 0; column < side; ++column) {
        const float sign = __builtin_parityll(row & column) != 0 ? -1.0f : 1.0f;
        y[row] += sign * x[piece + column] / std::sqrt(static_cast<float>(side));
      }
    }
    std::ranges::copy(y, x.begin() + static_cast<std::ptrdiff_t>(piece));
  }
}

TEST(LlamaImportTypesTest, HeadsThatLlamaCppHasRotatedAreRotatedBack) {
  ModelShape shape = WideHeads();
  shape.name = "tiny-heads-128";
  shape.head_dim = 128;
  shape.embedding = 256;
  const auto source =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle sequence = Sequence(*source, 60);
  const auto before = Exported(
      *source, {sequence},
      {.layout = LlamaLayout::kFebruary2025, .k_type = DataType::kQ8_0, .v_type = DataType::kQ8_0});
  const auto description = ReadLlamaStateFile(before);
  ASSERT_TRUE(description);
  const kernels::KernelTable& kernels = source->kernels();
  const LlamaRewrite rotated{.change = [&](bool is_key, const LlamaRows& rows, std::byte* row) {
    std::vector<float> x(rows.elements);
    kernels.decode_row(rows.type, row, x.data(), x.size());
    RotateNaively(x, is_key ? 128 : 64);
    EXPECT_TRUE(kernels.encode_row(rows.type, x.data(), row, x.size()));
  }};
  const auto file = LlamaRewriter(before, *description, rotated).Run();
  const auto engine =
      MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
  const SequenceHandle right = Imported(*engine, file);
  const SequenceHandle wrong = Imported(*engine, file, {.is_unrotated = true});
  const auto plain_file = LlamaRewriter(before, *description, {}).Run();
  const SequenceHandle plain = Imported(*engine, plain_file, {.is_unrotated = true});
  const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
  const std::vector<float> expected = Feed(*source, sequence, next, 20);
  EXPECT_LT(RelativeError(Feed(*engine, right, next, 20), expected), 3e-3);
  EXPECT_LT(RelativeError(Feed(*engine, plain, next, 20), expected), 3e-3);
  EXPECT_GT(RelativeError(Feed(*engine, wrong, next, 20), expected), 1e-2);
}

// Decodes all keys or all values of one layer to floats.
std::vector<float> RowsOf(const Engine& engine, const std::vector<std::byte>& bytes,
                          const LlamaRows& rows, std::size_t cells) {
  std::vector<float> floats(cells * rows.elements);
  engine.kernels().decode_row(rows.type, bytes.data() + rows.offset, floats.data(), floats.size());
  return floats;
}

TEST(LlamaExportTypesTest, QuantisedHeadsAreRotatedAsLlamaCppOf2026Does) {
  for (const std::uint32_t head_dim : {32u, 64u, 128u, 192u}) {
    SCOPED_TRACE(head_dim);
    ModelShape shape = WideHeads();
    shape.name = "tiny-rotated-" + std::to_string(head_dim);
    shape.head_dim = head_dim;
    shape.embedding = 2 * head_dim;
    const auto engine =
        MakeEngine(shape, {.cells = 512, .k_type = DataType::kF32, .v_type = DataType::kF32});
    // 150 cells are more than the export converts and rotates in one pass.
    const SequenceHandle sequence = Sequence(*engine, 150);
    const auto exported = [&](LlamaLayout layout, DataType type, bool is_unrotated) {
      return Exported(
          *engine, {sequence},
          {.layout = layout, .k_type = type, .v_type = type, .is_unrotated = is_unrotated});
    };
    const auto plain = exported(LlamaLayout::kAugust2026, DataType::kF32, false);
    const auto rotated = exported(LlamaLayout::kAugust2026, DataType::kQ8_0, false);
    const auto unrotated = exported(LlamaLayout::kAugust2026, DataType::kQ8_0, true);
    const auto older = exported(LlamaLayout::kFebruary2025, DataType::kQ8_0, false);
    const auto rows_of = [&](const std::vector<std::byte>& bytes, bool is_key, std::size_t layer) {
      const auto file = ReadLlamaStateFile(bytes);
      const LlamaCells& part = file->parts.at(0);
      return RowsOf(*engine, bytes, is_key ? part.k[layer] : part.v[layer], 150);
    };
    for (const bool is_key : {true, false}) {
      for (std::size_t layer = 0; layer < 3; ++layer) {
        std::vector<float> expected = rows_of(plain, is_key, layer);
        EXPECT_EQ(rows_of(unrotated, is_key, layer), rows_of(older, is_key, layer));
        EXPECT_LT(RelativeError(rows_of(older, is_key, layer), expected), 1e-3);
        if (head_dim % 64 == 0) {
          EXPECT_GT(RelativeError(rows_of(rotated, is_key, layer), expected), 0.1);
          RotateNaively(expected, is_key && head_dim == 128 ? 128 : 64);
        }
        EXPECT_LT(RelativeError(rows_of(rotated, is_key, layer), expected), 1e-3);
      }
    }
    // The import reverses the rotation of the rows by Hadamard's matrix.
    const SequenceHandle copy = Imported(*engine, rotated);
    const std::vector<TokenId> next = RandomTokens(4, 20, shape.vocab);
    EXPECT_LT(RelativeError(Feed(*engine, copy, next, 20), Feed(*engine, sequence, next, 20)),
              3e-3);
  }
}

TEST(LlamaExportTypesTest, WrongNumbersOfStreamsAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), Options());
  const std::vector<SequenceHandle> three = {Sequence(*engine, 9), Sequence(*engine, 8),
                                             Sequence(*engine, 7)};
  const auto message = [&](const LlamaExportOptions& options) {
    const auto opened = test::ExportLlama(*engine, three, options);
    EXPECT_FALSE(opened);
    if (opened) return std::string();
    EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
    return opened.error().message;
  };
  const LlamaFileKind session = LlamaFileKind::kSession;
  EXPECT_THAT(message({.kind = session, .streams = 0}), HasSubstr("0 streams, not in [1, 256]"));
  EXPECT_THAT(message({.kind = session, .streams = 257}), HasSubstr("257 streams, not in"));
  EXPECT_THAT(message({.kind = session, .streams = 2}), HasSubstr("3 sequences in 2 streams"));
  EXPECT_THAT(message({.kind = session, .layout = LlamaLayout::kFebruary2025, .streams = 3}),
              HasSubstr("the layout of 2025 has no streams"));
}

TEST(LlamaImportTypesTest, TypesThatTheLayoutOrTheHeadsCannotHaveAreRefused) {
  const auto engine = MakeEngine(TinyLlama(), Options());  // heads of 16
  const SequenceHandle sequence = Sequence(*engine, 9);
  const auto message = [&](const LlamaExportOptions& options) {
    const auto opened = test::ExportLlama(*engine, {&sequence, 1}, options);
    EXPECT_FALSE(opened);
    return opened ? std::string() : opened.error().message;
  };
  EXPECT_THAT(message({.k_type = DataType::kQ8_0}), HasSubstr("q8_0 packs 32 elements"));
  EXPECT_THAT(message({.v_type = DataType::kQ4_1}), HasSubstr("q4_1; f32, f16"));
  const auto wide = MakeEngine(WideHeads(), Options());
  const SequenceHandle other = Sequence(*wide, 9);
  const auto opened =
      test::ExportLlama(*wide, {&other, 1}, {.v_type = DataType::kQ8_0, .is_v_transposed = true});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("cannot be transposed"));
}

}  // namespace
}  // namespace kvd::llama_import
