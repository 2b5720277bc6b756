#include "http/backend/user_daemon.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "shm/socket_address.h"

namespace kvd::http {
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
