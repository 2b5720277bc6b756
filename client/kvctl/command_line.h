// CommandLine: the options of kvctl's command line, and the verb that it has chosen.
//
// Each Add function adds some verbs to the parser. Parsing fills the CommandLine, which outlives
// the parser. Only main.cc, prompt_options.h and the files *_verbs.cc use CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "client/kvctl/options.h"

namespace kvd::kvctl {

struct CommandLine {
  GlobalOptions global;
  RunOptions run;
  SequenceOptions sequence;
  SnapshotOptions snapshot;
  SavedOptions saved;
  TextOptions text;
  EmbedOptions embed;
  RankOptions rank;
  PrefixOptions prefix;
  LlamaOptions llama;
  PingOptions ping;
  LifeOptions life;
  MapOptions map;
  bool info_wants_profile = false;
  std::int64_t timeout_ms = -1;
  std::function<Status()> verb;
};

// `example`: a command line of the verb, without the word kvctl. The help text of the verb ends
// with the example.
inline CLI::App* AddVerb(CLI::App& app, CommandLine& line, const char* name,
                         const char* description, const std::string& example,
                         std::function<Status()> verb) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->footer("Example: kvctl " + example);
  sub->callback([&line, verb = std::move(verb)] { line.verb = verb; });
  return sub;
}

void AddRunVerb(CLI::App& app, CommandLine& line);
void AddSequenceVerbs(CLI::App& app, CommandLine& line);
void AddSnapshotVerbs(CLI::App& app, CommandLine& line);
void AddSavedVerbs(CLI::App& app, CommandLine& line);
void AddPrefixVerbs(CLI::App& app, CommandLine& line);
void AddLlamaVerbs(CLI::App& app, CommandLine& line);
void AddTextVerbs(CLI::App& app, CommandLine& line);
void AddDaemonVerbs(CLI::App& app, CommandLine& line);
void AddMapVerbs(CLI::App& app, CommandLine& line);

}  // namespace kvd::kvctl
