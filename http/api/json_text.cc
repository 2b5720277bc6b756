#include "http/api/json_text.h"

#include <charconv>
#include <cmath>
#include <string>

#include "shm/sampling_params.h"

namespace kvd::http {

Value FloatValue(float number) {
  if (!std::isfinite(number)) return Value::None();
  const std::string text = NumberText(number);
  double exact = number;
  std::from_chars(text.data(), text.data() + text.size(), exact);
  return Value::Float(exact);
}

std::string EventText(std::string_view name, const Value& data) {
  std::string text = "event: ";
  return text.append(name).append("\ndata: ").append(JsonText(data)).append("\n\n");
}

}  // namespace kvd::http
