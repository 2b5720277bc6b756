// The calls of the C interface that convert text to tokens and back, and that format chats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/gguf_file.h"
#include "engine/model/gguf_writer.h"
#include "tests/e2e/c_api/c_api_test.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

class TextCallsTest : public test::CApiTest {
 protected:
  // Makes a call that gives a text, and returns the text, or the error's message.
  std::string Text(const std::function<int(char**, std::size_t*, kvd_request*)>& call) const {
    char* text = nullptr;
    std::size_t text_bytes = 0;
    if (Call([&](auto* later) { return call(&text, &text_bytes, later); }) != KVD_OK) {
      return kvd_error_message();
    }
    EXPECT_EQ(std::strlen(text), text_bytes);
    std::string taken(text, text_bytes);
    kvd_free(text);
    return taken;
  }
};

TEST_F(TextCallsTest, TextBecomesTokensAndTokensBecomeText) {
  const std::string text = "The kite is green.";
  InBothForms([&] {
    kvd_token* tokens = nullptr;
    std::size_t count = 0;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_tokenize(client_, text.data(), text.size(), 0, &tokens, &count, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_GT(count, 0u);
    EXPECT_EQ(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                return kvd_detokenize(client_, tokens, count, 0, out, bytes, later);
              }),
              text);
    const kvd_sequence sequence = Create();
    kvd_logits logits;
    ASSERT_EQ(kvd_decode(client_, sequence, tokens, count, 0, KVD_LOGITS_NONE, &logits, nullptr),
              KVD_OK);
    kvd_free(tokens);
    EXPECT_EQ(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                return kvd_read_text(client_, sequence, 0, out, bytes, later);
              }),
              text);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_tokenize(client_, "<|user|>", 8, KVD_PARSE_SPECIAL, &tokens, &count,
                                    later);
              }),
              KVD_OK);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                return kvd_detokenize(client_, tokens, count, KVD_SPECIAL, out, bytes, later);
              }),
              "<|user|>");
    kvd_free(tokens);
  });
}

TEST_F(TextCallsTest, NoTokensHaveAnEmptyTextIfTheCallWaits) {
  char* text = nullptr;
  std::size_t text_bytes = 9;
  ASSERT_EQ(kvd_detokenize(client_, nullptr, 0, 0, &text, &text_bytes, nullptr), KVD_OK);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(text_bytes, 0u);
  kvd_free(text);
  kvd_request request = 0;
  int code = kvd_detokenize(client_, nullptr, 0, 0, &text, &text_bytes, &request);
  if (code == KVD_OK) code = kvd_finish(client_, request, test::kPatienceMs);
  EXPECT_EQ(code, KVD_INVALID_ARGUMENT);
}

TEST_F(TextCallsTest, ChatsAreFormattedWithTheModelsTemplate) {
  const kvd_chat_message messages[] = {{"system", "Answer."}, {"user", "Where is the kite?"}};
  const std::string json = R"([{"role": "system", "content": "Answer."},
                               {"role": "user", "content": "Where is the kite?"}])";
  const std::string right =
      "<|system|>Answer.<|end|><|user|>Where is the kite?<|end|><|assistant|>";
  InBothForms([&] {
    EXPECT_EQ(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                return kvd_chat(client_, messages, 2, KVD_ADD_ASSISTANT, out, bytes, later);
              }),
              right);
    EXPECT_EQ(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                return kvd_chat_json(client_, json.data(), json.size(), out, bytes, later);
              }),
              right);
    EXPECT_THAT(Text([&](char** out, std::size_t* bytes, kvd_request* later) {
                  return kvd_chat_template(client_, nullptr, out, bytes, later);
                }),
                testing::StartsWith("{% for m in messages %}"));
  });
}

TEST_F(TextCallsTest, CallsOnTextNameTheirErrors) {
  kvd_token* tokens = nullptr;
  std::size_t count = 0;
  char* text = nullptr;
  const kvd_token unknown = 1'000'000;
  const kvd_chat_message message = {"user", "a"};
  const kvd_chat_message without_role = {nullptr, "a"};
  const kvd_sequence sequence = Filled(4);
  const auto chat_json = [&](const std::string& json, kvd_request* later) {
    return kvd_chat_json(client_, json.data(), json.size(), &text, &count, later);
  };
  const std::string with_template =
      R"({"messages": [{"role": "user", "content": "a"}], "chat_template": )";
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "text: a null pointer",
       [&](auto* later) { return kvd_tokenize(client_, nullptr, 0, 0, &tokens, &count, later); }},
      {KVD_INVALID_ARGUMENT, "tokens: a null pointer",
       [&](auto* later) { return kvd_tokenize(client_, "a", 1, 0, nullptr, &count, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) {
         return kvd_tokenize(client_, "a", 1, KVD_SPECIAL, &tokens, &count, later);
       }},
      {KVD_TOO_LARGE, "",
       [&](auto* later) {
         const std::string large(8 << 20, 'a');
         return kvd_tokenize(client_, large.data(), large.size(), 0, &tokens, &count, later);
       }},
      {KVD_INVALID_ARGUMENT, "",
       [&](auto* later) { return kvd_detokenize(client_, &unknown, 1, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "text: a null pointer",
       [&](auto* later) {
         return kvd_detokenize(client_, &unknown, 1, 0, nullptr, &count, later);
       }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) {
         return kvd_read_text(client_, sequence, KVD_FORCE, &text, &count, later);
       }},
      {KVD_INVALID_ARGUMENT, "messages: a null pointer",
       [&](auto* later) { return kvd_chat(client_, nullptr, 1, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "role: a null pointer",
       [&](auto* later) { return kvd_chat(client_, &without_role, 1, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "at least one message",
       [&](auto* later) { return kvd_chat(client_, &message, 0, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "text_bytes: a null pointer",
       [&](auto* later) { return kvd_chat(client_, &message, 1, 0, &text, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "json: a null pointer",
       [&](auto* later) { return kvd_chat_json(client_, nullptr, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "messages[0].content",
       [&](auto* later) { return chat_json(R"([{"role": "user", "content": 1}])", later); }},
      {KVD_UNSUPPORTED, "",
       [&](auto* later) {
         return chat_json(R"([{"role": "user", "content": [{"type": "image_url"}]}])", later);
       }},
      {KVD_INVALID_ARGUMENT, "line 1",
       [&](auto* later) { return chat_json(with_template + R"("{% if x %}"})", later); }},
      {KVD_INVALID_ARGUMENT, "not this chat",
       [&](auto* later) {
         return chat_json(with_template + R"("{{ raise_exception('not this chat') }}"})", later);
       }},
      {KVD_TOO_LARGE, "",
       [&](auto* later) {
         return chat_json(with_template + R"("{{ 'a' * 1000000000 }}"})", later);
       }},
      {KVD_NOT_FOUND, "chatmll",
       [&](auto* later) { return chat_json(with_template + R"("chatmll"})", later); }},
      {KVD_NOT_FOUND, "tool_use",
       [&](auto* later) { return kvd_chat_template(client_, "tool_use", &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "text: a null pointer",
       [&](auto* later) { return kvd_chat_template(client_, nullptr, nullptr, &count, later); }},
  });
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(tokens, nullptr);
}

TEST_F(TextCallsTest, AChatMustNotExceedTheLimitsOfATemplate) {
  const std::string large(std::size_t{65} << 20, 'a');
  const kvd_chat_message message = {"user", large.c_str()};
  char* text = nullptr;
  std::size_t count = 7;
  ExpectRefused({{KVD_TOO_LARGE, "bytes", [&](auto* later) {
                    return kvd_chat(client_, &message, 1, 0, &text, &count, later);
                  }}});
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(count, 7u);
}

// A model whose template refuses a role, and has an error for other roles.
class RefusingTemplateTest : public test::CApiTest {
 protected:
  RefusingTemplateTest() : RefusingTemplateTest(std::make_shared<test::TemporaryFolder>()) {}

 private:
  explicit RefusingTemplateTest(const std::shared_ptr<test::TemporaryFolder>& folder)
      : CApiTest({"-m", PathWithTemplate(folder->path() / "model.gguf")}), folder_(folder) {}
  static std::string PathWithTemplate(std::string to) {
    const auto file =
        GgufFile::Open(test::TinyModelPath(test::TinyLlama(), test::Tokenizer::kBundled));
    EXPECT_TRUE(file);
    if (!file) return to;
    GgufWriter writer;
    for (const GgufEntry& entry : file->entries()) {
      if (entry.key != "tokenizer.chat_template") writer.AddEntry(entry);
    }
    writer.AddString("tokenizer.chat_template",
                     "{% if messages[0].role == 'robot' %}{{ raise_exception('no robots') }}"
                     "{% endif %}\n{{ messages[0].nothing.more }}");
    for (const GgufTensor& tensor : file->tensors()) {
      writer.AddTensor(tensor.name, tensor.type, std::span(tensor.dims).first(tensor.rank));
    }
    const Status written = writer.WriteFile(to, [&](std::size_t index, GgufSink& sink) {
      const GgufTensor& tensor = file->tensors()[index];
      return sink.Append({tensor.data, tensor.bytes});
    });
    EXPECT_TRUE(written) << written.error().message;
    return to;
  }

  const std::shared_ptr<test::TemporaryFolder> folder_;
};

TEST_F(RefusingTemplateTest, ChatGivesTheTemplatesOwnMessageOrThePlaceOfItsError) {
  const kvd_chat_message robot = {"robot", "a"};
  const kvd_chat_message user = {"user", "a"};
  char* text = nullptr;
  std::size_t count = 7;
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "no robots",
       [&](auto* later) { return kvd_chat(client_, &robot, 1, 0, &text, &count, later); }},
      {KVD_INVALID_ARGUMENT, "line 2",
       [&](auto* later) { return kvd_chat(client_, &user, 1, 0, &text, &count, later); }},
  });
  EXPECT_EQ(text, nullptr);
}

class WithoutATokenizerTest : public test::CApiTest {
 protected:
  WithoutATokenizerTest() : CApiTest({"-m", test::TinyModelPath(test::TinyLlama())}) {}
};

TEST_F(WithoutATokenizerTest, CallsOnTextAreRefused) {
  kvd_token* tokens = nullptr;
  std::size_t count = 0;
  char* text = nullptr;
  const kvd_token token = 5;
  const kvd_chat_message message = {"user", "a"};
  const std::string json = R"([{"role": "user", "content": "a"}])";
  const kvd_sequence sequence = Filled(4);
  ExpectRefused({
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) { return kvd_tokenize(client_, "a", 1, 0, &tokens, &count, later); }},
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) { return kvd_detokenize(client_, &token, 1, 0, &text, &count, later); }},
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) { return kvd_read_text(client_, sequence, 0, &text, &count, later); }},
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) { return kvd_chat(client_, &message, 1, 0, &text, &count, later); }},
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) {
         return kvd_chat_json(client_, json.data(), json.size(), &text, &count, later);
       }},
      {KVD_NO_TOKENIZER, "",
       [&](auto* later) { return kvd_chat_template(client_, nullptr, &text, &count, later); }},
  });
  EXPECT_EQ(tokens, nullptr);
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(kvd_prompt(client_, sequence, "a", 0, nullptr), KVD_NO_TOKENIZER);
  EXPECT_EQ(kvd_generate_text(client_, sequence, "a", 0, nullptr, nullptr, nullptr, nullptr),
            KVD_NO_TOKENIZER);
  EXPECT_EQ(Query(sequence).cell_count, 4u);
}

}  // namespace
}  // namespace kvd
