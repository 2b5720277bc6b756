"""Writes text/character_tables.cc: the character classes and case mappings of Python's str methods.

    python3 tools/text/character_tables.py > text/character_tables.cc

Needs a Python whose unicodedata has Unicode 14.0 (Python 3.11).
"""
import unicodedata

LIMIT = 0x110000
CASE_IGNORABLE = {"Mn", "Me", "Cf", "Lm", "Sk"}
CASE_IGNORABLE_OTHERS = "'.:^`\u00a8\u00ad\u00b7\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a\u0387\u055f\u05f4"


def is_cased(s):
    return s.islower() or s.isupper() or unicodedata.category(s) == "Lt"


# The order of the bits in text/character_tables.h.
CLASSES = [
    lambda s: s.isalpha(),
    lambda s: s.isdigit(),
    lambda s: s.isdecimal(),
    lambda s: s.isnumeric(),
    lambda s: s.islower(),
    lambda s: s.isupper(),
    lambda s: unicodedata.category(s) == "Lt",
    lambda s: s.isspace(),
    lambda s: s.isprintable(),
    lambda s: ("a" + s).isidentifier(),
    lambda s: s.isidentifier(),
    lambda s: unicodedata.category(s) in CASE_IGNORABLE or s in CASE_IGNORABLE_OTHERS,
]


def class_ranges():
    ranges = []
    for code_point in range(LIMIT):
        s = chr(code_point)
        bits = sum(1 << i for i, is_in in enumerate(CLASSES) if is_in(s))
        if ranges and ranges[-1][2] == bits:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point, bits])
    return [f"{{0x{a:x}, 0x{b:x}, {c}}}" for a, b, c in ranges if c]


def decimal_ranges():
    starts = [c for c in range(LIMIT) if unicodedata.decimal(chr(c), None) == 0]
    return [f"0x{c:x}" for c in starts]


def mapping_runs(mapped):
    """Returns runs [first, last, stride, added]: `added` leads from every stride-th character in first..last to its mapping."""
    runs = []
    for code_point in range(LIMIT):
        text = mapped(chr(code_point))
        if len(text) != 1 or ord(text) == code_point:
            continue
        added = ord(text) - code_point
        if runs and runs[-1][3] == added:
            stride = code_point - runs[-1][1]
            if stride == runs[-1][2] or (runs[-1][0] == runs[-1][1] and stride <= 2):
                runs[-1][1:3] = [code_point, stride]
                continue
        runs.append([code_point, code_point, 1, added])
    return [f"{{0x{a:x}, 0x{b:x}, {s}, {d}}}" for a, b, s, d in runs]


def long_mappings(mapped):
    found = []
    for code_point in range(LIMIT):
        text = mapped(chr(code_point))
        if len(text) > 1:
            parts = ", ".join(f"0x{ord(c):x}" for c in text.ljust(3, "\0"))
            found.append(f"{{0x{code_point:x}, {{{parts}}}}}")
    return found


def table(declaration, rows):
    lines, line = [], "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + row + ","
    lines.append(line)
    return f"{declaration} = {{\n" + "\n".join(lines) + "\n};\n"


def main():
    print("// Written by tools/text/character_tables.py. Do not edit.")
    print("//")
    print("// Unicode 14.0. clang-format leaves the tables as they are.")
    print("// clang-format off")
    print('#include "text/character_tables.h"\n\nnamespace kvd {\nnamespace {\n')
    print(table("constexpr CharacterClassRange kClasses[]", class_ranges()))
    print(table("constexpr std::uint32_t kZeros[]", decimal_ranges()))
    maps = {"Lower": str.lower, "Upper": str.upper, "Title": str.title, "Fold": str.casefold}
    for name, mapped in maps.items():
        print(table(f"constexpr CharacterMappingRun k{name}[]", mapping_runs(mapped)))
        print(table(f"constexpr LongMapping kLong{name}[]", long_mappings(mapped)))
    print("}  // namespace\n")
    print("std::span<const CharacterClassRange> CharacterClassRanges() { return kClasses; }")
    print("std::span<const std::uint32_t> DecimalZeros() { return kZeros; }")
    for name in maps:
        print(f"CaseMapping {name}Mapping() {{ return {{k{name}, kLong{name}}}; }}")
    print("\n}  // namespace kvd")


main()
