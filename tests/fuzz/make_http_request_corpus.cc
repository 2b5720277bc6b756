// Writes seeds for http_request_fuzz: requests of every form.
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::http_request_corpus {
namespace {

constexpr std::string_view kInputs[] = {
    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /a/x?b=%41+c&d HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://localhost:3\r\n\r\n",
    "GET http://a/r/x/y HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer k\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nX-Api-Key: k\r\nContent-Length: 5\r\n\r\nhelloGET / "
    "HTTP/1.0\r\n"
    "Connection: keep-alive\r\n\r\n\r\n\r\nHEAD /a HTTP/1.1\r\nHost: a\r\nConnection: "
    "close\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    "3;a=\"b\"\r\nabc\r\nA\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\nOrigin: null\r\nContent-Length: 0\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 10.0.0.1, [2001:db8::1]:443\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: ::ffff:192.0.2.1\r\n"
    "x-forwarded-for: 192.0.2.1:80\r\n\r\n",
    "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
};

}  // namespace

int Make(const std::string& folder) {
  int number = 0;
  for (const std::string_view input : kInputs) {
    for (const char piece_bytes : {'\0', '\x06', '\xff'}) {
      const std::string seed = piece_bytes + std::string(input);
      kvd::test::WriteSeed(folder, "request_" + std::to_string(number++),
                           std::as_bytes(std::span(seed)));
    }
  }
  return 0;
}

}  // namespace kvd::http_request_corpus
