#include "shm/state_names.h"

#include <charconv>
#include <system_error>

namespace kvd {
namespace {

// The number in "STEM", "STEM.N" or either with "-PART"; nullopt: another name.
std::optional<std::uint64_t> NumberOf(std::string_view name, std::string_view stem) {
  if (!name.starts_with(stem)) return std::nullopt;
  name.remove_prefix(stem.size());
  std::uint64_t number = 0;
  if (name.starts_with('.')) {
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
    if (error != std::errc() || number == 0) return std::nullopt;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  }
  if (!name.empty() && (stem != "pool" || !name.starts_with('-'))) return std::nullopt;
  return number;
}

}  // namespace

std::optional<std::uint64_t> PoolNumberOf(std::string_view name) { return NumberOf(name, "pool"); }

std::optional<std::uint64_t> AsideNumberOf(std::string_view name) {
  return NumberOf(name, "meta.bad");
}

bool IsStateFile(std::string_view name) {
  return name == "meta" || name == "meta.new" || PoolNumberOf(name) || AsideNumberOf(name);
}

bool IsModelFolder(std::string_view name) {
  constexpr std::size_t kDigits = 16;
  return name.size() == kModelFolderStem.size() + kDigits && name.starts_with(kModelFolderStem) &&
         name.find_first_not_of("0123456789abcdef", kModelFolderStem.size()) ==
             std::string_view::npos;
}

}  // namespace kvd
