"""Writes base/unicode_tables.cc: the classes, cases and decompositions of characters.

    python3.13 tools/text/unicode_tables.py > base/unicode_tables.cc

Needs a Python whose unicodedata has Unicode 15.1 (Python 3.13).
"""
import sys
import unicodedata

LIMIT = 0x110000


def class_of(code_point):
    category = unicodedata.category(chr(code_point))
    return category[0] if category[0] in "MP" or category in ("Cc", "Cf", "Co", "Cs") else None


def class_ranges():
    ranges = []
    for code_point in range(LIMIT):
        name = class_of(code_point)
        if name is None:
            continue
        if ranges and ranges[-1][1] == code_point - 1 and ranges[-1][2] == name:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point, name])
    return [f"{{0x{a:x}, 0x{b:x}, k{n}}}" for a, b, n in ranges]


def simple_lower(code_point):
    """Returns the lower case if it is one character; that of the capital I with a dot is two, and is i here."""
    lower = chr(code_point).lower()
    return ord(lower) if len(lower) == 1 else {0x130: 0x69}[code_point]


def simple_upper(code_point):
    upper = chr(code_point).upper()
    return ord(upper) if len(upper) == 1 else code_point


def case_runs(mapped):
    """Returns runs [first, last, stride, added]: `added` leads from every stride-th character in first..last to its other case."""
    runs = []
    for code_point in range(LIMIT):
        added = mapped(code_point) - code_point
        if added == 0:
            continue
        if runs and runs[-1][3] == added:
            stride = code_point - runs[-1][1]
            if stride == runs[-1][2] or (runs[-1][0] == runs[-1][1] and stride <= 2):
                runs[-1][1:3] = [code_point, stride]
                continue
        runs.append([code_point, code_point, 1, added])
    return [f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in runs]


def long_uppers():
    """Returns the characters whose upper case is two or three characters."""
    found = []
    for code_point in range(LIMIT):
        upper = chr(code_point).upper()
        if len(upper) > 1:
            parts = ", ".join(f"0x{ord(c):x}" for c in upper.ljust(3, "\0"))
            found.append(f"{{0x{code_point:x}, {{{parts}}}}}")
    return found


def decompositions():
    """Returns runs of adjacent characters and, in the order of the runs, the first character of each decomposition."""
    runs, bases = [], []
    for code_point in range(LIMIT):
        if 0xAC00 <= code_point <= 0xD7A3 or 0xD800 <= code_point <= 0xDFFF:
            continue  # Hangul syllables decompose by arithmetic
        base = ord(unicodedata.normalize("NFD", chr(code_point))[0])
        if base == code_point:
            continue
        gap = code_point - runs[-1][0] - runs[-1][1] if runs else LIMIT
        if gap <= 2:
            for between in range(code_point - gap, code_point):
                bases.append(between)
            runs[-1][1] += gap + 1
        else:
            runs.append([code_point, 1, len(bases)])
        bases.append(base)
    return [f"{{0x{a:x}, {n}, {at}}}" for a, n, at in runs], [f"0x{base:x}" for base in bases]


def print_rows(items):
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            print(line)
            line = "   "
        line += " " + item + ","
    print(line)


def print_table(declaration, items):
    print(f"\n{declaration} = {{")
    print_rows(items)
    print("};")


if not unicodedata.unidata_version.startswith("15.1"):
    sys.exit("needs unicodedata of Unicode 15.1, this is " + unicodedata.unidata_version)
runs, bases = decompositions()
print("""// tools/text/unicode_tables.py generates this file from the data of Unicode 15.1.
#include "base/unicode_tables.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace kvd {
namespace {

constexpr CharacterClass kC = CharacterClass::kControl;
constexpr CharacterClass kM = CharacterClass::kMark;
constexpr CharacterClass kP = CharacterClass::kPunctuation;

struct ClassRange {
  std::uint32_t first;
  std::uint32_t last;
  CharacterClass name;
};

// Every stride-th character from first to last.
struct CaseRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t stride;
  std::int32_t added;
};

struct LongUpper {
  std::uint32_t first;
  std::array<std::uint32_t, 3> mapped;
};

// Adjacent characters whose bases are kBases[base_begin], kBases[base_begin + 1], ...
struct BaseRun {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t base_begin;
};

// clang-format off""", end="")
print_table("constexpr ClassRange kClassRanges[]", class_ranges())
print_table("constexpr CaseRun kLowerRuns[]", case_runs(simple_lower))
print_table("constexpr CaseRun kUpperRuns[]", case_runs(simple_upper))
print_table("constexpr LongUpper kLongUppers[]", long_uppers())
print_table("constexpr BaseRun kBaseRuns[]", runs)
print_table("constexpr std::uint32_t kBases[]", bases)
print("""// clang-format on

// The last element whose first character is not after `code_point`; null if there is none.
template <class T, std::size_t count>
const T* FindRun(const T (&runs)[count], std::uint32_t code_point) {
  const T* after = std::ranges::upper_bound(runs, code_point, {}, &T::first);
  return after == std::begin(runs) ? nullptr : after - 1;
}

template <std::size_t count>
std::uint32_t Mapped(const CaseRun (&runs)[count], std::uint32_t code_point) {
  const CaseRun* run = FindRun(runs, code_point);
  if (run == nullptr || code_point > run->last) return code_point;
  if ((code_point - run->first) % run->stride != 0) return code_point;
  return code_point + static_cast<std::uint32_t>(run->added);
}

}  // namespace

CharacterClass ClassOf(std::uint32_t code_point) {
  const ClassRange* range = FindRun(kClassRanges, code_point);
  return range == nullptr || code_point > range->last ? CharacterClass::kOther : range->name;
}

std::uint32_t LowerCase(std::uint32_t code_point) { return Mapped(kLowerRuns, code_point); }

std::array<std::uint32_t, 3> UpperCase(std::uint32_t code_point) {
  const LongUpper* upper = FindRun(kLongUppers, code_point);
  if (upper != nullptr && upper->first == code_point) return upper->mapped;
  return {Mapped(kUpperRuns, code_point), 0, 0};
}

std::uint32_t DecompositionBase(std::uint32_t code_point) {
  constexpr std::uint32_t kSyllableFirst = 0xac00;  // the Unicode Standard, section 3.12
  constexpr std::uint32_t kSyllableLast = 0xd7a3;
  constexpr std::uint32_t kLeadFirst = 0x1100;
  constexpr std::uint32_t kSyllablesOfLead = 588;
  if (code_point >= kSyllableFirst && code_point <= kSyllableLast)
    return kLeadFirst + (code_point - kSyllableFirst) / kSyllablesOfLead;
  const BaseRun* run = FindRun(kBaseRuns, code_point);
  if (run == nullptr || code_point - run->first >= run->count) return code_point;
  return kBases[run->base_begin + (code_point - run->first)];
}

}  // namespace kvd""")
