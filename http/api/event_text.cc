#include "http/api/event_text.h"

namespace kvd::http {

std::string EventText(std::string_view name, const Value& data) {
  std::string text = "event: ";
  return text.append(name).append("\ndata: ").append(JsonText(data)).append("\n\n");
}

}  // namespace kvd::http
