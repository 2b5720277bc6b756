#include "tools/golden/golden_case.h"

#include <array>
#include <boost/json.hpp>
#include <cstring>
#include <fstream>
#include <map>

namespace kvd::golden {
namespace {

namespace json = boost::json;

// Number and the functions after it throw Boost.JSON's exceptions for a missing or mistyped field;
// ReadCase turns these exceptions into errors.
std::int32_t Number(const json::object& object, const char* key, std::int32_t fallback) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? fallback : value->to_number<std::int32_t>();
}

Step ReadStep(const json::object& object) {
  static const std::map<std::string, Op> kOps = {
      {"decode", Op::kDecode},  {"decode_batch", Op::kDecodeBatch},
      {"seq_cp", Op::kCopy},    {"seq_rm", Op::kRemove},
      {"seq_keep", Op::kKeep},  {"seq_add", Op::kAdd},
      {"seq_div", Op::kDivide}, {"encode", Op::kEncode},
      {"embed", Op::kEmbed}};
  Step step;
  step.op = kOps.at(json::value_to<std::string>(object.at("op")));
  step.sequence = Number(object, object.contains("src") ? "src" : "seq", 0);
  step.destination = Number(object, "dst", 0);
  step.pos = Number(object, "pos", 0);
  step.p0 = Number(object, "p0", -1);
  step.p1 = Number(object, "p1", -1);
  step.number = Number(object, object.contains("divisor") ? "divisor" : "delta", 0);
  if (const json::value* logits = object.if_contains("logits"))
    step.all_rows = logits->as_string() == "all";
  if (const json::value* tokens = object.if_contains("tokens")) {
    for (const json::value& token : tokens->as_array())
      step.tokens.push_back(token.to_number<TokenId>());
  }
  if (const json::value* rows = object.if_contains("rows")) {
    for (const json::value& row : rows->as_array()) {
      const json::object& fields = row.as_object();
      step.rows.push_back(
          {Number(fields, "seq", 0), Number(fields, "pos", 0), Number(fields, "token", 0)});
    }
  }
  if (const json::value* pooling = object.if_contains("pooling"))
    step.pooling = pooling->as_string().c_str();
  step.row_size = static_cast<std::size_t>(Number(object, "row_size", 0));
  step.expect_offset = static_cast<std::size_t>(Number(object, "expect_offset", 0));
  step.expect_rows = static_cast<std::size_t>(Number(object, "expect_rows", 0));
  return step;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return FailErrno(path);
  std::string bytes;
  std::array<char, 1 << 16> part;
  do {
    file.read(part.data(), part.size());
    bytes.append(part.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  if (file.bad()) return FailErrno(path);
  return bytes;
}

std::size_t RowWidth(const Case& golden, const Step& step) {
  if (step.row_size != 0) return step.row_size;
  return step.op == Op::kEmbed ? golden.embedding_size : golden.vocab_size;
}

namespace {

Status CheckRows(const Case& golden) {
  for (const Scenario& scenario : golden.scenarios) {
    for (const Step& step : scenario.steps) {
      const std::size_t width = RowWidth(golden, step);
      const std::size_t rows = step.op == Op::kDecode ? (step.all_rows ? step.tokens.size() : 1)
                               : step.op == Op::kDecodeBatch ? step.rows.size()
                               : step.op == Op::kEmbed       ? 1
                                                             : 0;
      if (step.expect_rows != rows) {
        return Fail(Code::kCorrupt, scenario.name, ": expect_rows ", step.expect_rows,
                    ", the step has ", rows);
      }
      if (rows != 0 && step.expect_offset + rows * width > golden.expected.size()) {
        return Fail(Code::kCorrupt, scenario.name, ": expect_offset ", step.expect_offset,
                    " exceeds expect.f32");
      }
    }
  }
  return {};
}

Result<double> ToleranceOf(const std::string& weight_type) {
  if (weight_type == "f32") return 1e-9;
  if (weight_type == "f16" || weight_type == "bf16") return 2e-5;
  for (const char* const quantised : {"q", "iq", "mxfp"}) {
    if (weight_type.starts_with(quantised)) return 2.5e-4;
  }
  return Fail(Code::kCorrupt, "script.json: weight_type '", weight_type, "' is unknown");
}

}  // namespace

Result<Case> ReadCase(const std::string& folder) {
  Case golden;
  golden.folder = folder;
  KVD_TRY(const std::string text, ReadFile(folder + "/script.json"));
  KVD_TRY(const std::string floats, ReadFile(folder + "/expect.f32"));
  golden.expected.resize(floats.size() / sizeof(float));
  std::memcpy(golden.expected.data(), floats.data(), golden.expected.size() * sizeof(float));
  try {
    const json::object script = json::parse(text).as_object();
    golden.model_path = folder + "/" + json::value_to<std::string>(script.at("model"));
    golden.architecture = json::value_to<std::string>(script.at("architecture"));
    golden.weight_type = json::value_to<std::string>(script.at("weight_type"));
    golden.vocab_size = script.at("vocab_size").to_number<std::size_t>();
    golden.embedding_size = script.at("embedding_size").to_number<std::size_t>();
    if (const json::value* tolerance = script.if_contains("tolerance"))
      golden.tolerance = tolerance->to_number<double>();
    if (const json::value* llama_shifts = script.if_contains("llama_shifts"))
      golden.llama_shifts = llama_shifts->as_bool();
    for (const json::value& item : script.at("scenarios").as_array()) {
      Scenario scenario{.name = json::value_to<std::string>(item.at("name")), .steps = {}};
      for (const json::value& step : item.at("steps").as_array())
        scenario.steps.push_back(ReadStep(step.as_object()));
      golden.scenarios.push_back(std::move(scenario));
    }
  } catch (const std::exception& problem) {
    return Fail(Code::kCorrupt, folder, "/script.json: ", problem.what());
  }
  if (golden.scenarios.empty()) return Fail(Code::kCorrupt, folder, "/script.json: no scenarios");
  KVD_TRY(const double weight_tolerance, ToleranceOf(golden.weight_type));
  if (golden.tolerance == 0) golden.tolerance = weight_tolerance;
  KVD_CHECK_OK(CheckRows(golden));
  return golden;
}

}  // namespace kvd::golden
