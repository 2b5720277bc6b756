// Tests the file of measured choices: what is written is read again, and each kind of damage, each
// other version and each other machine is refused by name.
#include "engine/tuning/tuning_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/crc32c.h"
#include "base/unique_fd.h"
#include "engine/tuning/tuning_run.h"

namespace kvd {
namespace {

using kernels::DataType;
using kernels::WideForm;

kernels::KernelTable TableWithBf16() {
  kernels::KernelTable table = *kernels::ScalarTable();
  table.name = "avx512";
  table.round_rows = [](const float*, std::size_t, std::size_t, std::size_t, void*) {};
  table.bf16_rows_min = 8;
  return table;
}

TuningKey Key() {
  return {.machine = {.cpu = "AuthenticAMD 26/2/1 AMD EPYC", .microcode = "0x1000065"},
          .kernels = "avx512",
          .threads = 2,
          .model = 0x0123456789abcdefu};
}

class TuningFileTest : public testing::Test {
 protected:
  TuningFileTest() {
    tuning_.measured_unix_ms = 1'790'000'000'000;
    tuning_.choices = defaults_;
    tuning_.types = {DataType::kF32, DataType::kF16, DataType::kQ8_0};
    tuning_.choices.Set(DataType::kF32, {.wide_form = WideForm::kOuter, .wide_from_rows = 64});
    tuning_.choices.Set(DataType::kF16, {.wide_form = WideForm::kBf16, .wide_from_rows = 32});
    tuning_.choices.Set(DataType::kQ8_0,
                        {.ahead_bytes = 32768, .panel_from_rows = 5, .panel_outs = 32});
  }
  Result<Tuning> Parse(std::string_view text) {
    return ParseTuning(text, Key(), table_, defaults_);
  }
  // The text with `from` replaced by `to`, and the checksum that belongs to the new text.
  std::string Edited(const std::string& from, const std::string& to) {
    std::string text = FormatTuning(Key(), tuning_);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
    return Sealed(text.substr(0, text.rfind("crc32c ")));
  }
  static std::string Sealed(const std::string& body) {
    std::array<char, 32> line{};
    std::snprintf(line.data(), line.size(), "crc32c %08x\n",
                  Crc32c(0, std::as_bytes(std::span(body.data(), body.size()))));
    return body + line.data();
  }
  void ExpectRefused(std::string_view text, Code code, std::string_view part) {
    const Result<Tuning> parsed = Parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, code) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << parsed.error().message;
  }

  const kernels::KernelTable table_ = TableWithBf16();
  const kernels::ProductChoices defaults_ = kernels::DefaultChoices(table_);
  Tuning tuning_;
};

TEST_F(TuningFileTest, AWrittenFileIsReadBack) {
  const Result<Tuning> parsed = Parse(FormatTuning(Key(), tuning_));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->measured_unix_ms, tuning_.measured_unix_ms);
  EXPECT_EQ(parsed->types, tuning_.types);
  EXPECT_EQ(parsed->choices, tuning_.choices);
}

TEST_F(TuningFileTest, TypesThatWereNotMeasuredHaveTheDefault) {
  tuning_.types = {DataType::kQ8_0};
  const Result<Tuning> parsed = Parse(FormatTuning(Key(), tuning_));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->choices.For(DataType::kF16), defaults_.For(DataType::kF16));
}

TEST_F(TuningFileTest, EveryShorterFileIsRefused) {
  const std::string text = FormatTuning(Key(), tuning_);
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_FALSE(Parse(std::string_view(text).substr(0, bytes))) << bytes;
  }
}

TEST_F(TuningFileTest, EveryChangedByteIsRefused) {
  const std::string text = FormatTuning(Key(), tuning_);
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string damaged = text;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(Parse(damaged)) << at;
  }
}

TEST_F(TuningFileTest, DamageIsNamed) {
  const std::string text = FormatTuning(Key(), tuning_);
  ExpectRefused("", Code::kCorrupt, "not a tuning file");
  ExpectRefused("kvd tuning 2", Code::kCorrupt, "version is not a number");
  ExpectRefused("kvd tuning one\n", Code::kCorrupt, "version is not a number");
  ExpectRefused("kvd tuning 2\ncpu x\n", Code::kCorrupt, "checksum is missing");
  ExpectRefused(text.substr(0, text.size() - 1), Code::kCorrupt, "checksum is missing");
  ExpectRefused(text.substr(0, text.size() - 4) + "zzz\n", Code::kCorrupt, "checksum is wrong");
  ExpectRefused(text + text, Code::kCorrupt, "checksum is wrong");
}

TEST_F(TuningFileTest, OtherVersionsAreRefused) {
  ExpectRefused(Edited("tuning 2", "tuning 1"), Code::kUnsupported,
                "version 1; this daemon reads version 2");
}

TEST_F(TuningFileTest, OtherMachinesAreNamed) {
  ExpectRefused(Edited("26/2/1", "26/2/2"), Code::kConflict,
                "cpu 'AuthenticAMD 26/2/2 AMD EPYC'; now it is 'AuthenticAMD 26/2/1 AMD EPYC'");
  ExpectRefused(Edited("0x1000065", "0x1000066"), Code::kConflict, "microcode '0x1000066'");
  ExpectRefused(Edited("kernels avx512", "kernels avx2"), Code::kConflict, "kernels 'avx2'");
  ExpectRefused(Edited("threads 2", "threads 4"), Code::kConflict, "threads '4'; now it is '2'");
  ExpectRefused(Edited("0123456789abcdef", "0123456789abcdee"), Code::kConflict, "model");
}

TEST_F(TuningFileTest, WrongLinesAreNamed) {
  ExpectRefused(Edited("cpu ", "gpu "), Code::kCorrupt, "line 2: 'cpu' is missing");
  ExpectRefused(Edited("microcode 0x1000065\n", ""), Code::kCorrupt,
                "line 3: 'microcode' is missing");
  ExpectRefused(Edited("measured 1", "measured -1"), Code::kCorrupt, "line 7: measured: '-1");
  ExpectRefused(Edited("product f16", "produce f16"), Code::kCorrupt, "line 9: 'product'");
  ExpectRefused(Edited("product f16", "product f17"), Code::kCorrupt,
                "line 9: 'f17' is not a type of weights");
  ExpectRefused(Edited("product q8_0", "product f16"), Code::kCorrupt,
                "line 10: a second line for f16");
}

TEST_F(TuningFileTest, WrongChoicesAreNamed) {
  ExpectRefused(Edited("f16 wide bf16", "f16 wise bf16"), Code::kCorrupt, "'wide' is missing");
  ExpectRefused(Edited("f16 wide bf16 from 32", "f16 wide"), Code::kCorrupt, "'wide' is missing");
  ExpectRefused(Edited("wide bf16", "wide f64"), Code::kCorrupt, "wide: 'f64' is not a form");
  ExpectRefused(Edited("ahead 32768", "above 32768"), Code::kCorrupt, "'above' is not a choice");
  ExpectRefused(Edited("ahead 32768", "ahead 32769"), Code::kCorrupt,
                "ahead: '32769' is not an alternative");
  ExpectRefused(Edited("panel_from 5", "panel_from 14"), Code::kCorrupt, "panel_from: '14'");
  ExpectRefused(Edited("panel_outs 32", "panel_outs 16"), Code::kCorrupt, "panel_outs: '16'");
  ExpectRefused(Edited("panel_outs 32", "panel_outs"), Code::kCorrupt,
                "panel_outs: the value is missing");
  ExpectRefused(Edited("panel_outs 32", "panel_from 5"), Code::kCorrupt, "panel_from: given twice");
  ExpectRefused(Edited("from 32", "from 0"), Code::kCorrupt, "from: '0' is not an alternative");
  ExpectRefused(Edited("from 32", "from 65537"), Code::kCorrupt, "from: '65537'");
  ExpectRefused(Edited(" from 32", ""), Code::kCorrupt, "belong together");
  ExpectRefused(Edited("wide none", "wide none from 4"), Code::kCorrupt, "belong together");
  ExpectRefused(Edited("q8_0 wide none", "q8_0 wide bf16 from 8"), Code::kUnsupported,
                "the table avx512 has no products of q8_0 of the form bf16");
  ExpectRefused(Edited("q8_0 wide none", "q8_0 wide outer from 8"), Code::kUnsupported,
                "the table avx512 has no products of q8_0 of the form outer");
}

class TuningDirectoryTest : public TuningFileTest {
 protected:
  TuningDirectoryTest() {
    char path[] = "/tmp/kvd-tuning-XXXXXX";
    path_ = ::mkdtemp(path);
    directory_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~TuningDirectoryTest() override { std::filesystem::remove_all(path_); }
  TuningState Choose(ChoiceSource source = ChoiceSource::kDefaults) {
    TuningState state{.key = Key(),
                      .defaults = {},
                      .tuning = {},
                      .types = {},
                      .source = source,
                      .why_ignored = {}};
    ChooseTuning(directory_.get(), table_, &state);
    return state;
  }
  void Write(const std::string& text) { std::ofstream(path_ + "/tuning") << text; }

  std::string path_;
  UniqueFd directory_;
};

TEST_F(TuningDirectoryTest, AFileIsReplacedAsAWhole) {
  EXPECT_EQ(ReadTuningFile(directory_.get()).error().code, Code::kNotFound);
  ASSERT_TRUE(WriteTuningFile(directory_.get(), "a longer text"));
  ASSERT_TRUE(WriteTuningFile(directory_.get(), "short"));
  EXPECT_EQ(*ReadTuningFile(directory_.get()), "short");
  EXPECT_FALSE(std::filesystem::exists(path_ + "/tuning.new"));
  struct stat found{};
  ASSERT_EQ(::stat((path_ + "/tuning").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(TuningDirectoryTest, FilesThatCannotBeReadOrWrittenAreErrors) {
  Write(std::string(kTuningFileBytesMax + 1, 'x'));
  EXPECT_EQ(ReadTuningFile(directory_.get()).error().code, Code::kCorrupt);
  std::filesystem::remove(path_ + "/tuning");
  std::filesystem::create_symlink("/etc/passwd", path_ + "/tuning");
  EXPECT_FALSE(ReadTuningFile(directory_.get()));
  std::filesystem::remove(path_ + "/tuning");
  std::filesystem::create_directory(path_ + "/tuning");
  EXPECT_FALSE(ReadTuningFile(directory_.get()));
  EXPECT_FALSE(WriteTuningFile(directory_.get(), "text"));
  std::filesystem::remove(path_ + "/tuning.new");
  std::filesystem::create_directory(path_ + "/tuning.new");
  EXPECT_FALSE(WriteTuningFile(directory_.get(), "text"));
}

TEST_F(TuningDirectoryTest, AFileOfThisMachineIsUsed) {
  EXPECT_EQ(Choose().source, ChoiceSource::kDefaults);
  EXPECT_EQ(Choose().why_ignored, "");
  ASSERT_TRUE(WriteTuningFile(directory_.get(), FormatTuning(Key(), tuning_)));
  const TuningState state = Choose();
  EXPECT_EQ(state.source, ChoiceSource::kMeasuredBefore);
  EXPECT_EQ(state.tuning.choices, tuning_.choices);
}

TEST_F(TuningDirectoryTest, ADamagedOrForeignFileLeavesTheDefaults) {
  for (const std::string& text : {std::string("rubbish"), Edited("threads 2", "threads 3"),
                                  std::string(kTuningFileBytesMax + 1, 'x')}) {
    Write(text);
    const TuningState state = Choose();
    EXPECT_EQ(state.source, ChoiceSource::kDefaults);
    EXPECT_EQ(state.tuning.choices, defaults_);
    EXPECT_NE(state.why_ignored, "");
  }
}

TEST_F(TuningDirectoryTest, WithoutTuningOrWithDeterministicNoFileIsRead) {
  ASSERT_TRUE(WriteTuningFile(directory_.get(), FormatTuning(Key(), tuning_)));
  for (const ChoiceSource source : {ChoiceSource::kOff, ChoiceSource::kDeterministic}) {
    const TuningState state = Choose(source);
    EXPECT_EQ(state.source, source);
    EXPECT_EQ(state.tuning.choices, defaults_);
  }
}

}  // namespace
}  // namespace kvd
