// Each expression is matched repeatedly over each piece that the previous expression produced. A
// piece is matched as a separate subject string: look-around assertions do not see the neighbouring
// text, and `$` matches at the end of the piece.
#include "engine/vocabulary/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "base/utf8.h"
#include "engine/vocabulary/text_tokenizer.h"

namespace kvd {
namespace {

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
template <class T>
using Pcre2Ptr = std::unique_ptr<T, FreePcre2>;

constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

struct Set {
  std::string_view name;
  std::string_view members;  // as written between brackets
};

// Characters added by Unicode 15.0 and 15.1 are listed after the library's class.
constexpr std::array<Set, 6> kSets = {{
    {R"(\s)", kSpaces},
    {R"(\p{L})",
     R"(\p{L}\x{1123f}-\x{11240}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
     R"(\x{13441}-\x{13446}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
     R"(\x{1e4d0}-\x{1e4eb}\x{2b739}\x{2ebf0}-\x{2ee5d})"
     R"(\x{31350}-\x{323af})"},
    {R"(\p{M})", R"(\p{M}\x{cf3}\x{ece}\x{10efd}-\x{10eff}\x{11241}\x{11f00}\x{11f01}\x{11f03})"
                 R"(\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f42}\x{13440}\x{13447}-\x{13455}\x{1e08f})"
                 R"(\x{1e4ec}-\x{1e4ef})"},
    {R"(\p{N})", R"(\p{N}\x{11f50}-\x{11f59}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9})"},
    {R"(\p{P})", R"(\p{P}\x{11b00}-\x{11b09}\x{11f43}-\x{11f4f})"},
    {R"(\p{S})",
     R"(\p{S}\x{2ffc}-\x{2fff}\x{31ef}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9})"
     R"(\x{1fa75}-\x{1fa77}\x{1fa87}\x{1fa88}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabd}\x{1fabf})"
     R"(\x{1face}\x{1facf}\x{1fada}\x{1fadb}\x{1fae8}\x{1faf7}\x{1faf8})"},
}};
constexpr std::string_view kNotSpace = R"(\S)";

constexpr std::uint32_t kMatchLimitBase = 1'000'000;
constexpr std::uint32_t kMatchLimitPerByte = 64;

std::string Pcre2Message(int error) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

Result<Pcre2Ptr<pcre2_code>> CompileExpression(std::string_view expression,
                                               std::uint32_t more_options) {
  std::string widened = WidenExpression(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
  Pcre2Ptr<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(widened.data()),
                                          widened.size(), options | more_options, &error, &offset,
                                          nullptr));
  if (code == nullptr) {
    return Fail(Code::kInternal, "pretokenizer: ", Pcre2Message(error), " at ", offset, " of ",
                widened);
  }
  return code;
}

// StepCount counts the steps of the library by its callouts.
struct StepCount {
  std::uint64_t steps = 0;
  std::size_t at = 0;

  static int Add(pcre2_callout_block* block, void* count) {
    auto& counted = *static_cast<StepCount*>(count);
    const std::size_t at = block->current_position;
    counted.steps += 1 + (at > counted.at ? at - counted.at : counted.at - at);
    counted.at = at;
    return 0;
  }
};

// Pieces collects the lengths of the pieces of one text, which adjoin each other.
class Pieces {
 public:
  explicit Pieces(std::vector<std::size_t>& lengths) : lengths_(lengths) {}

  // Ends a piece at `offset` unless it would be empty.
  void CutAt(std::size_t offset) {
    if (offset > begin_) lengths_.push_back(offset - begin_);
    begin_ = offset;
  }

  // Cuts the run of digits [begin, end) of `text`.
  void CutDigits(std::string_view text, std::size_t begin, std::size_t end, DigitCuts cuts) {
    constexpr std::size_t group = 3;
    std::size_t remaining = 0;
    for (std::size_t at = begin; at < end; at += AnnouncedBytes(text[at])) ++remaining;
    for (std::size_t at = begin; at < end; at += AnnouncedBytes(text[at]), --remaining) {
      const bool at_group = remaining % group == 0;
      if (at_group && (cuts == DigitCuts::kBeforeGroups || at > begin)) CutAt(at);
    }
    if (cuts == DigitCuts::kGroups) CutAt(end);
  }

 private:
  std::vector<std::size_t>& lengths_;
  std::size_t begin_ = 0;
};

}  // namespace

std::string WidenExpression(std::string_view expression) {
  std::string widened;
  bool inside = false;  // between brackets
  while (!expression.empty()) {
    if (expression.starts_with(kNotSpace) && !inside) {
      widened.append("[^").append(kSpaces).append("]");
      expression.remove_prefix(kNotSpace.size());
      continue;
    }
    const Set* set = nullptr;
    for (const Set& candidate : kSets) {
      if (expression.starts_with(candidate.name)) set = &candidate;
    }
    if (set != nullptr) {
      widened.append(inside ? "" : "[").append(set->members).append(inside ? "" : "]");
      expression.remove_prefix(set->name.size());
      continue;
    }
    std::size_t bytes = expression[0] == '\\' && expression.size() > 1 ? 2 : 1;
    if (expression[0] == '[') inside = true;
    if (expression[0] == ']') inside = false;
    widened.append(expression.substr(0, bytes));
    expression.remove_prefix(bytes);
  }
  return widened;
}

struct WordSplitter::Stage {
  Pcre2Ptr<pcre2_code> code;
  DigitCuts cuts;
};

// Matcher: the scratch memory of one call.
struct WordSplitter::Matcher {
  Pcre2Ptr<pcre2_match_data> data;
  Pcre2Ptr<pcre2_match_context> context;

  static Result<Matcher> Create(std::size_t text_bytes) {
    Matcher made{Pcre2Ptr<pcre2_match_data>(pcre2_match_data_create(1, nullptr)),
                 Pcre2Ptr<pcre2_match_context>(pcre2_match_context_create(nullptr))};
    if (made.data == nullptr || made.context == nullptr)
      return Fail(Code::kNoSpace, "pretokenizer: out of memory");
    const std::uint64_t limit = kMatchLimitBase + std::uint64_t{kMatchLimitPerByte} * text_bytes;
    pcre2_set_match_limit(made.context.get(),
                          static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, UINT32_MAX)));
    return made;
  }

  // Appends the lengths of the pieces into which `stage` splits `text`.
  Status Split(const Stage& stage, std::string_view text, WorkMeter& meter,
               std::vector<std::size_t>& lengths) const {
    auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data.get());
    Pieces pieces(lengths);
    for (std::size_t offset = 0; offset < text.size();) {
      int found = pcre2_match(stage.code.get(), subject, text.size(), offset, PCRE2_NO_UTF_CHECK,
                              data.get(), context.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
        found = pcre2_match(stage.code.get(), subject, text.size(), offset,
                            PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), context.get());
      }
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return Fail(Code::kInternal, "pretokenizer: ", Pcre2Message(found));
      const std::size_t begin = match[0];
      const std::size_t end = match[1];
      if (end <= begin) {
        return Fail(Code::kInternal, "pretokenizer: an expression matched no text");
      }
      if (stage.cuts == DigitCuts::kNone) {
        pieces.CutAt(begin);
        pieces.CutAt(end);
      } else {
        pieces.CutDigits(text, begin, end, stage.cuts);
      }
      KVD_CHECK_OK(meter.Spend(kMatchUnits + end - offset));
      offset = end;
    }
    pieces.CutAt(text.size());
    return {};
  }
};

WordSplitter::WordSplitter(std::vector<Stage> stages) : stages_(std::move(stages)) {}
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;
WordSplitter::~WordSplitter() = default;

Result<WordSplitter> WordSplitter::Compile(std::span<const SplitStage> stages,
                                           std::uint32_t options) {
  std::vector<Stage> compiled;
  for (const SplitStage& stage : stages) {
    KVD_TRY(Pcre2Ptr<pcre2_code> code, CompileExpression(stage.expression, options));
    compiled.push_back({std::move(code), stage.cuts});
  }
  return WordSplitter(std::move(compiled));
}

Result<WordSplitter> WordSplitter::Create(std::span<const SplitStage> stages) {
  KVD_TRY(WordSplitter made, Compile(stages, 0));
  // If the build or the system does not allow machine code, the expressions are interpreted.
  for (const Stage& stage : made.stages_) pcre2_jit_compile(stage.code.get(), PCRE2_JIT_COMPLETE);
  return made;
}

Result<std::vector<std::size_t>> WordSplitter::Split(std::string_view text,
                                                     WorkControl& work) const {
  KVD_TRY(const Matcher matcher, Matcher::Create(text.size()));
  return SplitBy(matcher, text, work);
}

Result<std::uint64_t> WordSplitter::CountSteps(std::span<const SplitStage> stages,
                                               std::string_view text) {
  KVD_TRY(const WordSplitter splitter, Compile(stages, PCRE2_AUTO_CALLOUT));
  KVD_TRY(const Matcher matcher, Matcher::Create(text.size()));
  StepCount count;
  pcre2_set_callout(matcher.context.get(), &StepCount::Add, &count);
  KVD_CHECK_OK(splitter.SplitBy(matcher, text, Uncontrolled()));
  return count.steps;
}

Result<std::vector<std::size_t>> WordSplitter::SplitBy(const Matcher& matcher,
                                                       std::string_view text,
                                                       WorkControl& work) const {
  std::vector<std::size_t> lengths;
  if (text.empty()) return lengths;
  WorkMeter meter(work);
  lengths.push_back(text.size());
  std::vector<std::size_t> before;
  for (const Stage& stage : stages_) {
    before.swap(lengths);
    lengths.clear();
    std::size_t begin = 0;
    for (const std::size_t bytes : before) {
      KVD_CHECK_OK(matcher.Split(stage, text.substr(begin, bytes), meter, lengths));
      begin += bytes;
    }
  }
  return lengths;
}

}  // namespace kvd
