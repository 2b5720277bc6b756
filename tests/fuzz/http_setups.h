// The setups of the gateway under test: a model of the scripted daemon with its chat template, and
// the settings of kvd-http.
#pragma once

#include <cstddef>
#include <span>

#include "http/options/settings.h"
#include "tests/fuzz/scripted_daemon.h"

namespace kvd::test {

struct HttpSetup {
  ScriptedModel model;
  http::Settings settings;
  bool has_second = false;  // a second daemon, "other", whose model has no BOS
  bool is_loading = false;  // there is no daemon yet
};

// Made at the first call. A process of a setup with a `slot_directory` has a folder of its own in
// place of it.
std::span<const HttpSetup> HttpSetups();
// The model of the second daemon.
const ScriptedModel& SecondModel();

}  // namespace kvd::test
