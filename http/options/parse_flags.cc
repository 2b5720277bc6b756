#include "http/options/parse_flags.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/name.h"
#include "base/text.h"
#include "http/options/flag.h"

namespace kvd::http {
namespace {

struct Topic {
  std::string_view title;
  std::span<const Flag> flags;
};

const std::array<Topic, 6>& Topics() {
  static const std::array<Topic, 6> topics = {
      {{"Model, context and daemon", ModelFlags()},
       {"Server", ServerFlags()},
       {"Chats", ChatFlags()},
       {"Generation", SamplingFlags()},
       {"Flags of llama-server without effect", IgnoredFlags()},
       {"Flags of llama-server that are not supported", RefusedFlags()}}};
  return topics;
}

// Calls `call` with each name of a list between spaces.
template <class Call>
void ForEachName(std::string_view names, const Call& call) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    call(name);
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
}

std::string WithCommas(std::string_view names) {
  std::string text;
  ForEachName(names, [&](std::string_view name) { text.append(text.empty() ? "" : ", ") += name; });
  return text;
}

void AppendHelp(const Flag& flag, std::string& text) {
  constexpr std::size_t kColumn = 34;
  std::string left = "  " + WithCommas(flag.names);
  if (!flag.negatives.empty()) left.append(", ") += WithCommas(flag.negatives);
  if (!flag.argument.empty()) left.append(" ") += flag.argument;
  text += left;
  if (flag.help.empty()) {
    text += '\n';
    return;
  }
  text.append(left.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ')
                                        : std::string(kColumn - left.size(), ' '));
  text += flag.help;
  if (!flag.environment.empty()) text.append(" (").append(flag.environment) += ')';
  text += '\n';
}

std::string HelpText() {
  std::string text =
      "usage: kvd-http [FLAGS] [-- FLAGS OF KVD]\n\n"
      "kvd over HTTP: serves what llama-server, OpenAI and Anthropic serve, from a kvd daemon "
      "that\n"
      "it finds or starts. Flags have the names and meanings of llama-server's flags.\n\n"
      "  -h, --help, --usage             this text\n"
      "  --version                       the version\n";
  for (const Topic& topic : Topics()) {
    text.append("\n").append(topic.title) += ":\n";
    for (const Flag& flag : topic.flags) AppendHelp(flag, text);
  }
  return text;
}

class FlagParser {
 public:
  explicit FlagParser(const Environment& environment) : environment_(environment) {
    // 0 means that neither the command line nor the environment names a number of slots.
    parsed_.settings.slot_count = 0;
    for (const Topic& topic : Topics()) {
      for (const Flag& flag : topic.flags) {
        ForEachName(flag.names, [&](std::string_view name) { by_name_[name] = {&flag, true}; });
        ForEachName(flag.negatives,
                    [&](std::string_view name) { by_name_[name] = {&flag, false}; });
      }
    }
  }

  Status TakeEnvironment() {
    for (const Topic& topic : Topics()) {
      for (const Flag& flag : topic.flags) {
        if (!flag.environment.empty()) KVD_CHECK_OK(TakeVariable(flag));
      }
    }
    return {};
  }

  Status TakeArguments(int argument_count, const char* const* arguments) {
    for (int i = 1; i < argument_count; ++i) {
      const std::string_view argument = arguments[i];
      if (argument == "--") {
        parsed_.settings.daemon_arguments.assign(arguments + i + 1, arguments + argument_count);
        return {};
      }
      if (argument == "-h" || argument == "--help" || argument == "--usage") {
        parsed_.print = HelpText();
        return {};
      }
      if (argument == "--version") {
        parsed_.print = "kvd-http " KVD_VERSION "\n";
        return {};
      }
      const char* const next = i + 1 < argument_count ? arguments[i + 1] : nullptr;
      KVD_TRY(const bool took_next, TakeArgument(argument, next));
      if (took_next) ++i;
    }
    return {};
  }

  ParsedFlags& parsed() { return parsed_; }

 private:
  struct Found {
    const Flag* flag = nullptr;
    bool is_on = true;
  };

  static std::string Canonical(std::string_view name) {
    std::string canonical(name);
    if (name.starts_with("--")) std::ranges::replace(canonical, '_', '-');
    return canonical;
  }

  // Returns whether the flag's value is `next`.
  Result<bool> TakeArgument(std::string_view argument, const char* next) {
    std::string name = Canonical(argument);
    std::optional<std::string_view> attached;  // "--port=80"
    auto found = by_name_.find(name);
    if (const std::size_t equals = argument.find('=');
        found == by_name_.end() && argument.starts_with("--") && equals != std::string_view::npos) {
      name = Canonical(argument.substr(0, equals));
      found = by_name_.find(name);
      if (found != by_name_.end() && !found->second.flag->argument.empty()) {
        attached = argument.substr(equals + 1);
      } else {
        found = by_name_.end();
      }
    }
    if (found == by_name_.end()) {
      return Fail(Code::kInvalidArgument, argument, ": unknown flag; --help lists the flags");
    }
    const auto& [flag, is_on] = found->second;
    FlagValue value{.name = name, .is_on = is_on};
    const bool takes_next = !flag->argument.empty() && !attached;
    if (takes_next && next == nullptr && flag->refused.empty()) {
      return Fail(Code::kInvalidArgument, name, ": the value is missing: ", flag->argument);
    }
    if (!flag->argument.empty()) value.text = attached ? *attached : next ? next : "";
    KVD_CHECK_OK(Take(*flag, value));
    return takes_next;
  }

  Status Take(const Flag& flag, const FlagValue& value) {
    if (!flag.refused.empty()) {
      return Fail(Code::kUnsupported, value.name, ": not supported: kvd-http has no ",
                  flag.refused);
    }
    if (flag.take != nullptr) return flag.take(parsed_.settings, value);
    if (!flag.ignored.empty()) {
      parsed_.notes.push_back(Concat(value.name, " has no effect: ", flag.ignored));
    }
    return {};
  }

  Status TakeVariable(const Flag& flag) {
    const std::string name(flag.environment);
    FlagValue value{.name = name};
    if (!flag.negatives.empty()) {
      std::string negative = name;
      constexpr std::string_view kStart = "LLAMA_ARG_";
      if (name.starts_with(kStart)) negative.insert(kStart.size(), "NO_");
      if (negative != name && environment_(negative.c_str()) != nullptr) {
        value.is_on = false;
        return flag.refused.empty() ? Take(flag, value) : Status();
      }
    }
    const char* const text = environment_(name.c_str());
    if (text == nullptr) return {};
    value.text = text;
    if (flag.argument.empty()) {
      KVD_TRY(value.is_on, value.Truth());
      // A switch without a negative name cannot be switched off, and what is off needs no refusal.
      if (!value.is_on && (flag.negatives.empty() || !flag.refused.empty())) return {};
    }
    return Take(flag, value);
  }

  const Environment& environment_;
  ParsedFlags parsed_;
  std::map<std::string_view, Found> by_name_;
};

std::string Unescaped(std::string_view text) {
  constexpr std::string_view kLetters = "ntrabfv\\'\"";
  constexpr std::string_view kMeanings = "\n\t\r\a\b\f\v\\'\"";
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t letter =
        text[i] == '\\' && i + 1 < text.size() ? kLetters.find(text[i + 1]) : std::string::npos;
    if (letter == std::string::npos) {
      plain += text[i];
    } else {
      plain += kMeanings[letter];
      ++i;
    }
  }
  return plain;
}

void SortUnique(std::vector<std::string>& names) {
  std::ranges::sort(names);
  const auto rest = std::ranges::unique(names);
  names.erase(rest.begin(), rest.end());
}

// Rounds the context as llama-server does, so that each slot has a multiple of kContextStep.
void RoundContext(Settings& settings) {
  if (settings.slot_count == 0) {
    settings.slot_count = kSlotsDefault;
    settings.is_unified = true;
  }
  const auto rounded = [](std::uint64_t cells) {
    return (cells + kContextStep - 1) / kContextStep * kContextStep;
  };
  if (settings.context_cells == 0) return;
  std::uint64_t cells = rounded(settings.context_cells);
  if (!settings.is_unified) cells = rounded(cells / settings.slot_count) * settings.slot_count;
  settings.context_cells = static_cast<std::uint32_t>(std::min<std::uint64_t>(cells, 0xffffff00u));
}

Status CheckTogether(const Settings& settings) {
  const auto refuse = [](std::string_view message) {
    return Fail(Code::kInvalidArgument, std::string(message));
  };
  if (settings.key_file.empty() != settings.certificate_file.empty()) {
    return refuse("--ssl-key-file: is needed together with --ssl-cert-file");
  }
  if (!settings.tenants_path.empty() && !settings.api_keys.empty()) {
    return refuse("--api-key: cannot be combined with --tenants, which has the keys");
  }
  if (!settings.hub_file.empty() && settings.hub_repository.empty()) {
    return refuse("--hf-file: needs --hf-repo");
  }
  for (const NamedDaemon& daemon : settings.daemons) {
    if (!IsName(daemon.name)) {
      return Fail(Code::kInvalidArgument, "--daemon: \"", daemon.name,
                  "\" is not the name of a daemon");
    }
  }
  return ValidateSampling(settings.defaults.sampling);
}

}  // namespace

Result<ParsedFlags> ParseFlags(int argument_count, const char* const* arguments,
                               const Environment& environment) {
  FlagParser parser(environment);
  KVD_CHECK_OK(parser.TakeEnvironment());
  KVD_CHECK_OK(parser.TakeArguments(argument_count, arguments));
  ParsedFlags parsed = std::move(parser.parsed());
  if (parsed.print) return parsed;
  Settings& settings = parsed.settings;
  RoundContext(settings);
  SortUnique(settings.aliases);
  SortUnique(settings.tags);
  if (settings.host.ends_with(".sock") && !settings.host.starts_with("unix:")) {
    settings.host.insert(0, "unix:");
  }
  if (settings.defaults.breakers && settings.defaults.reads_escapes) {
    for (std::string& breaker : *settings.defaults.breakers) breaker = Unescaped(breaker);
  }
  KVD_CHECK_OK(CheckTogether(settings));
  return parsed;
}

}  // namespace kvd::http
