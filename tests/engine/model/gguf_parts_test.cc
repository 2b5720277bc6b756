#include "engine/model/gguf_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "engine/forward/architectures/architecture.h"
#include "engine/model/gguf_writer.h"
#include "engine/model/model_fingerprint.h"
#include "tools/make_model/model_maker.h"

namespace kvd {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PartNameTest, ANameSaysWhichPartAFileIs) {
  const auto name = ParsePartName("/models/big-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->base, "/models/big");
  EXPECT_EQ(name->number, 2u);
  EXPECT_EQ(name->count, 3u);
  EXPECT_EQ(name->PathOf(3), "/models/big-00003-of-00003.gguf");
}

TEST(PartNameTest, OtherNamesAreNotThoseOfParts) {
  for (const char* const path :
       {"", "a.gguf", "a-00001-of-00003", "a-0001-of-00003.gguf", "a-00001-of-0003.gguf",
        "a-00001_of-00003.gguf", "a00001-of-00003.gguf", "a-00000-of-00003.gguf",
        "a-00004-of-00003.gguf", "a-00001-of-00000.gguf", "a-0000x-of-00003.gguf",
        "a-00001-of-65536.gguf", "a-00001-of- 0003.gguf", "1-of-00003.gguf"}) {
    EXPECT_FALSE(ParsePartName(path).has_value()) << path;
  }
}

TEST(PartNameTest, TheDaemonMayOpenEveryPartOfAModel) {
  EXPECT_THAT(ModelPaths("a.gguf"), ElementsAre("a.gguf"));
  EXPECT_THAT(ModelPaths("a-00001-of-00002.gguf"),
              ElementsAre("a-00001-of-00002.gguf", "a-00002-of-00002.gguf"));
}

// The keys of a part, as a test wants them.
struct Keys {
  std::uint32_t number = 0;
  std::uint32_t count = 3;
  std::int32_t tensors = 3;
};

class GgufPartsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/kvd-parts-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    for (std::uint32_t part = 0; part < 3; ++part) Write(part, {.number = part});
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string PathOf(std::uint32_t part) const {
    return PartName{.base = root_ + "/m", .number = 1, .count = 3}.PathOf(part + 1);
  }
  // Writes a file with one tensor of four floats, tK for part K unless `tensor` says otherwise.
  void Write(std::uint32_t part, const Keys& keys, const std::string& tensor = "",
             const std::function<void(GgufWriter&)>& add = {}, const std::string& path = "") {
    GgufWriter writer;
    writer.AddU16("split.no", static_cast<std::uint16_t>(keys.number));
    writer.AddU16("split.count", static_cast<std::uint16_t>(keys.count));
    writer.AddI32("split.tensors.count", keys.tensors);
    if (part == 0) writer.AddString("general.name", "first");
    if (add) add(writer);
    WriteFile(writer, part, tensor, path);
  }
  void WriteFile(GgufWriter& writer, std::uint32_t part, const std::string& tensor = "",
                 const std::string& path = "") {
    writer.AddTensor(tensor.empty() ? "t" + std::to_string(part) : tensor, kernels::DataType::kF32,
                     std::vector<std::uint64_t>{4});
    const std::vector<float> values(4, static_cast<float>(part + 1));
    ASSERT_TRUE(
        writer.WriteFile(path.empty() ? PathOf(part) : path, [&](std::size_t, GgufSink& sink) {
          return sink.Append(std::as_bytes(std::span(values)));
        }));
  }
  void ExpectRefused(const std::string& path, Code code, const std::string& words) {
    const auto model = OpenModelFile(path);
    ASSERT_FALSE(model.has_value()) << "accepted, wanted: " << words;
    EXPECT_EQ(model.error().code, code) << model.error().message;
    EXPECT_THAT(model.error().message, HasSubstr(words));
  }

  std::string root_;
};

TEST_F(GgufPartsTest, ThePartsAreOneModel) {
  const auto model = OpenModelFile(PathOf(0));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->GetString("general.name"), "first");
  EXPECT_EQ(model->file_bytes(),
            fs::file_size(PathOf(0)) + fs::file_size(PathOf(1)) + fs::file_size(PathOf(2)));
  for (std::uint32_t part = 0; part < 3; ++part) {
    const GgufTensor* const tensor = model->FindTensor("t" + std::to_string(part));
    ASSERT_NE(tensor, nullptr);
    float value = 0;
    std::memcpy(&value, tensor->data, sizeof value);
    EXPECT_EQ(value, static_cast<float>(part + 1));
    EXPECT_EQ(&model->tensor_by_name(part), tensor);
  }
}

TEST_F(GgufPartsTest, EveryMissingPartIsNamed) {
  fs::remove(PathOf(1));
  fs::remove(PathOf(2));
  ExpectRefused(PathOf(0), Code::kNotFound,
                "the model in 3 parts lacks " + PathOf(1) + ", " + PathOf(2) + ": no such file");
  Write(2, {.number = 2});
  ExpectRefused(PathOf(0), Code::kNotFound, "3 parts lacks " + PathOf(1) + ": no such file");
  fs::remove(PathOf(0));
  ExpectRefused(PathOf(0), Code::kNotFound, PathOf(0) + ": no such file");
}

TEST_F(GgufPartsTest, APartThatWasCutShortIsNamed) {
  fs::resize_file(PathOf(1), fs::file_size(PathOf(1)) - 20);  // 16 bytes of padding
  ExpectRefused(PathOf(0), Code::kCorrupt, PathOf(1) + ": tensor t1: 16 bytes at offset 0");
  fs::resize_file(PathOf(1), 10);
  ExpectRefused(PathOf(0), Code::kCorrupt, PathOf(1) + ": ");
}

TEST_F(GgufPartsTest, APartOtherThanTheFirstIsRefusedAndTheFirstNamed) {
  ExpectRefused(PathOf(1), Code::kInvalidArgument,
                PathOf(1) + ": part 2 of 3 of a model; name its first part, " + PathOf(0));
}

TEST_F(GgufPartsTest, AFirstPartWithAnotherNameIsRefused) {
  fs::rename(PathOf(0), root_ + "/m.gguf");
  ExpectRefused(root_ + "/m.gguf", Code::kInvalidArgument,
                "m.gguf: part 1 of 3 of a model; name its first part, whose name ends with "
                "-00001-of-00003.gguf");
}

TEST_F(GgufPartsTest, PartsInWrongOrderAreRefused) {
  fs::rename(PathOf(1), root_ + "/x");
  fs::rename(PathOf(2), PathOf(1));
  fs::rename(root_ + "/x", PathOf(2));
  ExpectRefused(PathOf(0), Code::kCorrupt,
                PathOf(1) + ": the name says part 2, split.no says part 3");
  Write(0, {.number = 1});
  ExpectRefused(PathOf(0), Code::kCorrupt,
                PathOf(0) + ": the name says part 1 of 3, split.no and split.count say part 2");
}

TEST_F(GgufPartsTest, ANameWithAnotherCountIsRefused) {
  Write(0, {.number = 0, .count = 4});
  ExpectRefused(PathOf(0), Code::kCorrupt,
                "the name says part 1 of 3, split.no and split.count say part 1 of 4");
}

TEST_F(GgufPartsTest, APartOfAnotherModelIsRefused) {
  Write(1, {.number = 1, .count = 4});
  ExpectRefused(PathOf(0), Code::kCorrupt,
                PathOf(1) + ": part of another model: split.count is 4, in the first part 3");
  Write(1, {.number = 1, .tensors = 4});
  ExpectRefused(
      PathOf(0), Code::kCorrupt,
      PathOf(1) + ": part of another model: split.tensors.count is 4, in the first part 3");
  Write(1, {.number = 1}, "", [](GgufWriter& writer) { writer.AddString("general.name", "x"); });
  ExpectRefused(PathOf(0), Code::kCorrupt,
                PathOf(1) + ": part of another model: general.name differs from the first part's");
  Write(1, {.number = 1}, "", [](GgufWriter& writer) { writer.AddU32("general.name", 1); });
  ExpectRefused(PathOf(0), Code::kCorrupt, "general.name differs");
  Write(1, {.number = 1}, "t0");
  ExpectRefused(PathOf(0), Code::kCorrupt, PathOf(1) + ": tensor t0 is also in " + PathOf(0));
}

TEST_F(GgufPartsTest, APartMayRepeatMetadataAndAddItsOwn) {
  Write(1, {.number = 1}, "",
        [](GgufWriter& writer) { writer.AddString("general.name", "first"); });
  Write(2, {.number = 2}, "", [](GgufWriter& writer) { writer.AddU32("of.this.part", 7); });
  const auto model = OpenModelFile(PathOf(0));
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_FALSE(model->Has("of.this.part"));
}

TEST_F(GgufPartsTest, APartMayHaveItsOwnAlignment) {
  GgufWriter writer(64);
  writer.AddU16("split.no", 1);
  writer.AddU16("split.count", 3);
  writer.AddI32("split.tensors.count", 3);
  WriteFile(writer, 1);
  EXPECT_TRUE(OpenModelFile(PathOf(0)).has_value());
}

TEST_F(GgufPartsTest, AMissingTensorIsRefused) {
  for (std::uint32_t part = 0; part < 3; ++part) Write(part, {.number = part, .tensors = 4});
  ExpectRefused(PathOf(0), Code::kCorrupt,
                PathOf(0) + ": split.tensors.count is 4, the 3 parts have 3");
}

TEST_F(GgufPartsTest, WrongKeysAreRefused) {
  Write(0, {.number = 0, .count = 0});
  ExpectRefused(PathOf(0), Code::kCorrupt, PathOf(0) + ": split.count: 0, must be 1 to 65535");
  Write(0, {.number = 3});
  ExpectRefused(PathOf(0), Code::kCorrupt, "split.no: 3, must be less than split.count, 3");
  Write(0, {.number = 0, .tensors = -1});
  ExpectRefused(PathOf(0), Code::kCorrupt, "split.tensors.count: -1 does not fit");
  Write(0, {});
  GgufWriter without;
  WriteFile(without, 1);
  ExpectRefused(PathOf(0), Code::kNotFound, PathOf(1) + ": split.count: missing");
  GgufWriter large;
  large.AddU32("split.count", 65536);
  large.AddU32("split.no", 0);
  large.AddU32("split.tensors.count", 1);
  WriteFile(large, 0);
  ExpectRefused(PathOf(0), Code::kCorrupt, "split.count: 65536, must be 1 to 65535");
}

TEST_F(GgufPartsTest, AModelWithOnePartMayHaveAnyName) {
  const std::string path = root_ + "/whole.gguf";
  Write(0, {.number = 0, .count = 1, .tensors = 1}, "", {}, path);
  EXPECT_TRUE(OpenModelFile(path).has_value());
  Write(0, {.number = 0, .count = 1, .tensors = 2}, "", {}, path);
  ExpectRefused(path, Code::kCorrupt, "split.tensors.count is 2, the 1 part has 1");
  GgufWriter without;
  WriteFile(without, 0);  // has the name of a part but no keys
  EXPECT_TRUE(OpenModelFile(PathOf(0)).has_value());
}

TEST_F(GgufPartsTest, AJoinedTensorNameMustBeUnique) {
  std::vector<GgufFile> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(std::move(*GgufFile::Open(PathOf(0))));
  const auto joined = GgufFile::Join(std::move(parts));
  ASSERT_FALSE(joined.has_value());
  EXPECT_EQ(joined.error().code, Code::kCorrupt);
  EXPECT_THAT(joined.error().message, HasSubstr("tensor t0 appears twice"));
}

TEST_F(GgufPartsTest, AModelInPartsEqualsTheModelInOneFile) {
  const ModelShape shape{
      .layers = 2, .embedding = 64, .heads = 2, .kv_heads = 2, .ffn = 96, .vocab = 64};
  const auto whole = MakeModelFile(shape, nullptr, root_ + "/w.gguf");
  const auto parts = MakeModelFile(shape, nullptr, root_ + "/w.gguf", {.part_count = 3});
  ASSERT_TRUE(whole.has_value());
  ASSERT_TRUE(parts.has_value());
  EXPECT_EQ(parts->tensor_bytes, whole->tensor_bytes);
  ASSERT_EQ(parts->paths.size(), 3u);
  EXPECT_EQ(parts->paths[1], root_ + "/w-00002-of-00003.gguf");
  const auto one = OpenModelFile(whole->paths.front());
  const auto three = OpenModelFile(parts->paths.front());
  ASSERT_TRUE(one.has_value()) << one.error().message;
  ASSERT_TRUE(three.has_value()) << three.error().message;
  for (const GgufTensor& tensor : one->tensors()) {
    const GgufTensor* const same = three->FindTensor(tensor.name);
    ASSERT_NE(same, nullptr) << tensor.name;
    ASSERT_EQ(same->bytes, tensor.bytes);
    EXPECT_EQ(std::memcmp(same->data, tensor.data, tensor.bytes), 0) << tensor.name;
  }
  EXPECT_EQ(ComputeFingerprint(*one, *ReadModelConfig(*one)),
            ComputeFingerprint(*three, *ReadModelConfig(*three)));
  for (const std::string& path : parts->paths) {
    EXPECT_GT(GgufFile::Open(path)->tensors().size(), 0u) << path << " has a share of the tensors";
  }
}

TEST_F(GgufPartsTest, ASparseModelTakesLittleDiskSpaceAndIsRead) {
  const ModelShape shape{.layers = 2,
                         .embedding = 1024,
                         .heads = 2,
                         .kv_heads = 2,
                         .ffn = 4096,
                         .vocab = 1024,
                         .tied = true};
  const auto made =
      MakeModelFile(shape, nullptr, root_ + "/s.gguf", {.part_count = 2, .is_sparse = true});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const auto model = OpenModelFile(made->paths.front());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_GT(model->file_bytes(), 32u << 20);
  std::uint64_t blocks = 0;
  for (const std::string& path : made->paths) {
    struct stat about{};
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    blocks += static_cast<std::uint64_t>(about.st_blocks);
  }
  EXPECT_LT(blocks * 512, 1u << 20);
  EXPECT_EQ(*model->FindTensor("token_embd.weight")->data, std::byte{0});
  EXPECT_NE(*reinterpret_cast<const float*>(model->FindTensor("output_norm.weight")->data), 0.0f);
}

// Runs `body` in a child process that may lock at most `bytes_max` bytes, and returns its result.
int InChildWithLockLimit(rlim_t bytes_max, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = bytes_max, .rlim_max = bytes_max};
    if (::setrlimit(RLIMIT_MEMLOCK, &limit) != 0) ::_exit(99);
    // The limit does not apply to root.
    constexpr uid_t kUnprivileged = 65534;
    if (::geteuid() == 0 && ::setresuid(kUnprivileged, kUnprivileged, kUnprivileged) != 0)
      ::_exit(98);
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

TEST_F(GgufPartsTest, EitherAllPartsAreLockedOrNone) {
  const auto model = OpenModelFile(PathOf(0));
  ASSERT_TRUE(model.has_value());
  const auto locks = [&] {
    const Status locked = model->Lock();
    if (locked) return 0;
    const bool is_named = locked.error().code == Code::kNoSpace &&
                          locked.error().message.contains("cannot be locked in memory: mlock2: ");
    return is_named ? 1 : 2;
  };
  constexpr rlim_t kPage = 4096;
  EXPECT_EQ(InChildWithLockLimit(3 * kPage, locks), 0);
  EXPECT_EQ(InChildWithLockLimit(0, locks), 1);
  // Sanitizers replace munlock() by a function that does nothing.
  if (kIsSanitized) return;
  // The first part is unlocked after the second was refused, so that another page can be locked.
  const auto first = GgufFile::Open(PathOf(0));
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(InChildWithLockLimit(kPage, [&] { return locks() == 1 && first->Lock() ? 0 : 1; }), 0);
}

TEST_F(GgufPartsTest, UnmappedBytesNeedNoLock) {
  GgufWriter writer;
  const auto bytes = writer.ToBytes({});
  const auto file = GgufFile::FromBytes(*bytes);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(InChildWithLockLimit(0, [&] { return file->Lock() ? 0 : 1; }), 0);
  file->Advise(GgufFile::Access::kRandom);
  EXPECT_EQ(file->weight_reader().byte_count(), 0u);
  EXPECT_TRUE(file->weight_reader().Read({}));
}

}  // namespace
}  // namespace kvd
