// The file `tuning` of the state directory: the choices of products that an earlier run of the
// daemon has measured on this machine.
//
// A file belongs to one TuningKey. A file of another key, of another version, or with any damage is
// refused as a whole, and the caller uses the default choices. The functions keep no state.
//
// The file is text, one item per line, in this order:
//   kvd tuning 2
//   cpu GenuineIntel 6/143/8 Intel(R) Xeon(R)
//   microcode 0x2b000603
//   kernels amx
//   threads 2
//   model 0123456789abcdef
//   measured 1790000000000                      (Unix time in milliseconds)
//   product q8_0 wide bf16 from 16 ahead 32768  (one line for each measured type of weights)
//   crc32c 01234567                             (of all bytes before this line)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/kernel_table.h"
#include "kernels/product_choice.h"

namespace kvd {

// MachineIdentity: the processor on which products were timed, as far as their speed depends on it.
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

inline constexpr std::uint32_t kTuningVersion = 2;
inline constexpr std::size_t kTuningFileBytesMax = 16384;

// What the measured times depend on.
struct TuningKey {
  MachineIdentity machine;
  std::string kernels;  // name of the kernel table
  std::uint32_t threads = 0;
  std::uint64_t model = 0;  // a hash of the shapes and types of the model's matrices

  bool operator==(const TuningKey&) const = default;
};

struct Tuning {
  std::uint64_t measured_unix_ms = 0;
  std::vector<kernels::DataType> types;  // whose choices were measured
  kernels::ProductChoices choices;       // types that were not measured have the default choice
};

std::string FormatTuning(const TuningKey& key, const Tuning& tuning);

// Reads a file of the key `key`. Types that the file does not name have the choice of `defaults`.
// Errors: kCorrupt (the message names the line and what is wrong), kUnsupported (another version,
// or a choice that the table does not have), kConflict (a file of another key; the message names
// the part that differs).
Result<Tuning> ParseTuning(std::string_view text, const TuningKey& key,
                           const kernels::KernelTable& table,
                           const kernels::ProductChoices& defaults);

// Reads the whole file in the directory. Errors: kNotFound (there is no file), kCorrupt (longer
// than kTuningFileBytesMax), kIo.
Result<std::string> ReadTuningFile(int directory);
// Replaces the file in the directory; a reader sees the old or the new file. Errors: kIo, kNoSpace.
Status WriteTuningFile(int directory, std::string_view text);

}  // namespace kvd
