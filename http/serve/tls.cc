#include "http/serve/tls.h"

#include <openssl/ssl.h>

#include <array>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

namespace kvd::http {
namespace {

namespace ssl = boost::asio::ssl;

// Static, because OpenSSL keeps a pointer into it.
constexpr std::array<unsigned char, 9> kOwnProtocols{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// Chooses HTTP/1.1 for a client that offers it by ALPN (RFC 7301), and no protocol otherwise.
int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                   const unsigned char* offered, unsigned int offered_bytes, void*) {
  unsigned char* found = nullptr;
  if (::SSL_select_next_proto(&found, chosen_bytes, kOwnProtocols.data(), kOwnProtocols.size(),
                              offered, offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::unexpected<Error> FailTls(std::string_view what, const std::string& file,
                               const boost::system::error_code& error) {
  return Fail(Code::kInvalidArgument, what, " ", file, ": ", error.message());
}

}  // namespace

Result<std::unique_ptr<ssl::context>> MakeTlsContext(const TlsFiles& files) {
  try {
    auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
    boost::system::error_code error;
    // Without a callback OpenSSL would ask the terminal for the password of an encrypted key.
    (void)context->set_password_callback(
        [](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
    if (error) return FailTls("TLS key", files.key, error);
    (void)context->use_certificate_chain_file(files.certificate, error);
    if (error) return FailTls("TLS certificate", files.certificate, error);
    (void)context->use_private_key_file(files.key, ssl::context::pem, error);
    if (error) return FailTls("TLS key", files.key, error);
    SSL_CTX* const handle = context->native_handle();
    SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION);
    ::SSL_CTX_set_options(handle, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    // An idle connection holds no buffers of OpenSSL.
    SSL_CTX_set_mode(handle, SSL_MODE_RELEASE_BUFFERS);
    ::SSL_CTX_set_alpn_select_cb(handle, ChooseProtocol, nullptr);
    return context;
  } catch (const boost::system::system_error& error) {
    return Fail(Code::kInternal, "TLS: ", error.code().message());
  } catch (const std::bad_alloc&) {
    return Fail(Code::kNoSpace, "TLS: out of memory");
  }
}

}  // namespace kvd::http
