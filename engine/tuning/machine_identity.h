// MachineIdentity: the processor on which products were timed, as far as their speed depends on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvd {

struct MachineIdentity {
  // Vendor, family, model, stepping and name: "GenuineIntel 6/143/8 Intel(R) Xeon(R)". Printable
  // characters only.
  std::string cpu = "unknown";
  std::string microcode = "unknown";

  bool operator==(const MachineIdentity&) const = default;
};

// Reads the first processor of a text in the form of /proc/cpuinfo. A line that the text lacks
// leaves its part as "unknown".
MachineIdentity ParseCpuInfo(std::string_view text);
// The identity of this machine, from /proc/cpuinfo.
MachineIdentity ReadMachineIdentity();

}  // namespace kvd
