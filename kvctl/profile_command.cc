// kvctl info --profile: shows how much time each part of a forward pass takes, for decode steps and
// for steps with prompts.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "shm/step_phases.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

std::uint64_t TotalOf(const wire::StepTimesRecord& times) {
  return std::accumulate(times.ns, times.ns + kStepPhases, std::uint64_t{0});
}

Json JsonOf(const wire::StepTimesRecord& times) {
  Json parts = Json::Object();
  for (std::size_t part = 0; part < kStepPhases; ++part) {
    parts.Set(std::string(StepPhaseName(static_cast<StepPhase>(part))), times.ns[part]);
  }
  Json json = Json::Object();
  json.Set("steps", times.steps)
      .Set("tokens", times.tokens)
      .Set("ns", std::move(parts))
      .Set("expert_bytes", times.expert_bytes);
  return json;
}

std::string Fixed(double number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

// Prints the phases of a step, the longest first; phases that took no time are left out.
void Print(const char* title, const wire::StepTimesRecord& times) {
  const std::uint64_t total = TotalOf(times);
  if (times.steps == 0 || total == 0) {
    std::printf("%s: none yet\n", title);
    return;
  }
  const auto steps = static_cast<double>(times.steps);
  const auto all = static_cast<double>(total);
  std::printf("%s: %llu, %s tokens and %s ms each\n", title,
              static_cast<unsigned long long>(times.steps),
              Fixed(static_cast<double>(times.tokens) / steps, 1).c_str(),
              Fixed(all / steps / 1e6, 3).c_str());
  std::vector<std::size_t> parts(kStepPhases);
  std::iota(parts.begin(), parts.end(), std::size_t{0});
  std::ranges::stable_sort(parts, std::greater(), [&](std::size_t part) { return times.ns[part]; });
  std::vector<std::vector<std::string>> rows = {{"  part", "share", "a step"}};
  for (const std::size_t part : parts) {
    if (times.ns[part] == 0) continue;
    const auto ns = static_cast<double>(times.ns[part]);
    rows.push_back({"  " + std::string(StepPhaseName(static_cast<StepPhase>(part))),
                    Fixed(100.0 * ns / all, 1) + " %", Fixed(ns / steps / 1e6, 3) + " ms"});
  }
  PrintTable(rows, "lrr");
  if (times.expert_bytes == 0) return;
  std::printf("  %s MB of experts read a step\n",
              Fixed(static_cast<double>(times.expert_bytes) / steps / 1e6, 1).c_str());
}

}  // namespace

Status ShowProfile(const GlobalOptions& global) {
  KVD_TRY(const Client client, Client::Connect(global.connect));
  KVD_TRY(const auto reply, client.Call(wire::ProfileArgs{}));
  const wire::ProfileReply& profile = reply.record;
  if (global.wants_json) {
    Json json = Json::Object();
    json.Set("decode", JsonOf(profile.decode)).Set("prompts", JsonOf(profile.prompts));
    std::puts(json.Text().c_str());
    return {};
  }
  Print("decode steps", profile.decode);
  Print("steps with prompts", profile.prompts);
  return {};
}

}  // namespace kvd::kvctl
