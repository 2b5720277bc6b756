// IP addresses of clients: peers, networks, X-Forwarded-For, and the bytes that each may hold.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/serve/ip_address.h"
#include "http/serve/listening_socket.h"
#include "http/serve/peer_counts.h"

namespace kvd::http {
namespace {

std::string LimitKeyOf(std::string_view text) {
  const auto address = IpAddress::Read(text);
  return address ? address->limit_key() : "none";
}

TEST(IpAddressTest, ReadsAddressesWithoutPortAndZone) {
  EXPECT_EQ(LimitKeyOf("192.0.2.1"), std::string("\xC0\x00\x02\x01", 4));
  EXPECT_EQ(LimitKeyOf("2001:db8:1:2:3:4:5:6"), std::string("\x20\x01\x0d\xb8\x00\x01\x00\x02", 8));
  EXPECT_EQ(LimitKeyOf("::ffff:192.0.2.1"), LimitKeyOf("192.0.2.1"));
  for (const std::string& text :
       {std::string(), std::string("1.2.3"), std::string("1.2.3.256"), std::string("1.2.3.4:80"),
        std::string("[::1]"), std::string("::1%lo"), std::string(":::"), std::string("localhost"),
        std::string(" 1.2.3.4"), std::string("1.2.3.4\0x", 9)}) {
    EXPECT_EQ(LimitKeyOf(text), "none") << text;
  }
}

TEST(IpAddressTest, CountsIpv6PeersBySixtyFourBits) {
  const auto key_of = [](const char* host) {
    const auto address = IpAddress::Of(ResolveListenAddress(host, 0)->address);
    return address ? address->limit_key() : "none";
  };
  EXPECT_EQ(key_of("2001:db8::1"), key_of("2001:db8::2"));
  EXPECT_NE(key_of("2001:db8::1"), key_of("2001:db8:0:1::1"));
  EXPECT_EQ(key_of("127.0.0.1"), key_of("::ffff:127.0.0.1"));
  EXPECT_NE(key_of("127.0.0.1"), key_of("127.0.0.2"));
  EXPECT_EQ(key_of("unix:/tmp/a"), "none");
}

bool RangeContains(const char* range_text, const char* address_text) {
  const auto range = AddressRange::Read(range_text);
  EXPECT_TRUE(range) << range.error().message;
  return range && range->Contains(*IpAddress::Read(address_text));
}

TEST(AddressRangeTest, ContainsTheAddressesOfItsPrefix) {
  EXPECT_TRUE(RangeContains("10.0.0.0/8", "10.255.0.1"));
  EXPECT_FALSE(RangeContains("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(RangeContains("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_FALSE(RangeContains("10.0.0.0/8", "a00::"));
  EXPECT_TRUE(RangeContains("192.0.2.128/25", "192.0.2.255"));
  EXPECT_FALSE(RangeContains("192.0.2.128/25", "192.0.2.127"));
  EXPECT_TRUE(RangeContains("192.0.2.1", "192.0.2.1"));
  EXPECT_FALSE(RangeContains("192.0.2.1", "192.0.2.2"));
  EXPECT_TRUE(RangeContains("192.0.2.1/32", "192.0.2.1"));
  EXPECT_TRUE(RangeContains("0.0.0.0/0", "255.1.2.3"));
  EXPECT_FALSE(RangeContains("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(RangeContains("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(RangeContains("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_TRUE(RangeContains("::1", "::1"));
  EXPECT_FALSE(RangeContains("::/0", "1.2.3.4"));
  EXPECT_TRUE(RangeContains("::ffff:10.0.0.0/104", "10.1.2.3"));
}

TEST(AddressRangeTest, NamesTheWrongPartOfARange) {
  const auto message_of = [](const char* text) {
    const auto range = AddressRange::Read(text);
    EXPECT_FALSE(range) << text;
    if (range) return std::string();
    EXPECT_EQ(range.error().code, Code::kInvalidArgument);
    return range.error().message;
  };
  for (const char* text :
       {"", "proxy", "10.0.0/8", "/8", "[::1]/128", "10.0.0.0:80", "fe80::1%a"}) {
    EXPECT_NE(message_of(text).find("is not an IP address"), std::string::npos) << text;
  }
  for (const char* text : {"10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.0/8/8",
                           "10.0.0.0/+8", "10.0.0.0/99999999999"}) {
    EXPECT_NE(message_of(text).find("not a number from 0 to 32"), std::string::npos) << text;
  }
  EXPECT_NE(message_of("::/129").find("not a number from 0 to 128"), std::string::npos);
  EXPECT_NE(message_of("::ffff:10.0.0.0/8").find("not a number from 96 to 128"), std::string::npos);
  for (const char* text : {"10.0.0.1/8", "192.0.2.129/25", "2001:db8::1/64", "0.0.0.1/0"}) {
    EXPECT_NE(message_of(text).find("bits beyond the prefix"), std::string::npos) << text;
  }
  EXPECT_EQ(message_of("x/8"), "--trusted-proxy: \"x/8\": \"x\" is not an IP address");
}

std::string ForwardedKey(const std::vector<Header>& headers) {
  const auto address = ForwardedAddress(headers);
  return address ? address->limit_key() : "none";
}

TEST(ForwardedAddressTest, TheForwardedAddressIsTheLastOfTheLastHeader) {
  const std::string expected = LimitKeyOf("192.0.2.7");
  for (const char* value :
       {"192.0.2.7", "192.0.2.7:1", "192.0.2.7:65535", "::ffff:192.0.2.7", "1.2.3.4,192.0.2.7",
        "unknown ,\t192.0.2.7 ", ",192.0.2.7", "[::ffff:192.0.2.7]:80"}) {
    EXPECT_EQ(ForwardedKey({{"x-forwarded-FOR", value}}), expected) << value;
  }
  for (const char* value : {"2001:db8::1", "[2001:db8::1]", "[2001:db8::2]:443"}) {
    EXPECT_EQ(ForwardedKey({{"X-Forwarded-For", value}}), LimitKeyOf("2001:db8::")) << value;
  }
  EXPECT_EQ(ForwardedKey({{"X-Forwarded-For", "1.2.3.4"},
                          {"X-Forwarded-For", "5.6.7.8, 192.0.2.7"},
                          {"Forwarded", "for=1.1.1.1"}}),
            expected);
}

TEST(ForwardedAddressTest, AnInvalidLastPartGivesNoAddress) {
  EXPECT_EQ(ForwardedKey({{"Host", "1.2.3.4"}}), "none");
  for (const char* value : {"",
                            " ",
                            ",",
                            "1.2.3.4,",
                            "1.2.3.4, ",
                            "unknown",
                            "_hidden",
                            "1.2.3.4, unknown",
                            "1.2.3.4 5.6.7.8",
                            "1.2.3.4:",
                            "1.2.3.4:x",
                            "1.2.3.4:123456",
                            "[1.2.3.4]",
                            "[::1",
                            "[::1]x",
                            "[::1]:",
                            "[::1]:x",
                            "[]",
                            "::1]",
                            "::1%lo",
                            "\"1.2.3.4\"",
                            "localhost"}) {
    EXPECT_EQ(ForwardedKey({{"X-Forwarded-For", value}}), "none") << value;
  }
  // The header before is not asked instead: any client can send it.
  EXPECT_EQ(ForwardedKey({{"X-Forwarded-For", "1.2.3.4"}, {"X-Forwarded-For", "unknown"}}), "none");
}

TEST(HeldBodiesTest, BytesAreCountedInTotalAndByAddress) {
  ServeLimits limits;
  limits.body_bytes_in_all_max = 100;
  limits.body_bytes_per_address_max = 40;
  const auto bodies = std::make_shared<HeldBodies>(limits);
  {
    BodyShare first(bodies, "a");
    BodyShare second(bodies, "a");
    EXPECT_EQ(first.ResizeTo(30), BodyFit::kFits);
    EXPECT_EQ(second.ResizeTo(10), BodyFit::kFits);
    EXPECT_EQ(second.ResizeTo(11), BodyFit::kTooManyOfAddress);
    EXPECT_EQ(bodies->byte_count(), 41u);
    second.Clear();
    EXPECT_EQ(bodies->byte_count(), 30u);
    BodyShare other(bodies, "b");
    EXPECT_EQ(other.ResizeTo(40), BodyFit::kFits);
    EXPECT_EQ(bodies->address_count(), 2u);
    // Without an address only the limit in all applies.
    BodyShare local(bodies, "");
    EXPECT_EQ(local.ResizeTo(30), BodyFit::kFits);
    EXPECT_EQ(local.ResizeTo(31), BodyFit::kTooManyInAll);
    EXPECT_EQ(bodies->address_count(), 2u);
    const BodyShare moved = std::move(local);
    EXPECT_EQ(bodies->byte_count(), 101u);
  }
  EXPECT_EQ(bodies->byte_count(), 0u);
  EXPECT_EQ(bodies->address_count(), 0u);
}

}  // namespace
}  // namespace kvd::http
