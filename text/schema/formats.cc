// Sources: dates, times and durations: RFC 3339, 5.6 and appendix A; UUID: RFC 9562, 4; host names:
// RFC 1123, 2.1; IPv4 and IPv6 addresses: RFC 2673, 3.2, and RFC 4291, 2.2; e-mail: the dot-string
// form of RFC 5321, 4.1.2; URI: RFC 3986, with an authority. An expression has a subset of the
// source's texts where that keeps it bounded: no leap second, years from 0001, 9 digits of a
// fraction, 32 characters of a host name's label and 7 labels.
#include "text/schema/formats.h"

#include <map>
#include <string>

#include "base/check.h"
#include "base/text.h"

namespace kvd::schema {
namespace {

std::string Group(const std::string& text) { return "(" + text + ")"; }

// A date of the calendar: February 29 only in leap years.
std::string Date() {
  const std::string year = "(000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d{3})";
  const std::string day28 = "(0[1-9]|1\\d|2[0-8])";
  const std::string leap =
      "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
  return Group(
      year + "-" +
      Group("(0[1-9]|1[0-2])-" + day28 + "|(0[13-9]|1[0-2])-(29|30)|" + "(0[13578]|1[02])-31") +
      "|" + leap + "-02-29");
}

std::string Time() {
  return "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+\\-]([01]\\d|2[0-3]):[0-5]\\d)";
}

std::string Duration() {
  const std::string seconds = "\\d{1,9}S";
  const std::string minutes = "\\d{1,9}M(" + seconds + ")?";
  const std::string time = "T(\\d{1,9}H(" + minutes + ")?|" + minutes + "|" + seconds + ")";
  const std::string months = "\\d{1,9}M(\\d{1,9}D)?";
  const std::string date = "(\\d{1,9}D|" + months + "|\\d{1,9}Y(" + months + ")?)";
  return "P(" + date + "(" + time + ")?|" + time + "|\\d{1,9}W)";
}

std::string Host() {
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9\\-]{0,30}[A-Za-z0-9])?";
  return label + "(\\." + label + "){0,6}";
}

std::string Ipv4() {
  const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return byte + "(\\." + byte + "){3}";
}

// All eight groups, or "::" in place of at least one group.
std::string Ipv6() {
  const std::string group = "[0-9A-Fa-f]{1,4}";
  std::string text = "(" + group + ":){7}" + group;
  for (int before = 0; before <= 7; ++before) {
    const int after_max = 7 - before;
    text += "|";
    if (before > 0) text += Concat(group, "(:", group, "){", before - 1, "}");
    text += "::";
    if (after_max > 0) text += Concat("(", group, "(:", group, "){0,", after_max - 1, "})?");
  }
  return Group(text);
}

std::string Email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]{1,20}";
  return atom + "(\\." + atom + "){0,2}@" + Host();
}

std::string Uri() {
  const std::string character = "([A-Za-z0-9\\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})";
  const std::string more = "([A-Za-z0-9\\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*";
  return "[A-Za-z][A-Za-z0-9+\\-.]{0,15}://" + Host() + "(:\\d{1,4})?(/" + character + "*)*(\\?" +
         more + ")?(#" + more + ")?";
}

std::map<std::string, RegexNode, std::less<>> MakeFormats() {
  const std::string uuid = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
  std::map<std::string, std::string> texts = {{"date", Date()},
                                              {"time", Time()},
                                              {"date-time", Date() + "T" + Time()},
                                              {"duration", Duration()},
                                              {"uuid", uuid},
                                              {"hostname", Host()},
                                              {"ipv4", Ipv4()},
                                              {"ipv6", Ipv6()},
                                              {"email", Email()},
                                              {"uri", Uri()}};
  for (const char version : {'1', '2', '3', '4', '5'}) texts[std::string("uuid") + version] = uuid;
  std::map<std::string, RegexNode, std::less<>> formats;
  for (const auto& [name, text] : texts) {
    auto node = ParsePattern("^(" + text + ")$");
    KVD_ASSERT(node.has_value());
    formats.emplace(name, *std::move(node));
  }
  return formats;
}

}  // namespace

const RegexNode* FindFormat(std::string_view name) {
  static const auto* const formats = new auto(MakeFormats());
  const auto place = formats->find(name);
  return place == formats->end() ? nullptr : &place->second;
}

}  // namespace kvd::schema
