#include "tests/e2e/c_api/c_api_test.h"

#include <gmock/gmock.h>

#include <utility>

namespace kvd::test {

CApiTest::CApiTest(std::vector<std::string> arguments) : ServedDaemonTest(std::move(arguments)) {}

void CApiTest::SetUp() {
  ServedDaemonTest::SetUp();
  if (!HasFatalFailure()) client_ = Open();
}

void CApiTest::TearDown() {
  kvd_close(client_);
  ServedDaemonTest::TearDown();
}

kvd_client* CApiTest::Open(const std::function<void(kvd_connect_options&)>& change) const {
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = daemon_->socket_path().c_str();
  options.timeout_ms = kPatienceMs;
  if (change) change(options);
  kvd_client* client = nullptr;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_OK) << kvd_error_message();
  return client;
}

void CApiTest::InBothForms(const std::function<void()>& body) {
  for (const Form form : {Form::kWaits, Form::kLater}) {
    SCOPED_TRACE(form == Form::kWaits ? "the call waits" : "the call has `later`");
    form_ = form;
    body();
  }
}

int CApiTest::Call(const VerbCall& call) const {
  if (form_ == Form::kWaits) return call(nullptr);
  kvd_request request = 99;
  if (const int code = call(&request); code != KVD_OK) {
    EXPECT_EQ(request, 0u) << "a submit that failed";
    return code;
  }
  EXPECT_NE(request, 0u);
  return kvd_finish(client_, request, kPatienceMs);
}

void CApiTest::ExpectRefused(const std::vector<Refusal>& refusals) {
  InBothForms([&] {
    for (std::size_t i = 0; i < refusals.size(); ++i) {
      EXPECT_EQ(Call(refusals[i].call), refusals[i].code) << "row " << i << kvd_error_message();
      EXPECT_THAT(kvd_error_message(), testing::HasSubstr(refusals[i].message)) << "row " << i;
      EXPECT_EQ(kvd_error_code(), refusals[i].code) << "row " << i;
    }
  });
}

kvd_sequence CApiTest::Create() const {
  kvd_sequence sequence = 0;
  EXPECT_EQ(kvd_sequence_create(client_, nullptr, &sequence, nullptr), KVD_OK)
      << kvd_error_message();
  return sequence;
}

kvd_sequence CApiTest::Filled(std::int32_t count) {
  const kvd_sequence sequence = Create();
  std::vector<kvd_token> tokens = {5 + ++filled_};
  for (kvd_token i = 1; i < count; ++i) tokens.push_back(5 + i % 900);
  kvd_logits logits;
  EXPECT_EQ(kvd_decode(client_, sequence, tokens.data(), tokens.size(), 0, KVD_LOGITS_NONE, &logits,
                       nullptr),
            KVD_OK)
      << kvd_error_message();
  return sequence;
}

kvd_request CApiTest::Compute(kvd_sequence sequence) const {
  const kvd_token token = 5;
  kvd_generate_params params;
  kvd_generate_params_init(&params, sizeof params);
  params.tokens = &token;
  params.token_count = 1;
  params.flags = KVD_IGNORE_EOS | KVD_NO_TEXT;
  kvd_request request = 0;
  EXPECT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK)
      << kvd_error_message();
  return request;
}

void CApiTest::Cancel(kvd_request request) const {
  int was_found = 0;
  EXPECT_EQ(kvd_cancel(client_, request, &was_found, nullptr), KVD_OK) << kvd_error_message();
  EXPECT_EQ(was_found, 1) << "the generation ended before the test";
  int code = KVD_OK;
  kvd_piece piece;
  while (code == KVD_OK) code = kvd_generate_next(client_, request, kPatienceMs, &piece, nullptr);
  EXPECT_EQ(code, KVD_CANCELLED) << kvd_error_message();
}

kvd_sequence_info CApiTest::Query(kvd_sequence sequence) const {
  kvd_sequence_info info{};
  EXPECT_EQ(kvd_sequence_query(client_, sequence, &info, nullptr), KVD_OK) << kvd_error_message();
  return info;
}

bool CApiTest::Exists(kvd_sequence sequence) const {
  kvd_sequence_info info{};
  return kvd_sequence_query(client_, sequence, &info, nullptr) == KVD_OK;
}

std::string CApiTest::Cells(kvd_sequence sequence) const {
  kvd_token_at* cells = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(kvd_read_tokens(client_, sequence, 0, -1, &cells, &count, nullptr), KVD_OK)
      << kvd_error_message();
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += std::to_string(cells[i].token) + "@" + std::to_string(cells[i].pos) + " ";
  }
  kvd_free(cells);
  return text;
}

}  // namespace kvd::test
