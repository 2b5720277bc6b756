// Each expression is matched repeatedly over each piece that the previous expression produced. A
// piece is matched as a separate subject string: look-around assertions do not see the neighbouring
// text, and `$` matches at the end of the piece.
#include "engine/vocabulary/word_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

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
constexpr std::array<Set, 4> kSets = {{
    {R"(\s)", kSpaces},
    {R"(\p{L})",
     R"(\p{L}\x{1123f}-\x{11240}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
     R"(\x{13441}-\x{13446}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
     R"(\x{1e4d0}-\x{1e4eb}\x{2b739}\x{2ebf0}-\x{2ee5d})"
     R"(\x{31350}-\x{323af})"},
    {R"(\p{N})", R"(\p{N}\x{11f50}-\x{11f59}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9})"},
    {R"(\p{P})", R"(\p{P}\x{11b00}-\x{11b09}\x{11f43}-\x{11f4f})"},
}};
constexpr std::string_view kNotSpace = R"(\S)";

constexpr std::uint32_t kMatchLimitBase = 1'000'000;
constexpr std::uint32_t kMatchLimitPerByte = 64;
constexpr std::size_t kMatchUnits = 16;  // work units per match in addition to its bytes

std::string Pcre2Message(int error) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

Result<Pcre2Ptr<pcre2_code>> Compile(std::string_view expression) {
  std::string widened = WidenExpression(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
  Pcre2Ptr<pcre2_code> code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(widened.data()),
                                          widened.size(), options, &error, &offset, nullptr));
  if (code == nullptr) {
    return Fail(Code::kInternal, "pretokenizer: ", Pcre2Message(error), " at ", offset, " of ",
                widened);
  }
  // If the build or the system does not allow machine code, the expression is interpreted.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

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

struct WordSplitter::Expression {
  Pcre2Ptr<pcre2_code> code;

  // Appends the bytes of each match in `piece`, and of the text before, between and after them.
  Status SplitPiece(std::string_view piece, pcre2_match_data* data, pcre2_match_context* context,
                    WorkMeter& meter, std::vector<std::size_t>& word_bytes) const;
};

Status WordSplitter::Expression::SplitPiece(std::string_view piece, pcre2_match_data* data,
                                            pcre2_match_context* context, WorkMeter& meter,
                                            std::vector<std::size_t>& word_bytes) const {
  auto subject = reinterpret_cast<PCRE2_SPTR>(piece.data());
  const PCRE2_SIZE* match = pcre2_get_ovector_pointer(data);
  std::size_t offset = 0;
  while (offset < piece.size()) {
    int found =
        pcre2_match(code.get(), subject, piece.size(), offset, PCRE2_NO_UTF_CHECK, data, context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code.get(), subject, piece.size(), offset,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return Fail(Code::kInternal, "pretokenizer: ", Pcre2Message(found));
    std::size_t begin = match[0];
    std::size_t end = match[1];
    if (end <= begin) return Fail(Code::kInternal, "pretokenizer: an expression matched no text");
    if (begin > offset) word_bytes.push_back(begin - offset);
    word_bytes.push_back(end - begin);
    KVD_CHECK_OK(meter.Spend(kMatchUnits + end - offset));
    offset = end;
  }
  if (offset < piece.size()) word_bytes.push_back(piece.size() - offset);
  return {};
}

WordSplitter::WordSplitter(std::vector<Expression> expressions)
    : expressions_(std::move(expressions)) {}
WordSplitter::WordSplitter(WordSplitter&&) noexcept = default;
WordSplitter& WordSplitter::operator=(WordSplitter&&) noexcept = default;
WordSplitter::~WordSplitter() = default;

Result<WordSplitter> WordSplitter::Create(std::span<const std::string_view> expressions) {
  std::vector<Expression> compiled;
  for (std::string_view expression : expressions) {
    KVD_TRY(Pcre2Ptr<pcre2_code> code, Compile(expression));
    compiled.push_back(Expression{std::move(code)});
  }
  return WordSplitter(std::move(compiled));
}

Result<std::vector<std::size_t>> WordSplitter::Split(std::string_view text,
                                                     WorkControl& work) const {
  std::vector<std::size_t> word_bytes;
  if (text.empty()) return word_bytes;
  Pcre2Ptr<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
  Pcre2Ptr<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  if (data == nullptr || context == nullptr)
    return Fail(Code::kNoSpace, "pretokenizer: out of memory");
  std::uint64_t limit = kMatchLimitBase + std::uint64_t{kMatchLimitPerByte} * text.size();
  pcre2_set_match_limit(context.get(),
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(limit, UINT32_MAX)));

  WorkMeter meter(work);
  word_bytes.push_back(text.size());
  std::vector<std::size_t> pieces;
  for (const Expression& expression : expressions_) {
    pieces.swap(word_bytes);
    word_bytes.clear();
    std::size_t begin = 0;
    for (std::size_t piece_bytes : pieces) {
      KVD_CHECK_OK(expression.SplitPiece(text.substr(begin, piece_bytes), data.get(), context.get(),
                                         meter, word_bytes));
      begin += piece_bytes;
    }
  }
  return word_bytes;
}

}  // namespace kvd
