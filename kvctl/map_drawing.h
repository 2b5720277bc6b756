// Draws the live map as text: a terminal's screen, an SVG picture, a JSON value. The functions are
// pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shm/map_reader.h"
#include "shm/verbs_sequences.h"
#include "text/json_builder.h"

namespace kvd::kvctl {

// Tokens per second of each session since the previous refresh.
struct SessionRates {
  std::map<std::uint64_t, double> computed;
  std::map<std::uint64_t, double> sampled;
};

struct ScreenSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// The names of snapshots, by the handles of their sequences.
using MapNames = std::map<std::uint64_t, std::string>;

// The sequences with a request, as the daemon lists them.
using MapRequests = std::vector<wire::SequenceEntry>;

// Returns at most `rows` lines separated by \n, each at most `columns` wide. If has_colour is
// false, DrawScreen returns a text without escape sequences.
std::string DrawScreen(const MapReader& map, MapState state, const MapNames& names,
                       const SessionRates& rates, const MapRequests& requests, ScreenSize size,
                       bool has_colour);
std::string DrawSvg(const MapReader& map, MapState state);
Json MapJson(const MapReader& map, MapState state, const MapNames& names);

}  // namespace kvd::kvctl
