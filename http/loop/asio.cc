// The functions of Boost.Asio that are no templates, compiled once instead of in every file
// (BOOST_ASIO_SEPARATE_COMPILATION). Those for TLS are in http/serve/asio_tls.cc.
#include <boost/asio/impl/src.hpp>
