// The mutator of state_file_fuzz and prompt_store_fuzz.
//
// A file consists mostly of rows, in which no byte matters more than another. Half of the mutations
// therefore change a number in the header, in the table or in a sequence's header. libFuzzer makes
// the other half.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvd::test {

// Has the parameters and the result of libFuzzer's LLVMFuzzerCustomMutator.
std::size_t MutateStateFile(std::uint8_t* data, std::size_t byte_count, std::size_t byte_count_max,
                            unsigned seed);

}  // namespace kvd::test
