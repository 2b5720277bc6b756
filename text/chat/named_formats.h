// Chat formats that a user selects by name ("kvctl run --chat --chat-template gemma"), and ChatML,
// which a model without a template uses.
//
// Each format is a Jinja program of this project. The names are those of llama.cpp, whose texts the
// programs write, and two further ones: "notebook" (the bundled model) and "zephyr-eos". Formats
// that know no tools print a message of the role "tool" as llama.cpp does, or not at all. The
// functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvd {

inline constexpr std::string_view kDefaultFormat = "chatml";

// The names of all formats: "chatml", "llama2-sys", ...
std::span<const std::string_view> NamedFormats();

// The Jinja program of a format; nullopt if no format has this name.
std::optional<std::string> NamedFormatText(std::string_view name);

}  // namespace kvd
