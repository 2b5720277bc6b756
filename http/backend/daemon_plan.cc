#include "http/backend/daemon_plan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "http/backend/digest.h"
#include "shm/socket_address.h"

namespace kvd::http {
namespace {

constexpr std::uint64_t kPoolCellsMin = 4096;
constexpr std::uint64_t kPoolCellsMax = 1ull << 32;
constexpr std::uint64_t kCellStep = 32;  // cells of a block

// A connection for each tenant, for the first look at the daemon, and for kvctl beside them.
constexpr std::uint32_t kConnectionsMax = 4096;

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? std::string(real.get()) : path;
}

void Add(std::vector<std::string>& arguments, std::string_view flag, std::string value) {
  arguments.emplace_back(flag);
  arguments.push_back(std::move(value));
}

// The most tokens of one pass through the model; 0: as the daemon chooses.
std::uint32_t UbatchTokens(const Settings& settings) {
  constexpr std::uint32_t kDaemonsChoice = 512;
  if (settings.batch_tokens == 0) return settings.ubatch_tokens;
  if (settings.ubatch_tokens != 0) return std::min(settings.batch_tokens, settings.ubatch_tokens);
  return settings.batch_tokens < kDaemonsChoice ? settings.batch_tokens : 0;
}

// The flags that change what the daemon computes, and those of the user.
std::vector<std::string> ServingArguments(const Settings& settings) {
  std::vector<std::string> arguments = ModelArguments(settings);
  if (settings.threads != 0) Add(arguments, "--threads", Concat(settings.threads));
  const std::uint32_t ubatch = UbatchTokens(settings);
  if (ubatch != 0) Add(arguments, "--ubatch-size", Concat(ubatch));
  if (settings.locks_weights) arguments.emplace_back("--mlock");
  if (settings.is_deterministic) arguments.emplace_back("--deterministic");
  arguments.insert(arguments.end(), settings.daemon_arguments.begin(),
                   settings.daemon_arguments.end());
  return arguments;
}

// The sizes of a plan, in cells.
struct Sizes {
  std::uint64_t slot = 0;    // context of one slot
  std::uint64_t needed = 0;  // the slots' context
  std::uint64_t least = 0;   // of the pool
};

Sizes SizesOf(const Settings& settings, const ModelFacts& facts) {
  const std::uint64_t trained = facts.context_length;
  const std::uint64_t slots = settings.is_unified ? 1 : settings.slot_count;
  const bool is_given = settings.context_cells != 0;
  Sizes sizes;
  sizes.slot =
      is_given ? std::min<std::uint64_t>(settings.context_cells / slots, trained) : trained;
  // Of a unified context a slot has at most the trained length, but all of them may be longer.
  sizes.needed = is_given && settings.is_unified ? settings.context_cells : sizes.slot * slots;
  const std::uint64_t certain = is_given ? sizes.needed : sizes.slot;
  sizes.least = certain + certain / 4;
  if (!settings.tenants_path.empty()) sizes.least = std::max(sizes.least, 2 * sizes.slot);
  return sizes;
}

std::uint64_t ReadNumberFile(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : 0;
}

}  // namespace

Result<ModelFacts> ReadModelFacts(std::string_view text) {
  ModelFacts facts;
  const auto read = [&](std::string_view name, auto& number) -> Status {
    const std::string start = Concat("\n", name, "=");
    const std::string with_break = Concat("\n", text);
    const std::size_t at = with_break.find(start);
    if (at != std::string::npos) {
      const std::string_view digits = std::string_view(with_break).substr(at + start.size());
      if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc()) {
        return {};
      }
    }
    return Fail(Code::kCorrupt, "kvd --describe: there is no number ", name);
  };
  KVD_CHECK_OK(read("context", facts.context_length));
  KVD_CHECK_OK(read("cell_bytes", facts.cell_bytes));
  KVD_CHECK_OK(read("weight_bytes", facts.weight_bytes));
  return facts;
}

std::vector<std::string> ModelArguments(const Settings& settings) {
  std::vector<std::string> arguments;
  if (!settings.model_path.empty()) Add(arguments, "--model", RealPath(settings.model_path));
  if (!settings.k_type.empty()) Add(arguments, "--cache-type-k", settings.k_type);
  if (!settings.v_type.empty()) Add(arguments, "--cache-type-v", settings.v_type);
  if (settings.keeps_windows) arguments.emplace_back("--swa-full");
  return arguments;
}

namespace {

std::string NameOfText(std::string_view text) {
  const Digest digest = Sha256(text);
  return "http-" + HexText(std::span(digest).first(8));
}

std::string TextOfPlace(const Settings& settings) {
  const Result<std::string> socket = DefaultSocketPath(kDefaultDaemonName);
  return Concat(socket ? *socket : "", "\n", settings.tenants_path);
}

}  // namespace

std::string DaemonName(const Settings& settings) {
  std::string text = TextOfPlace(settings);
  for (const std::string& argument : ModelArguments(settings)) text.append(1, '\n') += argument;
  if (settings.is_deterministic) text += "\n--deterministic";
  for (const std::string& argument : settings.daemon_arguments) text.append(1, '\n') += argument;
  return NameOfText(text);
}

std::string SizedDaemonName(const Settings& settings) {
  std::string text = Concat(TextOfPlace(settings), "\n", settings.context_cells, "\n",
                            settings.slot_count, "\n", settings.is_unified ? 1 : 0);
  for (const std::string& argument : ServingArguments(settings)) {
    text.append(1, '\n') += argument;
  }
  return NameOfText(text);
}

namespace {

// Without the flags whose values differ between gateways that may use one daemon.
std::vector<std::string> CommonFlags(const std::vector<std::string>& arguments) {
  std::vector<std::string> common;
  for (std::size_t at = 0; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--store" || argument == "--tenants" || argument == "--name") {
      ++at;
    } else {
      common.push_back(argument);
    }
  }
  return common;
}

}  // namespace

bool HasFlags(std::string_view command_line, const std::vector<std::string>& arguments) {
  std::vector<std::string> found;
  for (bool is_program = true; !command_line.empty(); is_program = false) {
    const std::size_t end = std::min(command_line.find('\0'), command_line.size());
    if (!is_program) found.emplace_back(command_line.substr(0, end));
    command_line.remove_prefix(std::min(end + 1, command_line.size()));
    if (command_line.empty()) return CommonFlags(found) == CommonFlags(arguments);
  }
  return true;
}

DaemonPlan PlanDaemon(const Settings& settings, const ModelFacts& facts,
                      std::uint64_t memory_bytes) {
  DaemonPlan plan;
  const Sizes sizes = SizesOf(settings, facts);
  const std::uint64_t fitting = memory_bytes / 4 / std::max<std::uint64_t>(facts.cell_bytes, 1);
  const std::uint64_t wanted =
      std::max({std::min(4 * sizes.needed, fitting), sizes.least, kPoolCellsMin});
  plan.cells = std::min((wanted + kCellStep - 1) / kCellStep * kCellStep, kPoolCellsMax);
  plan.cells_needed = std::min(sizes.needed, sizes.least);
  const std::uint64_t slots = settings.is_unified ? 1 : settings.slot_count;
  if (settings.context_cells / slots > facts.context_length) {
    plan.notes.push_back(Concat("--ctx-size: a slot would have ", settings.context_cells / slots,
                                " tokens; it has the ", facts.context_length,
                                " that the model was trained for"));
  }
  Add(plan.arguments, "--cells", Concat(plan.cells));
  Add(plan.arguments, "--max-connections", Concat(kConnectionsMax));
  // The flags of kvd that the user gives come last, and replace the ones before.
  const std::vector<std::string> serving = ServingArguments(settings);
  plan.arguments.insert(plan.arguments.end(), serving.begin(), serving.end());
  return plan;
}

std::uint64_t MemoryBytes() {
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  std::uint64_t bytes = pages * page_bytes;
  for (const char* const limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const std::uint64_t allowed = ReadNumberFile(limit); allowed != 0) {
      bytes = std::min(bytes, allowed);
    }
  }
  return bytes;
}

namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool IsSameFile(const std::string& a, const std::string& b) {
  struct stat of_a{};
  struct stat of_b{};
  return ::stat(a.c_str(), &of_a) == 0 && ::stat(b.c_str(), &of_b) == 0 &&
         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

bool HasModel(std::uint32_t pid, const std::string& wanted) {
  const std::string process = Concat("/proc/", pid);
  const std::string command_line = FileText(process + "/cmdline");
  if (command_line.empty()) return false;
  const std::string model = ModelOfCommandLine(command_line);
  if (model.empty() || wanted.empty()) return model.empty() && wanted.empty();
  return IsSameFile(model.starts_with('/') ? model : process + "/cwd/" + model, wanted);
}

bool HasType(const std::string& wanted, std::string_view type) {
  return wanted.empty() || wanted == type;
}

}  // namespace

std::string ModelOfCommandLine(std::string_view command_line) {
  std::vector<std::string_view> arguments;
  while (!command_line.empty()) {
    arguments.push_back(command_line.substr(0, command_line.find('\0')));
    command_line.remove_prefix(std::min(command_line.size(), arguments.back().size() + 1));
  }
  std::string model;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    constexpr std::string_view kAttached = "--model=";
    if (arguments[i].starts_with(kAttached)) {
      model = arguments[i].substr(kAttached.size());
    } else if ((arguments[i] == "--model" || arguments[i] == "-m") && i + 1 < arguments.size()) {
      model = arguments[++i];
    }
  }
  return model;
}

bool UserDaemonServes(const Settings& settings, std::uint64_t cells_needed) {
  // Flags of kvd, or limits of tenants, are for a daemon of their own.
  if (!settings.daemon_arguments.empty() || !settings.tenants_path.empty()) return false;
  const Result<Client> client =
      Client::Connect({.daemon_name = std::string(kDefaultDaemonName),
                       .client_name = "kvd-http",
                       .connect_timeout = std::chrono::milliseconds{500},
                       .reconnect_timeout = std::chrono::milliseconds{0}});
  if (!client) return false;
  const Result<wire::InfoReply> info = client->Info();
  return info && HasModel(client->session().daemon_pid, settings.model_path) &&
         info->pool_cells >= cells_needed && HasType(settings.k_type, info->k_type) &&
         HasType(settings.v_type, info->v_type) &&
         (!settings.is_deterministic || info->deterministic != 0);
}

}  // namespace kvd::http
