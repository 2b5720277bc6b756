#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"

namespace kvd::jinja {
namespace {

// Sorted by name.
constexpr std::array kFilters = std::to_array<BuiltinRow>({
    {"capitalize", "", FilterCapitalize},
    {"count", "", FilterLength},
    {"d", "default_value? boolean?", FilterDefault},
    {"default", "default_value? boolean?", FilterDefault},
    {"dictsort", "case_sensitive? by? reverse?", FilterDictSort},
    {"first", "", FilterFirst},
    {"float", "default?", FilterFloat},
    {"indent", "width? first? blank?", FilterIndent},
    {"int", "default? base?", FilterInt},
    {"items", "", FilterItems},
    {"join", "d? attribute?", FilterJoin},
    {"last", "", FilterLast},
    {"length", "", FilterLength},
    {"list", "", FilterList},
    {"lower", "", FilterLower},
    {"map", "*", FilterMap},
    {"max", "case_sensitive? attribute?", FilterMax},
    {"min", "case_sensitive? attribute?", FilterMin},
    {"reject", "*", FilterReject},
    {"rejectattr", "*", FilterRejectAttr},
    {"replace", "old new count?", FilterReplace},
    {"reverse", "", FilterReverse},
    {"safe", "", FilterSafe},
    {"select", "*", FilterSelect},
    {"selectattr", "*", FilterSelectAttr},
    {"sort", "reverse? case_sensitive? attribute?", FilterSort},
    {"string", "", FilterString},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", FilterToJson},
    {"trim", "chars?", FilterTrim},
    {"unique", "case_sensitive? attribute?", FilterUnique},
    {"upper", "", FilterUpper},
});

}  // namespace

const BuiltinRow* FindFilter(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kFilters, name, {}, &BuiltinRow::name);
  return found != kFilters.end() && found->name == name ? found : nullptr;
}

}  // namespace kvd::jinja
