#include "engine/model/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "engine/model/gguf_file.h"

namespace kvd::gguf_writer_test {
namespace {

using kernels::DataType;
using ::testing::HasSubstr;

Status AppendZeros(std::uint64_t bytes, GgufSink& sink) {
  return sink.Append(std::vector<std::byte>(bytes));
}

std::string TemporaryPath(const char* name) {
  return (std::filesystem::temp_directory_path() /
          (std::string("kvd_writer_") + std::to_string(getpid()) + "_" + name))
      .string();
}

TEST(GgufWriterTest, AHoleReadsAsZeros) {
  GgufWriter writer;
  writer.AddU16("a.u16", 65535);
  writer.AddTensor("t", DataType::kF32, std::array<std::uint64_t, 1>{8});
  const auto produce = [](std::size_t, GgufSink& sink) -> Status {
    const std::array<std::byte, 4> ones = {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}};
    KVD_CHECK_OK(sink.Append(ones));
    return sink.AppendHole(28);
  };
  const std::string path = TemporaryPath("hole");
  ASSERT_TRUE(writer.WriteFile(path, produce));
  const auto written = GgufFile::Open(path);
  const auto bytes = writer.ToBytes(produce);
  ASSERT_TRUE(bytes.has_value());
  const auto held = GgufFile::FromBytes(*bytes);
  for (const auto* const file : {&written, &held}) {
    ASSERT_TRUE(file->has_value()) << file->error().message;
    EXPECT_EQ((*file)->GetU32("a.u16"), 65535u);
    const GgufTensor* const tensor = (*file)->FindTensor("t");
    EXPECT_EQ(tensor->data[3], std::byte{1});
    EXPECT_EQ(tensor->data[4], std::byte{0});
    EXPECT_EQ(tensor->data[31], std::byte{0});
  }
  const auto too_long =
      writer.ToBytes([](std::size_t, GgufSink& sink) -> Status { return sink.AppendHole(33); });
  ASSERT_FALSE(too_long.has_value());
  EXPECT_THAT(too_long.error().message, HasSubstr("33 bytes produced"));
  std::filesystem::remove(path);
}

TEST(GgufWriterTest, WrittenFilesAreReadBack) {
  GgufWriter writer(64);
  writer.AddU32("a.u32", 7);
  writer.AddI32("a.i32", -7);
  writer.AddU64("a.u64", 1ull << 50);
  writer.AddF32("a.f32", 0.25f);
  writer.AddBool("a.bool", true);
  writer.AddString("a.string", "text");
  writer.AddStringArray("a.strings", std::array<std::string_view, 2>{"x", "yz"});
  writer.AddTensor("first", DataType::kQ8_0, std::array<std::uint64_t, 2>{64, 3});
  writer.AddTensor("second", DataType::kF32, std::array<std::uint64_t, 4>{1, 2, 3, 4});
  auto bytes = writer.ToBytes([&](std::size_t index, GgufSink& sink) {
    std::vector<std::byte> data(writer.tensor_bytes(index), std::byte(index + 1));
    auto status = sink.Append(std::span(data).first(5));  // the tensor is appended in two pieces
    return status ? sink.Append(std::span(data).subspan(5)) : status;
  });
  ASSERT_TRUE(bytes.has_value());
  auto file = GgufFile::FromBytes(*bytes);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->alignment(), 64u);
  EXPECT_EQ(file->GetU32("a.u32"), 7u);
  EXPECT_EQ(file->GetI32("a.i32"), -7);
  EXPECT_EQ(file->GetU64("a.u64"), 1ull << 50);
  EXPECT_EQ(file->GetF32("a.f32"), 0.25f);
  EXPECT_EQ(file->GetBool("a.bool"), true);
  EXPECT_EQ(file->GetString("a.string"), "text");
  const GgufTensor* first = file->FindTensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->type, DataType::kQ8_0);
  EXPECT_EQ(first->rank, 2u);
  EXPECT_EQ(first->bytes, 2u * 34 * 3);
  EXPECT_EQ(first->data[first->bytes - 1], std::byte{1});
  const GgufTensor* second = file->FindTensor("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->dims, (std::array<std::uint64_t, 4>{1, 2, 3, 4}));
  EXPECT_EQ(second->byte_offset % 64, 0u);
  EXPECT_EQ(second->data[0], std::byte{2});
}

TEST(GgufWriterTest, EntriesOfAnotherFileAreCopiedUnchanged) {
  GgufWriter writer;
  writer.AddU32("number", 3);
  writer.AddStringArray("strings", std::array<std::string_view, 2>{"x", "yz"});
  auto bytes = writer.ToBytes({});
  auto file = GgufFile::FromBytes(*bytes);
  GgufWriter copier;
  for (const GgufEntry& entry : file->entries()) copier.AddEntry(entry);
  EXPECT_EQ(*copier.ToBytes({}), *bytes);
}

TEST(GgufWriterTest, AProducerThatAppendsAWrongNumberOfBytesIsReported) {
  GgufWriter writer;
  writer.AddTensor("t", DataType::kF32, std::array<std::uint64_t, 1>{8});
  auto bytes = writer.ToBytes([](std::size_t, GgufSink& sink) { return AppendZeros(31, sink); });
  ASSERT_FALSE(bytes.has_value());
  EXPECT_EQ(bytes.error().message, "tensor t: 31 bytes produced, the tensor has 32");
}

TEST(GgufWriterTest, AFailedWriteLeavesNoFileBehind) {
  GgufWriter writer;
  writer.AddTensor("t", DataType::kF32, std::array<std::uint64_t, 1>{8});
  std::string path = TemporaryPath("failed");
  auto status = writer.WriteFile(
      path, [](std::size_t, GgufSink&) -> Status { return Fail(Code::kCancelled, "stopped"); });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "stopped");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(GgufWriterTest, AFileThatCannotBeCreatedIsNamed) {
  auto status = GgufWriter().WriteFile("/nonexistent/x.gguf", {});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kIo);
  EXPECT_THAT(status.error().message, HasSubstr("/nonexistent/x.gguf"));
}

TEST(GgufWriterTest, AFullDeviceIsReportedAsNoSpace) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  std::string path = TemporaryPath("full");
  std::filesystem::create_symlink("/dev/full", path + ".tmp");
  GgufWriter writer;
  writer.AddTensor("t", DataType::kF32, std::array<std::uint64_t, 1>{8});
  auto status =
      writer.WriteFile(path, [](std::size_t, GgufSink& sink) { return AppendZeros(32, sink); });
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kNoSpace);
  std::filesystem::remove(path + ".tmp");
}

}  // namespace
}  // namespace kvd::gguf_writer_test
