// TLS through the whole program: requests to kvd-http with a certificate that signs itself.
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/e2e/support/temporary_folder.h"
#include "tests/http/program/gateway_process.h"
#include "tests/http/serve/self_signed.h"

namespace kvd::http::test {
namespace {

// The reply to a request over TLS, from a server whose certificate the client trusts; empty: the
// client does not trust the server, or it does not answer.
std::string AskOverTls(const std::string& port, const std::string& certificate,
                       const std::string& request) {
  const std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context(
      ::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free);
  ::SSL_CTX_load_verify_locations(context.get(), certificate.c_str(), nullptr);
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> connection(
      ::BIO_new_ssl_connect(context.get()), ::BIO_free_all);
  const std::string address = "127.0.0.1:" + port;
  BIO_set_conn_hostname(connection.get(), address.c_str());
  std::string reply;
  if (BIO_do_connect(connection.get()) != 1) return reply;
  ::BIO_write(connection.get(), request.data(), static_cast<int>(request.size()));
  char bytes[4096];
  for (;;) {
    const int count = ::BIO_read(connection.get(), bytes, sizeof bytes);
    if (count <= 0) return reply;
    reply.append(bytes, static_cast<std::size_t>(count));
  }
}

class ProgramTlsTest : public ::testing::Test {
 protected:
  std::string folder() const { return folder_.path(); }
  static std::string PortOf(const GatewayProcess& gateway) {
    const std::string text = gateway.error_text();
    const std::string before = "listening on https://127.0.0.1:";
    const std::size_t at = text.find(before);
    if (at == std::string::npos) return "";
    return text.substr(at + before.size(), text.find('\n', at) - at - before.size());
  }

  kvd::test::TemporaryFolder folder_;
};

TEST_F(ProgramTlsTest, ServesRequestsOverTls) {
  const TlsFiles files = WriteSelfSigned(folder(), "server");
  const TlsFiles other = WriteSelfSigned(folder(), "other");
  GatewayProcess gateway(folder(),
                         {"--ssl-cert-file", files.certificate, "--ssl-key-file", files.key});
  ASSERT_TRUE(gateway.WaitForText("ready")) << gateway.error_text();
  const std::string port = PortOf(gateway);
  ASSERT_NE(port, "") << gateway.error_text();
  const std::string body =
      R"({"prompt":"Hi","n_predict":2,"response_fields":["tokens_predicted"]})";
  const std::string request =
      "POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  const std::string reply = AskOverTls(port, files.certificate, request);
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200")) << reply;
  EXPECT_NE(reply.find(R"({"tokens_predicted":2})"), std::string::npos) << reply;
  EXPECT_EQ(AskOverTls(port, other.certificate, request), "");
  gateway.Signal(SIGTERM);
  EXPECT_EQ(gateway.Wait(), 0);
}

TEST_F(ProgramTlsTest, RefusesFilesThatItCannotUse) {
  const TlsFiles files = WriteSelfSigned(folder(), "server");
  const TlsFiles other = WriteSelfSigned(folder(), "other");
  const std::string text = folder() + "/text";
  std::ofstream(text) << "no key\n";
  const auto error_of = [this](const std::string& certificate, const std::string& key) {
    GatewayProcess gateway(folder(), {"--ssl-cert-file", certificate, "--ssl-key-file", key});
    EXPECT_EQ(gateway.Wait(), 1);
    return gateway.error_text();
  };
  EXPECT_TRUE(error_of(files.certificate, text).starts_with("kvd-http: TLS key " + text + ": "));
  EXPECT_TRUE(error_of(files.certificate, folder() + "/missing")
                  .starts_with("kvd-http: TLS key " + folder() + "/missing: "));
  EXPECT_TRUE(error_of(text, files.key).starts_with("kvd-http: TLS certificate " + text + ": "));
  EXPECT_TRUE(
      error_of(files.certificate, other.key).starts_with("kvd-http: TLS key " + other.key + ": "));
  GatewayProcess without_key(folder(), {"--ssl-cert-file", files.certificate});
  EXPECT_EQ(without_key.Wait(), 2);
  EXPECT_NE(without_key.error_text().find("--ssl-key-file"), std::string::npos)
      << without_key.error_text();
}

}  // namespace
}  // namespace kvd::http::test
