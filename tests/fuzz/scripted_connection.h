// What a test may ask of the connections with the scripted daemon.
#pragma once

#include <cstddef>

namespace kvd::test {

// The number of outputs that were not released.
std::size_t HeldOutputs();
// true: a connection that is destroyed leaves its session to a later one, which has its token.
void LetSessionsOutlive(bool outlive);

}  // namespace kvd::test
