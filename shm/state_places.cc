#include "shm/state_places.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace kvd {
namespace {

constexpr std::size_t kNoteBytesMax = 4096;

std::string GivenRuntimeDirectory() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' ? runtime : "";
}

// Returns the mark of a runtime directory; empty for the system's own and for none.
std::string MarkOf(const std::string& runtime) {
  if (runtime.empty() || runtime == Concat("/run/user/", ::geteuid())) return {};
  std::array<char, 16> mark{};
  std::snprintf(mark.data(), mark.size(), ".%08x", Crc32c(0, std::as_bytes(std::span(runtime))));
  return mark.data();
}

std::vector<StatePlace> PlacesWithMark(const std::string& mark) {
  const std::string uid = std::to_string(::geteuid());
  const char* const temporary = std::getenv("TMPDIR");
  return {{.root = "/dev/shm", .stem = "kvd-" + uid + mark},
          {.root = temporary != nullptr && temporary[0] == '/' ? temporary : "/tmp",
           .stem = "kvd-" + uid + "-state" + mark}};
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return line;
}

std::vector<StatePlace> StatePlaces() {
  std::vector<StatePlace> places;
  const std::string runtime = GivenRuntimeDirectory();
  if (!runtime.empty()) {
    places.push_back({.root = runtime, .stem = "kvd-state"});
  } else if (::geteuid() == 0) {
    places.push_back({.root = "/run", .stem = "kvd-state"});
  }
  for (StatePlace& place : PlacesWithMark(MarkOf(runtime))) places.push_back(std::move(place));
  return places;
}

std::vector<StatePlace> EarlierStatePlaces() {
  return MarkOf(GivenRuntimeDirectory()).empty() ? std::vector<StatePlace>() : PlacesWithMark("");
}

Status WriteStateNote(int directory, const StateNote& note) {
  const UniqueFd file(::openat(directory, kStateNoteFile,
                               O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return FailErrno(kStateNoteFile);
  const std::string text = Concat("daemon=", OneLine(note.daemon), "\nmodel=", OneLine(note.model),
                                  "\nfolder=", OneLine(note.folder), "\n");
  if (::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return {};
  return FailErrno(kStateNoteFile);
}

StateNote ReadStateNote(int directory) {
  StateNote note;
  const UniqueFd file(
      ::openat(directory, kStateNoteFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, kNoteBytesMax> buffer;
  const ssize_t got = file ? ::read(file.get(), buffer.data(), buffer.size()) : -1;
  std::string_view rest(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.starts_with("daemon=")) note.daemon = OneLine(line.substr(7));
    if (line.starts_with("model=")) note.model = OneLine(line.substr(6));
    if (line.starts_with("folder=")) note.folder = OneLine(line.substr(7));
  }
  return note;
}

}  // namespace kvd
