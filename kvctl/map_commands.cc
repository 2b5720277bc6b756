// kvctl map and kvctl top: show the live map once or repeatedly. They ask the daemon only for the
// names of snapshots, when the map shows a snapshot whose name is not known, and kvctl top for the
// requests in flight.
#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/map_drawing.h"

namespace kvd::kvctl {
namespace {

// A daemon that does not answer, or has ended, is shown as the map shows it, without names.
constexpr std::chrono::milliseconds kNamesTimeout{500};

// The live map, and the names of its snapshots.
class NamedMap {
 public:
  static Result<NamedMap> Open(const GlobalOptions& global) {
    ConnectOptions connect = global.connect;
    connect.wants_map = true;
    connect.reconnect_timeout = std::chrono::milliseconds(0);
    connect.call_timeout = kNamesTimeout;
    KVD_TRY(Client client, Client::Connect(connect));
    KVD_TRY(LiveMap map, client.OpenMap());
    return NamedMap(std::move(client), std::move(map));
  }

  Result<MapState> Refresh() {
    KVD_TRY(const MapState state, map_.Refresh());
    if (state == MapState::kLive && has_new_snapshot()) ReadNames();
    return state;
  }
  // The sequences with requests, parked ones first; none if the daemon does not answer.
  MapRequests Requests() const {
    auto listed = client_.List();
    if (!listed) return {};
    std::erase_if(*listed, [](const wire::SequenceEntry& entry) {
      return entry.request_state == wire::kRequestNone;
    });
    std::ranges::stable_sort(*listed, std::ranges::greater(), &wire::SequenceEntry::parked_ms);
    return std::move(*listed);
  }
  const MapReader& content() const { return map_.content(); }
  const MapNames& names() const { return names_; }

 private:
  NamedMap(Client client, LiveMap map) : client_(std::move(client)), map_(std::move(map)) {}

  bool has_new_snapshot() const {
    return std::ranges::any_of(content().sequences(), [this](const layout::MapSequence& sequence) {
      return sequence.handle != 0 && (sequence.flags & layout::kSequencePublished) != 0 &&
             !names_.contains(sequence.handle);
    });
  }
  // A snapshot for which the daemon gives no name, because it is gone, has an empty one.
  void ReadNames() {
    const auto snapshots = client_.Snapshots();
    if (snapshots) {
      names_.clear();
      for (const Snapshot& snapshot : *snapshots) {
        names_.emplace(static_cast<std::uint64_t>(snapshot.sequence), snapshot.name);
      }
    }
    for (const layout::MapSequence& sequence : content().sequences()) {
      if ((sequence.flags & layout::kSequencePublished) != 0) names_.try_emplace(sequence.handle);
    }
  }

  Client client_;
  LiveMap map_;
  MapNames names_;
};

ScreenSize TerminalSize() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

// Shows the terminal's alternate screen without a cursor while the object exists. While a
// FullScreen exists, the signals that end kvctl are blocked, and Wait returns the received signal.
class FullScreen {
 public:
  FullScreen() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE, SIGWINCH}) {
      sigaddset(&signals_, signal);
    }
    ::sigprocmask(SIG_BLOCK, &signals_, &before_);
    Write("\033[?1049h\033[?25l");
  }
  ~FullScreen() {
    Write("\033[?25h\033[?1049l");
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  // Overwrites the screen line by line, so that the screen does not flicker. Returns false if
  // writing to the terminal fails.
  bool Show(const std::string& screen) {
    std::string text = "\033[H";
    for (const char c : screen) text += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
    // A line break after the last row would scroll the screen.
    if (text.ends_with('\n')) text.pop_back();
    return Write(text + "\033[J");
  }
  // Waits for a signal that ends kvctl. Returns the received signal, or 0 if `pause` has passed.
  int Wait(std::chrono::milliseconds pause) {
    const timespec time{pause.count() / 1000, pause.count() % 1000 * 1'000'000};
    return std::max(::sigtimedwait(&signals_, nullptr, &time), 0);
  }

 private:
  static bool Write(const std::string& text) {
    const bool is_whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    return std::fflush(stdout) == 0 && is_whole;
  }
  sigset_t signals_;
  sigset_t before_;
};

// Computes token rates between two refreshes from the map's counters.
class RateMeter {
 public:
  SessionRates Measure(const MapReader& map) {
    SessionRates rates;
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    std::map<std::uint64_t, Counts> counts;
    for (const layout::MapSession& session : map.sessions()) {
      if (session.session == 0) continue;
      const Counts current{session.tokens_computed, session.tokens_sampled};
      counts[session.session] = current;
      const auto before = counts_.find(session.session);
      if (before == counts_.end() || seconds <= 0) continue;
      const auto per_second = [&](std::uint64_t from, std::uint64_t to) {
        return to < from ? 0.0 : static_cast<double>(to - from) / seconds;
      };
      rates.computed[session.session] = per_second(before->second.computed, current.computed);
      rates.sampled[session.session] = per_second(before->second.sampled, current.sampled);
    }
    counts_ = std::move(counts);
    last_ = now;
    return rates;
  }

 private:
  struct Counts {
    std::uint64_t computed = 0;
    std::uint64_t sampled = 0;
  };
  std::chrono::steady_clock::time_point last_{};
  std::map<std::uint64_t, Counts> counts_;
};

}  // namespace

Status ShowMap(const GlobalOptions& global, const MapOptions& options) {
  KVD_TRY(NamedMap map, NamedMap::Open(global));
  KVD_TRY(const MapState state, map.Refresh());
  const MapReader& content = map.content();
  if (global.wants_json) {
    std::puts(MapJson(content, state, map.names()).Text().c_str());
  } else if (options.wants_svg) {
    std::fputs(DrawSvg(content, state).c_str(), stdout);
  } else {
    const bool has_colour = ::isatty(STDOUT_FILENO) == 1;
    const ScreenSize size{TerminalSize().columns, 1000};
    std::fputs(DrawScreen(content, state, map.names(), {}, {}, size, has_colour).c_str(), stdout);
  }
  return {};
}

Status ShowTop(const GlobalOptions& global, const MapOptions& options) {
  KVD_TRY(NamedMap map, NamedMap::Open(global));
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (options.is_once || !is_terminal) {
    KVD_TRY(const MapState state, map.Refresh());
    const std::string screen = DrawScreen(map.content(), state, map.names(), {}, map.Requests(),
                                          TerminalSize(), is_terminal);
    std::fputs(screen.c_str(), stdout);
    return {};
  }
  RateMeter meter;
  FullScreen terminal;
  for (;;) {
    KVD_TRY(const MapState state, map.Refresh());
    const SessionRates rates = meter.Measure(map.content());
    const MapRequests requests = state == MapState::kLive ? map.Requests() : MapRequests{};
    const std::string screen =
        DrawScreen(map.content(), state, map.names(), rates, requests, TerminalSize(), true);
    if (!terminal.Show(screen)) return {};
    const int signal = terminal.Wait(std::chrono::milliseconds(options.period_ms));
    if (signal != 0 && signal != SIGWINCH && signal != SIGTSTP) return {};
  }
}

}  // namespace kvd::kvctl
