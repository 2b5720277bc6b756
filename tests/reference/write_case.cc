#include "tests/reference/write_case.h"

#include <fstream>
#include <span>
#include <sstream>

namespace kvd::reference {
namespace {

using golden::Op;
using golden::Step;

const char* NameOf(Op op) {
  switch (op) {
    case Op::kDecode: return "decode";
    case Op::kDecodeBatch: return "decode_batch";
    case Op::kCopy: return "seq_cp";
    case Op::kRemove: return "seq_rm";
    case Op::kKeep: return "seq_keep";
    case Op::kAdd: return "seq_add";
    case Op::kDivide: return "seq_div";
    case Op::kEncode: return "encode";
    case Op::kEmbed: return "embed";
  }
  return "";
}

void WriteTokens(const Step& step, std::ostream& out) {
  out << ", \"tokens\": [";
  for (std::size_t i = 0; i < step.tokens.size(); ++i) {
    out << (i == 0 ? "" : ", ") << step.tokens[i];
  }
  out << "]";
}

void WriteRows(const Step& step, std::ostream& out) {
  out << ", \"rows\": [";
  for (std::size_t i = 0; i < step.rows.size(); ++i) {
    const golden::BatchRow& row = step.rows[i];
    out << (i == 0 ? "" : ", ") << "{\"seq\": " << row.sequence << ", \"pos\": " << row.pos
        << ", \"token\": " << row.token << "}";
  }
  out << "]";
}

void WriteStep(const Step& step, std::ostream& out) {
  out << "{\"op\": \"" << NameOf(step.op) << "\"";
  const auto number = [&](const char* key, std::int64_t value) {
    out << ", \"" << key << "\": " << value;
  };
  if (step.op == Op::kCopy) {
    number("src", step.sequence);
    number("dst", step.destination);
  } else if (step.op != Op::kDecodeBatch) {
    number("seq", step.sequence);
  }
  switch (step.op) {
    case Op::kDecode:
      number("pos", step.pos);
      out << ", \"logits\": \"" << (step.all_rows ? "all" : "last") << "\"";
      WriteTokens(step, out);
      break;
    case Op::kDecodeBatch: WriteRows(step, out); break;
    case Op::kEncode: WriteTokens(step, out); break;
    case Op::kEmbed:
      WriteTokens(step, out);
      out << ", \"pooling\": \"" << step.pooling << "\"";
      break;
    case Op::kKeep: break;
    default: number("p0", step.p0); number("p1", step.p1);
  }
  if (step.op == Op::kAdd) number("delta", step.number);
  if (step.op == Op::kDivide) number("divisor", step.number);
  if (step.expect_rows != 0) {
    number("expect_offset", static_cast<std::int64_t>(step.expect_offset));
    number("expect_rows", static_cast<std::int64_t>(step.expect_rows));
  }
  out << "}";
}

Status WriteFile(const std::string& path, std::span<const char> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return FailErrno(path);
  return {};
}

}  // namespace

std::string ScriptText(const golden::Case& golden) {
  std::ostringstream out;
  out << "{\"model\": \"model.gguf\", \"architecture\": \"" << golden.architecture
      << "\",\n \"vocab_size\": " << golden.vocab_size
      << ", \"embedding_size\": " << golden.embedding_size << ",\n \"weight_type\": \""
      << golden.weight_type << "\", \"tolerance\": " << golden.tolerance
      << ", \"llama_shifts\": " << (golden.llama_shifts ? "true" : "false")
      << ",\n \"scenarios\": [";
  for (std::size_t i = 0; i < golden.scenarios.size(); ++i) {
    const golden::Scenario& scenario = golden.scenarios[i];
    out << (i == 0 ? "\n" : ",\n") << "  {\"name\": \"" << scenario.name << "\", \"steps\": [";
    for (std::size_t step = 0; step < scenario.steps.size(); ++step) {
      out << (step == 0 ? "\n    " : ",\n    ");
      WriteStep(scenario.steps[step], out);
    }
    out << "]}";
  }
  out << "]}\n";
  return out.str();
}

Status WriteCase(const golden::Case& golden, const std::string& folder) {
  KVD_CHECK_OK(WriteFile(folder + "/script.json", ScriptText(golden)));
  return WriteFile(folder + "/expect.f32", {reinterpret_cast<const char*>(golden.expected.data()),
                                            golden.expected.size() * sizeof(float)});
}

}  // namespace kvd::reference
