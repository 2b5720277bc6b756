// The TLS settings of a server: its certificate and key, and TLS 1.2 or newer.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/error.h"

namespace kvd::http {

struct TlsFiles {
  std::string certificate;  // PEM, the server's certificate first, then its chain
  std::string key;          // PEM, not encrypted
};

// Errors: kInvalidArgument: a file that OpenSSL cannot read or use (the message names the file and
// OpenSSL's reason), or a key that does not belong to the certificate.
Result<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsFiles& files);

}  // namespace kvd::http
