#include "http/options/parse_flags.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/flag_help.h"
#include "base/flag_table.h"
#include "base/name.h"
#include "base/text.h"

namespace kvd::http {
namespace {

const std::array<FlagTopic<Settings>, 6>& Topics() {
  static const std::array<FlagTopic<Settings>, 6> topics = {
      {{"Model, context and daemon", ModelFlags()},
       {"Server", ServerFlags()},
       {"Chats", ChatFlags()},
       {"Generation", SamplingFlags()},
       {"Flags of llama-server without effect", IgnoredFlags()},
       {"Flags of llama-server that are not supported", RefusedFlags()}}};
  return topics;
}

std::string HelpText() {
  constexpr HelpLayout kLayout{.column = 34, .gap = 2, .columns = 0, .between_names = ", "};
  std::string text =
      "usage: kvd-http [FLAGS] [-- FLAGS OF KVD]\n\n"
      "kvd over HTTP: serves what llama-server, OpenAI and Anthropic serve, from a kvd daemon "
      "that\n"
      "it finds or starts. Flags have the names and meanings of llama-server's flags.\n\n";
  AppendHelpLine(kLayout, "-h, --help, --usage", "this text", text);
  AppendHelpLine(kLayout, "--version", "the version", text);
  for (const auto& [title, flags] : Topics()) {
    text.append("\n").append(title) += ":\n";
    for (const Flag& flag : flags) AppendFlagHelp(kLayout, flag, text);
  }
  return text;
}

class FlagParser {
 public:
  explicit FlagParser(const Environment& environment) : environment_(environment) {
    // 0 means that neither the command line nor the environment names a number of slots.
    parsed_.settings.slot_count = 0;
    for (const auto& topic : Topics()) table_.Add(topic.flags);
  }

  Status TakeEnvironment() {
    for (const auto& topic : Topics()) {
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
      KVD_TRY(const std::size_t used,
              table_.Read(argument, next, [this](const Flag& flag, const FlagValue& value) {
                return Take(flag, value);
              }));
      if (used == 0) {
        return Fail(Code::kInvalidArgument, argument, ": unknown flag; --help lists the flags");
      }
      i += static_cast<int>(used) - 1;
    }
    return {};
  }

  ParsedFlags& parsed() { return parsed_; }

 private:
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
  FlagTable<Settings> table_{false};
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
