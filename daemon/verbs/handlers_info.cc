// The verbs that report on the daemon as a whole: kPing, kInfo, kCache, kProfile and kTuning.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/text.h"
#include "daemon/process/process_usage.h"
#include "daemon/schedule/idle_work.h"
#include "daemon/stores/prompt_cache.h"
#include "daemon/verbs/service.h"
#include "engine/forward/compute/step_profile.h"
#include "engine/model/model_config.h"
#include "engine/tuning/tuning_run.h"
#include "engine/vocabulary/vocabulary.h"

namespace kvd {

// The answers of kPing, kInfo, kCache and kProfile contain only totals and no data about a single
// client.

namespace {

void FillModel(wire::InfoReply& info, const Engine& engine) {
  const ModelConfig& config = engine.config();
  const Vocabulary& vocabulary = engine.vocabulary();
  const EngineOptions& options = engine.options();
  CopyText(config.name, info.model_name);
  CopyText(config.architecture_name(), info.architecture);
  CopyText(engine.kernels().name, info.kernels);
  CopyText(kernels::DataTypeName(options.k_type), info.k_type);
  CopyText(kernels::DataTypeName(options.v_type), info.v_type);
  CopyText(KVD_VERSION, info.version);
  info.weight_bytes = engine.weight_bytes();
  info.cell_bytes = engine.cell_bytes();
  info.state_bytes = engine.state_bytes();
  info.vocab_size = config.vocab_size;
  info.context_trained = config.context_length;
  info.layer_count = config.layer_count;
  info.embedding_size = config.embedding_size;
  info.threads = options.threads;
  info.wants_encode = config.has_cross_attention() ? 1 : 0;
  info.deterministic = options.deterministic ? 1 : 0;
  info.has_tokenizer = vocabulary.kind() != Vocabulary::Kind::kNone ? 1 : 0;
  info.bos_token = vocabulary.bos();
  info.eos_token = vocabulary.eos();
  info.adds_bos = vocabulary.add_bos() ? 1 : 0;
}

void FillPool(wire::InfoReply& info, const PoolUsage& usage) {
  info.pool_cells = std::uint64_t{usage.total_blocks} * layout::kBlockCells;
  info.free_cells = std::uint64_t{usage.free_blocks} * layout::kBlockCells;
  info.reclaimable_cells = std::uint64_t{usage.reclaimable_blocks} * layout::kBlockCells;
  info.live_cells = usage.live_cells;
  info.pool_reserved_bytes = usage.reserved_bytes;
  info.sequences_live = usage.live_sequences;
  info.sequences_retained = usage.retained_sequences;
  info.state_slots = usage.state_slots;
  info.free_state_slots = usage.free_state_slots;
  info.checkpoint_slots = usage.checkpoint_slots;
  info.sequence_capacity = usage.sequence_capacity;
}

void FillProcess(wire::InfoReply& info) {
  const ProcessUsage usage = ReadProcessUsage();
  info.resident_anonymous_bytes = usage.resident_anonymous_bytes;
  info.resident_shared_bytes = usage.resident_shared_bytes;
  info.resident_file_bytes = usage.resident_file_bytes;
  info.major_faults = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(usage.major_faults, std::numeric_limits<std::uint32_t>::max()));
  info.descriptors = usage.descriptors;
  info.mappings = usage.mappings;
  info.pid = static_cast<std::uint32_t>(::getpid());
}

void FillRequests(wire::InfoReply& info, const Scheduler& scheduler) {
  const RequestCounts counts = scheduler.counts();
  info.requests_waiting = counts.waiting;
  info.requests_computing = counts.computing;
  info.requests_parked = counts.parked;
  info.tokens_sampled = scheduler.tokens_sampled();
  info.tokens_given_back = scheduler.tokens_given_back();
}

wire::StepTimesRecord RecordOf(const StepTimes& times) {
  wire::StepTimesRecord record{
      .steps = times.steps, .tokens = times.tokens, .ns = {}, .expert_bytes = times.expert_bytes};
  std::ranges::copy(times.ns, record.ns);
  return record;
}

}  // namespace

Result<wire::PingReply> Service::Do(const Call<wire::PingArgs>& call) {
  return wire::PingReply{.bytes = call.TakePayload()};
}

Result<Outcome> Service::Do(const Call<wire::InfoArgs>&) {
  const auto uptime = std::chrono::steady_clock::now() - started_;
  const auto uptime_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(uptime).count());
  return WorkCall{.call = [this, uptime_ms,
                           sessions = surroundings_.session_count()](WorkControl&) -> WireReply {
    wire::InfoReply info{};
    FillModel(info, engine_);
    FillPool(info, memory_.Usage());
    FillProcess(info);
    const EngineCounters counters = engine_.counters();
    info.steps = counters.steps;
    info.tokens_computed = counters.tokens_computed;
    FillRequests(info, scheduler_);
    const PrefixCounters prefixes = memory_.prefixes().counters();
    info.prefix_prompts = scheduler_.prefix_sharing().prompts();
    info.prefix_hits = scheduler_.prefix_sharing().hits();
    std::ranges::copy(prefixes.tokens_reused, info.prefix_tokens_reused);
    info.prefix_evictions = prefixes.evictions;
    info.prefix_tokens_evicted = prefixes.tokens_evicted;
    if (surroundings_.weights != nullptr) {
      const WeightThread::Progress weights = surroundings_.weights->progress();
      info.weight_bytes_read = weights.bytes_read;
      info.weight_bytes_to_read = weights.bytes_to_read;
    }
    info.uptime_ms = uptime_ms;
    info.sessions = sessions;
    return MakeReply(wire::OneReply<wire::InfoReply>{info});
  }};
}

Result<wire::OneReply<wire::CacheReply>> Service::Do(const Call<wire::CacheArgs>&) {
  wire::OneReply<wire::CacheReply> reply;
  if (surroundings_.prompt_cache != nullptr) reply.record = surroundings_.prompt_cache->Describe();
  return reply;
}

Result<wire::OneReply<wire::ProfileReply>> Service::Do(const Call<wire::ProfileArgs>&) {
  return wire::OneReply<wire::ProfileReply>{{.decode = RecordOf(engine_.profile().decode()),
                                             .prompts = RecordOf(engine_.profile().prompts())}};
}

// kTuning reports which choices of matrix products are in use, and whether others are measured. The
// answer contains no data about a client.

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
