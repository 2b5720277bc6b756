// kTuning reports which choices of matrix products are in use, and whether others are measured. The
// answer contains no data about a client.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "daemon/idle_tuning.h"
#include "daemon/service.h"
#include "engine/tuning/tuning_run.h"

namespace kvd {
namespace {

wire::ChoiceRecord RecordOf(kernels::DataType type, const TuningState& state) {
  const kernels::ProductChoice& choice = state.tuning.choices.For(type);
  wire::ChoiceRecord record{
      .weight_type = {},
      .wide_form = static_cast<std::uint32_t>(choice.wide_form),
      .wide_from_rows = choice.wide_from_rows,
      .ahead_bytes = choice.ahead_bytes,
      .panel_from_rows = choice.panel_from_rows,
      .panel_outs = choice.panel_outs,
      .is_measured = std::ranges::find(state.tuning.types, type) != state.tuning.types.end()};
  const std::string_view name = kernels::DataTypeName(type);
  std::memcpy(record.weight_type, name.data(),
              std::min(name.size(), sizeof record.weight_type - 1));
  return record;
}

}  // namespace

Result<wire::OneReply<wire::TuningReply>> Service::Do(const Call<wire::TuningArgs>&) {
  const TuningState& state = engine_.tuning();
  wire::OneReply<wire::TuningReply> reply;
  wire::TuningReply& record = reply.record;
  record.source = static_cast<std::uint32_t>(state.source);
  record.used_unix_ms = state.tuning.measured_unix_ms;
  if (const IdleTuning* const tuning = surroundings_.tuning; tuning != nullptr) {
    record.progress = static_cast<std::uint32_t>(tuning->progress());
    record.measured_unix_ms = tuning->measured_unix_ms();
    record.slices = tuning->slices();
  }
  for (const kernels::DataType type : state.types) {
    if (record.choice_count == wire::kChoicesMax) break;
    record.choices[record.choice_count++] = RecordOf(type, state);
  }
  return reply;
}

}  // namespace kvd
