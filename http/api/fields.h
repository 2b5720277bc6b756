// Fields: reads the members of a JSON object of a request, and names what has a wrong type or
// range: "temperature: a number is needed, not \"hot\"".
//
// null means that the member is absent, as clients send it. Unknown members are ignored,
// as llama-server ignores them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/value.h"

namespace kvd::http {

class Fields {
 public:
  // `path`: what stands in front of the names in errors ("tools[1]."). An `object` that is no dict
  // has no members. REQUIRES: `object` outlives the Fields.
  explicit Fields(const Value& object, std::string path = {})
      : dict_(object.dict()), path_(std::move(path)) {}

  // Returns a missing Value if the member is absent or null.
  const Value& Find(std::string_view name) const;
  bool Has(std::string_view name) const { return !Find(name).is_missing(); }

  // Each returns `fallback`, or nullopt, if the member is absent. Errors: kInvalidArgument.
  Result<bool> Bool(std::string_view name, bool fallback) const;
  Result<std::optional<bool>> OptionalBool(std::string_view name) const;
  // A whole number; 3.0 is one, too.
  Result<std::int64_t> Int(std::string_view name, std::int64_t fallback, std::int64_t least,
                           std::int64_t most) const;
  Result<std::optional<std::int64_t>> OptionalInt(std::string_view name, std::int64_t least,
                                                  std::int64_t most) const;
  Result<double> Number(std::string_view name, double fallback) const;
  Result<std::string> String(std::string_view name, std::string fallback = {}) const;
  // A text, or a list of texts. Absent: an empty list.
  Result<std::vector<std::string>> Strings(std::string_view name) const;
  // A missing Value if absent.
  Result<Value> Object(std::string_view name) const;
  Result<Value> List(std::string_view name) const;

  std::string PathOf(std::string_view name) const { return path_ + std::string(name); }
  // "PATH: WHAT is needed, not VALUE"
  std::unexpected<Error> Wrong(std::string_view name, std::string_view what,
                               const Value& value) const;

 private:
  const Dict& dict_;
  std::string path_;
};

// A value as an error shows it: its JSON, cut after 60 bytes.
std::string Shown(const Value& value);

// Parses the body of a request, which must be an object, on a worker if it is long
// (api/route_kinds.h).
inline constexpr std::uint32_t kBodyNestingMax = 128;

}  // namespace kvd::http
