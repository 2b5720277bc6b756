// The lengths in the scripts exercise the boundaries of the engine: blocks of 32 cells, windows of
// 16 positions, steps that span several blocks, and steps of one token.
#include "tests/reference/scenarios.h"

#include <random>
#include <string>

namespace kvd::reference {
namespace {

using golden::Op;
using golden::Scenario;
using golden::Step;

constexpr bool kAll = true, kLast = false;

class ScriptMaker {
 public:
  ScriptMaker(std::uint32_t vocab_size, std::uint32_t row_size)
      : vocab_size_(vocab_size), row_size_(row_size) {}

  void Begin(const char* name) { scenarios_.push_back({.name = name, .steps = {}}); }

  void Decode(std::int64_t sequence, std::int32_t pos, std::size_t token_count, bool all_rows) {
    Step& step = Add(Op::kDecode, sequence, all_rows ? token_count : 1);
    step.pos = pos;
    step.all_rows = all_rows;
    step.tokens = Tokens(token_count);
  }

  // Adds a step that appends one token to each of the sequences 0, 1, ... at the positions `ends`.
  void DecodeBatch(const std::vector<std::int32_t>& ends) {
    Step& step = Add(Op::kDecodeBatch, 0, ends.size());
    for (const std::int32_t pos : ends) {
      const auto sequence = static_cast<std::int64_t>(step.rows.size());
      step.rows.push_back({.sequence = sequence, .pos = pos, .token = Tokens(1).front()});
    }
  }

  void Encode(std::int64_t sequence, std::size_t token_count) {
    Add(Op::kEncode, sequence, 0).tokens = Tokens(token_count);
  }

  void EmbedText(std::size_t token_count, const char* pooling) {
    Step& step = Add(Op::kEmbed, 0, 1);
    step.tokens = Tokens(token_count);
    step.pooling = pooling;
  }

  void Copy(std::int64_t from, std::int64_t to, std::int32_t p0 = -1, std::int32_t p1 = -1) {
    Edit(Op::kCopy, from, p0, p1).destination = to;
  }
  void Remove(std::int64_t sequence, std::int32_t p0, std::int32_t p1) {
    Edit(Op::kRemove, sequence, p0, p1);
  }
  void Keep(std::int64_t sequence) { Edit(Op::kKeep, sequence, -1, -1); }
  void Shift(std::int64_t sequence, std::int32_t p0, std::int32_t p1, std::int32_t delta) {
    Edit(Op::kAdd, sequence, p0, p1).number = delta;
  }
  void Divide(std::int64_t sequence, std::int32_t p0, std::int32_t p1, std::int32_t divisor) {
    Edit(Op::kDivide, sequence, p0, p1).number = divisor;
  }

  std::vector<Scenario> Take() { return std::move(scenarios_); }

 private:
  Step& Add(Op op, std::int64_t sequence, std::size_t row_count) {
    Step& step = scenarios_.back().steps.emplace_back();
    step.op = op;
    step.sequence = sequence;
    step.expect_rows = row_count;
    step.expect_offset = row_count_ * row_size_;
    row_count_ += row_count;
    return step;
  }

  Step& Edit(Op op, std::int64_t sequence, std::int32_t p0, std::int32_t p1) {
    Step& step = Add(op, sequence, 0);
    step.p0 = p0;
    step.p1 = p1;
    return step;
  }

  std::vector<TokenId> Tokens(std::size_t count) {
    std::vector<TokenId> tokens;
    while (tokens.size() < count) tokens.push_back(static_cast<TokenId>(random_() % vocab_size_));
    return tokens;
  }

  std::uint32_t vocab_size_;
  std::uint32_t row_size_;
  std::mt19937_64 random_{20};  // the fixed seed of all tokens
  std::size_t row_count_ = 0;
  std::vector<Scenario> scenarios_;
};

void AddCommon(ScriptMaker& script) {
  script.Begin("prefill");
  script.Decode(0, 0, 24, kAll);

  script.Begin("stepwise");
  script.Decode(0, 0, 19, kLast);
  for (std::int32_t pos = 19; pos < 24; ++pos) script.Decode(0, pos, 1, kAll);

  script.Begin("chunks");
  script.Decode(0, 0, 64, kLast);
  script.Decode(0, 64, 1, kAll);
  script.Decode(0, 65, 45, kLast);
  script.Decode(0, 110, 5, kAll);

  script.Begin("fork");
  script.Decode(0, 0, 37, kLast);
  for (const std::int64_t fork : {1, 2, 3}) script.Copy(0, fork);
  for (const std::int64_t sequence : {3, 1, 2, 0}) script.Decode(sequence, 37, 3, kAll);
  script.Remove(2, -1, -1);
  script.Decode(1, 40, 2, kAll);
  script.Keep(3);
  script.Decode(3, 40, 2, kAll);

  script.Begin("batch");
  script.Decode(0, 0, 9, kLast);
  script.Decode(1, 0, 33, kLast);
  script.Decode(2, 0, 2, kLast);
  for (std::int32_t step = 0; step < 3; ++step) {
    script.DecodeBatch({9 + step, 33 + step, 2 + step});
  }
}

void AddCuts(ScriptMaker& script) {
  script.Begin("remove-tail");
  script.Decode(0, 0, 40, kLast);
  script.Remove(0, 27, -1);
  script.Decode(0, 27, 4, kAll);

  script.Begin("copy-range");
  script.Decode(0, 0, 50, kLast);
  script.Copy(0, 1, 0, 21);
  script.Decode(1, 21, 4, kAll);
  script.Decode(0, 50, 2, kAll);

  script.Begin("shift");
  script.Decode(0, 0, 48, kLast);
  script.Copy(0, 1);
  script.Remove(0, 5, 19);
  script.Shift(0, 19, -1, -14);
  script.Decode(0, 34, 4, kAll);
  script.Remove(0, 5, 16);
  script.Shift(0, 16, -1, -11);
  script.Decode(0, 27, 4, kAll);
  script.Decode(1, 48, 2, kAll);
}

void AddDivide(ScriptMaker& script) {
  script.Begin("divide");
  script.Decode(0, 0, 40, kLast);
  script.Divide(0, 0, 24, 3);
  script.Shift(0, 24, -1, -16);
  script.Decode(0, 24, 4, kAll);
}

void AddEncodedTexts(ScriptMaker& script) {
  script.Begin("encode-decode");
  script.Encode(0, 41);
  script.Decode(0, 0, 12, kAll);
  script.Decode(0, 12, 1, kAll);
  script.Decode(0, 13, 30, kLast);

  script.Begin("two-texts");
  script.Encode(0, 5);
  script.Encode(1, 33);
  script.Decode(0, 0, 6, kLast);
  script.Decode(1, 0, 3, kLast);
  script.DecodeBatch({6, 3});
  script.Copy(1, 2);
  script.Decode(2, 4, 3, kAll);
  script.Decode(1, 4, 3, kAll);
}

void AddTexts(ScriptMaker& script) {
  for (const char* pooling : {"mean", "cls", "last"}) {
    script.Begin(pooling);
    for (const std::size_t token_count : {1, 2, 31, 32, 33, 64}) {
      script.EmbedText(token_count, pooling);
    }
  }
}

}  // namespace

std::vector<Scenario> MakeScenarios(MemoryKind kind, std::uint32_t vocab_size,
                                    std::uint32_t embedding_size) {
  ScriptMaker script(vocab_size, kind == MemoryKind::kNone ? embedding_size : vocab_size);
  if (kind == MemoryKind::kNone) {
    AddTexts(script);
    return script.Take();
  }
  if (kind == MemoryKind::kEncodedText) {
    AddEncodedTexts(script);
    return script.Take();
  }
  AddCommon(script);
  if (kind == MemoryKind::kCells || kind == MemoryKind::kWindows) AddCuts(script);
  if (kind == MemoryKind::kCells) AddDivide(script);
  return script.Take();
}

}  // namespace kvd::reference
