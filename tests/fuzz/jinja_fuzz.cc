// Parses any bytes as a template and, after a zero byte, as JSON, and renders the template with the
// JSON value.
//
// Oracle, in addition to the sanitizers: a text stays within the limit of its bytes; an error has a
// message and one of three codes; two renders yield the same; JSON that was read is written and
// read again as an equal value. The limits are small, so that an input takes milliseconds. Seeds:
// make_corpus jinja FOLDER.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/jinja/template.h"
#include "text/json.h"

namespace {

using namespace kvd;

constexpr std::size_t kOutputBytesMax = 1u << 16;

jinja::RenderOptions SmallLimits() {
  jinja::RenderOptions options;
  options.steps_max = 20'000;
  options.output_bytes_max = kOutputBytesMax;
  options.value_bytes_max = 4u << 20;
  options.depth_max = 300;
  options.now = std::tm();
  return options;
}

void CheckError(const Error& error) {
  KVD_ASSERT(!error.message.empty() || error.code == Code::kInvalidArgument);
  KVD_ASSERT(error.code == Code::kInvalidArgument || error.code == Code::kUnsupported ||
             error.code == Code::kTooLarge);
}

Value CheckJson(std::string_view text) {
  const auto value = ParseJson(text);
  if (!value) {
    CheckError(value.error());
    return {};
  }
  const auto written = WriteJson(*value);
  KVD_ASSERT(written.has_value());
  const auto again = ParseJson(*written);
  KVD_ASSERT(again.has_value() && Equal(*value, *again));
  return *value;
}

void CheckTemplate(std::string_view source, const Value& variables) {
  const auto parsed = jinja::Template::Parse(source);
  if (!parsed) return CheckError(parsed.error());
  const auto first = parsed->Render(variables, SmallLimits());
  const auto second = parsed->Render(variables, SmallLimits());
  KVD_ASSERT(first.has_value() == second.has_value());
  if (!first) return CheckError(first.error());
  KVD_ASSERT(*first == *second && first->size() <= kOutputBytesMax);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  // The copy has no bytes after its end, so that AddressSanitizer detects a read too far.
  const std::vector<char> copy(data, data + byte_count);
  const std::string_view input(copy.data(), copy.size());
  const std::size_t end = std::min(input.find('\0'), input.size());
  Value variables = CheckJson(input.substr(std::min(end + 1, input.size())));
  if (!variables.is_dict()) {
    Dict dict;
    dict.Set("x", std::move(variables));
    variables = Value::Of(std::move(dict));
  }
  CheckTemplate(input.substr(0, end), variables);
  return 0;
}
