#include "engine/tuning/choice_table.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace kvd {

// ---- choice table
// A choice is a list of names and values. `wide` is always there, the other names only if their
// value is not 0.

namespace {

constexpr std::uint32_t kRowsMax = 1u << 16;

// A field of ProductChoice that is a number; 0: not set.
struct NumberField {
  std::string_view name;
  std::uint32_t kernels::ProductChoice::* member;
  std::span<const std::uint32_t> allowed;  // empty: 1 to kRowsMax
};
constexpr NumberField kFields[] = {
    {"from", &kernels::ProductChoice::wide_from_rows, {}},
    {"ahead", &kernels::ProductChoice::ahead_bytes, kAheadBytes},
    {"panel_from", &kernels::ProductChoice::panel_from_rows, kPanelRows},
    {"panel_outs", &kernels::ProductChoice::panel_outs, kPanelSizes},
};

std::optional<std::uint32_t> ParseField(const NumberField& field, std::string_view text) {
  std::uint32_t number = 0;
  const auto end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  const bool is_allowed = field.allowed.empty()
                              ? number >= 1 && number <= kRowsMax
                              : std::ranges::find(field.allowed, number) != field.allowed.end();
  return is_allowed ? std::optional(number) : std::nullopt;
}

std::optional<kernels::WideForm> WideFormNamed(std::string_view name) {
  for (const auto form :
       {kernels::WideForm::kAsNarrow, kernels::WideForm::kBf16, kernels::WideForm::kOuter}) {
    if (name == kernels::WideFormName(form)) return form;
  }
  return std::nullopt;
}

}  // namespace

std::optional<kernels::DataType> DataTypeNamed(std::string_view name) {
  for (const kernels::DataType type : kernels::kDataTypes) {
    if (name == kernels::DataTypeName(type)) return type;
  }
  return std::nullopt;
}

std::string ChoiceText(const kernels::ProductChoice& choice) {
  std::string text = Concat("wide ", kernels::WideFormName(choice.wide_form));
  for (const NumberField& field : kFields) {
    if (choice.*field.member != 0) text += Concat(" ", field.name, " ", choice.*field.member);
  }
  return text;
}

Result<kernels::ProductChoice> ParseChoice(std::span<const std::string_view> words,
                                           const kernels::KernelTable& table,
                                           kernels::DataType type) {
  kernels::ProductChoice choice;
  if (words.size() < 2 || words[0] != "wide") return Fail(Code::kCorrupt, "'wide' is missing");
  const std::optional<kernels::WideForm> form = WideFormNamed(words[1]);
  if (!form) return Fail(Code::kCorrupt, "wide: '", words[1], "' is not a form");
  choice.wide_form = *form;
  for (words = words.subspan(2); !words.empty(); words = words.subspan(2)) {
    const auto field = std::ranges::find(kFields, words[0], &NumberField::name);
    if (field == std::end(kFields)) return Fail(Code::kCorrupt, "'", words[0], "' is not a choice");
    if (words.size() == 1) return Fail(Code::kCorrupt, words[0], ": the value is missing");
    const auto number = ParseField(*field, words[1]);
    if (!number) return Fail(Code::kCorrupt, words[0], ": '", words[1], "' is not an alternative");
    if (choice.*field->member != 0) return Fail(Code::kCorrupt, words[0], ": given twice");
    choice.*field->member = *number;
  }
  const bool has_from = choice.wide_from_rows != 0;
  if (has_from != (*form != kernels::WideForm::kAsNarrow)) {
    return Fail(Code::kCorrupt, "a wide form and 'from' belong together");
  }
  if (!kernels::Supports(table, type, *form)) {
    return Fail(Code::kUnsupported, "the table ", table.name, " has no products of ",
                kernels::DataTypeName(type), " of the form ", kernels::WideFormName(*form));
  }
  return choice;
}

// ---- cpu defaults

namespace {

struct CpuDefault {
  std::string_view cpu;    // the beginning of MachineIdentity::cpu
  std::string_view table;  // the kernel table's name
  kernels::DataType type;
  kernels::ProductChoice choice;
};

// docs/measurements/product-choices.md has the figures.
constexpr CpuDefault kDefaults[] = {
    // Sapphire Rapids multiplies pairs of bf16 more slowly than f32 in vectors.
    {.cpu = "GenuineIntel 6/143/",
     .table = "avx512",
     .type = kernels::DataType::kF16,
     .choice = {}},
    {.cpu = "GenuineIntel 6/143/",
     .table = "avx512",
     .type = kernels::DataType::kBF16,
     .choice = {}},
};

}  // namespace

kernels::ProductChoices DefaultChoicesOf(std::string_view cpu, const kernels::KernelTable& table) {
  kernels::ProductChoices choices = kernels::DefaultChoices(table);
  for (const CpuDefault& known : kDefaults) {
    if (cpu.starts_with(known.cpu) && table.name == known.table) {
      choices.Set(known.type, known.choice);
    }
  }
  return choices;
}

}  // namespace kvd
