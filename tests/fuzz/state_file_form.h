// An input of state_file_fuzz and prompt_store_fuzz: three bytes and a state file, in the form that
// the second byte chooses.
//
// A mutated file would fail at its checksums or at its packing. The target therefore corrects the
// file before it is read. kAsIs: the file is used unchanged. kSums: the target corrects the
// checksums. kSections: the header and the table are followed by unpacked sections; the target
// packs them and sets offsets, lengths and checksums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "state_layout/state_layout.h"

namespace kvd::test {

enum class StateFileForm : std::uint8_t { kAsIs, kSums, kSections };

struct StateFileInput {
  std::size_t engine = 0;
  StateFileForm form = StateFileForm::kAsIs;
  std::uint8_t cells = 0;  // the number of cells to load; 0: all
  std::span<const std::byte> bytes;
};
inline constexpr std::size_t kStateFileInputBytes = 3;  // the bytes before the file

// Splits an input into its fields. REQUIRES: the input has at least kStateFileInputBytes bytes.
StateFileInput StateFileInputOf(std::span<const std::byte> input, std::size_t engines);
std::vector<std::byte> InputBytes(const StateFileInput& input);

struct StateFileIdentity {
  std::span<const std::uint64_t, 4> fingerprint;
  std::span<const std::uint64_t, 2> name_space;
};
// Makes the state file of an input, with the fingerprint and the namespace of `identity`.
std::vector<std::byte> MakeStateFile(StateFileForm form, std::span<const std::byte> bytes,
                                     const StateFileIdentity& identity);

// Converts a state file to the kSections form. Error: the bytes are not a state file.
Result<std::vector<std::byte>> SectionsForm(std::span<const std::byte> file);

// Makes an unnamed file with these bytes.
UniqueFd FileOf(std::span<const std::byte> bytes);

}  // namespace kvd::test
