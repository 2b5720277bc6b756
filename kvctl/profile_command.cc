#include "kvctl/profile_command.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/client.h"
#include "kvctl/commands.h"
#include "kvctl/terminal.h"
#include "shm/step_phases.h"
#include "text/json_builder.h"

namespace kvd::kvctl {
namespace {

std::span<const wire::ChoiceRecord> ChoicesOf(const wire::TuningReply& tuning) {
  return std::span(tuning.choices)
      .first(std::min<std::size_t>(tuning.choice_count, wire::kChoicesMax));
}

std::string TypeOf(const wire::ChoiceRecord& choice) {
  return {choice.weight_type, ::strnlen(choice.weight_type, sizeof choice.weight_type)};
}

std::string UtcText(std::uint64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  }
  return text;
}

std::string_view FormOf(const wire::ChoiceRecord& choice) {
  constexpr std::string_view kForms[] = {"none", "bf16", "outer"};
  return choice.wide_form < std::size(kForms) ? kForms[choice.wide_form] : "unknown";
}

std::string ChoiceText(const wire::ChoiceRecord& choice) {
  std::string text = TypeOf(choice) + " ";
  text += choice.wide_form == 0 ? std::string("one form")
                                : Concat(FormOf(choice), " from ", choice.wide_from_rows, " rows");
  if (choice.panel_from_rows != 0)
    text += Concat(", panels from ", choice.panel_from_rows, " rows");
  if (choice.panel_outs != 0) text += Concat(", panels of ", choice.panel_outs, " outputs");
  if (choice.ahead_bytes != 0) text += Concat(", prefetches ", choice.ahead_bytes, " bytes ahead");
  return text;
}

}  // namespace

std::string TuningText(const wire::TuningReply& tuning) {
  std::string text;
  for (const wire::ChoiceRecord& choice : ChoicesOf(tuning)) text += ChoiceText(choice) + "; ";
  text += ChoiceSourceName(static_cast<ChoiceSource>(tuning.source));
  if (tuning.used_unix_ms != 0) text += " (" + UtcText(tuning.used_unix_ms) + ")";
  const auto progress = static_cast<TuningProgress>(tuning.progress);
  if (progress == TuningProgress::kWaits || progress == TuningProgress::kMeasures) {
    text += Concat("; measuring: ", TuningProgressName(progress), ", ", tuning.slices, " slices");
  } else if (tuning.measured_unix_ms != 0 && tuning.measured_unix_ms != tuning.used_unix_ms) {
    text += "; measured for the next start (" + UtcText(tuning.measured_unix_ms) + ")";
  }
  return text;
}

Json TuningJson(const wire::TuningReply& tuning) {
  Json choices = Json::Array();
  for (const wire::ChoiceRecord& choice : ChoicesOf(tuning)) {
    Json one = Json::Object();
    one.Set("weight_type", TypeOf(choice))
        .Set("wide_form", std::string(FormOf(choice)))
        .Set("wide_from_rows", std::uint64_t{choice.wide_from_rows})
        .Set("ahead_bytes", std::uint64_t{choice.ahead_bytes})
        .Set("panel_from_rows", std::uint64_t{choice.panel_from_rows})
        .Set("panel_outs", std::uint64_t{choice.panel_outs})
        .Set("is_measured", choice.is_measured != 0);
    choices.Add(std::move(one));
  }
  Json json = Json::Object();
  json.Set("source", std::string(ChoiceSourceName(static_cast<ChoiceSource>(tuning.source))))
      .Set("used_unix_ms", tuning.used_unix_ms)
      .Set("progress",
           std::string(TuningProgressName(static_cast<TuningProgress>(tuning.progress))))
      .Set("measured_unix_ms", tuning.measured_unix_ms)
      .Set("slices", tuning.slices)
      .Set("choices", std::move(choices));
  return json;
}

// kvctl info --profile: shows how much time each part of a forward pass takes, for decode steps and
// for steps with prompts.

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
