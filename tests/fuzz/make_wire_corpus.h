// WriteSeed: writes the bytes of one seed of a corpus to a file.
#pragma once

#include <cstddef>
#include <fstream>
#include <span>
#include <string>

namespace kvd::test {

inline void WriteSeed(const std::string& folder, const std::string& name,
                      std::span<const std::byte> bytes) {
  std::ofstream(folder + "/" + name, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

}  // namespace kvd::test
