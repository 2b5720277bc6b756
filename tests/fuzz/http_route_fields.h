// The table of the gateway's routes: the fields of each route, with their types.
//
// A type says which values a field may have, as texts of JSON or as objects and lists of further
// types; tests/fuzz/http_json.h makes values of it, and wrong ones. http_routes_fuzz refuses to run
// if the table lacks a route of http/api/routes.h, or has one too many.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kvd::test {

struct FieldType;

struct Field {
  std::string_view name;
  const FieldType* type = nullptr;
  bool is_usual = false;  // there unless it is chosen to be absent
};

struct FieldType {
  enum class Kind : std::uint8_t {
    kTexts,   // one of `texts`, which are JSON
    kOneOf,   // a value of one of `types`
    kList,    // a list of values of types[0]
    kObject,  // an object with members of `fields` and `more_fields`
  };
  Kind kind = Kind::kTexts;
  std::span<const std::string_view> texts{};
  std::span<const FieldType* const> types{};
  std::span<const Field> fields{};
  std::span<const Field> more_fields{};
  std::span<const Field> further_fields{};
};

struct RouteRow {
  std::string_view method;
  std::string_view pattern;
  const FieldType* body = nullptr;            // null: no body
  std::span<const Field> query{};             // texts without quotes
  std::span<const std::string_view> parts{};  // of the path
};

std::span<const RouteRow> RouteRows();

// The ids that requests may name, without quotes: X-Conversation-Id, responses, snapshots. The
// first kStepsMax are the ids of the responses of the steps of an input.
std::span<const std::string_view> KnownIds();

// What steps have in common, so that the ids of their responses are known.
inline constexpr std::size_t kStepsMax = 4;
inline constexpr std::int64_t kStepUnixSeconds = 0x6000'0000;
// "resp_", then the step's number, from 1, and kStepUnixSeconds, each with 16 digits.

}  // namespace kvd::test
