// Tests damaged and hostile state files: cut at each byte, with each byte changed, or with extreme
// values in each field. Loading a damaged file fails with an error that names the damage, and
// changes no sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <functional>
#include <limits>

#include "engine/forward/architectures/architecture.h"
#include "engine/saved_state/section_codec.h"
#include "engine/saved_state/state_file.h"
#include "tests/engine/saved_state/state_folder.h"
#include "tests/support/test_scale.h"
#include "tests/support/tiny_model.h"

namespace kvd::state_file_fault_test {
namespace {

using state_file::SectionKind;
using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::StateBytes;
using test::StateFolder;
using test::TinyLlama;
using testing::HasSubstr;

class StateFileFaultTest : public testing::TestWithParam<Architecture> {
 protected:
  void SetUp() override {
    ModelShape shape = TinyLlama();
    shape.name = "tiny-fault";
    shape.layers = 2;
    shape.architecture = GetParam();
    engine_ = MakeEngine(shape, {.cells = 128, .checkpoint_every = 4, .threads = 1});
    const SequenceHandle sequence = *engine_->memory().sequences().Create({});
    (void)Feed(*engine_, sequence, RandomTokens(3, 6, 96), 6);
    ASSERT_TRUE(folder_.Save(*engine_, sequence, "good", {.packed = false}));
    ASSERT_TRUE(folder_.Save(*engine_, sequence, "packed"));
    free_blocks_ = engine_->memory().Usage().free_blocks;
    free_states_ = engine_->memory().Usage().free_state_slots;
  }
  void TearDown() override {
    EXPECT_EQ(engine_->memory().Usage().free_blocks, free_blocks_);
    EXPECT_EQ(engine_->memory().Usage().free_state_slots, free_states_);
    EXPECT_EQ(engine_->memory().Usage().live_sequences, 1u);
  }
  // Returns a file in memory. The files are in memory, because the tests load many thousand files.
  static UniqueFd InMemory(const std::vector<char>& bytes) {
    UniqueFd file(::memfd_create("damaged", MFD_CLOEXEC));
    EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return file;
  }
  // Returns true if the file was loaded; the loaded sequence is dropped again. If the file was not
  // loaded, last_error_ is set.
  bool Loads(const std::vector<char>& bytes) { return Loads(InMemory(bytes)); }
  bool Loads(const UniqueFd& file) {
    const auto loaded =
        StateFolder::Load(*engine_, StateFileReader::Open(UniqueFd(::dup(file.get()))));
    if (loaded) {
      EXPECT_TRUE(engine_->memory().sequences().Drop(*loaded));
      return true;
    }
    EXPECT_FALSE(loaded.error().message.empty());
    last_error_ = loaded.error();
    return false;
  }

  StateFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::uint32_t free_blocks_ = 0, free_states_ = 0;
  Error last_error_;
};

TEST_P(StateFileFaultTest, AFileTruncatedAtAnyByteIsRefused) {
  for (const char* name : {"good", "packed"}) {
    const std::vector<char> good = folder_.Bytes(name);
    ASSERT_TRUE(Loads(good));
    const UniqueFd file = InMemory(good);
    for (std::size_t length = good.size(); length-- > 0;) {
      ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(length)), 0);
      ASSERT_FALSE(Loads(file)) << length;
      ASSERT_EQ(last_error_.code, Code::kCorrupt) << last_error_.message;
    }
    std::vector<char> longer = good;
    longer.push_back(0);
    EXPECT_FALSE(Loads(longer));
  }
}

TEST_P(StateFileFaultTest, AFileWithAChangedByteIsRefused) {
  for (const char* name : {"good", "packed"}) {
    const std::vector<char> good = folder_.Bytes(name);
    const UniqueFd file = InMemory(good);
    // Bytes of the large recurrent states are skipped. Sanitizer builds change every third byte.
    const std::size_t apart = test::Stride(3);
    for (std::size_t at = 0; at < good.size(); at += at > 8192 ? 11 * apart : apart) {
      const char damaged = static_cast<char>(good[at] ^ (1 << (at % 8)));
      ASSERT_EQ(::pwrite(file.get(), &damaged, 1, static_cast<off_t>(at)), 1);
      ASSERT_FALSE(Loads(file)) << at;
      ASSERT_EQ(::pwrite(file.get(), &good[at], 1, static_cast<off_t>(at)), 1);
    }
    ASSERT_TRUE(Loads(file));
  }
}

// The checksums of the files in this test are correct; only single fields are wrong.
TEST_P(StateFileFaultTest, EveryFieldOfHeaderAndTableIsChecked) {
  const std::vector<char> good = folder_.Bytes("good");
  const std::size_t section_count = StateBytes(good).header().section_count;
  constexpr std::size_t kStart = 8;  // offset of the first field after the magic
  for (std::size_t at = kStart; at < offsetof(state_file::FileHeader, header_crc); at += 4) {
    const bool is_free_to_be = at >= offsetof(state_file::FileHeader, saved_unix_ms) &&
                               at < offsetof(state_file::FileHeader, fingerprint);
    const bool is_sum = at == offsetof(state_file::FileHeader, table_crc);
    const bool is_name = at >= offsetof(state_file::FileHeader, architecture) &&
                         at < offsetof(state_file::FileHeader, numeric_form);
    if (is_free_to_be || is_sum || is_name) continue;
    for (const std::uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      StateBytes damaged(good);
      std::uint32_t old;
      std::memcpy(&old, damaged.bytes.data() + at, sizeof old);
      // Without --deterministic every numeric form is accepted.
      const bool is_form = at == offsetof(state_file::FileHeader, numeric_form);
      if (old == value || (is_form && IsNumericForm(value))) continue;
      std::memcpy(damaged.bytes.data() + at, &value, sizeof value);
      damaged.SumUpHeader();
      EXPECT_FALSE(Loads(damaged.bytes)) << "header byte " << at << " value " << value;
    }
  }
  for (std::size_t section = 0; section < section_count; ++section) {
    for (std::size_t at = 0; at < sizeof(state_file::SectionEntry); at += 4) {
      if (at == offsetof(state_file::SectionEntry, crc)) continue;
      for (const std::uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
        StateBytes damaged(good);
        char* const field = reinterpret_cast<char*>(&damaged.section(section)) + at;
        std::uint32_t old;
        std::memcpy(&old, field, sizeof old);
        // A checkpoint with a changed cell count of 1 is valid, so this change is not detected.
        const bool is_checkpoint = damaged.section(section).kind == SectionKind::kState &&
                                   at == offsetof(state_file::SectionEntry, cells) && value == 1;
        if (old == value || is_checkpoint) continue;
        std::memcpy(field, &value, sizeof value);
        damaged.SumUp();
        EXPECT_FALSE(Loads(damaged.bytes))
            << "section " << section << " byte " << at << " value " << value;
      }
    }
  }
}

TEST_P(StateFileFaultTest, EveryFieldOfTheSequenceIsChecked) {
  const std::vector<char> good = folder_.Bytes("good");
  for (std::size_t at = 0; at < sizeof(state_file::SequenceHeader); at += 4) {
    const bool is_handle = at >= offsetof(state_file::SequenceHeader, handle) &&
                           at < offsetof(state_file::SequenceHeader, reserved);
    // A smaller number of pristine cells is valid.
    const bool is_pristine = at == offsetof(state_file::SequenceHeader, pristine_cells);
    for (const std::uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
      StateBytes damaged(good);
      std::uint32_t old;
      std::memcpy(&old, damaged.content(0) + at, sizeof old);
      if (old == value || is_handle || (is_pristine && value <= 1)) continue;
      std::memcpy(damaged.content(0) + at, &value, sizeof value);
      damaged.SumUp();
      const bool has_rows = GetParam() != Architecture::kMamba2;
      const bool is_type = at == offsetof(state_file::SequenceHeader, k_type) ||
                           at == offsetof(state_file::SequenceHeader, v_type);
      const bool is_unused =
          (is_type && !has_rows) ||
          (at == offsetof(state_file::SequenceHeader, logits_floats) && value <= 0x7fffffffu) ||
          (at == offsetof(state_file::SequenceHeader, state_floats) &&
           GetParam() == Architecture::kLlama && value <= 0x7fffffffu);
      EXPECT_EQ(Loads(damaged.bytes), is_unused) << "byte " << at << " value " << value;
    }
  }
}

TEST_P(StateFileFaultTest, ContentOfAnotherModelOrNotFiniteIsRefused) {
  const std::vector<char> good = folder_.Bytes("good");
  StateBytes bytes(good);
  for (std::size_t section = 0; section < bytes.header().section_count; ++section) {
    StateBytes damaged(good);
    const std::uint32_t raw_bytes = damaged.section(section).raw_bytes;
    const char* expected = nullptr;
    switch (damaged.section(section).kind) {
      case SectionKind::kTokens: expected = "vocabulary has 96"; break;
      case SectionKind::kPositions: expected = "position"; break;
      case SectionKind::kRows:
      case SectionKind::kState: expected = "not finite"; break;
      default: continue;
    }
    // -1 as an integer, NaN as a float
    std::memset(damaged.content(section) + raw_bytes - 4, 0xff, 4);
    damaged.SumUp();
    ASSERT_FALSE(Loads(damaged.bytes)) << section;
    EXPECT_THAT(last_error_.message, HasSubstr(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StateFileFaultTest,
                         testing::Values(Architecture::kLlama, Architecture::kMamba2,
                                         Architecture::kLfm2),
                         [](const auto& named) {
                           return std::string(DefinitionOf(named.param).format.name);
                         });

// ------------------------------------------------------------------------------------------- sizes

TEST(StateFileSizeTest, SectionsBeyond4GiBAreFound) {
  // A sparse file with 1,100 sections of 4 MiB. All sections except the last one are a hole.
  constexpr std::size_t kSections = 1100;
  constexpr std::uint64_t kFloats = state_file::kSectionBytesMax / sizeof(float);
  StateFolder folder;
  std::vector<char> head(sizeof(state_file::FileHeader) +
                         (kSections + 3) * sizeof(state_file::SectionEntry) + 64 + 8);
  StateBytes file(head);
  state_file::SequenceHeader sequence = {};
  sequence.flags = state_file::kHasRows | state_file::kHasState;
  sequence.cell_count = 1;
  sequence.state_floats = kSections * kFloats;
  file.header().magic = state_file::kMagic;
  file.header().version = state_file::kVersion;
  file.header().header_bytes = sizeof(state_file::FileHeader);
  file.header().sequence_count = 1;
  file.header().section_count = kSections + 3;
  std::uint64_t offset = head.size() - 64 - 8;
  const std::vector<char> zeros(state_file::kSectionBytesMax);
  const std::uint32_t zeros_crc = Crc32c(0, std::as_bytes(std::span(zeros)));
  std::vector<char> last = zeros;
  last[77] = 5;
  const auto add = [&](std::size_t number, SectionKind kind, std::uint32_t bytes,
                       std::uint64_t begin, std::uint64_t end, std::uint32_t crc) {
    state_file::SectionEntry& entry = file.section(number);
    entry.offset = offset;
    entry.stored_bytes = entry.raw_bytes = bytes;
    entry.crc = crc;
    entry.kind = kind;
    entry.cells = kind == SectionKind::kState ? 1 : 0;
    entry.begin = begin;
    entry.end = end;
    file.header().raw_bytes += bytes;
    offset += bytes;
  };
  add(0, SectionKind::kSequence, 64, 0, 0, Crc32c(0, std::as_bytes(std::span(&sequence, 1))));
  const auto four_zeros = Crc32c(0, std::as_bytes(std::span(zeros).first(4)));
  add(1, SectionKind::kTokens, 4, 0, 1, four_zeros);
  add(2, SectionKind::kPositions, 4, 0, 1, four_zeros);
  for (std::size_t at = 0; at < kSections; ++at) {
    const bool is_last = at + 1 == kSections;
    add(at + 3, SectionKind::kState, state_file::kSectionBytesMax, at * kFloats, (at + 1) * kFloats,
        is_last ? Crc32c(0, std::as_bytes(std::span(last))) : zeros_crc);
  }
  file.header().file_bytes = offset;
  ASSERT_GT(offset, std::uint64_t{4} << 30);
  std::memcpy(file.content(0), &sequence, sizeof sequence);
  file.header().table_crc = Crc32c(0, std::as_bytes(std::span(&file.section(0), kSections + 3)));
  file.SumUpHeader();
  folder.Write("sparse", file.bytes);
  const UniqueFd hole(::open(folder.PathOf("sparse").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::ftruncate(hole.get(), static_cast<off_t>(offset)), 0);
  ASSERT_EQ(
      ::pwrite(hole.get(), last.data(), last.size(), static_cast<off_t>(offset - last.size())),
      static_cast<ssize_t>(last.size()));
  struct stat about{};
  ASSERT_EQ(::fstat(hole.get(), &about), 0);
  if (about.st_blocks * 512 > (64 << 20))
    GTEST_SKIP() << "the file system does not support sparse files";

  const auto read = folder.Open("sparse");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->header().raw_bytes, kSections * std::uint64_t{4 << 20} + 72);
  EXPECT_EQ(UnpackedFileBytes(read->sections()), offset);
  StateFileReader::Buffers buffers;
  const auto bytes = read->ReadSection(kSections + 2, &buffers);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ((*bytes)[77], std::byte{5});
  ASSERT_TRUE(read->ReadSection(kSections, &buffers));
}

// ----------------------------------------------------------------------------------------- packing

TEST(SectionCodecTest, PackedBytesAreUnpackedUnchanged) {
  SectionCodec codec;
  for (const std::size_t element_bytes : {1, 2, 3, 4, 8, 34, 64}) {
    for (const std::size_t count : {1, 2, 33, 1000, 70000}) {
      std::vector<std::byte> raw(count);
      for (std::size_t i = 0; i < count; ++i) raw[i] = static_cast<std::byte>(i * i / 7 % 31);
      std::vector<std::byte> planes(count), joined(count);
      SplitPlanes(raw.data(), planes.data(), count, element_bytes);
      JoinPlanes(planes.data(), joined.data(), count, element_bytes);
      ASSERT_EQ(joined, raw);
      const SectionCodec::Packed packed = codec.Pack(raw, element_bytes);
      if (packed.packing == state_file::Packing::kNone) continue;
      const std::vector<std::byte> kept(packed.bytes.begin(), packed.bytes.end());
      const auto unpacked = codec.Unpack(kept, count, element_bytes);
      ASSERT_TRUE(unpacked) << unpacked.error().message;
      ASSERT_TRUE(std::ranges::equal(*unpacked, raw));
      if (count < 1000) continue;
      EXPECT_LT(kept.size(), count);
      EXPECT_EQ(codec.Unpack(kept, count - 1, element_bytes).error().code, Code::kCorrupt);
      EXPECT_EQ(codec.Unpack(kept, count + 1, element_bytes).error().code, Code::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace kvd::state_file_fault_test
