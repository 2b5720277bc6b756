#include "kvctl/command_line.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/flag.h"
#include "base/flag_help.h"
#include "base/flag_table.h"
#include "base/text.h"
#include "shm/wire_check.h"

namespace kvd::kvctl {
namespace {

constexpr HelpLayout kLayout;

Status TakeTenant(CommandLine& line, const FlagValue& value) {
  const auto tenant = wire::ParseTenantId(std::string(value.text));
  if (!tenant) return Fail(Code::kInvalidArgument, value.name, ": ", tenant.error().message);
  line.global.connect.tenant = *tenant;
  return {};
}

constexpr auto kGlobalFlags = std::to_array<Flag<CommandLine>>({
    {.names = "--socket",
     .argument = "PATH",
     .help = "Path of the daemon's socket. Default: $KVD_SOCKET, else the path that the name of "
             "the daemon gives.",
     .take = TakeText<&CommandLine::global, &GlobalOptions::connect, &ConnectOptions::socket_path>,
     .excludes = "--name"},
    {.names = "--name",
     .argument = "NAME",
     .help = "Name of the daemon, from which the default path of its socket is made. Default: "
             "default.",
     .take = TakeText<&CommandLine::global, &GlobalOptions::connect, &ConnectOptions::daemon_name>,
     .excludes = "--socket"},
    ValueFlag(
        "--cache-salt", "N",
        "Number that separates users: prompts reuse only sequences with the same number. Default: "
        "0. Range: 0 to 18446744073709551615.",
        TakeUnsigned<&CommandLine::global, &GlobalOptions::connect, &ConnectOptions::cache_salt>),
    ValueFlag("--tenant", "HEX",
              "Tenant of this uid for which kvctl acts, as 32 hexadecimal digits. Default: the uid "
              "itself.",
              TakeTenant),
    ValueFlag("--timeout-ms", "MS",
              "Time in milliseconds after which a request that has no answer fails. Default: no "
              "limit.",
              TakeNumber<std::numeric_limits<std::int64_t>::min(),
                         std::numeric_limits<std::int64_t>::max(), &CommandLine::timeout_ms>),
    SwitchFlag("--json", "Print JSON.",
               TakeSwitch<&CommandLine::global, &GlobalOptions::wants_json>),
});

// Calls `call` with each verb, in the order of the help text.
void ForEachVerb(const auto& call) {
  for (const auto& verbs : {RunVerbs(), SequenceVerbs(), SnapshotVerbs(), SavedVerbs(),
                            PrefixVerbs(), LlamaVerbs(), TextVerbs(), DaemonVerbs(), MapVerbs()}) {
    for (const CommandRow& verb : verbs) call(verb);
  }
}

// Returns the number of characters to insert, remove or replace that make `b` of `a`.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// Returns the verb that is most like the name; empty: none is like it.
std::string_view NearestVerb(std::string_view name) {
  std::string_view nearest;
  // Half of the characters of a name that is meant are right.
  std::size_t least = std::min<std::size_t>(name.size() / 2, 3) + 1;
  ForEachVerb([&](const CommandRow& verb) {
    const std::size_t distance =
        verb.name.starts_with(name) ? 0 : EditDistance(name.substr(0, 64), verb.name);
    if (distance < least) {
      least = distance;
      nearest = verb.name;
    }
  });
  return nearest;
}

const CommandRow* FindVerb(std::string_view name) {
  const CommandRow* found = nullptr;
  ForEachVerb([&](const CommandRow& verb) {
    if (verb.name == name) found = &verb;
  });
  return found;
}

void AppendOptions(std::span<const Flag<CommandLine>> flags, std::string& help) {
  help += "Options:\n";
  AppendHelpLine(kLayout, "-h,--help", "Print this help message and exit", help);
  for (const Flag<CommandLine>& flag : flags) {
    if (!flag.is_argument()) AppendFlagHelp(kLayout, flag, help);
  }
}

std::string HelpText() {
  std::string help = "kvctl: talk to a kvd daemon\nUsage: kvctl [OPTIONS] SUBCOMMAND\n\n";
  AppendOptions(kGlobalFlags, help);
  AppendHelpLine(kLayout, "--version", "Print the version and exit", help);
  help += "\nSubcommands:\n";
  ForEachVerb([&help](const CommandRow& verb) {
    AppendHelpLine(kLayout, verb.name, verb.description, help);
  });
  return help + "\n";
}

std::string HelpText(const CommandRow& verb) {
  std::string usage;
  std::string arguments;
  for (const Flag<CommandLine>& flag : verb.flags) {
    if (!flag.is_argument()) continue;
    const std::string shown = std::string(flag.names) + (flag.is_list ? "..." : "");
    usage += flag.is_required ? " " + shown : " [" + shown + "]";
    AppendFlagHelp(kLayout, flag, arguments);
  }
  std::string help(verb.description);
  help.append("\nUsage: kvctl ").append(verb.name).append(" [OPTIONS]").append(usage) += "\n\n";
  if (!arguments.empty()) help.append("Positionals:\n").append(arguments) += '\n';
  AppendOptions(verb.flags, help);
  for (const auto& [title, flags] : verb.topics) {
    help.append("\n\n").append(title) += ":\n";
    for (const Flag<CommandLine>& flag : flags) AppendFlagHelp(kLayout, flag, help);
  }
  return help.append("\nExample: kvctl ").append(verb.example) + "\n";
}

// Reads the arguments from left to right. The flags of all verbs may stand anywhere, those of a
// verb behind its name.
class Reader {
 public:
  explicit Reader(CommandLine& line) : line_(line) { global_flags_.Add(kGlobalFlags); }

  Status Take(std::string_view text) {
    if (line_.verb == nullptr) return ChooseVerb(text);
    while (next_ < line_.verb->flags.size() && line_.verb->flags[next_].is_argument()) {
      const Flag<CommandLine>& argument = line_.verb->flags[next_];
      if (!argument.is_list) ++next_;
      return TakeFlag(argument, FlagValue{.name = argument.names, .text = text});
    }
    return FailUnexpected(text);
  }

  // Returns how many arguments were read.
  Result<std::size_t> TakeFlags(std::string_view text, const char* next) {
    const auto take = [this](const Flag<CommandLine>& flag, const FlagValue& value) {
      return TakeFlag(flag, value);
    };
    KVD_TRY(std::size_t used, verb_flags_.Read(text, next, take));
    if (used == 0) {
      KVD_TRY(used, global_flags_.Read(text, next, take));
    }
    if (used == 0) return FailUnexpected(text);
    return used;
  }

  Status Check() const {
    if (line_.verb == nullptr) return Fail(Code::kInvalidArgument, "A subcommand is required");
    KVD_CHECK_OK(given_.Check(kGlobalFlags));
    KVD_CHECK_OK(given_.Check(line_.verb->flags));
    for (const auto& topic : line_.verb->topics) KVD_CHECK_OK(given_.Check(topic.flags));
    return {};
  }

 private:
  static std::unexpected<Error> FailUnexpected(std::string_view text) {
    return Fail(Code::kInvalidArgument, "The following argument was not expected: ", text);
  }

  Status ChooseVerb(std::string_view name) {
    line_.verb = FindVerb(name);
    if (line_.verb == nullptr) {
      const std::string_view nearest = NearestVerb(name);
      return Fail(Code::kInvalidArgument, "'", name, "': no such subcommand",
                  nearest.empty() ? "; kvctl --help lists them" : "; the nearest one is ", nearest);
    }
    verb_flags_.Add(line_.verb->flags);
    for (const auto& topic : line_.verb->topics) verb_flags_.Add(topic.flags);
    return {};
  }

  Status TakeFlag(const Flag<CommandLine>& flag, const FlagValue& value) {
    given_.Add(flag);
    return flag.take(line_, value);
  }

  CommandLine& line_;
  FlagTable<CommandLine> global_flags_{true};
  FlagTable<CommandLine> verb_flags_{true};
  GivenFlags<CommandLine> given_;
  std::size_t next_ = 0;  // the verb's next argument that stands by itself
};

}  // namespace

Result<std::optional<std::string>> ReadCommandLine(int argument_count, const char* const* arguments,
                                                   CommandLine& line) {
  Reader reader(line);
  bool takes_flags = true;
  for (int i = 1; i < argument_count;) {
    const std::string_view text = arguments[i];
    if (takes_flags && text == "--") {
      takes_flags = false;
      ++i;
    } else if (takes_flags && (text == "-h" || text == "--help")) {
      return line.verb == nullptr ? HelpText() : HelpText(*line.verb);
    } else if (takes_flags && text == "--version") {
      return Concat("kvctl ", KVD_VERSION, "\n");
    } else if (takes_flags && text.size() > 1 && text.starts_with('-')) {
      const char* const next = i + 1 < argument_count ? arguments[i + 1] : nullptr;
      KVD_TRY(const std::size_t used, reader.TakeFlags(text, next));
      i += static_cast<int>(used);
    } else {
      KVD_CHECK_OK(reader.Take(text));
      ++i;
    }
  }
  KVD_CHECK_OK(reader.Check());
  return std::optional<std::string>();
}

}  // namespace kvd::kvctl
