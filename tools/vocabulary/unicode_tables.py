"""Writes engine/vocabulary/unicode_tables.cc: what the WordPiece tokenizer knows about characters.

    python3 tools/vocabulary/unicode_tables.py > engine/vocabulary/unicode_tables.cc

Needs a Python whose unicodedata is of Unicode 14.0 (3.11): the assignments of 15.0 and 15.1 to the three
classes are listed below, and these versions changed no lower case and no decomposition of older characters.
"""
import sys
import unicodedata

LIMIT = 0x110000
ADDED = {  # by Unicode 15.0; 15.1 added ideographs and symbols only
    "C": [(0x13439, 0x1343F)],
    "M": [(0xCF3, 0xCF3), (0xECE, 0xECE), (0x10EFD, 0x10EFF), (0x11241, 0x11241), (0x11F00, 0x11F01),
          (0x11F03, 0x11F03), (0x11F34, 0x11F3A), (0x11F3E, 0x11F42), (0x13440, 0x13440), (0x13447, 0x13455),
          (0x1E08F, 0x1E08F), (0x1E4EC, 0x1E4EF)],
    "P": [(0x11B00, 0x11B09), (0x11F43, 0x11F4F)],
}


def class_of(code_point):
    for name, ranges in ADDED.items():
        if any(first <= code_point <= last for first, last in ranges):
            return name
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


def lower_runs():
    """[first, last, stride, added]: every stride-th character from first to last."""
    simple = {0x130: 0x69}
    runs = []
    for code_point in range(LIMIT):
        lower = chr(code_point).lower()
        lower = ord(lower) if len(lower) == 1 else simple[code_point]
        added = lower - code_point
        if added == 0:
            continue
        if runs and runs[-1][3] == added:
            stride = code_point - runs[-1][1]
            if stride == runs[-1][2] or (runs[-1][0] == runs[-1][1] and stride <= 2):
                runs[-1][1:3] = [code_point, stride]
                continue
        runs.append([code_point, code_point, 1, added])
    return [f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in runs]


def decompositions():
    """Runs of neighbours and, run by run, the first character of each one's canonical decomposition."""
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


if not unicodedata.unidata_version.startswith("14."):
    sys.exit("needs unicodedata of Unicode 14.0, this is " + unicodedata.unidata_version)
runs, bases = decompositions()
print("""// Written by tools/vocabulary/unicode_tables.py; Unicode 15.1.
#include "engine/vocabulary/unicode_tables.h"

#include <algorithm>
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
struct LowerRun {
  std::uint32_t first;
  std::uint32_t last;
  std::uint32_t stride;
  std::int32_t added;
};

// Neighbours whose bases are kBases[base_begin] and on.
struct BaseRun {
  std::uint32_t first;
  std::uint32_t count;
  std::uint32_t base_begin;
};

// clang-format off""", end="")
print_table("constexpr ClassRange kClassRanges[]", class_ranges())
print_table("constexpr LowerRun kLowerRuns[]", lower_runs())
print_table("constexpr BaseRun kBaseRuns[]", runs)
print_table("constexpr std::uint32_t kBases[]", bases)
print("""// clang-format on

// The last element whose first character is not after `code_point`; null where there is none.
template <class T, std::size_t count>
const T* FindRun(const T (&runs)[count], std::uint32_t code_point) {
  const T* after = std::ranges::upper_bound(runs, code_point, {}, &T::first);
  return after == std::begin(runs) ? nullptr : after - 1;
}

}  // namespace

CharacterClass ClassOf(std::uint32_t code_point) {
  const ClassRange* range = FindRun(kClassRanges, code_point);
  return range == nullptr || code_point > range->last ? CharacterClass::kOther : range->name;
}

std::uint32_t LowerCase(std::uint32_t code_point) {
  const LowerRun* run = FindRun(kLowerRuns, code_point);
  if (run == nullptr || code_point > run->last) return code_point;
  if ((code_point - run->first) % run->stride != 0) return code_point;
  return code_point + static_cast<std::uint32_t>(run->added);
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
