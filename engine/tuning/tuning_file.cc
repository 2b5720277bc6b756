#include "engine/tuning/tuning_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "engine/tuning/choice_table.h"

namespace kvd {

// ---- machine identity
// A processor's lines of /proc/cpuinfo have the form "NAME<tabs>: VALUE" and end with an empty
// line.

namespace {

constexpr std::size_t kValueBytesMax = 80;
constexpr std::size_t kCpuInfoBytesMax = 16384;

std::string_view Trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string Printable(std::string_view text) {
  std::string printable(text.substr(0, kValueBytesMax));
  std::ranges::replace_if(printable, [](char c) { return c < ' ' || c > '~'; }, '?');
  return printable;
}

}  // namespace

MachineIdentity ParseCpuInfo(std::string_view text) {
  std::map<std::string_view, std::string_view> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (Trimmed(line).empty()) break;
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    lines.emplace(Trimmed(line.substr(0, colon)), Trimmed(line.substr(colon + 1)));
  }
  const auto value = [&lines](std::string_view name) {
    const auto found = lines.find(name);
    return found == lines.end() || found->second.empty() ? std::string("unknown")
                                                         : Printable(found->second);
  };
  return {.cpu = Concat(value("vendor_id"), " ", value("cpu family"), "/", value("model"), "/",
                        value("stepping"), " ", value("model name")),
          .microcode = value("microcode")};
}

MachineIdentity ReadMachineIdentity() {
  std::ifstream file("/proc/cpuinfo");
  std::string text(kCpuInfoBytesMax, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return ParseCpuInfo(text);
}

// ---- tuning file
// The checksum is compared before any other line is read, so that damage is called damage and not,
// for example, another number of threads.

namespace {

constexpr const char* kName = "tuning";
constexpr const char* kNewName = "tuning.new";
constexpr std::string_view kMagic = "kvd tuning ";
constexpr std::string_view kChecksum = "crc32c ";

std::string Hex(std::uint64_t number, int digits) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%0*llx", digits,
                static_cast<unsigned long long>(number));
  return text.data();
}

std::uint32_t ChecksumOf(std::string_view text) {
  return Crc32c(0, std::as_bytes(std::span(text.data(), text.size())));
}

template <class T>
std::optional<T> ParseNumber(std::string_view text, int base = 10) {
  T number{};
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number, base);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// Reads a text line by line, and the words of a line.
class LineReader {
 public:
  explicit LineReader(std::string_view text) : left_(text) {}

  bool at_end() const { return left_.empty(); }
  std::size_t number() const { return number_; }

  std::string_view Next() {
    const std::string_view line = left_.substr(0, left_.find('\n'));
    left_.remove_prefix(std::min(left_.size(), line.size() + 1));
    ++number_;
    return line;
  }
  // The rest of the next line, which must begin with `name` and a space.
  Result<std::string_view> Value(std::string_view name) {
    const std::string_view line = Next();
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') {
      return Fail(Code::kCorrupt, "line ", number_, ": '", name, "' is missing");
    }
    return line.substr(name.size() + 1);
  }

 private:
  std::string_view left_;
  std::size_t number_ = 0;
};

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    words.push_back(word);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
  }
  return words;
}

// Checks the version and the checksum; returns the text between the two.
Result<std::string_view> CheckedBody(std::string_view text) {
  if (!text.starts_with(kMagic)) return Fail(Code::kCorrupt, "line 1: not a tuning file");
  const std::size_t first_end = text.find('\n');
  const auto version = ParseNumber<std::uint32_t>(text.substr(
      kMagic.size(), first_end == std::string_view::npos ? first_end : first_end - kMagic.size()));
  if (!version || first_end == std::string_view::npos) {
    return Fail(Code::kCorrupt, "line 1: the version is not a number");
  }
  if (*version != kTuningVersion) {
    return Fail(Code::kUnsupported, "version ", *version, "; this daemon reads version ",
                kTuningVersion);
  }
  const std::size_t last = text.rfind(kChecksum);
  if (last == std::string_view::npos || text[last - 1] != '\n' || !text.ends_with('\n')) {
    return Fail(Code::kCorrupt, "the checksum is missing: the file is not complete");
  }
  const std::string_view digits =
      text.substr(last + kChecksum.size(), text.size() - last - kChecksum.size() - 1);
  const auto checksum = ParseNumber<std::uint32_t>(digits, 16);
  if (!checksum || *checksum != ChecksumOf(text.substr(0, last))) {
    return Fail(Code::kCorrupt, "the checksum is wrong: the file is damaged");
  }
  return text.substr(first_end + 1, last - first_end - 1);
}

Status CheckSame(std::string_view name, std::string_view found, std::string_view wanted) {
  if (found == wanted) return {};
  return Fail(Code::kConflict, "measured with ", name, " '", found, "'; now it is '", wanted, "'");
}

Status CheckKey(LineReader& lines, const TuningKey& key) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"cpu", key.machine.cpu},      {"microcode", key.machine.microcode},
      {"kernels", key.kernels},      {"threads", std::to_string(key.threads)},
      {"model", Hex(key.model, 16)},
  };
  Status first_difference;
  for (const auto& [name, wanted] : parts) {
    KVD_TRY(const std::string_view found, lines.Value(name));
    if (first_difference) first_difference = CheckSame(name, found, wanted);
  }
  return first_difference;
}

Status ReadProduct(LineReader& lines, const kernels::KernelTable& table, Tuning& tuning) {
  KVD_TRY(const std::string_view line, lines.Value("product"));
  const std::vector<std::string_view> words = Words(line);
  const auto type = DataTypeNamed(words[0]);
  if (!type) {
    return Fail(Code::kCorrupt, "line ", lines.number(), ": '", words[0],
                "' is not a type of weights");
  }
  if (std::ranges::find(tuning.types, *type) != tuning.types.end()) {
    return Fail(Code::kCorrupt, "line ", lines.number(), ": a second line for ", words[0]);
  }
  tuning.types.push_back(*type);
  Result<kernels::ProductChoice> choice = ParseChoice(std::span(words).subspan(1), table, *type);
  if (!choice) {
    return Fail(choice.error().code, "line ", lines.number(), ": ", choice.error().message);
  }
  tuning.choices.Set(*type, *choice);
  return {};
}

}  // namespace

std::string FormatTuning(const TuningKey& key, const Tuning& tuning) {
  std::string text =
      Concat(kMagic, kTuningVersion, "\ncpu ", key.machine.cpu, "\nmicrocode ",
             key.machine.microcode, "\nkernels ", key.kernels, "\nthreads ", key.threads,
             "\nmodel ", Hex(key.model, 16), "\nmeasured ", tuning.measured_unix_ms, "\n");
  for (const kernels::DataType type : tuning.types) {
    text += Concat("product ", kernels::DataTypeName(type), " ",
                   ChoiceText(tuning.choices.For(type)), "\n");
  }
  return Concat(text, kChecksum, Hex(ChecksumOf(text), 8), "\n");
}

Result<Tuning> ParseTuning(std::string_view text, const TuningKey& key,
                           const kernels::KernelTable& table,
                           const kernels::ProductChoices& defaults) {
  KVD_TRY(const std::string_view body, CheckedBody(text));
  LineReader lines(
      text.substr(0, static_cast<std::size_t>(body.data() - text.data()) + body.size()));
  lines.Next();
  KVD_CHECK_OK(CheckKey(lines, key));
  Tuning tuning{.measured_unix_ms = 0, .types = {}, .choices = defaults};
  KVD_TRY(const std::string_view measured, lines.Value("measured"));
  const auto unix_ms = ParseNumber<std::uint64_t>(measured);
  if (!unix_ms) {
    return Fail(Code::kCorrupt, "line ", lines.number(), ": measured: '", measured,
                "' is not a time");
  }
  tuning.measured_unix_ms = *unix_ms;
  while (!lines.at_end()) KVD_CHECK_OK(ReadProduct(lines, table, tuning));
  return tuning;
}

Result<std::string> ReadTuningFile(int directory) {
  const UniqueFd file(::openat(directory, kName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return Fail(Code::kNotFound, "no tuning file");
    return FailErrno("opening the tuning file");
  }
  std::string text(kTuningFileBytesMax + 1, '\0');
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + bytes, text.size() - bytes);
    if (got < 0) return FailErrno("reading the tuning file");
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  if (bytes > kTuningFileBytesMax) {
    return Fail(Code::kCorrupt, "longer than ", kTuningFileBytesMax, " bytes");
  }
  text.resize(bytes);
  return text;
}

Status WriteTuningFile(int directory, std::string_view text) {
  const UniqueFd file(
      ::openat(directory, kNewName, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno("creating the tuning file");
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0) return FailErrno("writing the tuning file");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::renameat(directory, kNewName, directory, kName) != 0) {
    return FailErrno("naming the tuning file");
  }
  return {};
}

}  // namespace kvd
