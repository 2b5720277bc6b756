// CommandLine: the options of kvctl's command line, and the verb that it has chosen.
//
// Each verb is a row of a table with the table of its flags, and the files *_verbs.cc have the
// tables.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/flag.h"
#include "kvctl/options.h"

namespace kvd::kvctl {

struct CommandRow;

struct CommandLine {
  GlobalOptions global;
  RunOptions run;
  SequenceOptions sequence;
  SnapshotOptions snapshot;
  SavedOptions saved;
  TextOptions text;
  EmbedOptions embed;
  RankOptions rank;
  WarmOptions warm;
  PrefixFlags prefix;
  LlamaOptions llama;
  DaemonsOptions daemons;
  PingOptions ping;
  LifeOptions life;
  MapOptions map;
  bool info_wants_profile = false;
  std::int64_t timeout_ms = -1;
  const CommandRow* verb = nullptr;
};

struct CommandRow {
  std::string_view name;
  std::string_view description;
  std::string_view example;  // a command line, without the word kvctl
  Status (*run)(const CommandLine& line) = nullptr;
  std::span<const Flag<CommandLine>> flags = {};        // arguments come first, in their order
  std::span<const FlagTopic<CommandLine>> topics = {};  // further flags, under headings
};

std::span<const CommandRow> RunVerbs();
std::span<const CommandRow> SequenceVerbs();
std::span<const CommandRow> SnapshotVerbs();
std::span<const CommandRow> SavedVerbs();
std::span<const CommandRow> PrefixVerbs();
std::span<const CommandRow> LlamaVerbs();
std::span<const CommandRow> TextVerbs();
std::span<const CommandRow> DaemonVerbs();
std::span<const CommandRow> MapVerbs();

// Fills `line`, whose verb is then set. Returns the help text if the command line asks for one.
// Errors: kInvalidArgument, naming the argument.
Result<std::optional<std::string>> ReadCommandLine(int argument_count, const char* const* arguments,
                                                   CommandLine& line);

}  // namespace kvd::kvctl
