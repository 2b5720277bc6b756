#include "client/kvctl/json_output.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace kvd::kvctl {
namespace {

boost::json::value ValueOf(const Json::Scalar& scalar) {
  return std::visit([](const auto& held) { return boost::json::value(held); }, scalar);
}

}  // namespace

struct Json::Value {
  boost::json::value json;
};

Json::Json(std::unique_ptr<Value> value) : value_(std::move(value)) {}
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::Object() { return Json(std::make_unique<Value>(Value{boost::json::object()})); }
Json Json::Array() { return Json(std::make_unique<Value>(Value{boost::json::array()})); }

Json& Json::Set(std::string_view key, const Scalar& value) {
  value_->json.as_object()[{key.data(), key.size()}] = ValueOf(value);
  return *this;
}
Json& Json::Set(std::string_view key, Json value) {
  value_->json.as_object()[{key.data(), key.size()}] = std::move(value.value_->json);
  return *this;
}
Json& Json::Add(const Scalar& value) {
  value_->json.as_array().push_back(ValueOf(value));
  return *this;
}
Json& Json::Add(Json value) {
  value_->json.as_array().push_back(std::move(value.value_->json));
  return *this;
}

std::string Json::Text() const { return boost::json::serialize(value_->json); }

}  // namespace kvd::kvctl
