#include "llama_files/llama_state_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/data_type.h"
#include "tests/llama_files/llama_samples.h"

namespace kvd {
namespace {

using kernels::DataType;
using ::testing::HasSubstr;

// A source of rows whose bytes depend on the row's cache, kind, layer and cell.
class NumberedRows : public LlamaRowSource {
 public:
  explicit NumberedRows(const LlamaStatePlan& plan) : plan_(plan) {}
  static std::byte ByteOf(std::size_t cache, LlamaRowKind kind, std::size_t layer,
                          std::uint32_t cell, std::size_t at) {
    return static_cast<std::byte>(
        (cache * 101 + (kind == LlamaRowKind::kV ? 53 : 0) + layer * 29 + cell * 7 + at) & 0xff);
  }
  Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) override {
    if (fails) return Fail(Code::kNumerical, "a row");
    const LlamaCachePlan& at = plan_.caches[cache];
    const LlamaRowShape& shape = kind == LlamaRowKind::kK ? at.k[layer] : at.v[layer];
    const std::size_t row_bytes = kernels::RowBytes(shape.type, shape.elements);
    EXPECT_EQ(rows.size(), cell_count * row_bytes);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = ByteOf(cache, kind, layer, first_cell + static_cast<std::uint32_t>(i / row_bytes),
                       i % row_bytes);
    }
    return {};
  }
  bool fails = false;

 private:
  const LlamaStatePlan& plan_;
};

LlamaCachePlan Cells(std::uint32_t count, std::uint32_t layers, DataType type, std::uint64_t k,
                     std::uint64_t v, bool is_session) {
  LlamaCachePlan cache;
  for (std::uint32_t cell = 0; cell < count; ++cell) {
    LlamaCell at{.pos = static_cast<std::int32_t>(2 * cell)};
    if (is_session) {
      at.first_id = cell;
      at.id_count = 1;
      cache.sequence_ids.push_back(static_cast<std::int32_t>(cell % 3));
    }
    cache.cells.push_back(at);
  }
  cache.declared_layers = layers;
  cache.k.assign(layers, {type, k});
  cache.v.assign(layers, {type, v});
  return cache;
}

std::vector<std::byte> Written(const LlamaStatePlan& plan) {
  auto bytes = LlamaStateBytes(plan);
  EXPECT_TRUE(bytes) << bytes.error().message;
  std::vector<std::byte> file(*bytes, std::byte{0xee});
  NumberedRows source(plan);
  LlamaMemorySink sink(file);
  const Status written = WriteLlamaState(plan, source, sink);
  EXPECT_TRUE(written) << written.error().message;
  return file;
}

LlamaStatePlan PlanOf2025() {
  LlamaStatePlan plan;
  plan.layout = LlamaLayout::kFebruary2025;
  return plan;
}

void ExpectReadBack(const LlamaStatePlan& plan) {
  const std::vector<std::byte> file = Written(plan);
  const auto read = ReadLlamaStateFile(file);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->kind, plan.kind);
  EXPECT_EQ(read->layout, LlamaLayout::kFebruary2025);
  EXPECT_EQ(read->architecture, plan.architecture);
  EXPECT_TRUE(std::ranges::equal(read->tokens, plan.tokens));
  EXPECT_TRUE(std::ranges::equal(read->output_positions, plan.output_positions));
  EXPECT_EQ(read->logits.count, plan.logits.size());
  EXPECT_EQ(read->embeddings.count, plan.embeddings.size());
  ASSERT_EQ(read->parts.size(), plan.caches.size());
  for (std::size_t cache = 0; cache < plan.caches.size(); ++cache) {
    const LlamaCachePlan& wanted = plan.caches[cache];
    const LlamaCells& part = read->parts[cache];
    ASSERT_EQ(part.cells.size(), wanted.cells.size());
    for (std::size_t cell = 0; cell < part.cells.size(); ++cell) {
      EXPECT_EQ(part.cells[cell].pos, wanted.cells[cell].pos);
    }
    EXPECT_EQ(part.sequence_ids, wanted.sequence_ids);
    ASSERT_EQ(part.k.size(), wanted.k.size());
    const auto expect = [&](const LlamaRows& rows, LlamaRowKind kind, std::size_t layer) {
      const std::size_t element_bytes = kernels::BytesPerBlock(rows.type);
      for (std::size_t cell = 0; cell < part.cells.size(); ++cell) {
        for (std::size_t at = 0; at < rows.row_bytes; ++at) {
          std::size_t offset = rows.offset + cell * rows.row_bytes + at;
          if (rows.is_transposed) {
            offset = rows.offset + (at / element_bytes * part.cells.size() + cell) * element_bytes +
                     at % element_bytes;
          }
          ASSERT_EQ(file[offset],
                    NumberedRows::ByteOf(cache, kind, layer, static_cast<std::uint32_t>(cell), at));
        }
      }
    };
    for (std::size_t layer = 0; layer < part.k.size(); ++layer) {
      EXPECT_EQ(part.v[layer].is_transposed, wanted.is_v_transposed);
      expect(part.k[layer], LlamaRowKind::kK, layer);
      expect(part.v[layer], LlamaRowKind::kV, layer);
    }
  }
}

const std::vector<TokenId> kTokens = {3, 1, 4, 1, 5};

TEST(LlamaStateWriterTest, SequencesAndSessionsOfEveryTypeAreReadBack) {
  for (DataType type : kernels::kCellTypes) {
    for (bool is_transposed : {false, true}) {
      if (is_transposed && kernels::IsQuantized(type)) continue;
      for (bool is_session : {false, true}) {
        LlamaStatePlan plan = PlanOf2025();
        plan.tokens = kTokens;
        plan.caches = {Cells(5, 3, type, 64, 32, is_session)};
        plan.caches[0].is_v_transposed = is_transposed;
        const std::vector<std::int32_t> outputs = {4};
        const std::vector<float> logits = {0.5f, 1.5f};
        if (is_session) {
          plan.kind = LlamaFileKind::kSession;
          plan.architecture = "llama";
          plan.output_positions = outputs;
          plan.logits = logits;
        }
        ExpectReadBack(plan);
      }
    }
  }
}

TEST(LlamaStateWriterTest, RecurrentAndHybridStatesAreReadBack) {
  LlamaCachePlan states = Cells(1, 2, DataType::kF32, 6, 24, false);
  LlamaStatePlan plan = PlanOf2025();
  plan.tokens = kTokens;
  plan.caches = {states};
  ExpectReadBack(plan);
  states.declared_layers = 5;
  plan.caches = {Cells(5, 3, DataType::kF16, 64, 32, false), states};
  ExpectReadBack(plan);
}

TEST(LlamaStateWriterTest, ATransposedLayerOfManyCellsIsWrittenInPieces) {
  LlamaStatePlan plan = PlanOf2025();
  plan.tokens = kTokens;
  plan.caches = {Cells(1000, 1, DataType::kF32, 32, 512, false)};
  plan.caches[0].is_v_transposed = true;
  ExpectReadBack(plan);
}

TEST(LlamaStateWriterTest, AnEmptySequenceCanBeWritten) {
  LlamaStatePlan plan = PlanOf2025();
  plan.caches = {Cells(0, 2, DataType::kF16, 32, 32, false)};
  ExpectReadBack(plan);
}

TEST(LlamaStateWriterTest, SizesAreThoseOfLlamaCpp) {
  for (std::uint32_t cells : {1u, 100u, 4096u}) {
    std::vector<TokenId> tokens(cells);
    LlamaStatePlan plan = PlanOf2025();
    plan.tokens = tokens;
    plan.caches = {Cells(cells, 32, DataType::kF16, 1024, 1024, false)};
    EXPECT_EQ(LlamaStateBytes(plan), 792u + 131084u * cells);
  }
}

TEST(LlamaStateWriterTest, ValuesThatTheLayoutCannotHoldAreRefused) {
  const auto message = [](const auto& change) {
    LlamaStatePlan plan = PlanOf2025();
    plan.tokens = kTokens;
    plan.caches = {Cells(2, 1, DataType::kF16, 32, 32, false)};
    change(plan);
    const auto bytes = LlamaStateBytes(plan);
    EXPECT_FALSE(bytes);
    if (bytes) return std::string();
    EXPECT_EQ(bytes.error().code, Code::kInvalidArgument);
    return bytes.error().message;
  };
  EXPECT_THAT(message([](LlamaStatePlan& plan) {
                plan.caches[0].v[0].type = DataType::kQ8_0;
                plan.caches[0].is_v_transposed = true;
              }),
              HasSubstr("q8_0 cannot be transposed"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) { plan.caches[0].k[0] = {DataType::kQ8_0, 33}; }),
              HasSubstr("33 elements of q8_0 are not a whole number of blocks"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) { plan.caches[0].k[0].elements = 1ull << 32; }),
              HasSubstr("4294967296 elements in a row"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) { plan.caches[0].declared_layers = 0; }),
              HasSubstr("1 layers of K and 1 of V in a cache of 0"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) { plan.caches[0].v.pop_back(); }),
              HasSubstr("1 layers of K and 0 of V"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) {
                plan.kind = LlamaFileKind::kSession;
                plan.architecture.assign(65, 'x');
              }),
              HasSubstr("name of 65 bytes, limit 64"));
  EXPECT_THAT(message([](LlamaStatePlan& plan) {
                plan.caches[0].cells.resize(1u << 20);
                plan.caches[0].k.assign(1u << 10, {DataType::kF32, 0xffffffff});
                plan.caches[0].v = plan.caches[0].k;
                plan.caches[0].declared_layers = 1u << 10;
              }),
              HasSubstr("more than 2^63 bytes"));
}

TEST(LlamaStateWriterTest, TheErrorForASmallBufferHasBothSizes) {
  LlamaStatePlan plan = PlanOf2025();
  plan.caches = {Cells(2, 1, DataType::kF16, 32, 32, false)};
  std::vector<std::byte> file(*LlamaStateBytes(plan) - 1);
  NumberedRows source(plan);
  LlamaMemorySink sink(file);
  const Status written = WriteLlamaState(plan, source, sink);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kNoSpace);
  EXPECT_EQ(written.error().message, "size: " + std::to_string(file.size()) + " bytes, " +
                                         std::to_string(file.size() + 1) + " needed");
}

TEST(LlamaStateWriterTest, AnErrorOfTheSourceIsReturned) {
  for (bool is_transposed : {false, true}) {
    LlamaStatePlan plan = PlanOf2025();
    plan.caches = {Cells(2, 1, DataType::kF16, 32, 32, false)};
    plan.caches[0].is_v_transposed = is_transposed;
    plan.caches[0].k.clear();
    plan.caches[0].v.clear();
    plan.caches[0].k.push_back({DataType::kF16, is_transposed ? 0u : 32u});
    plan.caches[0].v.push_back({DataType::kF16, 32});
    std::vector<std::byte> file(*LlamaStateBytes(plan));
    NumberedRows source(plan);
    source.fails = true;
    LlamaMemorySink sink(file);
    const Status written = WriteLlamaState(plan, source, sink);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Code::kNumerical);
  }
}

// ------------------------------------------------------------- against the description in samples

// Returns the plan with which the writer must write the file that LlamaSampleFile builds.
LlamaStatePlan PlanOf(const test::LlamaSample& sample, const std::vector<TokenId>& tokens) {
  using Form = test::LlamaSampleCache::Form;
  LlamaStatePlan plan;
  plan.kind = sample.kind;
  plan.layout = sample.layout;
  plan.tokens = tokens;
  const bool is_session = sample.kind == LlamaFileKind::kSession;
  if (is_session) plan.architecture = "llama";
  for (const test::LlamaSampleCache& wanted : sample.caches) {
    LlamaCachePlan cache;
    const bool has_streams = wanted.form == Form::kStreams;
    cache.sequence_ids = {0, 1};
    for (std::uint32_t cell = 0; cell < wanted.cells; ++cell) {
      cache.cells.push_back({.pos = static_cast<std::int32_t>(cell),
                             .first_id = 0,
                             .id_count = is_session ? 1 + cell % 2 : (has_streams ? 1u : 0u)});
    }
    if (has_streams) {
      cache.stream_cells.assign(wanted.streams, 0);
      cache.stream_cells.back() = wanted.cells;
    }
    cache.has_coordinates = wanted.has_coordinates;
    cache.is_v_transposed = wanted.is_transposed;
    cache.declared_layers = wanted.declared_layers;
    cache.k.assign(wanted.layers, {wanted.k_type, wanted.k_elements});
    if (wanted.v_elements != 0) cache.v.assign(wanted.layers, {wanted.v_type, wanted.v_elements});
    plan.caches.push_back(std::move(cache));
  }
  return plan;
}

// A source of rows that reads them from an existing file.
class RowsOfFile : public LlamaRowSource {
 public:
  explicit RowsOfFile(std::span<const std::byte> file) : file_(file) {
    read_ = *ReadLlamaStateFile(file);
  }
  Status ReadRows(std::size_t cache, LlamaRowKind kind, std::size_t layer, std::uint32_t first_cell,
                  std::uint32_t cell_count, std::span<std::byte> rows) override {
    const LlamaCells& part = read_.parts.at(cache);
    const LlamaRows& from = kind == LlamaRowKind::kK ? part.k.at(layer) : part.v.at(layer);
    const std::size_t element_bytes = kernels::BytesPerBlock(from.type);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t cell = first_cell + i / from.row_bytes, at = i % from.row_bytes;
      std::size_t offset = from.offset + cell * from.row_bytes + at;
      if (from.is_transposed) {
        offset = from.offset + (at / element_bytes * part.cells.size() + cell) * element_bytes +
                 at % element_bytes;
      }
      rows[i] = file_[offset];
    }
    EXPECT_EQ(rows.size(), cell_count * from.row_bytes);
    return {};
  }

 private:
  std::span<const std::byte> file_;
  LlamaStateFile read_;
};

TEST(LlamaStateWriterTest, EveryStructureIsWrittenAsInTheSamples) {
  const std::vector<TokenId> tokens = {5, 6, 7};
  std::size_t compared = 0;
  for (const auto& [name, sample] : test::LlamaSamples()) {
    if (sample.sequence_version == kLlamaSequenceVersionNewest) continue;
    SCOPED_TRACE(name);
    const test::LlamaSampleFile wanted(sample);
    LlamaStatePlan plan = PlanOf(sample, tokens);
    const std::vector<std::int32_t> outputs = {0, 2};
    std::vector<float> logits;
    if (sample.kind == LlamaFileKind::kSession && sample.layout == LlamaLayout::kFebruary2025) {
      plan.output_positions = outputs;
      const std::size_t at = wanted.field("logit_count").offset + sizeof(std::uint64_t);
      logits.resize(6);
      std::memcpy(logits.data(), wanted.bytes.data() + at, 6 * sizeof(float));
      plan.logits = logits;
    }
    RowsOfFile source(wanted.bytes);
    const auto bytes = LlamaStateBytes(plan);
    ASSERT_TRUE(bytes) << bytes.error().message;
    ASSERT_EQ(*bytes, wanted.bytes.size());
    std::vector<std::byte> file(*bytes, std::byte{0xee});
    LlamaMemorySink sink(file);
    const Status written = WriteLlamaState(plan, source, sink);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_TRUE(file == wanted.bytes)
        << std::ranges::mismatch(file, wanted.bytes).in1 - file.begin();
    ++compared;
  }
  EXPECT_EQ(compared, 42u);
}

TEST(LlamaStateWriterTest, CellsOfSeveralStreamsAreWrittenAsSeparateParts) {
  LlamaStatePlan plan;
  plan.kind = LlamaFileKind::kSession;
  plan.architecture = "llama";
  plan.tokens = kTokens;
  plan.caches = {Cells(5, 2, DataType::kF16, 64, 32, true)};
  plan.caches[0].stream_cells = {2, 0, 3};
  for (const bool is_transposed : {false, true}) {
    plan.caches[0].is_v_transposed = is_transposed;
    const std::vector<std::byte> file = Written(plan);
    const auto read = ReadLlamaStateFile(file);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->layout, LlamaLayout::kAugust2026);
    ASSERT_EQ(read->parts.size(), 2u);
    std::uint32_t cell = 0;
    for (const LlamaCells& part : read->parts) {
      EXPECT_EQ(part.stream, cell == 0 ? 0u : 2u);
      ASSERT_EQ(part.cells.size(), cell == 0 ? 2u : 3u);
      for (std::size_t i = 0; i < part.cells.size(); ++i, ++cell) {
        EXPECT_EQ(part.cells[i].pos, plan.caches[0].cells[cell].pos);
        EXPECT_EQ(file[part.k[1].offset + i * part.k[1].row_bytes],
                  NumberedRows::ByteOf(0, LlamaRowKind::kK, 1, cell, 0));
        const std::size_t stride = is_transposed ? 2 : part.v[1].row_bytes;
        EXPECT_EQ(file[part.v[1].offset + i * stride],
                  NumberedRows::ByteOf(0, LlamaRowKind::kV, 1, cell, 0));
      }
    }
  }
}

TEST(LlamaStateWriterTest, FeaturesOfTheOtherLayoutAreRefused) {
  LlamaStatePlan plan = PlanOf2025();
  plan.caches = {Cells(2, 1, DataType::kF16, 32, 32, false)};
  plan.caches[0].stream_cells = {2};
  auto bytes = LlamaStateBytes(plan);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kInvalidArgument);
  EXPECT_THAT(bytes.error().message, HasSubstr("the layout of 2025 has no streams"));
  plan.layout = LlamaLayout::kAugust2026;
  EXPECT_TRUE(LlamaStateBytes(plan));
  plan.caches[0].stream_cells.resize(257);
  bytes = LlamaStateBytes(plan);
  ASSERT_FALSE(bytes);
  EXPECT_THAT(bytes.error().message, HasSubstr("257 streams, limit 256"));
  plan.caches[0].stream_cells = {2};
  plan.kind = LlamaFileKind::kSession;
  const std::vector<float> row = {1.0f};
  const std::vector<std::int32_t> outputs = {0};
  for (int which = 0; which < 3; ++which) {
    plan.output_positions = which == 0 ? std::span(outputs) : std::span<const std::int32_t>();
    plan.logits = which == 1 ? std::span(row) : std::span<const float>();
    plan.embeddings = which == 2 ? std::span(row) : std::span<const float>();
    bytes = LlamaStateBytes(plan);
    ASSERT_FALSE(bytes);
    EXPECT_THAT(bytes.error().message,
                HasSubstr("the layout of 2026 holds no logits and no embeddings"));
  }
}

}  // namespace
}  // namespace kvd
