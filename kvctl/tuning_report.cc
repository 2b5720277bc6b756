#include "kvctl/tuning_report.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <span>

#include "base/text.h"

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

}  // namespace kvd::kvctl
