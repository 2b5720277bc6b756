#include "tests/fuzz/mutate_state_file.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

#include "state_layout/state_layout.h"
#include "tests/fuzz/state_file_form.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t byte_count,
                                        std::size_t byte_count_max);

namespace kvd::test {
namespace {

using state_file::FileHeader;
using state_file::SectionEntry;
using state_file::SequenceHeader;

// Changes one number of 1, 4 or 8 bytes, at an offset that is a multiple of its size.
void ChangeNumber(std::span<std::uint8_t> bytes, std::minstd_rand& random) {
  constexpr std::size_t kSizes[] = {1, 4, 4, 4, 8, 8};
  const std::size_t byte_count = kSizes[random() % std::size(kSizes)];
  if (bytes.size() < byte_count) return;
  std::uint8_t* const place = bytes.data() + random() % (bytes.size() / byte_count) * byte_count;
  std::uint64_t number = 0;
  std::memcpy(&number, place, byte_count);
  switch (random() % 6) {
    case 0: number += random() % 4 + 1; break;
    case 1: number -= random() % 4 + 1; break;
    case 2: number -= random() % 256; break;
    case 3: number = random() % 64; break;
    case 4: number ^= std::uint64_t{1} << random() % (byte_count * 8); break;
    default: number = number * 2 + 1; break;
  }
  std::memcpy(place, &number, byte_count);
}

// Returns the number of section table entries that are inside the file.
std::size_t SectionCount(std::span<const std::uint8_t> file) {
  std::uint32_t count = 0;
  std::memcpy(&count, file.data() + offsetof(FileHeader, section_count), sizeof count);
  return std::min<std::size_t>(count, (file.size() - sizeof(FileHeader)) / sizeof(SectionEntry));
}

// Returns the bytes of a sequence's header: usually those of the first section, in one of four
// calls those of a random section.
std::span<std::uint8_t> SequenceHeaderIn(std::span<std::uint8_t> file, std::size_t sections,
                                         std::minstd_rand& random) {
  std::size_t at = sizeof(FileHeader) + sections * sizeof(SectionEntry);
  for (std::size_t left = random() % 4 == 0 ? random() % (sections + 1) : 0; left > 0; --left) {
    SectionEntry entry;
    std::memcpy(&entry, file.data() + sizeof(FileHeader) + (left - 1) * sizeof entry, sizeof entry);
    at += entry.raw_bytes;
  }
  if (at >= file.size()) return {};
  return file.subspan(at, std::min(sizeof(SequenceHeader), file.size() - at));
}

}  // namespace

std::size_t MutateStateFile(std::uint8_t* data, std::size_t byte_count, std::size_t byte_count_max,
                            unsigned seed) {
  std::minstd_rand random(seed);
  if (byte_count < kStateFileInputBytes + sizeof(FileHeader) || random() % 2 == 0) {
    return LLVMFuzzerMutate(data, byte_count, byte_count_max);
  }
  const auto file = std::span(data, byte_count).subspan(kStateFileInputBytes);
  const std::size_t sections = SectionCount(file);
  const unsigned choice = random() % 8;
  if (choice == 0) {
    ChangeNumber(file.first(sizeof(FileHeader)), random);
  } else if (choice <= 2 || sections == 0) {
    ChangeNumber(SequenceHeaderIn(file, sections, random), random);
  } else {
    const std::size_t which = random() % sections;
    ChangeNumber(
        file.subspan(sizeof(FileHeader) + which * sizeof(SectionEntry), sizeof(SectionEntry)),
        random);
  }
  return byte_count;
}

}  // namespace kvd::test
