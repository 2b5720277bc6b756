// Lengths, patterns and formats of strings.
#include <gtest/gtest.h>

#include "tests/text/schema/schema_case.h"

namespace kvd::test {
namespace {

std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

void ExpectPattern(const std::string& pattern, std::vector<std::string> accepted,
                   std::vector<std::string> rejected) {
  for (std::string& text : accepted) text = Quoted(text);
  for (std::string& text : rejected) text = Quoted(text);
  ExpectTexts(R"({"type": "string", "pattern": ")" + pattern + "\"}", accepted, rejected);
}

TEST(SchemaStringsTest, LengthsCountCharactersNotEscapes) {
  ExpectTexts(R"({"type": "string", "minLength": 2, "maxLength": 3})",
              {R"("ab")", R"("\n\t\\")", R"("\u00e9x")", R"("\ud83d\ude00a")", "\"é😀\""},
              {R"("a")", R"("abcd")", R"("\ud83d\ude00")", R"("\u00e9")", "\"😀\""});
  ExpectTexts(R"({"minLength": 1})", {R"("\"")"}, {R"("")"});
  ExpectTexts(R"({"maxLength": 0})", {R"("")"}, {R"("a")"});
  ExpectTexts(R"({"maxLength": 1e15})", {R"("abc")"}, {"1"});
  ExpectError(R"({"minLength": 2000000})", Code::kUnsupported, "#: minLength: more than 1048576");
}

TEST(SchemaStringsTest, PatternsAreSearchedUnlessAnchored) {
  ExpectPattern("^[a-c]+$", {"a", "abc"}, {"", "d", "abcd"});
  ExpectPattern("b", {"b", "abc", "\\n\\u0062b"}, {"", "ac"});
  ExpectPattern("^b", {"b", "bcd"}, {"ab", ""});
  ExpectPattern("b$", {"b", "ab"}, {"ba", ""});
  ExpectPattern("^A|B|C$", {"Axx", "xBx", "xxC", "A"}, {"xA", "Cx", ""});
  ExpectPattern("(^a|b)c", {"ac", "acx", "xxbc"}, {"xac", "bxc"});
  ExpectPattern("a(b|c$)", {"ab", "abx", "xac"}, {"acx"});
  ExpectPattern("^$", {""}, {"a"});
  ExpectPattern("", {"", "a"}, {});
  ExpectPattern("^(a|)$", {"a", ""}, {"b"});
}

TEST(SchemaStringsTest, PatternsOfEcma262AreSupported) {
  ExpectPattern("^\\\\d{2,3}-\\\\w*\\\\s?$", {"12-", "123-a_Z9", "12-x "}, {"1-", "1234-", "12-é"});
  ExpectPattern("^[^a-z\\\\d]$", {"A", "é", "\\n", "\\u0000", "\\\\", "\\\""}, {"a", "5", "AA"});
  ExpectPattern("^[\\\\]\\\\-\\\\\\\\^-]$", {"]", "-", "\\\\", "^"}, {"a", ""});
  ExpectPattern("^(?:ab)+?(?<name>c|d)$", {"abc", "ababd"}, {"ab", "c"});
  ExpectPattern("^\\\\x41\\\\u0042\\\\u{1F600}\\\\uD83D\\\\uDE01\\\\cJ\\\\0$", {"AB😀😁\\n\\u0000"},
                {"AB"});
  ExpectPattern("^.$", {"a", "é", "\\t"}, {"\\n", "\\r", "ab", ""});
  ExpectPattern("^a{2}b{0}c{1,}$", {"aac", "aacc"}, {"aa", "aabc"});
  ExpectPattern("^a{,2}\\\\.\\\\/]}$", {"a{,2}./]}"}, {"aa"});
  ExpectPattern("^[\\\\b\\\\t]$", {"\\b", "\\t"}, {"b"});
  ExpectPattern("^[\\\\D]$", {"x"}, {"1"});
  ExpectPattern("^\\\"/\\\\/$", {"\\\"//"}, {"//"});
}

TEST(SchemaStringsTest, UnsupportedAndInvalidPatternsAreErrorsByPath) {
  const auto expect = [](const std::string& pattern, Code code, std::string_view message) {
    ExpectError(R"({"properties": {"a": {"pattern": ")" + pattern + "\"}}}", code,
                "#/properties/a/pattern: " + std::string(message));
  };
  expect("^(?=a)", Code::kUnsupported, "a lookahead is not supported");
  expect("(?!a)", Code::kUnsupported, "a lookahead");
  expect("(?<=a)", Code::kUnsupported, "a lookbehind");
  expect("(?<!a)", Code::kUnsupported, "a lookbehind");
  expect("(a)\\\\1", Code::kUnsupported, "a back reference");
  expect("\\\\k<a>", Code::kUnsupported, "a back reference");
  expect("\\\\bfoo", Code::kUnsupported, "a word boundary");
  expect("\\\\Bfoo", Code::kUnsupported, "a word boundary");
  expect("\\\\p{L}", Code::kUnsupported, "a property of characters");
  expect("a^b", Code::kUnsupported, "an anchor inside");
  expect("(^a)?b", Code::kUnsupported, "an anchor inside");
  expect("\\\\uD83D", Code::kUnsupported, "half of a surrogate pair");
  expect("a{100001}", Code::kUnsupported, "a quantifier of more than 100000");
  expect("(a", Code::kInvalidArgument, "\"(\" without \")\"");
  expect("a)", Code::kInvalidArgument, "\")\" without \"(\"");
  expect("[a", Code::kInvalidArgument, "\"[\" without \"]\"");
  expect("[b-a]", Code::kInvalidArgument, "a range in the wrong order");
  expect("[\\\\d-a]", Code::kInvalidArgument, "a range between classes");
  expect("*a", Code::kInvalidArgument, "nothing to repeat");
  expect("{2}", Code::kInvalidArgument, "nothing to repeat");
  expect("a**", Code::kInvalidArgument, "a quantifier after a quantifier");
  expect("^*", Code::kInvalidArgument, "a quantifier after an anchor");
  expect("a{3,2}", Code::kInvalidArgument, "a quantifier whose greatest number");
  expect("(?<>a)", Code::kInvalidArgument, "a group without name");
  expect("(?a)", Code::kInvalidArgument, "an unknown kind of group");
  expect("\\\\y", Code::kInvalidArgument, "an unknown escape");
  expect("\\\\", Code::kInvalidArgument, "a backslash at the end");
  expect("\\\\c1", Code::kInvalidArgument, "\\c without a letter");
  expect("\\\\xZ", Code::kInvalidArgument, "an escape with too few");
  expect("\\\\u{110000}", Code::kInvalidArgument, "an escape above U+10FFFF");
  expect("\\\\u{41", Code::kInvalidArgument, "\\u{ without }");
  expect(std::string(65, '(') + std::string(65, ')'), Code::kUnsupported, "more than 64 groups");
  expect(std::string(65537, 'a'), Code::kUnsupported, "65537 bytes");
}

TEST(SchemaStringsTest, PatternsIntersectWithLengthsAndWithEachOther) {
  ExpectTexts(R"({"pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4})",
              {R"("ab")", R"("abcd")"}, {R"("a")", R"("abcde")", R"("A")"});
  ExpectTexts(R"({"pattern": "b", "maxLength": 2})", {R"("b")", R"("ab")", R"("b\n")"},
              {R"("abc")", R"("a")"});
  ExpectTexts(R"({"allOf": [{"pattern": "^a"}, {"pattern": "z$"}, {"pattern": "m"}]})",
              {R"("amz")", R"("a-m-z")"}, {R"("az")", R"("am")", R"("mz")"});
  ExpectTexts(R"({"pattern": "^[a-c]{2,5}$", "minLength": 2})", {R"("ab")"}, {R"("a")"});
  ExpectError(R"({"allOf": [{"pattern": "^(a|b)*a(a|b){14}$"}, {"pattern": "b"}]})",
              Code::kUnsupported, "#/allOf/0: a set of texts of more than 4096 states");
  ExpectError(R"({"allOf": [{"pattern": "a{40000}"}, {"pattern": "b"}]})", Code::kUnsupported,
              "#/allOf/0: an expression of more than 32768 positions");
}

TEST(SchemaStringsTest, KnownFormatsAreEnforcedAndOthersIgnored) {
  const auto expect = [](const std::string& format, std::vector<std::string> accepted,
                         std::vector<std::string> rejected) {
    for (std::string& text : accepted) text = Quoted(text);
    for (std::string& text : rejected) text = Quoted(text);
    ExpectTexts(R"({"type": "string", "format": ")" + format + "\"}", accepted, rejected);
  };
  expect("date", {"2024-02-29", "2023-12-31", "2000-02-29", "1999-06-30"},
         {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "0000-01-01", "2023-1-1", ""});
  expect("time", {"23:59:59Z", "00:00:00.123+01:30"}, {"24:00:00Z", "12:00:00", "12:00Z"});
  expect("date-time", {"2024-02-29T12:00:00Z"}, {"2024-02-29 12:00:00Z", "2024-02-29"});
  expect("duration", {"P1D", "PT1H30M", "P1Y2M3DT4H", "P3W"}, {"P", "PT", "1D", "P1H"});
  expect("uuid", {"123e4567-e89b-12d3-a456-426614174000"}, {"123e4567e89b12d3a456426614174000"});
  expect("ipv4", {"0.0.0.0", "255.10.199.1"}, {"256.0.0.0", "1.2.3", "01.2.3.4"});
  expect("ipv6", {"::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::"},
         {":", "1:2", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3:4:5:6:7:8::"});
  expect("hostname", {"a", "example.com", "x-1.y"}, {"", "-a", "a-", "a..b", "a_b"});
  expect("email", {"a.b+c@example.com"}, {"a@", "@b", "a b@c.d", "a..b@c"});
  expect("uri", {"https://example.com:80/a/b?c=d#e", "ftp://h"},
         {"example.com", "http:/x", "a b://c"});
  expect("regex", {"anything", ""}, {});
  ExpectTexts(R"({"format": "date"})", {Quoted("2024-01-01")}, {"5", Quoted("x")});
  ExpectTexts(R"({"type": "integer", "format": "int32"})", {"5"}, {"\"5\""});
  ExpectTexts(R"({"type": "string", "format": "date", "pattern": "^2024"})", {Quoted("2024-01-01")},
              {Quoted("2023-01-01")});
}

}  // namespace
}  // namespace kvd::test
