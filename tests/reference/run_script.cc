#include "tests/reference/run_script.h"

#include <limits>
#include <map>
#include <stdexcept>

namespace kvd::reference {
namespace {

using golden::Op;
using golden::Step;

class Script {
 public:
  Script(const Model& model, std::vector<float>& rows) : model_(model), rows_(rows) {}

  void Run(const Step& step) {
    const std::int32_t begin = step.p0 < 0 ? 0 : step.p0;
    const std::int32_t end = step.p1 < 0 ? std::numeric_limits<std::int32_t>::max() : step.p1;
    Sequence& sequence = sequences_[step.sequence];
    switch (step.op) {
      case Op::kDecode: return Decode(step, sequence);
      case Op::kDecodeBatch:
        for (const golden::BatchRow& row : step.rows) {
          Keep(model_.Next(row.token, row.pos, sequences_[row.sequence]));
        }
        return;
      case Op::kEncode: return model_.Encode(step.tokens, sequence);
      case Op::kCopy: sequences_[step.destination] = sequence.Copy(begin, end); return;
      case Op::kRemove: return sequence.Remove(begin, end);
      case Op::kKeep: sequences_ = {{step.sequence, Sequence(sequence)}}; return;
      case Op::kAdd: return sequence.AddToPositions(begin, end, step.number);
      case Op::kDivide: return sequence.DividePositions(begin, end, step.number);
      case Op::kEmbed: return Keep(model_.TextEmbedding(step.tokens, step.pooling));
    }
  }

 private:
  void Decode(const Step& step, Sequence& sequence) {
    std::int32_t pos = step.pos;
    for (std::size_t i = 0; i < step.tokens.size(); ++i) {
      const Vector logits = model_.Next(step.tokens[i], pos++, sequence);
      if (step.all_rows || i + 1 == step.tokens.size()) Keep(logits);
    }
  }

  void Keep(const Vector& logits) {
    for (const double logit : logits) rows_.push_back(static_cast<float>(logit));
  }

  const Model& model_;
  std::vector<float>& rows_;
  std::map<std::int64_t, Sequence> sequences_;
};

}  // namespace

std::vector<float> RunScript(const Model& model, const std::vector<golden::Scenario>& scenarios) {
  std::vector<float> rows;
  for (const golden::Scenario& scenario : scenarios) {
    Script script(model, rows);
    for (const Step& step : scenario.steps) script.Run(step);
  }
  return rows;
}

}  // namespace kvd::reference
