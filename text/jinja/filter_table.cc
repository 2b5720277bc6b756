#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/filters.h"

namespace kvd::jinja {
namespace {

// Sorted by name.
constexpr std::array kFilters = std::to_array<BuiltinRow>({
    {"abs", "", FilterAbs},
    {"attr", "name", FilterAttr},
    {"batch", "linecount fill_with?", FilterBatch},
    {"capitalize", "", FilterCapitalize},
    {"center", "width?", FilterCenter},
    {"count", "", FilterLength},
    {"d", "default_value? boolean?", FilterDefault},
    {"default", "default_value? boolean?", FilterDefault},
    {"dictsort", "case_sensitive? by? reverse?", FilterDictSort},
    {"e", "", FilterEscape},
    {"escape", "", FilterEscape},
    {"filesizeformat", "binary?", FilterFileSizeFormat},
    {"first", "", FilterFirst},
    {"float", "default?", FilterFloat},
    {"forceescape", "", FilterForceEscape},
    {"format", "*", FilterFormat},
    {"groupby", "attribute default? case_sensitive?", FilterGroupBy},
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
    {"pprint", "", FilterPprint},
    {"random", "", nullptr},
    {"reject", "*", FilterReject},
    {"rejectattr", "*", FilterRejectAttr},
    {"replace", "old new count?", FilterReplace},
    {"reverse", "", FilterReverse},
    {"round", "precision? method?", FilterRound},
    {"safe", "", FilterSafe},
    {"select", "*", FilterSelect},
    {"selectattr", "*", FilterSelectAttr},
    {"slice", "slices fill_with?", FilterSlice},
    {"sort", "reverse? case_sensitive? attribute?", FilterSort},
    {"string", "", FilterString},
    {"striptags", "", FilterStripTags},
    {"sum", "attribute? start?", FilterSum},
    {"title", "", FilterTitle},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", FilterToJson},
    {"trim", "chars?", FilterTrim},
    {"truncate", "length? killwords? end? leeway?", FilterTruncate},
    {"unique", "case_sensitive? attribute?", FilterUnique},
    {"upper", "", FilterUpper},
    {"urlencode", "", FilterUrlEncode},
    {"urlize", "*", nullptr},
    {"wordcount", "", FilterWordCount},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", FilterWordWrap},
    {"xmlattr", "autospace?", FilterXmlAttr},
});

}  // namespace

const BuiltinRow* FindFilter(std::string_view name) {
  const auto* const found = std::ranges::lower_bound(kFilters, name, {}, &BuiltinRow::name);
  return found != kFilters.end() && found->name == name ? found : nullptr;
}

}  // namespace kvd::jinja
