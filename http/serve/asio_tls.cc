// The functions of Boost.Asio for TLS that are no templates; see http/loop/asio.cc.
#include <boost/asio/ssl/impl/src.hpp>
