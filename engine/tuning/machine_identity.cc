// A processor's lines of /proc/cpuinfo have the form "NAME<tabs>: VALUE" and end with an empty
// line.
#include "engine/tuning/machine_identity.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "base/text.h"

namespace kvd {
namespace {

constexpr std::size_t kValueBytesMax = 80;
constexpr std::size_t kCpuInfoBytesMax = 16384;

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kValueBytesMax));
  std::ranges::replace_if(printable, [](char c) { return c < ' ' || c > '~'; }, '?');
  return printable;
}

}  // namespace

MachineIdentity ParseCpuInfo(std::string_view text) {
  std::map<std::string_view, std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (Trimmed(line).empty()) break;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    lines.emplace(Trimmed(line.substr(0, colon)), Trimmed(line.substr(colon + 1)));
  }
  const auto value = [&lines](std::string_view name) {
    const auto found = lines.find(name);
    return found == lines.end() || found->second.empty() ? std::string("unknown")
                                                         : Printable(found->second);
  };
  return {.cpu = Concat(value("vendor_id"), " ", value("cpu family"), "/", value("model"), "/",
                        value("stepping"), " ", value("model name")),
          .microcode = value("microcode")};
}

MachineIdentity ReadMachineIdentity() {
  std::ifstream file("/proc/cpuinfo");
  std::string text(kCpuInfoBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return ParseCpuInfo(text);
}

}  // namespace kvd
