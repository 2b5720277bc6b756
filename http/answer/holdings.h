// Holdings: every kind of thing that a request can name or list, with its visibility and its limit.
// With --tenants, a request never reaches a thing of another tenant: it is answered as one that
// does not exist. The tests of two tenants (tests/http/api/holdings_test.cc) and the table of
// docs/security.md follow the rows, so a new kind of thing is a row here first.
#pragma once

#include <cstdint>
#include <string_view>

namespace kvd::http {

// Who may name or see a thing.
enum class Visibility : std::uint8_t {
  kTenant,    // the tenant that made it
  kPublic,    // every tenant, because its maker has published it for all
  kModels,    // each tenant, for the models that it may use
  kOperator,  // a tenant with "operator": true; without --tenants, every caller
  kNoCaller,  // no request names or lists it; the gateway's user finds it on the machine
};

struct Holding {
  std::string_view kind;
  std::string_view named_by;  // routes, and fields of their requests
  Visibility visibility;
  std::string_view limit;  // of each tenant, unless it says otherwise
};

inline constexpr Holding kHoldings[] = {
    {"slot", "GET /slots, POST /slots/{id}, id_slot", Visibility::kTenant, "--parallel"},
    {"slot file", "POST /slots/{id}?action=save, restore: filename", Visibility::kTenant,
     "1,000 files, --slot-save-bytes"},
    {"stored response", "/v1/responses/{id}, previous_response_id, fork_from", Visibility::kTenant,
     "4,096 of 16 MiB each"},
    {"snapshot of a response", "fork_from", Visibility::kTenant, "32, --response-bytes"},
    {"stream", "X-Conversation-Id, /v1/stream, /v1/streams/lookup, fork_from", Visibility::kTenant,
     "512 jobs, 256 MiB"},
    {"background response", "/v1/responses/{id}, /v1/responses/{id}/cancel", Visibility::kTenant,
     "512 jobs, 256 MiB, together with streams"},
    {"snapshot", "fork_from", Visibility::kTenant, "the daemon's limit of sequences"},
    {"public snapshot", "fork_from", Visibility::kPublic, "the daemon's limit of sequences"},
    {"prefix", "the prompt of any request", Visibility::kTenant, "the daemon's share of the pool"},
    {"model", "model, GET /v1/models, GET /props", Visibility::kModels, "the member models"},
    {"counts of answers", "GET /metrics", Visibility::kTenant, ""},
    {"counts of the pool and of the event loop", "GET /metrics", Visibility::kOperator, ""},
    {"path of the model's file", "GET /props", Visibility::kOperator, ""},
    {"journal", "", Visibility::kNoCaller, "1 GiB"},
    {"saved state of the daemon", "", Visibility::kNoCaller, "the daemon's saved_bytes"},
    {"log", "", Visibility::kNoCaller, ""},
};

}  // namespace kvd::http
