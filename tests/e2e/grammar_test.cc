// Generations that a grammar holds, with a real daemon and the bundled model: what is drawn, what
// is refused, how an answer continues after a fork, a kill and a load, and kvctl run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/kvctl_process.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/temporary_folder.h"

namespace kvd {
namespace {

using test::JsonField;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A list of two to four words, each with a number; much of it is forced.
constexpr const char* kListing =
    "root ::= \"The list:\\n\" item{2,4} \"That is the end of the list.\"\n"
    "item ::= \"- name: \" [a-z]{3,9} \", number: \" [0-9]{1,3} \"\\n\"\n";
constexpr const char* kListingExpression =
    "The list:\n(- name: [a-z]+, number: [0-9]+\n)+That is the end of the list\\.";

class GrammarTest : public test::ServedDaemonTest {
 protected:
  GrammarTest() : GrammarTest(std::make_shared<test::TemporaryFolder>()) {}
  explicit GrammarTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : ServedDaemonTest({"-c", "8192", "--store", folder->path().string()}), folder_(folder) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    const std::string path = socket_path();
    options.socket_path = path.c_str();
    options.timeout_ms = 60'000;
    ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
  }
  void TearDown() override {
    kvd_close(client_);
    ServedDaemonTest::TearDown();
  }

  std::string File(const std::string& name, const std::string& text) const {
    const auto path = folder_->path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  test::KvctlOutcome Kvctl(const std::string& arguments) const {
    return test::KvctlProcess(socket_path()).Run(arguments);
  }
  kvd_sequence Create() const {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client_, nullptr, &sequence, nullptr), KVD_OK)
        << kvd_error_message();
    return sequence;
  }
  static kvd_generate_params Params(std::int32_t predict_max, const char* grammar) {
    static const kvd_token kPrompt[] = {10, 20, 30, 40, 50};
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = kPrompt;
    params.token_count = 5;
    params.predict_max = predict_max;
    params.temperature = 2;
    params.top_k = 0;
    params.top_p = 1;
    params.min_p = 0;
    params.seed = 4711;
    params.grammar = grammar;
    return params;
  }
  static kvd_generate_params Resumed(std::int32_t predict_max, const char* grammar) {
    kvd_generate_params params = Params(predict_max, grammar);
    params.tokens = nullptr;
    params.token_count = 0;
    params.flags = KVD_CONTINUE | KVD_RESUME_SAMPLER;
    return params;
  }

  struct Answer {
    int code = KVD_INTERNAL;
    std::string error;
    std::string text;
    std::vector<kvd_token> tokens;
    std::size_t tokens_in_piece_max = 0;
    kvd_generate_result result{};
  };
  Answer Generate(kvd_sequence sequence, const kvd_generate_params& params) const {
    Answer answer;
    const auto take = [](void* user, const kvd_piece* piece) {
      Answer& all = *static_cast<Answer*>(user);
      all.text.append(piece->text, piece->text_bytes);
      all.tokens.insert(all.tokens.end(), piece->tokens, piece->tokens + piece->token_count);
      all.tokens_in_piece_max = std::max<std::size_t>(all.tokens_in_piece_max, piece->token_count);
      return 0;
    };
    answer.code = kvd_generate(client_, sequence, &params, take, &answer, &answer.result, nullptr);
    if (answer.code != KVD_OK) answer.error = kvd_error_message();
    return answer;
  }
  std::uint32_t Cells(kvd_sequence sequence) const {
    kvd_sequence_info info{};
    EXPECT_EQ(kvd_sequence_query(client_, sequence, &info, nullptr), KVD_OK) << kvd_error_message();
    return info.cell_count;
  }

  kvd_client* client_ = nullptr;
  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(GrammarTest, AGrammarRestrictsTheText) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    kvd_generate_params params = Params(300, kListing);
    params.seed = seed;
    const kvd_sequence sequence = Create();
    const Answer answer = Generate(sequence, params);
    ASSERT_EQ(answer.code, KVD_OK) << answer.error;
    EXPECT_THAT(answer.text, MatchesRegex(kListingExpression));
    EXPECT_EQ(answer.result.finish, unsigned{KVD_FINISH_END});
    EXPECT_EQ(answer.result.predicted, answer.tokens.size());
    EXPECT_EQ(Cells(sequence), 5 + answer.tokens.size());
    EXPECT_GT(answer.tokens_in_piece_max, 2u) << "nothing was forced";
  }
}

TEST_F(GrammarTest, WithoutEndTokensTheGrammarEndsTheGeneration) {
  kvd_generate_params params = Params(300, kListing);
  params.flags = KVD_IGNORE_EOS;
  const Answer answer = Generate(Create(), params);
  ASSERT_EQ(answer.code, KVD_OK) << answer.error;
  EXPECT_THAT(answer.text, MatchesRegex(kListingExpression));
  EXPECT_EQ(answer.result.finish, unsigned{KVD_FINISH_GRAMMAR});
}

TEST_F(GrammarTest, CharactersOfSeveralBytesAreComplete) {
  const Answer answer = Generate(Create(), Params(200, "root ::= [а-яé€😀]{20}"));
  ASSERT_EQ(answer.code, KVD_OK) << answer.error;
  EXPECT_EQ(answer.result.finish, unsigned{KVD_FINISH_END});
  std::size_t characters = 0;
  for (const char c : answer.text) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  EXPECT_EQ(characters, 20u) << answer.text;
}

TEST_F(GrammarTest, AGrammarWithAnErrorChangesNothing) {
  const kvd_sequence sequence = Create();
  const std::pair<const char*, const char*> cases[] = {
      {"root ::= \"a", "line 1"},
      {"root ::= other", "other"},
      {"item ::= \"a\"", "root"},
      {"root ::= root \"a\" | \"b\"", "left"},
  };
  for (const auto& [grammar, named] : cases) {
    const Answer answer = Generate(sequence, Params(10, grammar));
    EXPECT_EQ(answer.code, KVD_INVALID_ARGUMENT) << grammar;
    EXPECT_THAT(answer.error, HasSubstr(named)) << grammar;
  }
  EXPECT_EQ(Generate(sequence, Params(10, "")).code, KVD_INVALID_ARGUMENT);
  kvd_generate_params both = Params(10, kListing);
  both.json_schema = "{}";
  EXPECT_EQ(Generate(sequence, both).code, KVD_INVALID_ARGUMENT);
  kvd_generate_params lazy = Params(10, nullptr);
  const kvd_grammar_trigger trigger = {"x", 0};
  lazy.grammar_triggers = &trigger;
  lazy.grammar_trigger_count = 1;
  EXPECT_EQ(Generate(sequence, lazy).code, KVD_INVALID_ARGUMENT) << "triggers without a grammar";
  EXPECT_EQ(Cells(sequence), 0u);
}

TEST_F(GrammarTest, AGenerationWithAGrammarContinuesInForksAndAfterAKill) {
  const kvd_sequence whole = Create();
  const Answer right = Generate(whole, Params(300, kListing));
  ASSERT_EQ(right.code, KVD_OK) << right.error;
  for (std::size_t tokens = 1; tokens < right.tokens.size(); tokens += 7) {
    const kvd_sequence sequence = Create();
    const Answer first = Generate(sequence, Params(static_cast<std::int32_t>(tokens), kListing));
    ASSERT_EQ(first.code, KVD_OK) << first.error;
    EXPECT_EQ(first.result.finish, unsigned{KVD_FINISH_LENGTH});
    kvd_sequence fork = 0;
    ASSERT_EQ(kvd_sequence_fork(client_, sequence, -1, 1, nullptr, &fork, nullptr, nullptr), KVD_OK)
        << kvd_error_message();
    for (const kvd_sequence continued : {fork, sequence}) {
      if (continued == sequence && tokens % 2 == 1) {
        daemon_->Kill();
        ASSERT_TRUE(daemon_->StartAgain());
      }
      const Answer rest = Generate(continued, Resumed(300, kListing));
      ASSERT_EQ(rest.code, KVD_OK) << rest.error;
      EXPECT_EQ(first.text + rest.text, right.text) << "after " << tokens;
      EXPECT_EQ(rest.result.finish, unsigned{KVD_FINISH_END});
      EXPECT_EQ(Cells(continued), Cells(whole));
    }
  }
}

TEST_F(GrammarTest, AGenerationIsCompletedAfterAKill) {
  const Answer right = Generate(Create(), Params(300, kListing));
  ASSERT_EQ(right.code, KVD_OK) << right.error;
  for (std::size_t tokens = 1; tokens < right.tokens.size(); tokens += 9) {
    const kvd_generate_params params = Params(300, kListing);
    kvd_request request = 0;
    ASSERT_EQ(kvd_generate(client_, Create(), &params, nullptr, nullptr, nullptr, &request), KVD_OK)
        << kvd_error_message();
    std::vector<kvd_token> received;
    kvd_generate_result result{};
    for (bool is_killed = false;;) {
      kvd_piece piece;
      ASSERT_EQ(kvd_generate_next(client_, request, 60'000, &piece, &result), KVD_OK)
          << kvd_error_message();
      if (piece.kind == KVD_PIECE_END) break;
      received.insert(received.end(), piece.tokens, piece.tokens + piece.token_count);
      if (is_killed || received.size() < tokens) continue;
      daemon_->Kill();
      ASSERT_TRUE(daemon_->StartAgain());
      is_killed = true;
    }
    EXPECT_EQ(received, right.tokens) << "killed after " << tokens;
    EXPECT_EQ(result.finish, right.result.finish);
  }
}

TEST_F(GrammarTest, ForcedTextIsSearchedForStopStrings) {
  const Answer whole = Generate(Create(), Params(300, kListing));
  ASSERT_EQ(whole.code, KVD_OK) << whole.error;
  ASSERT_GT(whole.tokens_in_piece_max, 2u);
  // Texts that do not occur change nothing: forced text still arrives in few pieces.
  kvd_generate_params params = Params(300, kListing);
  const char* absent[] = {"number: x", "The end"};
  params.stops = absent;
  params.stop_count = 2;
  const Answer same = Generate(Create(), params);
  ASSERT_EQ(same.code, KVD_OK) << same.error;
  EXPECT_EQ(same.tokens, whole.tokens);
  EXPECT_EQ(same.text, whole.text);
  EXPECT_GT(same.tokens_in_piece_max, 2u) << "nothing was forced";
  // Each text ends the answer where it is complete, within forced text and after it.
  for (const std::string stop : {"list:", "- name", "name: ", ", number", ": ", "r: ", "\n- ",
                                 "the end of", "number: 1", "list."}) {
    SCOPED_TRACE(stop);
    const std::size_t begin = whole.text.find(stop);
    const char* stops[] = {stop.c_str()};
    params.stops = stops;
    params.stop_count = 1;
    const kvd_sequence sequence = Create();
    const Answer answer = Generate(sequence, params);
    ASSERT_EQ(answer.code, KVD_OK) << answer.error;
    EXPECT_EQ(answer.text, whole.text.substr(0, begin));
    if (begin == std::string::npos) continue;
    EXPECT_EQ(answer.result.finish, unsigned{KVD_FINISH_STOP});
    // The last token completes the stop text.
    EXPECT_EQ(Cells(sequence), 5 + answer.tokens.size());
    ASSERT_LE(answer.tokens.size(), whole.tokens.size());
    std::string covered;
    for (const kvd_token token : answer.tokens) {
      EXPECT_EQ(covered.find(stop), std::string::npos) << "tokens after the stop text";
      char* text = nullptr;
      std::size_t bytes = 0;
      ASSERT_EQ(kvd_detokenize(client_, &token, 1, 0, &text, &bytes, nullptr), KVD_OK);
      covered.append(text, bytes);
      kvd_free(text);
    }
    EXPECT_NE(covered.find(stop), std::string::npos);
  }
}

TEST_F(GrammarTest, ALazyGrammarBeginsAtItsTrigger) {
  const kvd_grammar_trigger trigger = {"e", 0};
  std::size_t with_text_before = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    kvd_generate_params params = Params(400, "root ::= \"e<call>\" [0-9]{3} \"</call>\"");
    params.seed = seed;
    params.grammar_triggers = &trigger;
    params.grammar_trigger_count = 1;
    const Answer answer = Generate(Create(), params);
    ASSERT_EQ(answer.code, KVD_OK) << answer.error;
    const std::size_t begin = answer.text.find('e');
    if (begin == std::string::npos) continue;  // an end token came before the trigger
    EXPECT_THAT(answer.text.substr(begin), MatchesRegex("e<call>[0-9]{3}</call>"));
    EXPECT_EQ(answer.result.finish, unsigned{KVD_FINISH_END});
    with_text_before += begin > 0 ? 1 : 0;
  }
  EXPECT_GT(with_text_before, 5u);
}

TEST_F(GrammarTest, ContinuingWithAnotherGrammarIsRefused) {
  const kvd_sequence sequence = Create();
  ASSERT_EQ(Generate(sequence, Params(8, kListing)).code, KVD_OK);
  const std::uint32_t cells = Cells(sequence);
  const Answer other = Generate(sequence, Resumed(300, "root ::= [a-z]+"));
  EXPECT_EQ(other.code, KVD_INVALID_ARGUMENT);
  EXPECT_THAT(other.error, HasSubstr("not the one with which"));
  const Answer none = Generate(sequence, Resumed(300, nullptr));
  EXPECT_EQ(none.code, KVD_INVALID_ARGUMENT);
  EXPECT_THAT(none.error, HasSubstr("none, but"));
  kvd_generate_params triggered = Resumed(300, kListing);
  const kvd_grammar_trigger trigger = {"The", 0};
  triggered.grammar_triggers = &trigger;
  triggered.grammar_trigger_count = 1;
  EXPECT_EQ(Generate(sequence, triggered).code, KVD_INVALID_ARGUMENT);
  EXPECT_EQ(Cells(sequence), cells);
  // Without the sampler, the sequence is a prompt like any other.
  kvd_generate_params fresh = Resumed(20, "root ::= [a-z]+");
  fresh.flags = KVD_CONTINUE;
  EXPECT_EQ(Generate(sequence, fresh).code, KVD_OK);
}

TEST_F(GrammarTest, TheStartOfTheGrammarFollowsEditsOfTheSequence) {
  const kvd_sequence whole = Create();
  const Answer right = Generate(whole, Params(300, kListing));
  const kvd_sequence sequence = Create();
  const Answer first = Generate(sequence, Params(12, kListing));
  ASSERT_EQ(first.code, KVD_OK) << first.error;
  // A rewind into the answer: the grammar reads the tokens that are left.
  ASSERT_EQ(kvd_sequence_remove(client_, sequence, 5 + 6, -1, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  const Answer again = Generate(sequence, Resumed(300, kListing));
  ASSERT_EQ(again.code, KVD_OK) << again.error;
  // Removing tokens of the prompt moves the beginning.
  const kvd_sequence shorter = Create();
  ASSERT_EQ(Generate(shorter, Params(12, kListing)).code, KVD_OK);
  ASSERT_EQ(kvd_sequence_remove(client_, shorter, 1, 3, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(kvd_sequence_add(client_, shorter, 3, -1, -2, nullptr), KVD_OK) << kvd_error_message();
  const Answer rest = Generate(shorter, Resumed(300, kListing));
  ASSERT_EQ(rest.code, KVD_OK) << rest.error;
  EXPECT_THAT(first.text + rest.text, MatchesRegex(kListingExpression));
  // Without the answer's first tokens, what is left is not in the language.
  const kvd_sequence holed = Create();
  ASSERT_EQ(Generate(holed, Params(12, kListing)).code, KVD_OK);
  ASSERT_EQ(kvd_sequence_remove(client_, holed, 5, 7, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(kvd_sequence_add(client_, holed, 7, -1, -2, nullptr), KVD_OK) << kvd_error_message();
  const Answer refused = Generate(holed, Resumed(300, kListing));
  EXPECT_EQ(refused.code, KVD_CONFLICT);
  EXPECT_THAT(refused.error, HasSubstr("grammar"));
  EXPECT_FALSE(right.text.empty());
}

TEST_F(GrammarTest, ALoadedSequenceContinuesItsGrammar) {
  const Answer right = Generate(Create(), Params(300, kListing));
  const kvd_sequence sequence = Create();
  const Answer first = Generate(sequence, Params(10, kListing));
  ASSERT_EQ(kvd_save(client_, sequence, "listing", 0, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  kvd_loaded_sequence* loaded = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_load(client_, "listing", &loaded, &count, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  ASSERT_EQ(count, 1u);
  const Answer rest = Generate(loaded[0].sequence, Resumed(300, kListing));
  kvd_free(loaded);
  ASSERT_EQ(rest.code, KVD_OK) << rest.error;
  EXPECT_EQ(first.text + rest.text, right.text);
}

TEST_F(GrammarTest, ASchemaRestrictsTheText) {
  kvd_generate_params params = Params(200, nullptr);
  params.json_schema =
      R"({"type": "object", "properties": {"kind": {"enum": ["kite", "lamp"]}, "count":
          {"type": "integer", "minimum": 1, "maximum": 12}}, "required": ["kind", "count"]})";
  const Answer answer = Generate(Create(), params);
  ASSERT_EQ(answer.code, KVD_OK) << answer.error;
  EXPECT_THAT(answer.text,
              MatchesRegex("\\{[ \n\t]*\"kind\"[ \n\t]*:[ \n\t]*\"(kite|lamp)\"[ \n\t]*,[ \n\t]*"
                           "\"count\"[ \n\t]*:[ \n\t]*[0-9]+[ \n\t]*\\}[ \n\t]*"));
  params.json_schema = R"({"type": "string", "not": {"const": "a"}})";
  const Answer refused = Generate(Create(), params);
  EXPECT_NE(refused.code, KVD_OK);
  EXPECT_THAT(refused.error, HasSubstr("not"));
}

TEST_F(GrammarTest, KvctlRunTakesGrammarsAndSchemas) {
  const std::string grammar = File("yes.gbnf", "root ::= \"yes\" | \"no\"\n");
  const test::KvctlOutcome answered = Kvctl("run 'Is it?' -n 20 --json --grammar " + grammar);
  ASSERT_EQ(answered.exit_code, 0) << answered.output;
  EXPECT_THAT(JsonField(answered.output, "text"), MatchesRegex("\"(yes|no)\""));
  EXPECT_EQ(JsonField(answered.output, "finish"), "\"end\"");
  const std::string schema = File("schema.json", R"({"enum": [1, 2, 3]})");
  EXPECT_THAT(JsonField(Kvctl("run 'How many?' -n 20 --json --schema " + schema).output, "text"),
              MatchesRegex("\"[123].*\""));
  const test::KvctlOutcome both = Kvctl("run x --grammar " + grammar + " --schema " + schema);
  EXPECT_NE(both.exit_code, 0);
  EXPECT_NE(Kvctl("run x --grammar /nowhere.gbnf").exit_code, 0);
  EXPECT_THAT(Kvctl("run x --grammar-trigger y").output, HasSubstr("needs --grammar"));
  const std::string wrong = File("wrong.gbnf", "root ::= (\n");
  EXPECT_THAT(Kvctl("run x --grammar " + wrong).output, HasSubstr("line"));
}

}  // namespace
}  // namespace kvd
