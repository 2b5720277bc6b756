// Checks the code that is generated from the table of verbs, for each row. A new verb is tested
// without a change of this file.
#include "shm/verb_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "shm/wire_check.h"
#include "tests/support/good_request.h"

namespace kvd::wire {
namespace {

using test::MakeGoodRequest;

constexpr std::uint64_t kTokensMax = 1000;
constexpr SubmissionLimits kLimits{.arena_bytes = kArenaBytesMax, .tokens_max = kTokensMax};

// Returns the field that the error names: the text before the first colon.
std::string FieldOf(const Status& status) {
  EXPECT_FALSE(status.has_value());
  return status ? "" : status.error().message.substr(0, status.error().message.find(':'));
}

std::string Field(const VerbRow& row, std::string_view name) {
  return std::string(row.name) + "." + std::string(name);
}

void ForEachRow(const std::function<void(const VerbRow&, const Submission& good)>& body) {
  for (const VerbRow& row : kVerbRows) {
    SCOPED_TRACE(std::string(row.name));
    body(row, MakeGoodRequest(row).submission);
  }
}

TEST(VerbTableTest, NamesAreUniqueAndFoundByNumber) {
  std::set<std::string_view> names;
  for (const VerbRow& row : kVerbRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(VerbName(static_cast<std::uint16_t>(row.verb)), row.name);
    EXPECT_EQ(FindVerb(static_cast<std::uint16_t>(row.verb)), &row);
  }
  EXPECT_EQ(FindVerb(0), nullptr);
  EXPECT_EQ(FindVerb(kVerbLast + 1), nullptr);
}

TEST(VerbTableTest, EveryRowOfTheVerbTableIsConsistent) {
  ForEachRow([](const VerbRow& row, Submission good) {
    const Status check = ValidateSubmission(good, kLimits);
    EXPECT_TRUE(check) << (check ? "" : check.error().message);
    good.flags = static_cast<std::uint16_t>(row.flags | kFlagRetry);
    EXPECT_TRUE(ValidateSubmission(good, kLimits));
  });
}

TEST(VerbTableTest, FlagsThatTheVerbDoesNotHaveAreNamed) {
  ForEachRow([](const VerbRow& row, Submission good) {
    for (unsigned bit = 0; bit < 15; ++bit) {
      good.flags = static_cast<std::uint16_t>(1u << bit);
      const Status check = ValidateSubmission(good, kLimits);
      if ((row.flags & good.flags) != 0) {
        EXPECT_TRUE(check) << bit;
      } else {
        EXPECT_EQ(FieldOf(check), Field(row, "flags")) << bit;
      }
    }
  });
}

// Returns whether the slot can hold the number: p0 and p1 have 32 bits, the other slots 64.
bool Fits(ArgumentSlot slot, std::int64_t number) {
  const bool is_short = slot == ArgumentSlot::kP0 || slot == ArgumentSlot::kP1;
  return !is_short || (number >= INT32_MIN && number <= INT32_MAX);
}

TEST(VerbTableTest, EverySlotIsCheckedAndNamed) {
  constexpr std::string_view kUnusedNames[] = {"sequence", "sequence2", "p0", "p1", "argument"};
  ForEachRow([&](const VerbRow& row, const Submission& good) {
    for (std::size_t i = 0; i < kArgumentSlots; ++i) {
      const auto slot = static_cast<ArgumentSlot>(i);
      const SlotRule& rule = row.slot(slot);
      const auto with = [&](std::int64_t number) {
        Submission submission = good;
        SetSlot(&submission, slot, number);
        return ValidateSubmission(submission, kLimits);
      };
      SCOPED_TRACE(std::string(kUnusedNames[i]) + " " + std::string(rule.name));
      switch (rule.kind) {
        case SlotKind::kUnused:
          EXPECT_EQ(FieldOf(with(1)), Field(row, kUnusedNames[i]));
          EXPECT_EQ(FieldOf(with(-1)), Field(row, kUnusedNames[i]));
          break;
        case SlotKind::kHandle: EXPECT_EQ(FieldOf(with(0)), Field(row, rule.name)); break;
        case SlotKind::kNumber:
        case SlotKind::kPosition:
          EXPECT_TRUE(with(rule.min));
          EXPECT_TRUE(with(rule.max));
          if (rule.min > INT64_MIN && Fits(slot, rule.min - 1)) {
            EXPECT_EQ(FieldOf(with(rule.min - 1)), Field(row, rule.name));
          }
          if (rule.max < INT64_MAX && Fits(slot, rule.max + 1)) {
            EXPECT_EQ(FieldOf(with(rule.max + 1)), Field(row, rule.name));
          }
          break;
        case SlotKind::kRangeBegin: EXPECT_TRUE(with(INT32_MIN)); break;
        case SlotKind::kRangeEnd: {
          EXPECT_TRUE(with(INT32_MIN));
          EXPECT_TRUE(with(INT32_MAX));
          Submission submission = good;
          submission.p0 = 4;
          submission.p1 = 4;
          EXPECT_TRUE(ValidateSubmission(submission, kLimits));
          submission.p1 = 3;
          EXPECT_EQ(FieldOf(ValidateSubmission(submission, kLimits)), Field(row, "p1"));
          break;
        }
      }
    }
  });
}

TEST(VerbTableTest, EveryPayloadHasALimitThatIsNamed) {
  ForEachRow([](const VerbRow& row, Submission good) {
    const PayloadRule& rule = row.payload;
    const auto with = [&](std::uint64_t bytes) {
      good.payload_bytes = static_cast<std::uint32_t>(bytes);
      return ValidateSubmission(good, kLimits);
    };
    EXPECT_TRUE(with(rule.bytes_min));
    EXPECT_TRUE(with(rule.BytesMax(kTokensMax)));
    if (rule.bytes_min > 0) {
      EXPECT_EQ(FieldOf(with(0)), Field(row, "payload_bytes"));
    }
    if (rule.unit > 1) {
      EXPECT_EQ(FieldOf(with(rule.bytes_min + 1)), Field(row, "payload_bytes"));
    }
    // The payload is 8 bytes longer than the limit; 8 is a multiple of the size of every kind of
    // element, so the payload violates only the limit.
    const Status refused = with(rule.BytesMax(kTokensMax) + 8);
    EXPECT_EQ(FieldOf(refused), Field(row, rule.has_tokens ? "tokens" : "payload_bytes"));
    EXPECT_EQ(refused.error().code, rule.has_tokens ? Code::kTooLarge : Code::kInvalidArgument);
    if (rule.has_tokens) {
      EXPECT_NE(refused.error().message.find("1002, the pool has 1000 cells"), std::string::npos)
          << refused.error().message;
    }
    if (rule.bytes_min == 0) return;
    (void)with(rule.bytes_min);
    good.payload_offset = kLimits.arena_bytes - rule.bytes_min + 1;
    EXPECT_EQ(FieldOf(ValidateSubmission(good, kLimits)), Field(row, "payload_offset"));
  });
}

TEST(VerbTableTest, OnlyRetriedRequestsSayWhatTheyHaveReceived) {
  ForEachRow([](const VerbRow& row, Submission good) {
    good.received = 3;
    EXPECT_EQ(FieldOf(ValidateSubmission(good, kLimits)), Field(row, "received"));
    good.flags = kFlagRetry;
    if (row.received == Received::kNothing) {
      EXPECT_EQ(FieldOf(ValidateSubmission(good, kLimits)), Field(row, "received"));
      return;
    }
    EXPECT_TRUE(ValidateSubmission(good, kLimits));
    good.last_token = 7;
    if (row.received == Received::kTokens) {
      EXPECT_TRUE(ValidateSubmission(good, kLimits));
      good.last_token = -1;
    }
    EXPECT_EQ(FieldOf(ValidateSubmission(good, kLimits)), Field(row, "last_token"));
  });
}

// Reading the arguments of a submission and writing them again yields the same slots.
TEST(VerbTableTest, ArgumentsAreDecodedAsTheyWereEncoded) {
  const auto check = []<std::size_t kIndex>(std::integral_constant<std::size_t, kIndex>) {
    const VerbRow& row = kVerbRows[kIndex];
    SCOPED_TRACE(std::string(row.name));
    using Args = typename TypesAt<kIndex>::Args;
    Submission sent = MakeGoodRequest(row).submission;
    sent.payload_bytes = 0;
    const Submission again = MakeSubmission(ReadArguments<Args>(sent));
    EXPECT_EQ(std::memcmp(&sent, &again, sizeof sent), 0);
  };
  [&]<std::size_t... kIndexes>(std::index_sequence<kIndexes...>) {
    (check(std::integral_constant<std::size_t, kIndexes>()), ...);
  }(std::make_index_sequence<kVerbLast>());
}

// Returns the line of docs/verbs.md for a row of the table. The page docs/verbs.md states the table
// a second time, so that the test detects a limit that was changed only in the table.
std::string PageRow(const VerbRow& row) {
  std::ostringstream page;
  page << "| " << static_cast<int>(row.verb) << " | `" << row.name << "` |";
  for (std::size_t i = 0; i < kArgumentSlots; ++i) {
    const SlotRule& rule = row.slot(static_cast<ArgumentSlot>(i));
    const auto limit = [](std::int64_t number) {
      return number == INT64_MIN   ? std::string("any")
             : number == INT64_MAX ? std::string("any")
                                   : std::to_string(number);
    };
    constexpr const char* kAccess[] = {"", "read", "change", "edit", "own"};
    switch (rule.kind) {
      case SlotKind::kUnused: break;
      case SlotKind::kHandle:
        page << " " << rule.name << " (" << kAccess[static_cast<int>(rule.access)] << ");";
        break;
      case SlotKind::kNumber:
      case SlotKind::kPosition:
        page << " " << rule.name << " " << limit(rule.min) << ".." << limit(rule.max) << ";";
        break;
      case SlotKind::kRangeBegin: page << " positions [p0, p1);"; break;
      case SlotKind::kRangeEnd: break;
    }
  }
  constexpr const char* kPayloads[] = {
      "",       "bytes",    "snapshot",     "saved file",  "text",
      "tokens", "generate", "export state", "token lists", "texts"};
  constexpr const char* kNeeds[] = {"", ", read", ", change", ", edit", ", own"};
  page << " | ";
  if (row.payload.kind != PayloadKind::kNone) {
    page << kPayloads[static_cast<int>(row.payload.kind)] << ", " << row.payload.bytes_min << ".."
         << row.payload.bytes_max << (row.payload.has_tokens ? " + T" : "")
         << kNeeds[static_cast<int>(row.payload.access)];
  }
  constexpr const char* kFlagNames[] = {"force",     "public",   "add_special", "parse_special",
                                        "special",   "",         "progress",    "normalize",
                                        "no_prefix", "ephemeral"};
  page << " |";
  for (std::size_t bit = 0; bit < std::size(kFlagNames); ++bit) {
    if ((row.flags & (1u << bit)) != 0) page << " " << kFlagNames[bit];
  }
  constexpr const char* kResends[] = {"repeated", "from the window", "by the handler", "resumed"};
  page << " | " << kResends[static_cast<int>(row.resend)] << " |";
  if (row.caller == CallerRule::kDaemonsUid) page << " the daemon's uid";
  if (row.caller == CallerRule::kTenantUid) page << " the tenants' uid";
  page << " |";
  return page.str();
}

TEST(VerbTableTest, ThePageOfVerbsEqualsTheTable) {
  std::ifstream file("docs/verbs.md");
  ASSERT_TRUE(file) << "docs/verbs.md";
  std::set<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  std::size_t rows = 0;
  for (const std::string& line : lines) rows += line.starts_with("| ") && line.find('`') < 8;
  EXPECT_EQ(rows, kVerbRows.size());
  for (const VerbRow& row : kVerbRows) {
    EXPECT_TRUE(lines.contains(PageRow(row))) << "docs/verbs.md lacks:\n" << PageRow(row);
  }
}

}  // namespace
}  // namespace kvd::wire
