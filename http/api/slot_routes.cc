// The routes of slots: GET /slots, and POST /slots/{id}?action=save, restore and erase. A tenant
// sees its own slots.
#include "http/api/routes.h"

#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/api/fields.h"
#include "http/api/json_text.h"
#include "http/api/route_kinds.h"
#include "http/api/slot_actions.h"
#include "http/api/slot_directory.h"
#include "http/serve/request.h"

namespace kvd::http {
namespace {

constexpr char kNoSlots[] = "This server does not support slots endpoint. Start it with `--slots`";
constexpr char kNoActions[] =
    "This server does not support slots action. Start it with `--slot-save-path`";

std::int64_t ParkedMs(const GatewaySlot& slot) {
  if (!slot.parked_since) return 0;
  const auto waited = std::chrono::steady_clock::now() - *slot.parked_since;
  return std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
}

Value SlotValue(const GatewaySlot& slot, const ServedModel& model) {
  Object shown;
  shown.Set("id", CountValue(slot.number))
      .Set("n_ctx", CountValue(model.slot_cells()))
      .Set("speculative", Value::Bool(false))
      .Set("is_processing", Value::Bool(slot.is_busy))
      .Set("is_parked", Value::Bool(slot.parked_since.has_value()))
      .Set("parked_ms", Value::Int(ParkedMs(slot)));
  if (slot.task == 0) return shown.Take();
  Object next;
  next.Set("has_next_token", Value::Bool(slot.is_busy))
      .Set("has_new_line", Value::Bool(false))
      .Set("n_remain", Value::Int(-1))
      .Set("n_decoded", CountValue(slot.is_busy ? slot.decoded_tokens : 0));
  shown.Set("id_task", CountValue(slot.task))
      .Set("n_prompt_tokens", CountValue(slot.tokens.size()))
      .Set("n_prompt_tokens_processed", CountValue(slot.prompt_tokens - slot.cached_tokens))
      .Set("n_prompt_tokens_cache", CountValue(slot.cached_tokens))
      .Set("next_token", Value::List({next.Take()}));
  return shown.Take();
}

Await<Result<GatewayReply>> ListSlots(RouteCall call) {
  if (!call.gateway.settings().serves_slots) co_return Fail(Code::kUnsupported, kNoSlots);
  KVD_CO_TRY(TenantSession* const tenant, TenantOfQuery(call));
  const bool needs_free = !call.request.query_value("fail_on_no_slot").value_or("").empty();
  if (needs_free && !tenant->slots().has_free()) co_return ErrorReply(503, "no slot available");
  std::vector<Value> shown;
  for (const GatewaySlot& slot : tenant->slots().all()) {
    shown.push_back(SlotValue(slot, tenant->model()));
  }
  GatewayReply reply;
  reply.body = JsonText(Value::List(std::move(shown)));
  co_return reply;
}

// A number of a slot, in decimal digits and nothing else.
std::optional<std::uint32_t> SlotNumberOf(std::string_view text, std::uint32_t count) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  const bool is_plain = text.size() == 1 || !text.starts_with('0');
  if (!is_whole || !is_plain || number >= count) return std::nullopt;
  return number;
}

GatewayReply FileReply(std::uint32_t number, const std::string& name, const SlotFileInfo& info,
                       bool is_save) {
  const double ms = std::chrono::duration<double, std::milli>(info.time).count();
  const Value timings = Object().Set(is_save ? "save_ms" : "restore_ms", NumberValue(ms)).Take();
  GatewayReply reply;
  reply.body = JsonText(Object()
                            .Set("id_slot", CountValue(number))
                            .Set("filename", name)
                            .Set(is_save ? "n_saved" : "n_restored", CountValue(info.token_count))
                            .Set(is_save ? "n_written" : "n_read", CountValue(info.file_bytes))
                            .Set("timings", timings)
                            .Take());
  return reply;
}

using FileLocks = std::map<std::string, FileLock>;  // by tenant

Await<Result<GatewayReply>> ActOnSlot(RouteCall call, FileLocks& locks) {
  if (call.gateway.settings().slot_directory.empty()) {
    co_return Fail(Code::kUnsupported, kNoActions);
  }
  KVD_CO_TRY(TenantSession* const tenant, TenantOfQuery(call));
  const auto number = SlotNumberOf(call.parts.front(), tenant->slots().count());
  if (!number) co_return Fail(Code::kInvalidArgument, "Invalid slot ID");
  const std::string action(call.request.query_value("action").value_or(""));
  if (action != "save" && action != "restore" && action != "erase") {
    co_return Fail(Code::kInvalidArgument, "Invalid action");
  }
  std::string name;
  if (action != "erase") {
    KVD_CO_TRY(const Value body, co_await BodyOf(call));
    KVD_CO_TRY(name, Fields(body).String("filename"));
    if (!IsSlotFileName(name)) {
      co_return Fail(Code::kInvalidArgument, "Invalid filename: letters, digits, '.', '_' and '-'");
    }
  }
  const SlotLease lease = co_await SlotLease::Acquire(tenant->slots(), number, {});
  if (action == "erase") {
    KVD_CO_TRY(const std::uint64_t token_count, co_await EraseSlot(*tenant, lease));
    GatewayReply reply;
    reply.body = JsonText(Object()
                              .Set("id_slot", CountValue(*number))
                              .Set("n_erased", CountValue(token_count))
                              .Take());
    co_return reply;
  }
  const bool is_save = action == "save";
  const SlotFolder slot_folder = call.gateway.SlotFolderOf(tenant->name());
  FileLock& lock = locks.try_emplace(tenant->name(), call.gateway.loop()).first->second;
  SlotFileInfo info;
  if (is_save) {
    KVD_CO_TRY(info, co_await SaveSlot(*tenant, lease, slot_folder, name, lock));
  } else {
    KVD_CO_TRY(info, co_await RestoreSlot(*tenant, lease, slot_folder, name, lock));
  }
  co_return FileReply(*number, name, info, is_save);
}

}  // namespace

void AddSlotRoutes(Gateway& gateway, Router& router) {
  AddPlainRoutes(gateway, router, "GET", {"/slots"}, ListSlots);
  const auto locks = std::make_shared<FileLocks>();
  AddPlainRoutes(gateway, router, "POST", {"/slots/{}"},
                 [locks](RouteCall call) { return ActOnSlot(call, *locks); });
}

}  // namespace kvd::http
