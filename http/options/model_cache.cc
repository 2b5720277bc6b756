#include "http/options/model_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace kvd::http {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCommitDigits = 40;
constexpr std::size_t kFilesMax = 1u << 16;  // of one repository; more are not looked at

// A variable of the environment with a path, and what follows it.
struct Place {
  const char* variable;
  const char* below;
};
constexpr std::array<Place, 6> kHubPlaces = {{{"LLAMA_CACHE", ""},
                                              {"HF_HUB_CACHE", ""},
                                              {"HUGGINGFACE_HUB_CACHE", ""},
                                              {"HF_HOME", "hub"},
                                              {"XDG_CACHE_HOME", "huggingface/hub"},
                                              {"HOME", ".cache/huggingface/hub"}}};
constexpr std::array<Place, 3> kCachePlaces = {
    {{"LLAMA_CACHE", ""}, {"XDG_CACHE_HOME", "llama.cpp"}, {"HOME", ".cache/llama.cpp"}}};

fs::path Choose(std::span<const Place> places, const Environment& environment) {
  for (const Place& place : places) {
    const char* const value = environment(place.variable);
    if (value != nullptr && *value != '\0') return fs::path(value) / place.below;
  }
  const passwd* const entry = ::getpwuid(::geteuid());
  return fs::path(entry == nullptr ? "/" : entry->pw_dir) / places.back().below;
}

// A file of a repository.
struct CachedFile {
  std::string name;  // its path in the repository
  fs::path path;
};

bool IsCommit(std::string_view text) {
  return text.size() == kCommitDigits && std::ranges::all_of(text, [](char c) {
           return std::isxdigit(static_cast<unsigned char>(c)) != 0;
         });
}

// The commit of the branch main, or else of another branch.
std::string CommitOf(const fs::path& repository) {
  std::string commit;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(repository / "refs", error)) {
    std::ifstream file(entry.path());
    std::string line;
    if (!std::getline(file, line) || !IsCommit(line)) continue;
    if (entry.path().filename() == "main") return line;
    if (commit.empty() || line < commit) commit = line;
  }
  return commit;
}

std::vector<CachedFile> HubFiles(const fs::path& hub, std::string_view user,
                                 std::string_view model) {
  const fs::path repository = hub / Concat("models--", user, "--", model);
  std::vector<CachedFile> files;
  const std::string commit = CommitOf(repository);
  if (commit.empty()) return files;
  const fs::path root = repository / "snapshots" / commit;
  std::error_code error;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end;
       at.increment(error)) {
    if (fs::is_regular_file(at->path(), error) && files.size() < kFilesMax) {
      files.push_back({at->path().lexically_relative(root).generic_string(), at->path()});
    }
    error.clear();
  }
  return files;
}

std::vector<CachedFile> NamedFiles(const fs::path& cache, std::string_view user,
                                   std::string_view model) {
  const std::string start = Concat(user, "_", model, "_");
  std::vector<CachedFile> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(start) && files.size() < kFilesMax) {
      files.push_back({name.substr(start.size()), entry.path()});
    }
  }
  return files;
}

bool IsModelFile(std::string_view name) {
  if (!name.ends_with(".gguf")) return false;
  const std::string_view file = name.substr(name.rfind('/') + 1);
  constexpr std::array<std::string_view, 6> kOthers = {"mmproj",  "imatrix", "mtp-",
                                                       "eagle3-", "dflash-", "dspark-"};
  if (std::ranges::any_of(kOthers, [&](std::string_view other) { return file.contains(other); })) {
    return false;
  }
  // The second and later files of a model in several files.
  static const std::regex kPart("-([0-9]{5})-of-[0-9]{5}\\.gguf$");
  std::match_results<std::string_view::const_iterator> part;
  return !std::regex_search(file.begin(), file.end(), part, kPart) || part[1] == "00001";
}

// Returns whether the name has the quantisation before a '.' or '-', in upper or lower case.
bool HasQuantisation(std::string_view name, std::string_view quantisation) {
  const auto equals = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) ==
           std::toupper(static_cast<unsigned char>(b));
  };
  for (auto from = name.begin(); from != name.end(); ++from) {
    const auto found =
        std::search(from, name.end(), quantisation.begin(), quantisation.end(), equals);
    if (found == name.end()) return false;
    const auto after = found + static_cast<std::ptrdiff_t>(quantisation.size());
    if (after != name.end() && (*after == '.' || *after == '-')) return true;
    from = found;
  }
  return false;
}

std::optional<fs::path> ChooseFile(std::vector<CachedFile> files, const std::string& wanted_file,
                                   std::string_view quantisation) {
  std::ranges::sort(files, {}, &CachedFile::name);
  if (!wanted_file.empty()) {
    const auto found = std::ranges::find(files, wanted_file, &CachedFile::name);
    return found == files.end() ? std::nullopt : std::optional(found->path);
  }
  std::erase_if(files, [](const CachedFile& file) { return !IsModelFile(file.name); });
  std::vector<std::string_view> choices = {quantisation};
  if (quantisation.empty()) choices = {"Q4_K_M", "Q8_0"};
  for (const std::string_view choice : choices) {
    for (const CachedFile& file : files) {
      if (HasQuantisation(file.name, choice)) return file.path;
    }
  }
  if (!quantisation.empty() || files.empty()) return std::nullopt;
  return files.front().path;
}

Result<std::string> FindInHub(const Settings& settings, const Environment& environment) {
  const std::string_view given = settings.hub_repository;
  const std::string_view repository = given.substr(0, given.find(':'));
  const std::string_view quantisation =
      repository.size() == given.size() ? "" : given.substr(given.rfind(':') + 1);
  const std::size_t slash = repository.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == repository.size() ||
      repository.find('/', slash + 1) != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "--hf-repo: \"", given,
                "\" is not USER/MODEL or USER/MODEL:QUANT");
  }
  const std::string_view user = repository.substr(0, slash);
  const std::string_view model = repository.substr(slash + 1);
  const fs::path hub = Choose(kHubPlaces, environment);
  const fs::path cache = Choose(kCachePlaces, environment);
  for (const std::vector<CachedFile>& files :
       {HubFiles(hub, user, model), NamedFiles(cache, user, model)}) {
    if (auto path = ChooseFile(files, settings.hub_file, quantisation)) return path->string();
  }
  std::string wanted = settings.hub_file.empty() ? Concat("--include '*", quantisation,
                                                          quantisation.empty() ? "" : "*", ".gguf'")
                                                 : settings.hub_file;
  return Fail(Code::kNotFound, "--hf-repo: ", given, " ", settings.hub_file,
              settings.hub_file.empty() ? "" : " ", "is not in ", hub.string(), " or ",
              cache.string(), ", and kvd-http downloads nothing. Get it with: hf download ",
              repository, " ", wanted);
}

Result<std::string> FindByUrl(const Settings& settings, const Environment& environment) {
  std::string_view name = settings.model_url;
  name = name.substr(0, name.find('#'));
  name = name.substr(0, name.find('?'));
  name = name.substr(name.rfind('/') + 1);
  const fs::path path = Choose(kCachePlaces, environment) / name;
  std::error_code error;
  if (!name.empty() && fs::is_regular_file(path, error)) return path.string();
  return Fail(Code::kNotFound, "--model-url: there is no file ", path.string(),
              ", and kvd-http downloads nothing. Get it with: curl -L -o ", path.string(), " ",
              settings.model_url);
}

}  // namespace

Result<std::string> FindModelFile(const Settings& settings, const Environment& environment) {
  if (!settings.hub_repository.empty()) return FindInHub(settings, environment);
  if (!settings.model_path.empty()) return settings.model_path;
  if (!settings.model_url.empty()) return FindByUrl(settings, environment);
  return std::string();
}

}  // namespace kvd::http
