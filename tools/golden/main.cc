// kvd-golden [--spawn] PATH...: runs golden folders, vocabulary cases and chat templates and prints
// the errors of the results.
//
// PATH is a folder with script.json, a vocabulary X.gguf with X.gguf.inp and X.gguf.out in the same
// folder, a folder with template.jinja and cases.json, or a folder that contains such folders or
// vocabularies. Unless a script says otherwise, llama.cpp computed the expected numbers. By default
// llama_shifts is therefore on (shifts use llama.cpp's arithmetic), and swa_full is on (the cache
// keeps the cells that a sliding window has passed). Exit codes: 0 all cases passed, 1 a case
// failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/golden/backend.h"
#include "tools/golden/golden_case.h"
#include "tools/golden/help_formatter.h"
#include "tools/golden/run_case.h"

namespace {

namespace fs = std::filesystem;
using kvd::golden::Tally;

struct Flags {
  bool spawn = false;
  std::string kvd_path;
  std::optional<double> cell_tolerance;
  kvd::golden::BackendOptions backend;
};

// Returns the amount that a cell type adds to the tolerance for f32 cells (README of the golden
// folders).
double CellTolerance(const std::string& type) {
  if (type == "f16") return 2e-7;
  if (type == "bf16") return 1e-5;
  if (type == "q8_0") return 2e-5;
  if (type == "q4_0") return 2e-2;
  return 0;
}

void RunFolder(const std::string& folder, const Flags& flags, Tally* tally) {
  const auto fail = [&](const kvd::Error& error) {
    std::printf("%s: %s\n", folder.c_str(), error.message.c_str());
    ++tally->failed;
  };
  auto golden = kvd::golden::ReadCase(folder);
  if (!golden) return fail(golden.error());
  golden->tolerance += flags.cell_tolerance.value_or(
      std::max(CellTolerance(flags.backend.k_type), CellTolerance(flags.backend.v_type)));
  kvd::golden::BackendOptions options = flags.backend;
  options.model_path = golden->model_path;
  options.llama_shifts = golden->llama_shifts;
  const auto backend = flags.spawn ? kvd::golden::MakeDaemonBackend(flags.kvd_path, options)
                                   : kvd::golden::MakeEngineBackend(options);
  if (!backend) return fail(backend.error());
  kvd::golden::RunCase(*golden, **backend, tally);
}

void RunPath(const fs::path& path, const Flags& flags, bool named, Tally* tally) {
  if (path.extension() == ".gguf") {
    if (named || fs::exists(path.string() + ".inp"))
      kvd::golden::RunVocabulary(path.string(), tally);
  } else if (fs::exists(path / "script.json")) {
    RunFolder(path.string(), flags, tally);
  } else if (fs::exists(path / "template.jinja")) {
    kvd::golden::RunTemplate(path.string(), tally);
  } else if (named && fs::is_directory(path)) {
    std::vector<fs::path> children;
    for (const fs::directory_entry& entry : fs::directory_iterator(path))
      children.push_back(entry.path());
    std::sort(children.begin(), children.end());
    const int before = tally->passed + tally->failed;
    for (const fs::path& child : children) RunPath(child, flags, false, tally);
    if (tally->passed + tally->failed == before) {
      std::printf("%s: contains no golden folder, no vocabulary and no template\n", path.c_str());
      ++tally->failed;
    }
  } else if (named) {
    std::printf("%s: no script.json and no template.jinja\n", path.c_str());
    ++tally->failed;
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  CLI::App app("Runs golden folders, vocabulary cases and chat templates", "kvd-golden");
  app.formatter(std::make_shared<kvd::HelpFormatter>());
  Flags flags;
  std::vector<std::string> paths;
  flags.kvd_path = (fs::read_symlink("/proc/self/exe").parent_path() / "kvd").string();
  app.add_flag("--spawn", flags.spawn,
               "Run a kvd for each folder instead of an engine in this process.");
  app.add_option("--kvd", flags.kvd_path,
                 "Program that --spawn starts. Default: kvd in the folder of kvd-golden.")
      ->type_name("FILE");
  app.add_option("--ctk,--cache-type-k", flags.backend.k_type,
                 "Number type of the K cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctk). "
                 "Default: f32.")
      ->type_name("TYPE");
  app.add_option("--ctv,--cache-type-v", flags.backend.v_type,
                 "Number type of the V cells: f32, f16, bf16, q8_0 or q4_0 (short form: -ctv). "
                 "Default: f32.")
      ->type_name("TYPE");
  app.add_option("--cell-tolerance", flags.cell_tolerance,
                 "Number that is added to the tolerance of each folder. Default: 0 for cells of "
                 "f32, else an amount for the types of the cells.")
      ->type_name("NUMBER");
  app.add_flag("--deterministic", flags.backend.deterministic,
               "Compute with the option --deterministic of kvd.");
  app.add_option("PATH", paths, "Golden folders, vocabularies, templates, or folders of them.")
      ->required();
  // CLI11 supports only one-letter short flags, and takes arguments from the end of a vector.
  std::vector<std::string> respelled(arguments + 1, arguments + argument_count);
  for (std::string& argument : respelled) {
    if (argument == "-ctk" || argument == "-ctv") argument.insert(0, "-");
  }
  std::ranges::reverse(respelled);
  try {
    app.parse(respelled);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : 2;
  }
  Tally tally;
  try {
    for (const std::string& path : paths) RunPath(path, flags, true, &tally);
  } catch (const std::exception& problem) {
    std::printf("%s\n", problem.what());
    ++tally.failed;
  }
  std::printf("%d passed, %d failed\n", tally.passed, tally.failed);
  return tally.failed == 0 ? 0 : 1;
}
