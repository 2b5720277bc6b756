#include "kvctl/map_drawing.h"

#include "kvctl/sequence_names.h"
#include "kvctl/terminal.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

namespace kvd::kvctl {
namespace {

constexpr std::uint32_t kNobody = 0;

template <class... Parts>
std::string Format(const char* format, Parts... parts) {
  std::array<char, 256> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), format, parts...);
  return {buffer.data(), std::min<std::size_t>(static_cast<std::size_t>(length), 255)};
}

unsigned long long Wide(std::uint64_t number) { return number; }

std::string StateText(MapState state) {
  return state == MapState::kLive ? "live" : std::string("STALE (") + MapStateName(state) + ")";
}

// TerminalColour and SvgColour give sequences with neighbouring indices clearly different colours,
// from the terminal's 216 colours or from the whole colour circle.
int TerminalColour(std::uint32_t sequence) {
  static constexpr std::array<int, 14> kColours = {39,  208, 77,  171, 220, 203, 44,
                                                   141, 149, 215, 33,  199, 115, 180};
  return kColours[sequence % kColours.size()];
}
std::string SvgColour(std::uint32_t sequence) {
  if (sequence == kNobody) return "#eeeeee";
  return Format("hsl(%u,65%%,55%%)", sequence * 137u % 360u);
}

// Returns the first bytes of a text: at most `byte_count` bytes, cut at a character boundary.
std::string Cut(const std::string& text, std::size_t byte_count) {
  std::size_t end = std::min(byte_count, text.size());
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

// Adjacent blocks that are shown as one character.
struct Patch {
  // The sequence of the patch's block that has the most used cells.
  std::uint32_t sequence = kNobody;
  std::uint32_t used = 0;
  std::uint32_t shared = 0;
  std::uint32_t cells = 0;
};

Patch PatchOf(std::span<const layout::MapBlock> blocks) {
  Patch patch;
  std::uint32_t most = 0;
  for (const layout::MapBlock& block : blocks) {
    patch.used += block.used_cells;
    patch.shared += block.shared_cells;
    patch.cells += layout::kBlockCells;
    if (block.used_cells > most) {
      most = block.used_cells;
      patch.sequence = block.sequence;
    }
  }
  return patch;
}

// Returns the character for a patch, which shows whether no cells, less than half or at least half
// of the patch's cells are used, or that more than half of the used cells are shared.
const char* SignOf(const Patch& patch) {
  if (patch.used == 0) return "·";
  if (patch.shared * 2 > patch.used) return "#";
  return patch.used * 2 >= patch.cells ? "█" : "▄";
}

std::string Coloured(const char* text, std::uint32_t sequence, bool has_colour) {
  if (!has_colour || sequence == kNobody) return text;
  return Format("\033[38;5;%dm%s\033[0m", TerminalColour(sequence), text);
}

std::string Grid(const MapReader& map, std::size_t columns, std::size_t rows, bool has_colour) {
  const std::size_t block_count = map.blocks().size();
  const std::size_t per_sign =
      std::max<std::size_t>(1, (block_count + columns * rows - 1) / (columns * rows));
  std::string text;
  std::size_t in_line = 0;
  for (std::size_t first = 0; first < block_count; first += per_sign) {
    if (in_line == columns) {
      text += '\n';
      in_line = 0;
    }
    const Patch patch =
        PatchOf(map.blocks().subspan(first, std::min(per_sign, block_count - first)));
    text += Coloured(SignOf(patch), patch.sequence, has_colour);
    ++in_line;
  }
  return text + '\n';
}

std::vector<const layout::MapSequence*> LargestFirst(const MapReader& map) {
  std::vector<const layout::MapSequence*> sequences;
  for (const layout::MapSequence& sequence : map.sequences()) {
    if (sequence.handle != 0) sequences.push_back(&sequence);
  }
  std::ranges::stable_sort(
      sequences, [](const auto* a, const auto* b) { return a->cell_count > b->cell_count; });
  return sequences;
}

std::uint32_t ColourNumber(const layout::MapSequence& sequence) {
  return static_cast<std::uint32_t>(sequence.handle & 0xffffffffu) + 1;
}

double RateOf(const std::map<std::uint64_t, double>& rates, std::uint64_t session) {
  const auto found = rates.find(session);
  return found == rates.end() ? 0.0 : found->second;
}

std::string NameIn(const MapNames& names, std::uint64_t handle) {
  const auto found = names.find(handle);
  return found == names.end() ? std::string() : found->second;
}

// The name of a snapshot, if it is known, or how the sequence is kept.
std::string UseText(const layout::MapSequence& sequence, const MapNames& names) {
  if ((sequence.flags & layout::kSequencePublished) != 0) {
    const std::string name = NameIn(names, sequence.handle);
    return name.empty() ? "published" : name;
  }
  return (sequence.flags & layout::kSequenceRetained) != 0 ? "retained" : "";
}

std::vector<std::string> Heading(const MapReader& map, MapState state) {
  const layout::MapTotals& totals = map.totals();
  const std::uint64_t cells = std::uint64_t{totals.total_blocks} * layout::kBlockCells;
  const std::uint64_t free = std::uint64_t{totals.free_blocks} * layout::kBlockCells;
  std::vector<std::string> lines = {
      Format("kvd pid %u  %s  %u sessions  %u sequences", map.daemon_pid(),
             StateText(state).c_str(), totals.sessions, totals.live_sequences),
      Format("cells %llu of %llu live, %llu free  blocks %u, %u free, %u reclaimable",
             Wide(totals.live_cells), Wide(cells), Wide(free), totals.total_blocks,
             totals.free_blocks, totals.reclaimable_blocks),
      Format("tokens %llu computed, %llu sampled, %llu steps", Wide(totals.tokens_computed),
             Wide(totals.tokens_sampled), Wide(totals.steps))};
  if (totals.state_slots != 0) {
    lines.push_back(Format("state slots %u of %u used, %u by checkpoints; logits rows %u of %u",
                           totals.state_slots - totals.free_state_slots, totals.state_slots,
                           totals.checkpoint_slots, totals.logits_rows - totals.free_logits_rows,
                           totals.logits_rows));
  }
  return lines;
}

std::string RequestsHeading(const MapRequests& requests) {
  const auto count = [&](wire::RequestState state) {
    return std::ranges::count(requests, std::uint32_t{state}, &wire::SequenceEntry::request_state);
  };
  return Format("requests: %td compute, %td wait, %td parked for lack of room; tokens done/wanted",
                count(wire::kRequestComputes), count(wire::kRequestWaits),
                count(wire::kRequestParked));
}

}  // namespace

std::string DrawScreen(const MapReader& map, MapState state, const MapNames& names,
                       const SessionRates& rates, const MapRequests& requests, ScreenSize size,
                       bool has_colour) {
  std::string screen;
  std::size_t used_rows = 0;
  const auto line = [&](const std::string& text) {
    if (used_rows == size.rows) return;
    screen += Cut(text, size.columns) + '\n';
    ++used_rows;
  };
  for (const std::string& text : Heading(map, state)) line(text);
  const std::size_t grid_rows = size.rows <= 12 ? 2 : (size.rows - 6) / 3;
  const std::string grid = Grid(map, size.columns, grid_rows, has_colour);
  screen += grid;
  used_rows += static_cast<std::size_t>(std::ranges::count(grid, '\n'));
  line("each character: " +
       std::string("█ used  ▄ less than half  # shared  · free, or another user's"));
  const std::size_t left = size.rows > used_rows + 2 ? size.rows - used_rows - 2 : 0;
  std::size_t shown_sessions = 0;
  line(Format("%12s %8s %12s %12s %8s %8s  %s", "SESSION", "PID", "COMPUTED", "SAMPLED", "comp/s",
              "samp/s", "CLIENT"));
  for (const layout::MapSession& session : map.sessions()) {
    if (session.session == 0 || shown_sessions >= left / 2) continue;
    ++shown_sessions;
    line(Format("%12llu %8u %12llu %12llu %8.1f %8.1f  %s", Wide(session.session), session.pid,
                Wide(session.tokens_computed), Wide(session.tokens_sampled),
                RateOf(rates.computed, session.session), RateOf(rates.sampled, session.session),
                ClientNameOf(session).c_str()));
  }
  if (!requests.empty()) line(RequestsHeading(requests));
  // Parked requests come first, and at least half of the rows are left for sequences.
  for (const wire::SequenceEntry& entry : requests) {
    if (used_rows + left / 2 + 1 >= size.rows) break;
    line(Format("  %18llu %12llu  %s", Wide(entry.handle), Wide(entry.session),
                RequestText(entry).c_str()));
  }
  line(Format("  %18s %8s %12s %8s %8s %5s %s", "SEQUENCE", "UID", "SESSION", "CELLS", "SHARED",
              "CHKPT", "USE"));
  for (const layout::MapSequence* sequence : LargestFirst(map)) {
    if (used_rows >= size.rows) break;
    const std::string text =
        Format(" %18llu %8u %12llu %8u %8u %5u %s", Wide(sequence->handle), sequence->owner_uid,
               Wide(sequence->session), sequence->cell_count, sequence->shared_cells,
               sequence->checkpoint_count, UseText(*sequence, names).c_str());
    screen += Coloured("█", ColourNumber(*sequence), has_colour) +
              text.substr(0, size.columns - 1) + '\n';
    ++used_rows;
  }
  return screen;
}

std::string DrawSvg(const MapReader& map, MapState state) {
  constexpr std::size_t kColumns = 64;
  constexpr std::size_t kSide = 12;
  constexpr std::size_t kTop = 24;
  const std::size_t rows = (map.blocks().size() + kColumns - 1) / kColumns;
  std::string svg = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
      "font-family=\"monospace\" font-size=\"12\">\n",
      kColumns * kSide, kTop + rows * kSide);
  svg += "<text x=\"2\" y=\"15\">" + Heading(map, state)[0] + "</text>\n";
  for (std::size_t i = 0; i < map.blocks().size(); ++i) {
    const layout::MapBlock& block = map.blocks()[i];
    const std::size_t x = i % kColumns * kSide;
    const std::size_t y = kTop + i / kColumns * kSide;
    svg += Format("<rect x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%zu\" fill=\"#eeeeee\"/>\n", x,
                  y, kSide - 1, kSide - 1);
    if (block.used_cells == 0) continue;
    const double height = static_cast<double>(kSide - 1) * block.used_cells / layout::kBlockCells;
    svg += Format("<rect x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%.1f\" fill=\"%s\"%s/>\n", x, y,
                  kSide - 1, height, SvgColour(block.sequence).c_str(),
                  block.shared_cells != 0 ? " stroke=\"black\"" : "");
  }
  return svg + "</svg>\n";
}

Json MapJson(const MapReader& map, MapState state, const MapNames& names) {
  const layout::MapTotals& totals = map.totals();
  Json json = Json::Object();
  json.Set("state", state == MapState::kLive ? std::string("live") : std::string("stale"))
      .Set("why", std::string(MapStateName(state)))
      .Set("daemon_pid", std::uint64_t{map.daemon_pid()})
      .Set("viewer_uid", std::uint64_t{map.viewer_uid()})
      .Set("block_cells", std::uint64_t{layout::kBlockCells})
      .Set("total_blocks", std::uint64_t{totals.total_blocks})
      .Set("free_blocks", std::uint64_t{totals.free_blocks})
      .Set("reclaimable_blocks", std::uint64_t{totals.reclaimable_blocks})
      .Set("live_cells", totals.live_cells)
      .Set("sequences_live", std::uint64_t{totals.live_sequences})
      .Set("sessions_open", std::uint64_t{totals.sessions})
      .Set("state_slots", std::uint64_t{totals.state_slots})
      .Set("free_state_slots", std::uint64_t{totals.free_state_slots})
      .Set("checkpoint_slots", std::uint64_t{totals.checkpoint_slots})
      .Set("logits_rows", std::uint64_t{totals.logits_rows})
      .Set("free_logits_rows", std::uint64_t{totals.free_logits_rows})
      .Set("tokens_computed", totals.tokens_computed)
      .Set("tokens_sampled", totals.tokens_sampled)
      .Set("steps", totals.steps);
  Json sessions = Json::Array();
  for (const layout::MapSession& session : map.sessions()) {
    if (session.session == 0) continue;
    Json entry = Json::Object();
    entry.Set("session", std::to_string(session.session))
        .Set("pid", std::uint64_t{session.pid})
        .Set("client_name", ClientNameOf(session))
        .Set("tokens_computed", session.tokens_computed)
        .Set("tokens_sampled", session.tokens_sampled);
    sessions.Add(std::move(entry));
  }
  Json sequences = Json::Array();
  for (const layout::MapSequence& sequence : map.sequences()) {
    if (sequence.handle == 0) continue;
    Json entry = Json::Object();
    entry.Set("handle", std::to_string(sequence.handle))
        .Set("name", NameIn(names, sequence.handle))
        .Set("session", std::to_string(sequence.session))
        .Set("owner_uid", std::uint64_t{sequence.owner_uid})
        .Set("flags", std::uint64_t{sequence.flags})
        .Set("cell_count", std::uint64_t{sequence.cell_count})
        .Set("shared_cells", std::uint64_t{sequence.shared_cells})
        .Set("checkpoint_count", std::uint64_t{sequence.checkpoint_count})
        .Set("next_pos", std::int64_t{sequence.next_pos});
    sequences.Add(std::move(entry));
  }
  Json blocks = Json::Array();
  for (std::size_t i = 0; i < map.blocks().size(); ++i) {
    const layout::MapBlock& block = map.blocks()[i];
    if (block.sequence == 0) continue;
    Json entry = Json::Object();
    entry.Set("block", std::uint64_t{i})
        .Set("sequence", std::to_string(map.sequences()[block.sequence - 1].handle))
        .Set("used_cells", std::uint64_t{block.used_cells})
        .Set("shared_cells", std::uint64_t{block.shared_cells});
    blocks.Add(std::move(entry));
  }
  json.Set("sessions", std::move(sessions));
  json.Set("sequences", std::move(sequences));
  json.Set("blocks", std::move(blocks));
  return json;
}

}  // namespace kvd::kvctl
