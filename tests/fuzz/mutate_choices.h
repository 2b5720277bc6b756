// MutateChoices: mutates the choices of a structured input (tests/fuzz/choices.h), one node at a
// time: a node is drawn again, is replaced by a node of the same type of this input or of an
// earlier one, or its first choices are changed. Now and then libFuzzer mutates the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tests/fuzz/choices.h"

namespace kvd::test {

using NodesOfBytes = std::vector<Choices::Node> (*)(std::span<const std::uint8_t> bytes);

// `data`: room for an input, which has `byte_count` bytes. Returns the new number of bytes.
std::size_t MutateChoices(std::span<std::uint8_t> data, std::size_t byte_count, unsigned int seed,
                          NodesOfBytes nodes_of);

// Writes a usual input with a few other choices in it to `data`, and returns its number of bytes.
// The first choice is that of the setup. An input that is right in all fields but one or two is
// rare among mutations of inputs that differ in many.
std::size_t MakeNearUsual(std::span<std::uint8_t> data, unsigned int seed,
                          const std::vector<std::vector<std::uint8_t>>& usual_inputs);

}  // namespace kvd::test
