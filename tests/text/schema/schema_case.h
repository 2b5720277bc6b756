// Checks of one schema's grammar with GbnfChecker.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/text/schema/gbnf_checker.h"
#include "text/schema/schema_grammar.h"

namespace kvd::test {

// Every text of `accepted` is in the grammar's language, and none of `rejected`.
inline void ExpectTexts(std::string_view schema, const std::vector<std::string>& accepted,
                        const std::vector<std::string>& rejected) {
  const auto grammar = SchemaGrammar(schema);
  ASSERT_TRUE(grammar.has_value()) << schema << "\n" << grammar.error().message;
  auto checker = GbnfChecker::Create(*grammar);
  ASSERT_TRUE(checker.has_value()) << *grammar << checker.error().message;
  for (const std::string& text : accepted)
    EXPECT_TRUE(checker->Accepts("root", text)) << schema << "\n" << text << "\n" << *grammar;
  for (const std::string& text : rejected)
    EXPECT_FALSE(checker->Accepts("root", text)) << schema << "\n" << text << "\n" << *grammar;
}

// The conversion fails with this code, and the message begins with `beginning`.
inline void ExpectError(std::string_view schema, Code code, std::string_view beginning) {
  const auto grammar = SchemaGrammar(schema);
  ASSERT_FALSE(grammar.has_value()) << schema << "\n" << *grammar;
  EXPECT_EQ(grammar.error().code, code) << schema << "\n" << grammar.error().message;
  EXPECT_TRUE(grammar.error().message.starts_with(beginning)) << schema << "\n"
                                                              << grammar.error().message;
}

}  // namespace kvd::test
