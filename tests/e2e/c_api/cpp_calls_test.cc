// kvd.hpp, the C++ header over kvd.h: what its objects hold and end, and each error in a Result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/kvd.hpp"
#include "tests/e2e/c_api/c_api_test.h"
#include "tests/support/tiny_model.h"

// Compiled as C++17 (cpp_calls_as_cpp17.cc), in which a Result is a class of the header. The linker
// must not take functions of one language for those of the other.
std::string AnswerInCpp17(const char* socket_path, const char* text);
int CodeInCpp17(const char* socket_path, const char* text);
int ConnectCodeInCpp17(const char* socket_path);

namespace kvd {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

kvd_generate_params Greedy(std::int32_t predict_max) {
  kvd_generate_params params = api::DefaultParams();
  params.temperature = 0;
  params.predict_max = predict_max;
  params.flags = KVD_IGNORE_EOS;
  return params;
}

// Checks that a Result has the code, and a message that contains the text.
void ExpectFails(const auto& result, int code, const std::string& message = "") {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, code) << result.error().message;
  EXPECT_THAT(result.error().message, HasSubstr(message));
  EXPECT_NE(result.error().message, "");
}

class CppCallsTest : public test::CApiTest {
 protected:
  explicit CppCallsTest(std::vector<std::string> arguments = {"--max-sequences", "20"})
      : CApiTest(std::move(arguments)) {}

  api::Client ConnectCpp() const {
    kvd_connect_options options{};
    options.socket_path = socket_path().c_str();
    auto client = api::Client::Connect(options);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
};

TEST_F(CppCallsTest, TextsArePromptedCompletedAndRead) {
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  const auto prompted = sequence->Prompt("The kite is green.");
  ASSERT_TRUE(prompted) << prompted.error().message;
  EXPECT_EQ(prompted->predicted, 0u);
  std::string pieces;
  const auto answer = sequence->Complete(
      " The drum", 0, [&](std::string_view piece) { pieces += piece; }, Greedy(8));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->text, pieces);
  EXPECT_EQ(answer->result.predicted, 8u);
  const auto text = sequence->Text();
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "The kite is green. The drum" + answer->text);
  const auto tokens = client.Tokenize("The kite is green.");
  ASSERT_TRUE(tokens);
  EXPECT_EQ(Query(sequence->raw()).cell_count,
            tokens->size() + client.Tokenize(" The drum")->size() + 8);
  const auto chat = client.Chat({{"system", "Answer."}, {"user", "Where is the kite?"}});
  ASSERT_TRUE(chat);
  EXPECT_EQ(*chat, "<|system|>Answer.<|end|><|user|>Where is the kite?<|end|><|assistant|>");
}

TEST_F(CppCallsTest, AFunctionThatReturnsFalseCancelsTheAnswer) {
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  ExpectFails(sequence->Complete(
                  "The kite", 0, [](std::string_view) { return false; }, Greedy(-1)),
              KVD_CANCELLED);
}

TEST_F(CppCallsTest, ASequenceEndsWithItsObjectUnlessItIsDetached) {
  const api::Client client = ConnectCpp();
  kvd_sequence dropped = 0;
  kvd_sequence detached = 0;
  {
    auto first = client.NewSequence();
    auto second = client.NewSequence();
    ASSERT_TRUE(first && second);
    dropped = first->raw();
    api::OwnedSequence moved = std::move(*first);
    EXPECT_EQ(first->raw(), 0u);
    EXPECT_EQ(moved.raw(), dropped);
    detached = second->Detach();
    EXPECT_TRUE(Exists(dropped));
  }
  EXPECT_FALSE(Exists(dropped));
  EXPECT_TRUE(Exists(detached));
}

TEST_F(CppCallsTest, TheSessionEndsWithTheLastCopyAndTheLastSequence) {
  kvd_sequence handle = 0;
  {
    auto sequence = [&] {
      const api::Client client = ConnectCpp();
      const std::vector<api::Client> copies(2, client);
      EXPECT_EQ(copies[1].raw(), client.raw());
      return copies[1].NewSequence();
    }();
    ASSERT_TRUE(sequence);
    handle = sequence->raw();
    EXPECT_TRUE(sequence->Prompt("The kite is green.")) << "its client is still open";
  }
  EXPECT_FALSE(Exists(handle));
}

TEST_F(CppCallsTest, ForksAndSnapshotsShareTheCells) {
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence && sequence->Prompt("The kite is green."));
  const auto forks = sequence->Fork(2);
  ASSERT_TRUE(forks);
  ASSERT_THAT(*forks, SizeIs(2));
  EXPECT_EQ(*(*forks)[1].Text(), "The kite is green.");
  const auto snapshot = sequence->Publish("kite");
  ASSERT_TRUE(snapshot);
  EXPECT_NE(*snapshot, 0u);
  const auto attached = client.Attach("kite");
  ASSERT_TRUE(attached);
  EXPECT_EQ(*attached->Text(), "The kite is green.");
  ExpectFails(sequence->Publish("kite"), KVD_EXISTS, "kite");
  EXPECT_TRUE(sequence->Publish("kite", KVD_FORCE));
  EXPECT_TRUE(client.Unpublish("kite"));
  ExpectFails(client.Unpublish("kite"), KVD_NOT_FOUND, "kite");
  ExpectFails(client.Attach("kite"), KVD_NOT_FOUND, "kite");
}

TEST_F(CppCallsTest, ErrorsHaveTheCodeAndTheMessageOfTheCall) {
  kvd_connect_options nowhere{};
  nowhere.socket_path = "/nonexistent";
  ExpectFails(api::Client::Connect(nowhere), KVD_DISCONNECTED, "start one with");
  ExpectFails(api::Client::ConnectTo("no-daemon-has-this-name"), KVD_DISCONNECTED);
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  ExpectFails(sequence->Prompt(""), KVD_INVALID_ARGUMENT, "text: it has no tokens");
  ExpectFails(sequence->Prompt("x", KVD_FORCE), KVD_INVALID_ARGUMENT, "flags");
  kvd_generate_params hot = Greedy(1);
  hot.temperature = -1;
  ExpectFails(sequence->Complete(
                  "x", 0, [](std::string_view) {}, hot),
              KVD_INVALID_ARGUMENT, "temperature");
  ExpectFails(sequence->Fork(0), KVD_INVALID_ARGUMENT, "count");
  ExpectFails(sequence->Publish(".x"), KVD_INVALID_ARGUMENT, "name");
  ExpectFails(sequence->Text(KVD_FORCE), KVD_INVALID_ARGUMENT, "flags");
  ExpectFails(client.Tokenize("x", KVD_FORCE), KVD_INVALID_ARGUMENT, "flags");
  ExpectFails(client.Chat({}), KVD_INVALID_ARGUMENT, "at least one message");
  ExpectFails(sequence->Fork(20), KVD_NO_SPACE, "sequences");
  std::vector<api::OwnedSequence> made;
  auto last = client.NewSequence();
  for (; last && made.size() < 20; last = client.NewSequence()) made.push_back(std::move(*last));
  ExpectFails(last, KVD_NO_SPACE, "sequences");
  EXPECT_EQ(kvd_sequence_drop(client.raw(), sequence->raw(), 0, nullptr), KVD_OK);
  ExpectFails(sequence->Text(), KVD_NOT_FOUND);
  ExpectFails(sequence->Prompt("x"), KVD_NOT_FOUND);
}

TEST_F(CppCallsTest, InCpp17AResultHasTheSameMembers) {
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  const auto answer = sequence->Complete("The kite", 0, [](std::string_view) {}, Greedy(8));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(AnswerInCpp17(socket_path().c_str(), "The kite"), answer->text);
  EXPECT_EQ(CodeInCpp17(socket_path().c_str(), ""), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(ConnectCodeInCpp17("/nonexistent"), KVD_DISCONNECTED);
}

class CppWithoutATokenizerTest : public CppCallsTest {
 protected:
  CppWithoutATokenizerTest() : CppCallsTest({"-m", test::TinyModelPath(test::TinyLlama())}) {}
};

TEST_F(CppWithoutATokenizerTest, TextsNeedATokenizer) {
  const api::Client client = ConnectCpp();
  auto sequence = client.NewSequence();
  ASSERT_TRUE(sequence);
  ExpectFails(sequence->Prompt("x"), KVD_NO_TOKENIZER);
  ExpectFails(sequence->Complete("x"), KVD_NO_TOKENIZER);
  ExpectFails(sequence->Text(), KVD_NO_TOKENIZER);
  ExpectFails(client.Tokenize("x"), KVD_NO_TOKENIZER);
  ExpectFails(client.Chat({{"user", "x"}}), KVD_NO_TOKENIZER);
}

}  // namespace
}  // namespace kvd
