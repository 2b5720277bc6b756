#include "llama_files/llama_state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "tests/llama_files/llama_samples.h"
#include "tests/support/test_scale.h"

namespace kvd {
namespace {

using test::LlamaField;
using test::LlamaSample;
using test::LlamaSampleCache;
using test::LlamaSampleFile;
using test::LlamaSamples;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Checks that every offset of the parsed file lies in the file and that its fields are consistent.
void ExpectWithin(const LlamaStateFile& file, std::size_t file_bytes) {
  const auto expect_rows = [&](const LlamaRows& rows, std::size_t cells) {
    ASSERT_LE(rows.offset, file_bytes);
    ASSERT_EQ(rows.elements % kernels::ElementsPerBlock(rows.type), 0u);
    ASSERT_EQ(rows.row_bytes, kernels::RowBytes(rows.type, rows.elements));
    ASSERT_TRUE(rows.row_bytes == 0 || cells <= (file_bytes - rows.offset) / rows.row_bytes);
  };
  for (const LlamaCells& part : file.parts) {
    ASSERT_LT(part.cache, file.cache_count);
    ASSERT_TRUE(part.v.empty() || part.k.size() == part.v.size());
    ASSERT_LE(part.k.size(), part.declared_layers);
    for (const LlamaRows& rows : part.k) expect_rows(rows, part.cells.size());
    for (const LlamaRows& rows : part.v) expect_rows(rows, part.cells.size());
    for (const LlamaCell& cell : part.cells) {
      ASSERT_GE(cell.pos, 0);
      ASSERT_LT(cell.pos, std::numeric_limits<std::int32_t>::max());
      ASSERT_LE(std::size_t{cell.first_id} + cell.id_count, part.sequence_ids.size());
    }
  }
  for (const LlamaFloats& floats : {file.logits, file.embeddings}) {
    ASSERT_LE(floats.offset, file_bytes);
    ASSERT_LE(floats.count, (file_bytes - floats.offset) / sizeof(float));
  }
}

void ExpectSafe(const std::vector<std::byte>& bytes) {
  // The temporary copy lets AddressSanitizer detect a read after the end of the file.
  const Result<LlamaStateFile> read = ReadLlamaStateFile(std::vector<std::byte>(bytes));
  if (read) {
    ExpectWithin(*read, bytes.size());
  } else {
    EXPECT_THAT(read.error().message, HasSubstr("at byte"));
    EXPECT_TRUE(read.error().code == Code::kCorrupt || read.error().code == Code::kUnsupported);
  }
}

TEST(LlamaStateFileTest, EveryStructureOfBothLayoutsIsRead) {
  for (const auto& [name, sample] : LlamaSamples()) {
    SCOPED_TRACE(name);
    const LlamaSampleFile file(sample);
    const Result<LlamaStateFile> read = ReadLlamaStateFile(file.bytes);
    ASSERT_TRUE(read) << read.error().message;
    ExpectWithin(*read, file.bytes.size());
    EXPECT_EQ(read->kind, sample.kind);
    EXPECT_THAT(read->tokens, ElementsAre(5, 6, 7));
    ASSERT_EQ(read->cache_count, sample.caches.size());
    ASSERT_EQ(read->parts.size(), sample.caches.size());
    for (std::size_t cache = 0; cache < sample.caches.size(); ++cache) {
      const LlamaSampleCache& wanted = sample.caches[cache];
      const LlamaCells& part = read->parts[cache];
      EXPECT_EQ(part.cache, cache);
      EXPECT_EQ(part.stream, wanted.form == LlamaSampleCache::Form::kStreams ? 1u : 0u);
      EXPECT_EQ(part.cells.size(), wanted.cells);
      EXPECT_EQ(part.declared_layers, wanted.declared_layers);
      ASSERT_EQ(part.k.size(), wanted.layers);
      ASSERT_EQ(part.v.size(), wanted.v_elements == 0 ? 0 : wanted.layers);
      for (std::size_t layer = 0; layer < part.k.size(); ++layer) {
        EXPECT_EQ(part.k[layer].type, wanted.k_type);
        EXPECT_EQ(part.k[layer].elements, wanted.k_elements);
        EXPECT_EQ(file.bytes[part.k[layer].offset], LlamaSampleFile::RowByte(part.k[layer].offset));
        if (wanted.v_elements == 0) continue;
        EXPECT_EQ(part.v[layer].elements, wanted.v_elements);
        EXPECT_EQ(part.v[layer].is_transposed, wanted.is_transposed);
        EXPECT_EQ(file.bytes[part.v[layer].offset], LlamaSampleFile::RowByte(part.v[layer].offset));
      }
    }
    // A sequence file that holds only recurrent states has the same bytes in both layouts, and the
    // reader reports the older layout.
    const bool is_both = name == "sequence_2026_states";
    EXPECT_EQ(read->layout, is_both ? LlamaLayout::kFebruary2025 : sample.layout);
  }
}

TEST(LlamaStateFileTest, CellsOfASessionKeepTheirSequences) {
  LlamaSample sample{.kind = LlamaFileKind::kSession};
  const LlamaSampleFile file(sample);
  const auto read = ReadLlamaStateFile(file.bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->architecture, "llama");
  EXPECT_THAT(read->output_positions, ElementsAre(0, 2));
  EXPECT_EQ(read->logits.count, 6u);
  EXPECT_EQ(read->embeddings.count, 0u);
  const LlamaCells& part = read->parts[0];
  EXPECT_THAT(part.sequence_ids, ElementsAre(0, 0, 1, 0));
  EXPECT_EQ(part.cells[1].first_id, 1u);
  EXPECT_EQ(part.cells[1].id_count, 2u);
  EXPECT_EQ(part.cells[2].pos, 2);
}

TEST(LlamaStateFileTest, ATruncatedFileIsRefusedOrValidByItself) {
  for (const auto& [name, sample] : LlamaSamples()) {
    SCOPED_TRACE(name);
    const LlamaSampleFile file(sample);
    for (std::size_t bytes = 0; bytes < file.bytes.size(); bytes += test::Stride(7)) {
      const std::vector<std::byte> cut(file.bytes.begin(),
                                       file.bytes.begin() + static_cast<std::ptrdiff_t>(bytes));
      ExpectSafe(cut);
      const auto read = ReadLlamaStateFile(cut);
      if (!read) continue;
      // A shortened file is readable only if it ends after a part, after the keys, or after a layer
      // of recurrent states, or if its bytes mean streams without cells.
      EXPECT_TRUE(read->parts.size() < sample.caches.size() || read->parts.back().v.empty() ||
                  read->parts.back().k.size() < sample.caches.back().layers)
          << bytes;
    }
  }
}

TEST(LlamaStateFileTest, ExtremeNumbersAreRefusedByNameOrHarmless) {
  for (const auto& [name, sample] : LlamaSamples()) {
    SCOPED_TRACE(name);
    const LlamaSampleFile file(sample);
    for (const LlamaField& field : file.fields) {
      SCOPED_TRACE(field.name + " at " + std::to_string(field.offset));
      const std::uint64_t value = file.Value(field);
      for (std::uint64_t number :
           {std::uint64_t{0}, std::uint64_t{1}, value - 1, value + 1, value * 2,
            std::uint64_t{0x7fffffff}, std::uint64_t{0x80000000}, std::uint64_t{0xfffffffe},
            std::uint64_t{0xffffffff}, std::uint64_t{0x100000000}, ~std::uint64_t{0} / 3,
            ~std::uint64_t{0} / 34 * 34, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        ExpectSafe(file.With(field, number));
      }
    }
  }
}

TEST(LlamaStateFileTest, RandomDamageIsHarmless) {
  std::mt19937_64 random(7);
  for (int round = 0; round < test::Scaled(200, 200); ++round) {
    for (const auto& [name, sample] : LlamaSamples()) {
      std::vector<std::byte> bytes = LlamaSampleFile(sample).bytes;
      for (int change = 0; change < 3; ++change) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random() & 0xff);
      }
      ExpectSafe(bytes);
    }
  }
}

struct Refusal {
  const char* sample;
  const char* field;
  std::size_t nth;
  std::uint64_t number;
  Code code;
  const char* message;
};

TEST(LlamaStateFileTest, RefusalsNameTheFieldItsOffsetAndTheReason) {
  const Code corrupt = Code::kCorrupt;
  const Code unsupported = Code::kUnsupported;
  const Refusal refusals[] = {
      {"sequence_2025_f16", "magic", 0, 0, corrupt, "magic at byte 0: 0 is neither"},
      {"sequence_2025_f16", "version", 0, 4, unsupported, "version at byte 4: 4, and only 2 and 3"},
      {"session_2025_f16", "version", 0, 8, unsupported, "8, and only 9 is read of a session"},
      {"sequence_2025_f16", "token_count", 0, 0xffffffff, corrupt,
       "token_count at byte 8: 4294967295 of at least 4 bytes each, but"},
      {"session_2025_f16", "architecture_bytes", 0, 65, corrupt,
       "architecture_bytes at byte 24: 65, limit 64"},
      {"session_2025_f16", "output_count", 0, 0x40000000, corrupt, "output_count at byte 33: "},
      {"session_2025_f16", "output_pos", 1, 0x80000000, corrupt,
       "output_pos at byte 41: -2147483648 is negative"},
      {"session_2025_f16", "logit_count", 0, ~std::uint64_t{0}, corrupt,
       "logit_count at byte 45: 18446744073709551615 of"},
      {"session_2025_f16", "embedding_count", 0, 1u << 20, corrupt, "embedding_count at byte 77"},
      {"sequence_2025_f16", "cell_count", 0, 0xffffffff, corrupt,
       "cell_count (cache 0) at byte 24: 4294967295 of at least 8"},
      {"sequence_2025_f16", "pos", 1, 0xffffffff, corrupt,
       "pos (cache 0, cell 1) at byte 36: -1 is not in [0, 2147483646]"},
      {"sequence_2025_f16", "pos", 2, 0x7fffffff, corrupt, "2147483647 is not in"},
      {"sequence_2025_f16", "sequence_count", 2, 1, corrupt,
       "sequence_count (cache 0, cell 2) at byte 48: 1 in a sequence file, expected 0"},
      {"session_2025_f16", "sequence_count", 2, 0, corrupt, "0: the cell belongs to no sequence"},
      {"session_2025_f16", "sequence_count", 2, 0x7fffffff, corrupt, "sequence_count (cache 0"},
      {"session_2025_f16", "sequence_count", 2, 257, corrupt, "sequence_count (cache 0"},
      {"session_2025_f16", "seq_id", 1, 0xfffffffb, corrupt, "-5 is negative"},
      {"session_2025_f16", "seq_id", 1, 256, unsupported, "256, the highest is 255"},
      {"sequence_2025_f16", "v_trans", 0, 2, corrupt, "2 is neither 0 nor 1"},
      {"sequence_2025_f16", "layer_count", 0, 0xffffffff, corrupt,
       "layer_count (cache 0) at byte 56: 4294967295 layers do not fit into"},
      {"sequence_2025_f16", "k_type", 1, 3, unsupported,
       "k_type (cache 0, layer 1) at byte 264: 3 is not one of f32 (0), f16 (1), q4_0 (2), q8_0 "
       "(8)"},
      {"sequence_2025_f16", "k_type", 1, 0xffffffff, unsupported, "-1 is not one of"},
      {"sequence_2025_f16", "k_row_bytes", 1, 63, corrupt,
       "k_row_bytes (cache 0, layer 1) at byte 268: 63 is not a multiple of the block of 2 bytes "
       "of f16"},
      {"sequence_2025_f16", "k_row_bytes", 1, 0xfffffffffffffffe, corrupt,
       "18446744073709551614 exceeds the limit for a row"},
      {"sequence_2025_f16", "k_row_bytes", 1, 0x1fffffffe, corrupt,
       "K (cache 0, layer 1) at byte 276: 3 times 8589934590 bytes, but"},
      {"sequence_2025_q8_0", "v_row_bytes", 0, 33, corrupt,
       "33 is not a multiple of the block of 34 bytes of q8_0"},
      {"sequence_2025_transposed_f16", "v_type", 0, 8, unsupported,
       "q8_0 cannot be transposed: its elements share a scale"},
      {"sequence_2025_transposed_f16", "v_element_bytes", 1, 4, corrupt,
       "v_element_bytes (cache 0, layer 1)"},
      {"sequence_2025_transposed_f16", "v_elements", 1, 0xffffffff, corrupt,
       "V (cache 0, layer 1)"},
      {"sequence_2025_transposed_f16", "v_elements", 1, 31, corrupt, "6 bytes after the last"},
      {"sequence_2026", "sequence_count", 1, 2, corrupt, "2 in a sequence file, expected 1"},
      {"sequence_2026_coordinates", "y", 2, 7, unsupported,
       "coordinates (2, 7) at position 2 belong to an image"},
      {"sequence_2026_hybrid", "v_trans", 1, 1, corrupt, "1: states are not transposed"},
      {"sequence_2026_hybrid", "state_row_bytes", 3, 44, unsupported,
       "state_type (cache 1, layer 4)"},
      {"sequence_2026_hybrid", "layer_count", 1, 1, corrupt, "layer_count (cache 1) at byte"},
  };
  const auto samples = LlamaSamples();
  for (const Refusal& refusal : refusals) {
    SCOPED_TRACE(std::string(refusal.sample) + " " + refusal.field);
    const auto sample = std::ranges::find(samples, refusal.sample,
                                          [](const auto& s) { return std::string_view(s.first); });
    ASSERT_NE(sample, samples.end());
    const LlamaSampleFile file(sample->second);
    const auto read =
        ReadLlamaStateFile(file.With(file.field(refusal.field, refusal.nth), refusal.number));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, refusal.code);
    EXPECT_THAT(read.error().message, HasSubstr(refusal.message));
  }
}

// The file with other words in front of, and behind, its tokens.
std::vector<std::byte> WithTokenWords(const LlamaSampleFile& file, std::vector<std::uint32_t> head,
                                      std::vector<std::uint32_t> tail) {
  constexpr std::size_t kListOffset = 12;
  std::uint32_t count = 0;
  std::memcpy(&count, file.bytes.data() + 8, sizeof count);
  std::vector<std::byte> bytes(file.bytes.begin(), file.bytes.begin() + 8);
  const auto put = [&bytes](const auto* data, std::size_t byte_count) {
    const auto* const from = reinterpret_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), from, from + byte_count);
  };
  const auto words = static_cast<std::uint32_t>(count + head.size() + tail.size());
  put(&words, sizeof words);
  put(head.data(), head.size() * 4);
  put(file.bytes.data() + kListOffset, count * std::size_t{4});
  put(tail.data(), tail.size() * 4);
  const std::size_t rest = kListOffset + count * std::size_t{4};
  put(file.bytes.data() + rest, file.bytes.size() - rest);
  return bytes;
}

TEST(LlamaStateFileTest, PackedTokensOfSlotFilesAreRead) {
  constexpr std::uint32_t kMark = 0xffffffff;
  for (const auto& [name, sample] : LlamaSamples()) {
    SCOPED_TRACE(name);
    const LlamaSampleFile file(sample);
    const auto plain = ReadLlamaStateFile(file.bytes);
    ASSERT_TRUE(plain) << plain.error().message;
    if (plain->kind != LlamaFileKind::kSequence || plain->tokens.empty()) continue;
    const auto count = static_cast<std::uint32_t>(plain->tokens.size());
    const auto packed = ReadLlamaStateFile(WithTokenWords(file, {kMark, 1, count}, {0}));
    ASSERT_TRUE(packed) << packed.error().message;
    EXPECT_EQ(packed->tokens, plain->tokens);
    EXPECT_EQ(packed->parts.size(), plain->parts.size());
    const auto refusal = [&](std::vector<std::uint32_t> head, std::vector<std::uint32_t> tail) {
      const auto read = ReadLlamaStateFile(WithTokenWords(file, std::move(head), std::move(tail)));
      return read ? std::string() : read.error().message;
    };
    EXPECT_THAT(refusal({kMark, 2, count}, {0}), HasSubstr("packed_tokens at byte 16: version 2"));
    EXPECT_THAT(refusal({kMark, 1, count + 1}, {0}), HasSubstr("packed_tokens at byte 20"));
    EXPECT_THAT(refusal({kMark, 1, kMark}, {0}), HasSubstr("packed_tokens at byte 20"));
    EXPECT_THAT(refusal({kMark, 1, count}, {1}), HasSubstr("cells of images"));
    EXPECT_THAT(refusal({kMark, 1, count}, {0, 0}), HasSubstr("packed_tokens at byte 20"));
    EXPECT_THAT(refusal({kMark, 1, count}, {}), HasSubstr("packed_tokens at byte 20"));
  }
}

TEST(LlamaStateFileTest, TheLargestNumberOfStreamsOfLlamaCppIsRead) {
  for (std::uint32_t streams : {256u, 257u}) {
    LlamaSample sample{.layout = LlamaLayout::kAugust2026};
    sample.caches[0].form = LlamaSampleCache::Form::kStreams;
    sample.caches[0].streams = streams;
    const auto read = ReadLlamaStateFile(LlamaSampleFile(sample).bytes);
    ASSERT_EQ(read.has_value(), streams == 256);
    EXPECT_EQ(read ? read->parts.at(0).stream : 255u, 255u);
  }
}

TEST(LlamaStateFileTest, ANameThatIsNotPrintableIsRefused) {
  LlamaSampleFile file({.kind = LlamaFileKind::kSession});
  file.bytes[file.field("architecture_bytes").offset + 5] = std::byte{0x1b};
  EXPECT_THAT(ReadLlamaStateFile(file.bytes).error().message,
              HasSubstr("architecture at byte 29: byte 27 is not printable"));
}

TEST(LlamaStateFileTest, NothingMayFollowTheLastLayer) {
  LlamaSampleFile file(LlamaSample{});
  file.bytes.push_back(std::byte{0});
  const auto read = ReadLlamaStateFile(file.bytes);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("1 bytes after the last layer"));
}

}  // namespace
}  // namespace kvd
