// The mutator of state_file_fuzz and prompt_store_fuzz.
//
// A file is mostly rows, and any of their bytes is as good as another. So half of the mutations
// change a number of the header, of the table or of a sequence's header; the others are libFuzzer's
// own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::test {

// As LLVMFuzzerCustomMutator.
std::size_t MutateStateFile(std::uint8_t* data, std::size_t byte_count, std::size_t byte_count_max,
                            unsigned seed);

}  // namespace kvd::test
