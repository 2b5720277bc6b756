#include "engine/forward/compute/processors.h"
#include "base/text.h"

#include <sched.h>

#include <fstream>
#include <string>

namespace kvd {
namespace {

constexpr int kProcessorsMax = 8192;  // the limit of Linux on x86-64

// The first logical processor of the core that `processor` belongs to.
int FirstOfCore(int processor) {
  std::ifstream list(Concat("/sys/devices/system/cpu/cpu", processor,
                            "/topology/core_cpus_list"));  // "0,64" or "0-1"
  int first = 0;
  return list >> first ? first : processor;
}

}  // namespace

std::vector<int> UsableProcessors() {
  std::vector<cpu_set_t> mask(kProcessorsMax / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return {};
  std::vector<int> firsts, others;
  std::vector<bool> core_is_taken(kProcessorsMax);
  for (int processor = 0; processor < kProcessorsMax; ++processor) {
    if (!CPU_ISSET_S(static_cast<std::size_t>(processor), bytes, mask.data())) continue;
    const auto core = static_cast<std::size_t>(FirstOfCore(processor));
    const bool is_taken = core < core_is_taken.size() && core_is_taken[core];
    (is_taken ? others : firsts).push_back(processor);
    if (core < core_is_taken.size()) core_is_taken[core] = true;
  }
  firsts.insert(firsts.end(), others.begin(), others.end());
  return firsts;
}

bool PinThisThread(int processor) {
  std::vector<cpu_set_t> mask(kProcessorsMax / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  CPU_ZERO_S(bytes, mask.data());
  CPU_SET_S(static_cast<std::size_t>(processor), bytes, mask.data());
  return ::sched_setaffinity(0, bytes, mask.data()) == 0;
}

}  // namespace kvd
