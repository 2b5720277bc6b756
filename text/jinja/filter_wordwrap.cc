// Wraps lines as Python's textwrap does: a line is cut into chunks (words, white space, parts of
// words that end with a hyphen), and chunks are put into lines as long as they fit.
#include <algorithm>
#include <utility>

#include "text/characters.h"
#include "text/jinja/filters.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"
#include "text/jinja/string_methods.h"
#include "text/jinja/text_arguments.h"

namespace kvd::jinja {
namespace {

using Characters = std::vector<std::uint32_t>;

bool IsWrapSpace(std::uint32_t c) { return c == ' ' || (c >= 0x09 && c <= 0x0d); }
bool IsWordCharacter(std::uint32_t c) {
  return c == '_' || IsIn(CharacterClass::kAlpha, c) || IsIn(CharacterClass::kNumeric, c);
}
bool IsLetter(std::uint32_t c) { return IsWordCharacter(c) && !IsIn(CharacterClass::kDecimal, c); }
bool IsWordPunctuation(std::uint32_t c) {
  return IsWordCharacter(c) ||
         (c < 0x80 &&
          std::string_view("!\"'&.,?").find(static_cast<char>(c)) != std::string_view::npos);
}

// Finds the ends of chunks in one line.
class Chunker {
 public:
  Chunker(const Characters& line, bool breaks_on_hyphens)
      : line_(line), breaks_on_hyphens_(breaks_on_hyphens) {}

  std::vector<Characters> Run() const {
    std::vector<Characters> chunks;
    for (std::size_t at = 0; at < line_.size();) {
      const std::size_t end = ChunkEnd(at);
      chunks.emplace_back(line_.begin() + static_cast<std::ptrdiff_t>(at),
                          line_.begin() + static_cast<std::ptrdiff_t>(end));
      at = end;
    }
    return chunks;
  }

 private:
  bool Is(std::size_t at, bool (*is_wanted)(std::uint32_t)) const {
    return at < line_.size() && is_wanted(line_[at]);
  }
  bool IsHyphen(std::size_t at) const { return at < line_.size() && line_[at] == '-'; }
  // The end of two or more hyphens between words that begin at `at`; `at` if there are none.
  std::size_t DashEnd(std::size_t at) const {
    std::size_t end = at;
    while (IsHyphen(end)) ++end;
    const bool is_dash =
        end >= at + 2 && at > 0 && Is(at - 1, IsWordPunctuation) && Is(end, IsWordCharacter);
    return is_dash ? end : at;
  }
  // Whether a word may be divided behind the hyphen at `at`.
  bool DividesWord(std::size_t at) const {
    if (!IsHyphen(at) || at < 2 || !Is(at - 1, IsLetter)) return false;
    const bool follows =
        Is(at - 2, IsLetter) || (at >= 3 && IsHyphen(at - 2) && Is(at - 3, IsLetter));
    if (!follows || !Is(at + 1, IsLetter)) return false;
    return Is(at + 2, IsLetter) || (IsHyphen(at + 2) && Is(at + 3, IsLetter));
  }
  std::size_t ChunkEnd(std::size_t begin) const {
    std::size_t end = begin;
    if (Is(begin, IsWrapSpace)) {
      while (Is(end, IsWrapSpace)) ++end;
      return end;
    }
    if (!breaks_on_hyphens_) {
      while (end < line_.size() && !IsWrapSpace(line_[end])) ++end;
      return end;
    }
    if (const std::size_t dash = DashEnd(begin); dash != begin) return dash;
    for (end = begin + 1; end < line_.size() && !IsWrapSpace(line_[end]); ++end) {
      if (DividesWord(end)) return end + 1;
      if (DashEnd(end) != end) return end;
    }
    return end;
  }

  const Characters& line_;
  const bool breaks_on_hyphens_;
};

bool IsSpace(const Characters& chunk) {
  return std::ranges::all_of(chunk,
                             [](std::uint32_t c) { return IsIn(CharacterClass::kSpace, c); });
}

struct WrapStyle {
  std::size_t width = 79;
  bool breaks_long_words = true;
  bool breaks_on_hyphens = true;
};

// Moves as much of a chunk that is too long for any line as fits to `line`.
void TakeLongWord(const WrapStyle& style, std::size_t used, std::vector<Characters>* chunks,
                  Characters* line) {
  Characters& chunk = chunks->back();
  if (!style.breaks_long_words) {
    if (!line->empty()) return;
    line->insert(line->end(), chunk.begin(), chunk.end());
    chunks->pop_back();
    return;
  }
  std::size_t end = style.width - used;
  if (style.breaks_on_hyphens && chunk.size() > end) {
    std::size_t hyphen = end;
    while (hyphen > 0 && chunk[hyphen - 1] != '-') --hyphen;
    const bool has_other = std::any_of(
        chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(hyphen > 0 ? hyphen - 1 : 0),
        [](std::uint32_t c) { return c != '-'; });
    if (hyphen > 1 && has_other) end = hyphen;
  }
  const auto middle = chunk.begin() + static_cast<std::ptrdiff_t>(end);
  line->insert(line->end(), chunk.begin(), middle);
  chunk.erase(chunk.begin(), middle);
}

std::vector<std::string> WrapLine(const Characters& text, const WrapStyle& style) {
  std::vector<Characters> chunks = Chunker(text, style.breaks_on_hyphens).Run();
  std::ranges::reverse(chunks);
  std::vector<std::string> lines;
  while (!chunks.empty()) {
    if (!lines.empty() && IsSpace(chunks.back())) chunks.pop_back();
    Characters line;
    std::size_t last_chunk = 0;  // where the last chunk of the line begins
    while (!chunks.empty() && line.size() + chunks.back().size() <= style.width) {
      last_chunk = line.size();
      line.insert(line.end(), chunks.back().begin(), chunks.back().end());
      chunks.pop_back();
    }
    if (!chunks.empty() && chunks.back().size() > style.width) {
      const std::size_t used = line.size();
      TakeLongWord(style, used, &chunks, &line);
      // textwrap adds the part of the long word even if it is empty, so that white space before it
      // is not the end of the line.
      if (style.breaks_long_words || line.size() > used) last_chunk = used;
    }
    const Characters tail(line.begin() + static_cast<std::ptrdiff_t>(last_chunk), line.end());
    if (IsSpace(tail)) line.resize(last_chunk);
    if (!line.empty()) lines.push_back(TextOf(line));
  }
  return lines;
}

}  // namespace

Result<Value> FilterWordWrap(Invocation& call) {
  WrapStyle style;
  KVD_TRY(const std::int64_t width, IntegerArgument(call, 0, 79));
  KVD_TRY(style.breaks_long_words, BoolArgument(call, 1, true));
  KVD_TRY(style.breaks_on_hyphens, BoolArgument(call, 3, true));
  std::string separator = "\n";
  if (call.Has(2) && !call[2].is_none()) {
    KVD_TRY(separator, TextArgument(call, 2));
  }
  if (call.subject.is_undefined()) return FailUndefined(call.subject);
  if (!call.subject.is_string()) {
    return Fail(Code::kInvalidArgument, "wordwrap: must be str, not ", TypeName(call.subject));
  }
  const std::vector<std::string_view> paragraphs = SplitLines(call.subject.view(), false);
  if (width <= 0 && !paragraphs.empty()) {
    return Fail(Code::kInvalidArgument, "wordwrap: the width must be above 0, got ", width);
  }
  style.width = static_cast<std::size_t>(std::max<std::int64_t>(width, 1));
  std::string text;
  bool is_first = true;
  for (const std::string_view paragraph : paragraphs) {
    if (!std::exchange(is_first, false)) text += separator;
    KVD_CHECK_OK(call.interpreter.budget().Step(1 + paragraph.size()));
    bool is_first_line = true;
    for (const std::string& line : WrapLine(CodePointsOf(paragraph), style)) {
      if (!std::exchange(is_first_line, false)) text += separator;
      text += line;
    }
    KVD_CHECK_OK(call.interpreter.budget().CheckRoom(text.size()));
  }
  return call.interpreter.budget().String(std::move(text));
}

}  // namespace kvd::jinja
