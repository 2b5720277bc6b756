// Validates any bytes as a Hello and as a Welcome, as a hostile peer may send them.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "shm/wire_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  if (byte_count >= sizeof(kvd::wire::Hello)) {
    kvd::wire::Hello hello;
    std::memcpy(&hello, data, sizeof hello);
    // A channel can be made of every geometry that is accepted.
    if (const auto checked = kvd::wire::ValidateHello(hello);
        checked && !kvd::ValidateGeometry(checked->geometry))
      std::abort();
  }
  if (byte_count >= sizeof(kvd::wire::Welcome)) {
    kvd::wire::Welcome welcome;
    std::memcpy(&welcome, data, sizeof welcome);
    if (const auto geometry = kvd::wire::ValidateWelcome(welcome);
        geometry && !kvd::ValidateGeometry(*geometry))
      std::abort();
  }
  return 0;
}
