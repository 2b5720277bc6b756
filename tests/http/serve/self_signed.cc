#include "tests/http/serve/self_signed.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>

namespace kvd::http::test {

TlsFiles WriteSelfSigned(const std::string& folder, const std::string& name) {
  const TlsFiles files{.certificate = folder + "/" + name + ".crt",
                       .key = folder + "/" + name + ".key"};
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = ::X509_new();
  ASN1_INTEGER_set(::X509_get_serialNumber(certificate), 1);
  ::X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  ::X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 60 * 60);
  ::X509_set_pubkey(certificate, key);
  X509_NAME* const subject = ::X509_get_subject_name(certificate);
  ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  ::X509_set_issuer_name(certificate, subject);
  ::X509_sign(certificate, key, ::EVP_sha256());
  std::FILE* file = std::fopen(files.certificate.c_str(), "w");
  ::PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(files.key.c_str(), "w");
  ::PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  ::X509_free(certificate);
  ::EVP_PKEY_free(key);
  return files;
}

}  // namespace kvd::http::test
