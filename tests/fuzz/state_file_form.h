// An input of state_file_fuzz and prompt_store_fuzz: three bytes and a state file, in the form that
// the second byte names.
//
// A mutation of a file gets past neither its sums nor its packing. So the target puts them right
// before it reads: of a file as it is (kSums), or of one whose sections lie there unpacked, behind
// the same header and table, and whose offsets and lengths are set too (kSections).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shm/error.h"
#include "shm/unique_fd.h"
#include "state_form/state_layout.h"

namespace kvd::test {

enum class StateFileForm : std::uint8_t { kAsIs, kSums, kSections };

struct StateFileInput {
  std::size_t engine = 0;
  StateFileForm form = StateFileForm::kAsIs;
  std::uint8_t cells = 0;  // of which to load; 0: all
  std::span<const std::byte> bytes;
};
inline constexpr std::size_t kStateFileInputBytes = 3;  // before the file

// REQUIRES: at least kStateFileInputBytes.
StateFileInput StateFileInputOf(std::span<const std::byte> input, std::size_t engines);
std::vector<std::byte> InputBytes(const StateFileInput& input);

struct StateFileIdentity {
  std::span<const std::uint64_t, 4> fingerprint;
  std::span<const std::uint64_t, 2> name_space;
};
// The file that the form stands for, of that model and namespace.
std::vector<std::byte> MakeStateFile(StateFileForm form, std::span<const std::byte> bytes,
                                     const StateFileIdentity& identity);

// The kSections form of a file. Error: it is none.
Result<std::vector<std::byte>> SectionsForm(std::span<const std::byte> file);

// An unnamed file that holds the bytes.
UniqueFd FileOf(std::span<const std::byte> bytes);

}  // namespace kvd::test
