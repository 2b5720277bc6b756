#include "client/kvd.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "shm/payload_codec.h"
#include "shm/piece_codec.h"
#include "tests/client/support/fake_daemon.h"

extern "C" int kvd_c11_round_trip(const char* socket_path);

namespace kvd {
namespace {

using wire::Verb;

// Generates three pieces; if predict_max is -1, it then generates until it is cancelled.
bool Generate(FakeSession& session, const ReceivedSubmission& received) {
  if (received.submission.verb != static_cast<std::uint16_t>(Verb::kGenerate)) return false;
  const auto request = wire::ParseGenerate(received.payload, FakeDaemon::kVocab);
  EXPECT_TRUE(request);
  for (TokenId token = 1; token <= 3; ++token) {
    const std::string text = std::to_string(token) + " ";
    const wire::PieceView piece{wire::kPieceTokens, 0, 0, {&token, 1}, text, {}};
    std::vector<std::byte> bytes(wire::PieceBytes(piece));
    wire::EncodePiece(piece, bytes);
    session.More(received.submission, bytes, {});
  }
  if (request->params.predict_max < 0) {
    session.held.push_back(received.submission);
    return true;
  }
  const wire::GenerateResult result{
      request->params.seed, wire::kFinishLength, 10, 5, 3, 100, 200, 4, 2, 1, 1, 1};
  session.Final(received.submission, std::as_bytes(std::span(&result, 1)), {});
  return true;
}

class KvdHTest : public testing::Test {
 protected:
  KvdHTest() {
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    path_ = daemon_.socket_path();
    options.socket_path = path_.c_str();
    options.timeout_ms = 20'000;
    EXPECT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
    kvd_generate_params_init(&params_, sizeof params_);
    params_.tokens = tokens_;
    params_.token_count = 2;
    params_.predict_max = 3;
    params_.seed = 42;
  }
  ~KvdHTest() override { kvd_close(client_); }

  const kvd_token tokens_[2] = {1, 2};
  FakeDaemon daemon_{Generate};
  std::string path_;
  kvd_client* client_ = nullptr;
  kvd_generate_params params_;
};

TEST_F(KvdHTest, AProgramInCGoesThroughARoundTrip) {
  EXPECT_EQ(kvd_c11_round_trip(path_.c_str()), KVD_OK) << kvd_error_message();
  EXPECT_EQ(kvd_c11_round_trip("/nonexistent"), KVD_DISCONNECTED);
  EXPECT_NE(std::string(kvd_error_message()).find("start one with"), std::string::npos);
}

TEST_F(KvdHTest, ADaemonOfAnotherVersionIsRefusedWithBothVersions) {
  const FakeDaemon newer({}, [](wire::Welcome& welcome, std::vector<int>&) {
    welcome.version = wire::kProtocolVersion + 1;
  });
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  const std::string path = newer.socket_path();
  options.socket_path = path.c_str();
  kvd_client* client = nullptr;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_VERSION_MISMATCH);
  const std::string message = kvd_error_message();
  EXPECT_NE(message.find(std::to_string(kvd_protocol_version())), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(kvd_protocol_version() + 1)), std::string::npos) << message;
  EXPECT_EQ(client, nullptr);
}

TEST_F(KvdHTest, NullPointersAreErrorsThatNameThem) {
  EXPECT_EQ(kvd_ping(nullptr, 0, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_STREQ(kvd_error_message(), "client: a null pointer");
  EXPECT_EQ(kvd_sequence_create(client_, nullptr, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_generate(client_, 1, nullptr, nullptr, nullptr, nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_connect(nullptr, nullptr), KVD_INVALID_ARGUMENT);
  kvd_close(nullptr);
  kvd_free(nullptr);
}

TEST_F(KvdHTest, EveryErrorCodeHasAName) {
  EXPECT_STREQ(kvd_code_name(KVD_NO_SPACE), "no_space");
  EXPECT_STREQ(kvd_code_name(KVD_TOO_LARGE), "too_large");
  EXPECT_STREQ(kvd_code_name(-1), "unknown");
  EXPECT_STREQ(kvd_code_name(99), "unknown");
  EXPECT_EQ(kvd_protocol_version(), wire::kProtocolVersion);
}

TEST_F(KvdHTest, StructsOfOlderAndNewerVersionsAreAccepted) {
  kvd_session_info info{};
  info.size = offsetof(kvd_session_info, vocab_size);  // the size of an older version's struct
  ASSERT_EQ(kvd_session(client_, &info), KVD_OK);
  EXPECT_EQ(info.session, 7u);
  EXPECT_EQ(info.vocab_size, 0u);
  info.size = 0;
  EXPECT_EQ(kvd_session(client_, &info), KVD_INVALID_ARGUMENT);
  struct {
    kvd_generate_params params;
    std::uint64_t unknown_member;
  } newer{params_, 0};
  newer.params.size = sizeof newer;
  EXPECT_EQ(kvd_generate(client_, 1, &newer.params, nullptr, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  newer.unknown_member = 1;
  EXPECT_EQ(kvd_generate(client_, 1, &newer.params, nullptr, nullptr, nullptr, nullptr),
            KVD_INVALID_ARGUMENT);
}

TEST_F(KvdHTest, UnknownFlagsAreRefused) {
  EXPECT_EQ(kvd_sequence_drop(client_, 5, KVD_PUBLIC, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_sequence_drop(client_, 5, KVD_FORCE, nullptr), KVD_OK);
}

TEST_F(KvdHTest, GenerateCallsBackForEachPiece) {
  std::string text;
  kvd_generate_result result;
  const auto append = [](void* user, const kvd_piece* piece) {
    static_cast<std::string*>(user)->append(piece->text, piece->text_bytes);
    return 0;
  };
  ASSERT_EQ(kvd_generate(client_, 1, &params_, append, &text, &result, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(text, "1 2 3 ");
  EXPECT_EQ(result.seed, 42u);
  EXPECT_EQ(result.prompt_reused, 10u);
  EXPECT_EQ(result.predicted, 3u);
  EXPECT_EQ(result.skipped, 1);
  EXPECT_EQ(result.is_full, 1);
}

TEST_F(KvdHTest, ACallbackCanCancelItsGeneration) {
  params_.predict_max = -1;
  int pieces = 0;
  const auto stop_at_second = [](void* user, const kvd_piece*) {
    return ++*static_cast<int*>(user) == 2 ? 1 : 0;
  };
  EXPECT_EQ(kvd_generate(client_, 1, &params_, stop_at_second, &pieces, nullptr, nullptr),
            KVD_CANCELLED);
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(kvd_ping(client_, 8, nullptr, nullptr), KVD_OK);
}

TEST_F(KvdHTest, GenerationsRunConcurrently) {
  kvd_request requests[2];
  ASSERT_EQ(kvd_generate(client_, 1, &params_, nullptr, nullptr, nullptr, &requests[0]), KVD_OK);
  params_.predict_max = -1;
  ASSERT_EQ(kvd_generate(client_, 2, &params_, nullptr, nullptr, nullptr, &requests[1]), KVD_OK);
  std::string texts[2];
  kvd_piece piece;
  kvd_generate_result result{};
  bool has_ended = false;
  while (!has_ended || texts[1].size() < 6) {
    std::size_t index = 9;
    ASSERT_EQ(kvd_wait_any(client_, requests, 2, 20'000, &index), KVD_OK);
    ASSERT_EQ(kvd_generate_next(client_, requests[index], 20'000, &piece, &result), KVD_OK);
    EXPECT_EQ(piece.request, requests[index]);
    if (piece.kind == KVD_PIECE_END) {
      has_ended = true;
    } else {
      texts[index].append(piece.text, piece.text_bytes);
    }
  }
  EXPECT_EQ(texts[0], "1 2 3 ");
  EXPECT_EQ(result.finish, static_cast<std::uint32_t>(KVD_FINISH_LENGTH));
  EXPECT_EQ(kvd_generate_next(client_, requests[0], 0, &piece, nullptr), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_generate_next(client_, requests[1], 5, &piece, nullptr), KVD_TIMEOUT);
  int was_found = 0;
  EXPECT_EQ(kvd_cancel(client_, requests[1], &was_found, nullptr), KVD_OK);
  EXPECT_EQ(was_found, 1);
  EXPECT_EQ(kvd_generate_next(client_, requests[1], 20'000, &piece, nullptr), KVD_CANCELLED);
  kvd_abandon(client_, requests[1]);
}

TEST_F(KvdHTest, LogitsCanBeReleasedOnlyOnce) {
  kvd_logits logits;
  // The fake daemon's answer to a decode has no rows of logits.
  ASSERT_EQ(kvd_decode(client_, 1, tokens_, 2, 0, KVD_LOGITS_LAST, &logits, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(logits.rows, nullptr);
  EXPECT_EQ(logits.has_more, 0);
  EXPECT_EQ(kvd_release(client_, &logits), KVD_OK);
  float row = 0;
  kvd_logits forged{};
  forged.rows = &row;
  forged.ticket = 12345;
  EXPECT_EQ(kvd_release(client_, &forged), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_decode(client_, 1, tokens_, 2, 0, 3, &logits, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_decode(client_, 1, tokens_, 2, -2, 0, &logits, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(KvdHTest, TextIsZeroTerminatedAndFreedByTheCaller) {
  char* text = nullptr;
  std::size_t text_bytes = 99;
  ASSERT_EQ(kvd_read_text(client_, 1, 0, &text, &text_bytes, nullptr), KVD_OK);
  EXPECT_EQ(text_bytes, 0u);
  EXPECT_STREQ(text, "");
  kvd_free(text);
  kvd_sequence_info* list = nullptr;
  std::size_t count = 99;
  ASSERT_EQ(kvd_list(client_, &list, &count, nullptr), KVD_OK);
  EXPECT_EQ(count, 0u);
  kvd_free(list);
}

TEST_F(KvdHTest, AMapThatWasNotRequestedIsRefusedAndNullPointersAreNamed) {
  EXPECT_EQ(kvd_map_open(nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_refresh(nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_totals(nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_sequences(nullptr, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_blocks(nullptr, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  kvd_map_close(nullptr);
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.wants_map = 2;
  kvd_client* client = nullptr;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace kvd
