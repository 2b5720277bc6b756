// CodePointSet: a set of Unicode characters, as sorted ranges.
#pragma once

#include <cstdint>
#include <vector>

namespace kvd::schema {

struct CodePointRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  // included

  bool operator==(const CodePointRange&) const = default;
};

// The surrogates U+D800 to U+DFFF are no characters: no set contains them.
class CodePointSet {
 public:
  static constexpr std::uint32_t kLast = 0x10FFFF;

  CodePointSet() = default;
  static CodePointSet All();
  static CodePointSet Of(std::uint32_t code_point);
  static CodePointSet Of(std::vector<CodePointRange> ranges);

  // Adds the characters from `first` to `last`. REQUIRES: first <= last <= kLast.
  void Add(std::uint32_t first, std::uint32_t last);
  void Add(const CodePointSet& other);

  bool Contains(std::uint32_t code_point) const;
  CodePointSet Complement() const;
  CodePointSet Intersection(const CodePointSet& other) const;

  bool empty() const { return ranges_.empty(); }
  // Sorted, disjoint, and never adjacent.
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CodePointSet&) const = default;

 private:
  void Normalize();

  std::vector<CodePointRange> ranges_;
};

}  // namespace kvd::schema
