#include "llama_files/llama_state_cursor.h"
#include "base/text.h"

namespace kvd {
namespace {

void Append(std::string& text, const char* name, std::optional<std::uint32_t> number) {
  if (!number) return;
  text += text.empty() ? "" : ", ";
  text += name;
  text += ' ';
  text += std::to_string(*number);
}

}  // namespace

std::unexpected<Error> LlamaStateCursor::Refuse(Code code, std::string_view field,
                                                const std::string& why, std::uint64_t at) {
  offset_ = at;
  std::string where;
  Append(where, "cache", place_.cache);
  Append(where, "stream", place_.stream);
  Append(where, "cell", place_.cell);
  Append(where, "layer", place_.layer);
  std::string message = "llama.cpp state: ";
  message += field;
  if (!where.empty()) message += " (" + where + ")";
  message += Concat(" at byte ", at, ": ", why);
  return Fail(code, std::move(message));
}

std::unexpected<Error> LlamaStateCursor::RefuseEnd(std::string_view field, std::size_t bytes) {
  return Refuse(Code::kCorrupt, field,
                Concat(bytes, " bytes, but the file ends after ", remaining()), offset_);
}

}  // namespace kvd
