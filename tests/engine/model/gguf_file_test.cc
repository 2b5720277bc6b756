#include "engine/model/gguf_file.h"
#include "engine/forward/architectures/architecture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/model/gguf_header.h"
#include "engine/model/gguf_writer.h"
#include "engine/model/model_weights.h"
#include "tests/engine/model/gguf_bytes.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

// Expects parsing to fail with `code` and a message that contains `text`.
void ExpectRefused(const GgufBytes& bytes, Code code, const std::string& text) {
  auto file = bytes.Parse();
  ASSERT_FALSE(file.has_value()) << "accepted, wanted: " << text;
  EXPECT_EQ(file.error().code, code) << file.error().message;
  EXPECT_THAT(file.error().message, HasSubstr(text));
}

ModelShape SmallestShape() {
  ModelShape shape;
  shape.layers = 1;
  shape.embedding = 32;
  shape.heads = 2;
  shape.kv_heads = 1;
  shape.ffn = 32;
  shape.vocab = 32;
  return shape;
}

std::string TemporaryPath(const char* name) {
  return (std::filesystem::temp_directory_path() /
          (std::string("kvd_gguf_") + std::to_string(getpid()) + "_" + name))
      .string();
}

TEST(GgufFileTest, AnEmptyModelIsAccepted) {
  auto file = GgufBytes::WithHeader(0, 0).Parse();
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(file->alignment(), 32u);
  EXPECT_TRUE(file->tensors().empty());
}

TEST(GgufFileTest, MagicVersionAndByteOrderAreChecked) {
  ExpectRefused(GgufBytes().Raw("GGML").U32(3).U64(0).U64(0), Code::kCorrupt, "magic");
  ExpectRefused(GgufBytes().Raw("GGUF").U32(1).U64(0).U64(0), Code::kUnsupported, "version: 1");
  ExpectRefused(GgufBytes().Raw("GGUF").U32(4).U64(0).U64(0), Code::kUnsupported, "version: 4");
  ExpectRefused(GgufBytes().Raw("GGUF").U32(0).U64(0).U64(0), Code::kUnsupported, "version: 0");
  ExpectRefused(GgufBytes().Raw("GGUF").U32(0x03000000).U64(0).U64(0), Code::kUnsupported,
                "big-endian");
  EXPECT_TRUE(GgufBytes().Raw("GGUF").U32(2).U64(0).U64(0).Parse().has_value());
}

TEST(GgufFileTest, CountsBeyondTheLimitOrTheFileAreRefused) {
  ExpectRefused(GgufBytes::WithHeader(kHuge, 0), Code::kCorrupt, "tensor count");
  ExpectRefused(GgufBytes::WithHeader(0, kHuge), Code::kCorrupt, "metadata count");
  ExpectRefused(GgufBytes::WithHeader(GgufFile::kTensorCountMax + 1, 0), Code::kCorrupt,
                "at most 65536");
  ExpectRefused(GgufBytes::WithHeader(1000, 0), Code::kCorrupt, "bytes left");
  ExpectRefused(GgufBytes::WithHeader(0, 1000), Code::kCorrupt, "bytes left");
}

TEST(GgufFileTest, KeysMustBePrintableUniqueAndOfBoundedLength) {
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("", GgufType::kU32).U32(1).U32(1), Code::kCorrupt,
                "metadata key 0: empty");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("a\nb", GgufType::kU32).U32(1), Code::kCorrupt,
                "byte 10 at 1");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("\xc3\xa9", GgufType::kU32).U32(1), Code::kCorrupt,
                "byte 195 at 0");
  ExpectRefused(GgufBytes::WithHeader(0, 1).U64(kHuge).Raw("abcdefghijklmnop"), Code::kCorrupt,
                "at most 65535");
  ExpectRefused(GgufBytes::WithHeader(0, 1).U64(65535).Raw("abcdefghijklmnop"), Code::kCorrupt,
                "65535 bytes needed");
  ExpectRefused(GgufBytes::WithHeader(0, 2)
                    .Key("same", GgufType::kU32)
                    .U32(1)
                    .Key("same", GgufType::kU32)
                    .U32(2),
                Code::kCorrupt, "metadata key same appears twice");
  std::string longest(GgufFile::kKeyBytesMax, 'k');
  EXPECT_TRUE(GgufBytes::WithHeader(0, 1).Key(longest, GgufType::kU32).U32(1).Parse().has_value());
}

TEST(GgufFileTest, ValueTypesAreChecked) {
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", static_cast<GgufType>(13)).U64(0),
                Code::kCorrupt, "k: value type 13 is unknown");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", static_cast<GgufType>(0xffffffff)).U64(0),
                Code::kCorrupt, "value type 4294967295");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", GgufType::kBool).U8(2).U64(0), Code::kCorrupt,
                "k: a bool is 2");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", GgufType::kU64).U32(0), Code::kCorrupt,
                "k: 1 elements, the file has 4 bytes left");
}

TEST(GgufFileTest, StringsBeyondTheFileAreRefused) {
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", GgufType::kString).U64(kHuge), Code::kCorrupt,
                "k: 18446744073709551615 bytes needed");
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("k", GgufType::kString).U64(5).Raw("four"),
                Code::kCorrupt, "k: 5 bytes needed");
}

TEST(GgufFileTest, ArraysBeyondTheFileNestedOrOfUnknownTypeAreRefused) {
  auto array = [](std::uint32_t element_type, std::uint64_t count) {
    return GgufBytes::WithHeader(0, 1).Key("k", GgufType::kArray).U32(element_type).U64(count);
  };
  ExpectRefused(array(4, kHuge), Code::kCorrupt, "k: 18446744073709551615 elements");
  ExpectRefused(array(4, kHuge / 4 + 1).U64(0), Code::kCorrupt, "elements");
  ExpectRefused(array(10, 3).U64(1).U64(2), Code::kCorrupt, "k: 3 elements");
  ExpectRefused(array(8, kHuge), Code::kCorrupt, "strings");
  ExpectRefused(array(8, 2).String("a"), Code::kCorrupt, "k: 2 strings");
  ExpectRefused(array(8, 2).U64(0).U64(9), Code::kCorrupt, "9 bytes needed");
  ExpectRefused(array(9, 1).U32(4).U64(1).U32(7), Code::kUnsupported, "arrays of arrays");
  ExpectRefused(array(13, 1).U64(1), Code::kCorrupt, "value type 13");
  ExpectRefused(array(7, 2).U8(1).U8(9), Code::kCorrupt, "a bool is 9");
  EXPECT_TRUE(array(4, 0).Parse().has_value());
  EXPECT_TRUE(array(8, 0).Parse().has_value());
}

TEST(GgufFileTest, AlignmentMustBeAU32PowerOfTwoFromEight) {
  auto alignment = [](std::uint32_t number) {
    return GgufBytes::WithHeader(0, 1).Key("general.alignment", GgufType::kU32).U32(number);
  };
  for (std::uint32_t number : {0u, 1u, 4u, 24u, 33u, 1u << 21, 0xffffffffu}) {
    ExpectRefused(alignment(number), Code::kCorrupt,
                  "general.alignment: " + std::to_string(number));
  }
  for (std::uint32_t number : {8u, 16u, 64u, 4096u, 1u << 20}) {
    EXPECT_TRUE(alignment(number).Parse().has_value()) << number;
  }
  ExpectRefused(GgufBytes::WithHeader(0, 1).Key("general.alignment", GgufType::kU64).U64(32),
                Code::kCorrupt, "must be u32, is u64");
}

TEST(GgufFileTest, TensorNamesAreChecked) {
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("", {1}, 0, 0).Data(64), Code::kCorrupt,
                "tensor 0, name: empty");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor(std::string(65, 'x'), {1}, 0, 0).Data(64),
                Code::kCorrupt, "65 bytes long, at most 64");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("a\x7f", {1}, 0, 0).Data(64), Code::kCorrupt,
                "not printable");
  ExpectRefused(GgufBytes::WithHeader(2, 0).Tensor("t", {1}, 0, 0).Tensor("t", {1}, 0, 32).Data(64),
                Code::kCorrupt, "tensor t appears twice");
}

TEST(GgufFileTest, RanksDimensionsAndTheirProductAreChecked) {
  auto one = [](std::initializer_list<std::uint64_t> dims, std::uint32_t type = 0) {
    return GgufBytes::WithHeader(1, 0).Tensor("t", dims, type, 0).Data(4096);
  };
  ExpectRefused(one({}), Code::kCorrupt, "tensor t: 0 dimensions");
  ExpectRefused(one({1, 1, 1, 1, 1}), Code::kCorrupt, "tensor t: 5 dimensions");
  ExpectRefused(GgufBytes::WithHeader(1, 0).String("t").U32(0xffffffff).Data(64), Code::kCorrupt,
                "4294967295 dimensions");
  ExpectRefused(one({0}), Code::kCorrupt, "dimension 0 is 0");
  ExpectRefused(one({4, 0}), Code::kCorrupt, "dimension 1 is 0");
  ExpectRefused(one({kHuge}), Code::kCorrupt, "overflows");
  ExpectRefused(one({1ull << 32, 1ull << 32}), Code::kCorrupt, "overflows");
  ExpectRefused(one({1ull << 63}), Code::kCorrupt, "overflows");
  ExpectRefused(one({1ull << 31, 1ull << 31, 2}), Code::kCorrupt, "overflows");
  ExpectRefused(one({1ull << 16, 1ull << 16, 1ull << 16, 1ull << 16}), Code::kCorrupt, "overflows");
  // The number of elements fits in 64 bits, but the number of bytes does not.
  ExpectRefused(one({1ull << 62}), Code::kCorrupt, "size in bytes overflows");
  ExpectRefused(one({48}, 8), Code::kCorrupt, "not a multiple of 32, the block of q8_0");
  ExpectRefused(one({128}, 12), Code::kCorrupt, "not a multiple of 256, the block of q4_K");
}

TEST(GgufFileTest, UnsupportedTypesAreRefusedByName) {
  for (std::uint32_t type : {4u, 9u, 15u, 19u, 24u, 31u, 255u, 256u, 0x80000000u, 0xffffffffu}) {
    ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("blk.0.x", {256}, type, 0).Data(4096),
                  Code::kUnsupported, "tensor blk.0.x: ggml type " + std::to_string(type));
  }
}

TEST(GgufFileTest, TensorsMustLieAlignedInsideTheFileAndApart) {
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("t", {4}, 0, 4).Data(64), Code::kCorrupt,
                "offset 4 is not a multiple of the alignment 32");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("t", {16}, 0, 32).Data(64), Code::kCorrupt,
                "tensor t: 64 bytes at offset 32, the data section has 64");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("t", {16}, 0, kHuge - 31).Data(64),
                Code::kCorrupt, "at offset 18446744073709551584");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("t", {1ull << 61}, 0, 0).Data(64),
                Code::kCorrupt, "the data section has 64");
  ExpectRefused(GgufBytes::WithHeader(1, 0).Tensor("t", {1}, 0, 0), Code::kCorrupt,
                "the data section has 0");
  ExpectRefused(
      GgufBytes::WithHeader(2, 0).Tensor("a", {16}, 0, 32).Tensor("b", {16}, 0, 0).Data(128),
      Code::kCorrupt, "tensor a: overlaps tensor b");
  ExpectRefused(GgufBytes::WithHeader(2, 0).Tensor("a", {1}, 0, 0).Tensor("b", {1}, 0, 0).Data(128),
                Code::kCorrupt, "overlaps");
  auto file =
      GgufBytes::WithHeader(2, 0).Tensor("a", {8}, 0, 32).Tensor("b", {8}, 0, 0).Data(64).Parse();
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->FindTensor("b")->data + 32, file->FindTensor("a")->data);
  EXPECT_EQ(file->FindTensor("c"), nullptr);
}

TEST(GgufFileTest, EveryTruncationIsRefusedWithAName) {
  ModelShape shape = SmallestShape();
  shape.bias = BiasSet::kAll;
  std::vector<std::byte> whole = *MakeModelBytes(shape);
  auto file = GgufFile::FromBytes(whole);
  ASSERT_TRUE(file.has_value());
  std::uint64_t end = 0;
  for (const GgufTensor& t : file->tensors()) end = std::max(end, t.byte_offset + t.bytes);
  for (std::size_t cut = 0; cut < end; ++cut) {
    // Copies the bytes to a heap block of exactly `cut` bytes, so that a sanitizer detects a read
    // beyond the end.
    std::vector<std::byte> exact(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
    auto header = ParseGgufHeader(exact, cut);
    ASSERT_FALSE(header.has_value()) << cut;
    EXPECT_FALSE(header.error().message.empty());
    EXPECT_EQ(header.error().code, Code::kCorrupt);
  }
}

TEST(GgufFileTest, AWindowShorterThanTheHeaderAsksForMore) {
  std::vector<std::byte> whole = *MakeModelBytes(SmallestShape());
  auto complete = ParseGgufHeader(whole, whole.size());
  ASSERT_TRUE(complete.has_value() && complete->has_value());
  for (std::size_t window = 0; window < (*complete)->header_bytes; ++window) {
    std::vector<std::byte> exact(whole.begin(),
                                 whole.begin() + static_cast<std::ptrdiff_t>(window));
    auto header = ParseGgufHeader(exact, whole.size());
    ASSERT_TRUE(header.has_value()) << header.error().message;
    EXPECT_FALSE(header->has_value()) << window;
  }
}

TEST(GgufFileTest, MutatedHeadersNeverCrash) {
  std::vector<std::byte> whole = *MakeModelBytes(SmallestShape());
  std::size_t header_bytes = (*ParseGgufHeader(whole, whole.size()))->header_bytes;
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> mutated = whole;
    for (std::uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      mutated[random() % header_bytes] = static_cast<std::byte>(random());
    }
    auto file = GgufFile::FromBytes(mutated);
    if (!file) continue;
    auto config = ReadModelConfig(*file);
    if (config) (void)BindWeights(*file, *config);
  }
}

TEST(GgufFileTest, OpenReadsHeadersLongerThanTheFirstWindow) {
  GgufWriter writer;
  std::string text(700'000, 'x');
  writer.AddString("big", text);
  writer.AddTensor("t", kernels::DataType::kF32, std::vector<std::uint64_t>{2});
  std::string path = TemporaryPath("long");
  ASSERT_TRUE(writer.WriteFile(path, [](std::size_t, GgufSink& sink) {
    const float values[] = {1.5f, -2.0f};
    return sink.Append(std::as_bytes(std::span(values)));
  }));
  auto opened = GgufFile::Open(path);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  GgufFile file = std::move(*opened);  // a move keeps the views valid
  EXPECT_EQ(*file.GetString("big"), text);
  EXPECT_EQ(reinterpret_cast<const float*>(file.FindTensor("t")->data)[1], -2.0f);
  std::filesystem::remove(path);
}

// Returns the number of KiB of the file's mappings that are resident (Rss in /proc/self/smaps).
long MappedPagesKib(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  long total = 0;
  bool is_of_file = false;
  for (std::string line; std::getline(maps, line);) {
    long kib = 0;
    if (line.ends_with(path)) is_of_file = true;
    if (is_of_file && std::sscanf(line.c_str(), "Rss: %ld kB", &kib) == 1) {
      total += kib;
      is_of_file = false;
    }
  }
  return total;
}

TEST(GgufFileTest, TheReaderLoadsAllPagesUnlessStopped) {
  constexpr std::size_t kFloats = std::size_t{4} << 20;
  GgufWriter writer;
  writer.AddTensor("t", kernels::DataType::kF32, std::vector<std::uint64_t>{kFloats});
  const std::string path = TemporaryPath("large");
  ASSERT_TRUE(writer.WriteFile(path, [](std::size_t, GgufSink& sink) {
    const std::vector<float> values(kFloats, 1.0f);
    return sink.Append(std::as_bytes(std::span(values)));
  }));
  auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const WeightReader reader = file->weight_reader();
  EXPECT_EQ(reader.byte_count(), file->file_bytes());
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_FALSE(reader.Read(stopped.get_token()));
  EXPECT_EQ(MappedPagesKib(path), 0);
  std::vector<std::uint64_t> progress;
  EXPECT_TRUE(reader.Read({}, [&](std::uint64_t bytes) { progress.push_back(bytes); }));
  EXPECT_GE(MappedPagesKib(path), static_cast<long>(kFloats * sizeof(float) / 1024));
  // 16 MiB and a header, in portions of 8 MiB.
  EXPECT_THAT(progress, ElementsAre(8u << 20, 16u << 20, reader.byte_count()));
  file = Fail(Code::kInternal, "closed");
  EXPECT_TRUE(reader.Read({})) << "a reader must hold the mappings";
  std::filesystem::remove(path);
}

TEST(GgufFileTest, AHeaderBeyondItsLimitIsRefusedBeforeItIsRead) {
  GgufBytes bytes = GgufBytes::WithHeader(0, 1).Key("k", GgufType::kString).U64(1ull << 29);
  auto header = ParseGgufHeader(bytes.bytes(), 1ull << 30);
  ASSERT_FALSE(header.has_value());
  EXPECT_EQ(header.error().code, Code::kCorrupt);
  EXPECT_THAT(header.error().message, HasSubstr("k: the header is longer than 268435456 bytes"));
}

TEST(GgufFileTest, AHeaderRewrittenAfterOpeningChangesNothing) {
  GgufWriter writer;
  writer.AddString("text", "hello");
  std::string path = TemporaryPath("rewritten");
  ASSERT_TRUE(writer.WriteFile(path, {}));
  auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value());
  int fd = open(path.c_str(), O_WRONLY);
  std::vector<std::byte> ones(file->file_bytes(), std::byte{0xff});
  ASSERT_EQ(pwrite(fd, ones.data(), ones.size(), 0), static_cast<ssize_t>(ones.size()));
  close(fd);
  EXPECT_EQ(file->GetString("text"), "hello");
  std::filesystem::remove(path);
}

TEST(GgufFileTest, AnUnreadableFileIsAPermissionError) {
  std::string path = TemporaryPath("secret");
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0));
  // Root may read everything, so open the file as another user.
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  auto file = GgufFile::Open(path);
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::filesystem::remove(path);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Code::kPermission);
}

TEST(GgufFileTest, OpenNamesPathsThatAreNoReadableRegularFile) {
  auto missing = GgufFile::Open("/nonexistent/model.gguf");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/model.gguf"));

  auto directory = GgufFile::Open("/");
  ASSERT_FALSE(directory.has_value());
  EXPECT_THAT(directory.error().message, HasSubstr("not a regular file"));

  std::string fifo = TemporaryPath("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  auto pipe = GgufFile::Open(fifo);  // Open must not wait for a writer
  ASSERT_FALSE(pipe.has_value());
  EXPECT_THAT(pipe.error().message, HasSubstr("not a regular file"));
  std::filesystem::remove(fifo);

  std::string empty = TemporaryPath("empty");
  close(open(empty.c_str(), O_CREAT | O_WRONLY, 0600));
  auto nothing = GgufFile::Open(empty);
  ASSERT_FALSE(nothing.has_value());
  EXPECT_THAT(nothing.error().message, HasSubstr("magic"));
  EXPECT_THAT(nothing.error().message, HasSubstr(empty));
  std::filesystem::remove(empty);
}

TEST(GgufFileTest, StaticBytesAreUsedInPlace) {
  alignas(32) std::byte storage[4096] = {};
  GgufBytes bytes = GgufBytes::WithHeader(1, 0).Tensor("t", {8}, 0, 0).Data(32);
  std::memcpy(storage, bytes.bytes().data(), bytes.bytes().size());
  auto file = GgufFile::FromStaticBytes(std::span(storage).first(bytes.bytes().size()));
  ASSERT_TRUE(file.has_value());
  EXPECT_GE(file->FindTensor("t")->data, storage);
  EXPECT_LT(file->FindTensor("t")->data, storage + sizeof storage);
  auto misaligned = GgufFile::FromStaticBytes(std::span(storage).subspan(8));
  ASSERT_FALSE(misaligned.has_value());
  EXPECT_EQ(misaligned.error().code, Code::kInvalidArgument);
}

TEST(GgufFileTest, PrintableTextEscapesAndTruncates) {
  EXPECT_EQ(PrintableText("a\n\xff"), "a\\x0a\\xff");
  EXPECT_EQ(PrintableText(std::string(100, 'a')), std::string(80, 'a') + "...");
}

}  // namespace
}  // namespace kvd
