// The calls of the C interface that compute: decode, generate, encode, embed, rank, and what of a
// prompt could be reused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/c_api/c_api_test.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::kPatienceMs;
using testing::HasSubstr;

const std::vector<kvd_token> kPrompt = {10, 20, 30, 40};

class ComputingCallsTest : public test::CApiTest {
 protected:
  // 2,048 cells fit into the pool, and 64 KiB of logits into the output arena.
  ComputingCallsTest() : CApiTest({"-c", "2048"}) {}

  int Decode(kvd_sequence sequence, std::int32_t pos, int wanted, kvd_logits* logits,
             kvd_request* later) const {
    return kvd_decode(client_, sequence, kPrompt.data(), kPrompt.size(), pos, wanted, logits,
                      later);
  }
  static kvd_generate_params Params(std::int32_t predict_max) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = kPrompt.data();
    params.token_count = kPrompt.size();
    params.predict_max = predict_max;
    params.seed = 7;
    params.flags = KVD_IGNORE_EOS;
    return params;
  }
  // Takes the pieces of a generation up to its end or error, and returns its code.
  int TakeAll(kvd_request request, std::string* text, kvd_generate_result* result) const {
    for (;;) {
      kvd_piece piece;
      const int code = kvd_generate_next(client_, request, kPatienceMs, &piece, result);
      if (code != KVD_OK || piece.kind == KVD_PIECE_END) return code;
      if (text != nullptr) text->append(piece.text, piece.text_bytes);
    }
  }
};

TEST_F(ComputingCallsTest, DecodeGivesTheSameLogitsInBothForms) {
  kvd_logits waited;
  const kvd_sequence first = Create();
  ASSERT_EQ(Decode(first, 0, KVD_LOGITS_LAST, &waited, nullptr), KVD_OK) << kvd_error_message();
  ASSERT_EQ(waited.row_count, 1u);
  EXPECT_EQ(waited.cell_count, kPrompt.size());
  EXPECT_EQ(waited.has_more, 0);
  kvd_request request = 0;
  kvd_logits taken;
  ASSERT_EQ(Decode(Create(), 0, KVD_LOGITS_LAST, nullptr, &request), KVD_OK);
  ASSERT_EQ(kvd_decode_next(client_, request, kPatienceMs, &taken), KVD_OK) << kvd_error_message();
  ASSERT_EQ(taken.row_count, 1u);
  EXPECT_EQ(taken.request, request);
  EXPECT_EQ(std::memcmp(waited.rows, taken.rows, waited.row_floats * sizeof(float)), 0);
  EXPECT_EQ(kvd_decode_next(client_, request, 0, &taken), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_release(client_, &waited), KVD_OK);
  EXPECT_EQ(waited.rows, nullptr);
}

TEST_F(ComputingCallsTest, LogitsCountTheCellsOfTheSequence) {
  const kvd_sequence sequence = Filled(10);
  kvd_logits logits;
  for (const int wanted : {KVD_LOGITS_NONE, KVD_LOGITS_LAST, KVD_LOGITS_ALL}) {
    const std::uint32_t before = Query(sequence).cell_count;
    ASSERT_EQ(Decode(sequence, -1, wanted, &logits, nullptr), KVD_OK) << kvd_error_message();
    EXPECT_EQ(logits.cell_count, before + kPrompt.size());
    EXPECT_EQ(logits.cell_count, Query(sequence).cell_count);
    EXPECT_EQ(logits.row_first, 0u);
    EXPECT_EQ(kvd_release(client_, &logits), KVD_OK);
  }
  // A removal makes the number of cells differ from the positions.
  ASSERT_EQ(kvd_sequence_remove(client_, sequence, 3, 8, nullptr, nullptr, nullptr), KVD_OK);
  kvd_request request = 0;
  ASSERT_EQ(Decode(sequence, -1, KVD_LOGITS_LAST, nullptr, &request), KVD_OK);
  ASSERT_EQ(kvd_decode_next(client_, request, kPatienceMs, &logits), KVD_OK);
  EXPECT_EQ(logits.cell_count, 10u + 3 * kPrompt.size() - 5 + kPrompt.size());
  // Cells that the prompt reuses from another sequence count too.
  const std::vector<kvd_token> prompt(200, 9);
  for (const std::uint32_t shared : {0u, 192u}) {
    const kvd_sequence empty = Create();
    ASSERT_EQ(kvd_decode(client_, empty, prompt.data(), prompt.size(), 0, KVD_LOGITS_LAST, &logits,
                         nullptr),
              KVD_OK);
    EXPECT_GE(logits.prompt_shared, shared);
    EXPECT_EQ(logits.cell_count, prompt.size());
  }
}

TEST_F(ComputingCallsTest, ReleaseTakesRowsOnce) {
  kvd_logits logits;
  ASSERT_EQ(Decode(Create(), 0, KVD_LOGITS_ALL, &logits, nullptr), KVD_OK);
  EXPECT_EQ(logits.row_count, kPrompt.size());
  kvd_logits again = logits;
  EXPECT_EQ(kvd_release(client_, &logits), KVD_OK);
  EXPECT_EQ(kvd_release(client_, &logits), KVD_OK) << "nothing is left to release";
  EXPECT_EQ(kvd_release(client_, &again), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_release(nullptr, &again), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_release(client_, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(ComputingCallsTest, LogitsThatExceedTheArenaArriveInPieces) {
  kvd_client* small =
      Open([](kvd_connect_options& options) { options.result_arena_bytes = 64 << 10; });
  kvd_sequence sequence = 0;
  ASSERT_EQ(kvd_sequence_create(small, nullptr, &sequence, nullptr), KVD_OK);
  const std::vector<kvd_token> tokens(64, 9);
  kvd_logits logits;
  ASSERT_EQ(kvd_decode(small, sequence, tokens.data(), 5, 0, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_OK);
  ASSERT_EQ(kvd_decode(small, sequence, tokens.data(), tokens.size(), 5, KVD_LOGITS_ALL, &logits,
                       nullptr),
            KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(logits.has_more, 1);
  std::uint64_t rows = logits.row_count;
  EXPECT_EQ(logits.cell_count, 5 + rows);
  const kvd_request decode = logits.request;
  kvd_logits next;
  EXPECT_EQ(kvd_decode_next(small, decode, 20, &next), KVD_TIMEOUT) << "the arena is full";
  while (logits.has_more != 0) {
    const kvd_request request = logits.request;
    ASSERT_EQ(kvd_release(small, &logits), KVD_OK);
    ASSERT_EQ(kvd_decode_next(small, request, kPatienceMs, &logits), KVD_OK) << kvd_error_message();
    EXPECT_EQ(logits.row_first, rows);
    rows += logits.row_count;
    EXPECT_EQ(logits.cell_count, 5 + rows);
  }
  EXPECT_EQ(rows, tokens.size());
  EXPECT_EQ(kvd_decode_next(small, decode, 0, &next), KVD_NOT_FOUND);
  kvd_close(small);
}

TEST_F(ComputingCallsTest, DecodeNamesItsErrorsInBothForms) {
  const kvd_sequence filled = Filled(10);
  const kvd_sequence computed = Create();
  const kvd_request computing = Compute(computed);
  const std::vector<kvd_token> many(3000, 9);  // more than the pool holds
  const kvd_token unknown = 1'000'000;
  const struct {
    int code;
    kvd_sequence sequence;
    const kvd_token* tokens;
    std::size_t count;
    std::int32_t pos;
  } rows[] = {
      {KVD_INVALID_ARGUMENT, filled, kPrompt.data(), 4, 5},
      {KVD_INVALID_ARGUMENT, filled, kPrompt.data(), 0, 10},
      {KVD_INVALID_ARGUMENT, filled, &unknown, 1, 10},
      {KVD_NOT_FOUND, 99, kPrompt.data(), 4, 0},
      {KVD_BUSY, computed, kPrompt.data(), 4, 0},
      {KVD_TOO_LARGE, filled, many.data(), 3000, 10},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(&row - rows);
    kvd_logits logits;
    EXPECT_EQ(kvd_decode(client_, row.sequence, row.tokens, row.count, row.pos, KVD_LOGITS_LAST,
                         &logits, nullptr),
              row.code);
    kvd_request request = 0;
    const int code = kvd_decode(client_, row.sequence, row.tokens, row.count, row.pos,
                                KVD_LOGITS_LAST, nullptr, &request);
    if (code == KVD_OK) {
      EXPECT_EQ(kvd_decode_next(client_, request, kPatienceMs, &logits), row.code);
    } else {
      EXPECT_EQ(code, row.code);
      EXPECT_EQ(request, 0u);
    }
  }
  Cancel(computing);
  kvd_logits logits;
  (void)Filled(1500);
  EXPECT_EQ(kvd_decode(client_, filled, many.data(), 1500, 10, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_NO_SPACE);
  kvd_request request = 0;
  ASSERT_EQ(kvd_decode(client_, filled, many.data(), 1500, 10, KVD_LOGITS_NONE, nullptr, &request),
            KVD_OK);
  EXPECT_EQ(kvd_decode_next(client_, request, kPatienceMs, &logits), KVD_NO_SPACE);
  EXPECT_EQ(Query(filled).cell_count, 10u);
  EXPECT_EQ(Decode(filled, 10, KVD_LOGITS_ALL + 1, &logits, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("wanted: 3"));
  EXPECT_EQ(Decode(filled, 10, KVD_LOGITS_LAST, nullptr, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("logits: a null pointer"));
  EXPECT_EQ(kvd_decode_next(client_, 12345, 0, &logits), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_decode_next(nullptr, 1, 0, &logits), KVD_INVALID_ARGUMENT);
}

TEST_F(ComputingCallsTest, ComputingOnASequenceOfAnotherSessionIsDenied) {
  kvd_client* other = Open();
  kvd_sequence theirs = 0;
  ASSERT_EQ(kvd_sequence_create(other, nullptr, &theirs, nullptr), KVD_OK);
  kvd_logits logits;
  kvd_request request = 0;
  EXPECT_EQ(Decode(theirs, 0, KVD_LOGITS_LAST, &logits, nullptr), KVD_PERMISSION);
  ASSERT_EQ(Decode(theirs, 0, KVD_LOGITS_LAST, nullptr, &request), KVD_OK);
  EXPECT_EQ(kvd_decode_next(client_, request, kPatienceMs, &logits), KVD_PERMISSION);
  const kvd_generate_params params = Params(4);
  EXPECT_EQ(kvd_generate(client_, theirs, &params, nullptr, nullptr, nullptr, nullptr),
            KVD_PERMISSION);
  ASSERT_EQ(kvd_generate(client_, theirs, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  EXPECT_EQ(TakeAll(request, nullptr, nullptr), KVD_PERMISSION);
  EXPECT_EQ(Query(theirs).cell_count, 0u);
  kvd_close(other);
}

TEST_F(ComputingCallsTest, ACancelledRequestAndOneWhoseSequenceIsDroppedEnd) {
  kvd_client* small =
      Open([](kvd_connect_options& options) { options.result_arena_bytes = 64 << 10; });
  const std::vector<kvd_token> tokens(64, 9);
  for (const bool drops : {false, true}) {
    kvd_sequence sequence = 0;
    kvd_request decode = 0;
    kvd_logits logits;
    ASSERT_EQ(kvd_sequence_create(small, nullptr, &sequence, nullptr), KVD_OK);
    ASSERT_EQ(kvd_decode(small, sequence, tokens.data(), tokens.size(), 0, KVD_LOGITS_ALL, nullptr,
                         &decode),
              KVD_OK);
    ASSERT_EQ(kvd_decode_next(small, decode, kPatienceMs, &logits), KVD_OK);
    ASSERT_EQ(logits.has_more, 1);
    if (drops) {
      ASSERT_EQ(kvd_sequence_drop(client_, sequence, KVD_FORCE, nullptr), KVD_OK);
    } else {
      int was_found = 0;
      ASSERT_EQ(kvd_cancel(small, decode, &was_found, nullptr), KVD_OK);
      EXPECT_EQ(was_found, 1);
    }
    const std::uint64_t cells = logits.cell_count;
    int code = KVD_OK;
    while (code == KVD_OK) {
      (void)kvd_release(small, &logits);
      code = kvd_decode_next(small, decode, kPatienceMs, &logits);
    }
    EXPECT_EQ(code, KVD_CANCELLED) << kvd_error_message();
    EXPECT_EQ(Exists(sequence), !drops);
    if (!drops) {
      EXPECT_GE(Query(sequence).cell_count, cells) << "the computed tokens stay";
    }
  }
  kvd_close(small);
  const kvd_sequence generated = Create();
  const kvd_request generation = Compute(generated);
  kvd_piece piece;
  ASSERT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
  ASSERT_EQ(kvd_sequence_drop(client_, generated, 0, nullptr), KVD_OK);
  EXPECT_EQ(TakeAll(generation, nullptr, nullptr), KVD_CANCELLED);
}

TEST_F(ComputingCallsTest, AGenerationThatWaitsEndsWithItsSequenceOrByItsCancellation) {
  const kvd_generate_params endless = Params(-1);
  const kvd_sequence sequence = Create();
  kvd_client* other = Open();
  std::thread canceller([&] {
    kvd_sequence_info info{};
    while (info.cell_count < 20) (void)kvd_sequence_query(other, sequence, &info, nullptr);
    EXPECT_EQ(kvd_sequence_drop(other, sequence, KVD_FORCE, nullptr), KVD_OK);
  });
  kvd_generate_result result{};
  result.seed = 99;
  EXPECT_EQ(kvd_generate(client_, sequence, &endless, nullptr, nullptr, &result, nullptr),
            KVD_CANCELLED);
  canceller.join();
  EXPECT_EQ(result.seed, 99u) << "written on an error";
  kvd_close(other);
  const auto cancel = [](void* user, const kvd_piece* piece) {
    int was_found = 0;
    EXPECT_EQ(kvd_cancel(static_cast<kvd_client*>(user), piece->request, &was_found, nullptr),
              KVD_OK);
    return 0;
  };
  const kvd_sequence kept = Create();
  EXPECT_EQ(kvd_generate(client_, kept, &endless, cancel, client_, nullptr, nullptr),
            KVD_CANCELLED);
  EXPECT_GT(Query(kept).cell_count, kPrompt.size()) << "the computed tokens stay";
}

TEST_F(ComputingCallsTest, GenerateGivesTheSameTextInBothForms) {
  const kvd_generate_params params = Params(12);
  std::string waited;
  std::string taken;
  kvd_generate_result result{};
  const auto append = [](void* user, const kvd_piece* piece) {
    static_cast<std::string*>(user)->append(piece->text, piece->text_bytes);
    return 0;
  };
  ASSERT_EQ(kvd_generate(client_, Create(), &params, append, &waited, &result, nullptr), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(result.seed, 7u);
  EXPECT_EQ(result.predicted, 12u);
  EXPECT_EQ(result.finish, static_cast<std::uint32_t>(KVD_FINISH_LENGTH));
  EXPECT_FALSE(waited.empty());
  kvd_request request = 0;
  kvd_generate_result later_result{};
  ASSERT_EQ(kvd_generate(client_, Create(), &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  ASSERT_EQ(TakeAll(request, &taken, &later_result), KVD_OK) << kvd_error_message();
  EXPECT_EQ(taken, waited);
  EXPECT_EQ(later_result.predicted, 12u);
  EXPECT_EQ(TakeAll(request, nullptr, nullptr), KVD_NOT_FOUND);
}

TEST_F(ComputingCallsTest, GenerateNamesItsErrorsInBothForms) {
  const kvd_sequence computed = Create();
  const kvd_request computing = Compute(computed);
  kvd_generate_params both = Params(4);
  both.grammar = "root ::= \"a\"";
  both.json_schema = "{}";
  kvd_generate_params hot = Params(4);
  hot.temperature = -1;
  kvd_generate_params without_tokens = Params(4);
  without_tokens.tokens = nullptr;
  kvd_generate_params elsewhere = Params(4);
  elsewhere.pos = 77;
  const kvd_generate_params good = Params(4);
  const struct {
    int code;
    kvd_sequence sequence;
    const kvd_generate_params* params;
    const char* message;
  } rows[] = {
      {KVD_INVALID_ARGUMENT, Create(), nullptr, "params: a null pointer"},
      {KVD_INVALID_ARGUMENT, Create(), &both, "a grammar and a json_schema"},
      {KVD_INVALID_ARGUMENT, Create(), &hot, "temperature"},
      {KVD_INVALID_ARGUMENT, Create(), &without_tokens, "params.tokens"},
      {KVD_INVALID_ARGUMENT, Create(), &elsewhere, "77"},
      {KVD_NOT_FOUND, 99, &good, "99"},
      {KVD_BUSY, computed, &good, "is being computed"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.message);
    EXPECT_EQ(kvd_generate(client_, row.sequence, row.params, nullptr, nullptr, nullptr, nullptr),
              row.code);
    EXPECT_THAT(kvd_error_message(), HasSubstr(row.message));
    kvd_request request = 99;
    int code = kvd_generate(client_, row.sequence, row.params, nullptr, nullptr, nullptr, &request);
    if (code == KVD_OK) {
      code = TakeAll(request, nullptr, nullptr);
    } else {
      EXPECT_EQ(request, 0u);
    }
    EXPECT_EQ(code, row.code);
    EXPECT_THAT(kvd_error_message(), HasSubstr(row.message));
  }
  Cancel(computing);
  const auto stop = [](void*, const kvd_piece*) { return 1; };
  const kvd_generate_params endless = Params(-1);
  EXPECT_EQ(kvd_generate(client_, Create(), &endless, stop, nullptr, nullptr, nullptr),
            KVD_CANCELLED);
  kvd_generate_result full{};
  EXPECT_EQ(kvd_generate(client_, Create(), &endless, nullptr, nullptr, &full, nullptr), KVD_OK);
  EXPECT_EQ(full.finish, static_cast<uint32_t>(KVD_FINISH_LENGTH));
  EXPECT_EQ(full.is_full, 1) << "the answer has all the room";
  EXPECT_EQ(full.skipped, 1);
  kvd_generate_params impatient = Params(8);
  impatient.room_wait_ms = -1;
  EXPECT_EQ(kvd_generate(client_, Create(), &impatient, nullptr, nullptr, nullptr, nullptr),
            KVD_NO_SPACE);
  kvd_request request = 0;
  ASSERT_EQ(kvd_generate(client_, Create(), &impatient, nullptr, nullptr, nullptr, &request),
            KVD_OK);
  EXPECT_EQ(TakeAll(request, nullptr, nullptr), KVD_NO_SPACE);
  kvd_piece piece;
  EXPECT_EQ(kvd_generate_next(client_, 12345, 0, &piece, nullptr), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_generate_next(nullptr, 1, 0, &piece, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_generate_next(client_, 1, 0, nullptr, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(ComputingCallsTest, AWaitThatTimesOutDoesNotEndTheGeneration) {
  const kvd_request generation = Compute(Create());
  kvd_piece piece;
  int code = KVD_OK;
  while (code == KVD_OK) code = kvd_generate_next(client_, generation, 0, &piece, nullptr);
  EXPECT_EQ(code, KVD_TIMEOUT);
  EXPECT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
  Cancel(generation);
}

TEST_F(ComputingCallsTest, ContinuingNamesWhatIsMissing) {
  const auto refused = [&](kvd_sequence sequence, const kvd_generate_params& params, int code,
                           const char* message) {
    SCOPED_TRACE(message);
    EXPECT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, nullptr), code);
    EXPECT_THAT(kvd_error_message(), HasSubstr(message));
    kvd_request request = 0;
    ASSERT_EQ(kvd_generate(client_, sequence, &params, nullptr, nullptr, nullptr, &request),
              KVD_OK);
    EXPECT_EQ(TakeAll(request, nullptr, nullptr), code);
    EXPECT_THAT(kvd_error_message(), HasSubstr(message));
  };
  kvd_generate_params continued = Params(4);
  continued.tokens = nullptr;
  continued.token_count = 0;
  continued.flags = KVD_CONTINUE;
  refused(Create(), continued, KVD_INVALID_ARGUMENT, "is empty");
  const kvd_sequence holed = Filled(10);
  ASSERT_EQ(kvd_sequence_remove(client_, holed, 5, 9, nullptr, nullptr, nullptr), KVD_OK);
  refused(holed, continued, KVD_UNSUPPORTED, "positions");
  kvd_generate_params resumed = Params(4);
  resumed.flags = KVD_RESUME_SAMPLER;
  refused(Filled(10), resumed, KVD_NOT_FOUND, "no generation has drawn");
  // A generation with a grammar: its grammar must be given again, and its tokens must still be a
  // sentence's begin.
  kvd_generate_params drawn = Params(6);
  drawn.flags = 0;
  drawn.grammar = "root ::= [a-c]{40}";
  const kvd_sequence sequence = Create();
  ASSERT_EQ(kvd_generate(client_, sequence, &drawn, nullptr, nullptr, nullptr, nullptr), KVD_OK)
      << kvd_error_message();
  refused(sequence, resumed, KVD_INVALID_ARGUMENT, "grammar");
  const kvd_token foreign[] = {4};
  kvd_generate_params again = drawn;
  again.flags = KVD_RESUME_SAMPLER;
  again.tokens = foreign;
  again.token_count = 1;
  refused(sequence, again, KVD_CONFLICT, "grammar");
}

TEST_F(ComputingCallsTest, AGenerationThatTimesOutIsCancelled) {
  kvd_client* hasty = Open([](kvd_connect_options& options) { options.timeout_ms = 1; });
  kvd_sequence sequence = 0;
  int code = KVD_TIMEOUT;
  while (code == KVD_TIMEOUT) code = kvd_sequence_create(hasty, nullptr, &sequence, nullptr);
  ASSERT_EQ(code, KVD_OK) << kvd_error_message();
  std::vector<kvd_token> prompt(1500, 9);
  kvd_generate_params params = Params(-1);
  params.tokens = prompt.data();
  params.token_count = prompt.size();
  EXPECT_EQ(kvd_generate(hasty, sequence, &params, nullptr, nullptr, nullptr, nullptr),
            KVD_TIMEOUT);
  kvd_close(hasty);
  ExpectServesOthers();
}

TEST_F(ComputingCallsTest, ResumeRepeatsAnAnswerAndNamesItsErrors) {
  const auto outlives = [](kvd_connect_options& options) { options.outlive_seconds = 100; };
  kvd_client* first = Open(outlives);
  const kvd_generate_params params = Params(30);
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  kvd_piece piece;
  ASSERT_EQ(kvd_sequence_create(first, nullptr, &sequence, nullptr), KVD_OK);
  ASSERT_EQ(kvd_generate(first, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  ASSERT_EQ(kvd_generate_next(first, request, kPatienceMs, &piece, nullptr), KVD_OK);
  kvd_session_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kvd_session(first, &info), KVD_OK);
  ASSERT_EQ(kvd_leave(first), KVD_OK);
  kvd_close(first);
  kvd_close(client_);
  client_ = Open([&](kvd_connect_options& options) {
    outlives(options);
    std::copy_n(info.session_token, sizeof info.session_token, options.session_token);
  });
  EXPECT_EQ(kvd_generate_resume(client_, 0, sequence, &params, 0, 0), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_generate_resume(client_, request, sequence, nullptr, 0, 0), KVD_INVALID_ARGUMENT);
  ASSERT_EQ(kvd_generate_resume(client_, request, sequence, &params, 0, 0), KVD_OK)
      << kvd_error_message();
  EXPECT_EQ(kvd_generate_resume(client_, request, sequence, &params, 0, 0), KVD_CONFLICT);
  kvd_generate_result result{};
  ASSERT_EQ(TakeAll(request, nullptr, &result), KVD_OK) << kvd_error_message();
  EXPECT_EQ(result.predicted, 30u);
  ASSERT_EQ(kvd_generate_resume(client_, request, sequence, &params, 32, 0), KVD_OK);
  EXPECT_EQ(TakeAll(request, nullptr, nullptr), KVD_CONFLICT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("received: 32"));
}

TEST_F(ComputingCallsTest, ResumeConflictsIfTheLogProbabilitiesOfTheFirstTokenAreLost) {
  const auto outlives = [](kvd_connect_options& options) { options.outlive_seconds = 100; };
  kvd_client* first = Open(outlives);
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  kvd_piece piece;
  kvd_logits logits;
  ASSERT_EQ(kvd_sequence_create(first, nullptr, &sequence, nullptr), KVD_OK);
  ASSERT_EQ(kvd_decode(first, sequence, kPrompt.data(), 4, 0, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_OK);
  kvd_generate_params params = Params(30);
  params.tokens = nullptr;
  params.token_count = 0;
  params.flags |= KVD_CONTINUE;
  params.logprob_count = 2;
  ASSERT_EQ(kvd_generate(first, sequence, &params, nullptr, nullptr, nullptr, &request), KVD_OK);
  ASSERT_EQ(kvd_generate_next(first, request, kPatienceMs, &piece, nullptr), KVD_OK);
  kvd_session_info info{};
  info.size = sizeof info;
  ASSERT_EQ(kvd_session(first, &info), KVD_OK);
  while (Query(sequence).cell_count < 10) ASSERT_FALSE(HasFailure());
  ASSERT_EQ(kvd_leave(first), KVD_OK);
  kvd_close(first);
  kvd_close(client_);
  client_ = Open([&](kvd_connect_options& options) {
    outlives(options);
    std::copy_n(info.session_token, sizeof info.session_token, options.session_token);
  });
  ASSERT_EQ(kvd_generate_resume(client_, request, sequence, &params, 0, 0), KVD_OK);
  EXPECT_EQ(TakeAll(request, nullptr, nullptr), KVD_CONFLICT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("logprob_count"));
}

TEST_F(ComputingCallsTest, WhySaysWhatOfAPromptCouldBeReused) {
  const kvd_sequence filled = Filled(64);
  kvd_token_at* cells = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(kvd_read_tokens(client_, filled, 0, -1, &cells, &count, nullptr), KVD_OK);
  std::vector<kvd_token> prompt;
  for (std::size_t i = 0; i < count; ++i) prompt.push_back(cells[i].token);
  kvd_free(cells);
  prompt.push_back(99);
  InBothForms([&] {
    kvd_why_info info{};
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_why(client_, prompt.data(), prompt.size(), &info, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(info.prompt_tokens, prompt.size());
    EXPECT_EQ(info.common, 64u);
    EXPECT_EQ(info.nearest, filled);
    EXPECT_EQ(info.prompt_token, 99);
    EXPECT_EQ(info.cached_token, -1);
  });
  kvd_why_info info{};
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "",
       [&](auto* later) { return kvd_why(client_, prompt.data(), 0, &info, later); }},
      {KVD_INVALID_ARGUMENT, "tokens: a null pointer",
       [&](auto* later) { return kvd_why(client_, nullptr, 1, &info, later); }},
      {KVD_INVALID_ARGUMENT, "info: a null pointer",
       [&](auto* later) { return kvd_why(client_, prompt.data(), 1, nullptr, later); }},
  });
}

TEST_F(ComputingCallsTest, TheOtherKindsOfModelsAreUnsupported) {
  const kvd_token_list text = {.tokens = kPrompt.data(), .token_count = kPrompt.size()};
  const char* documents[] = {"a"};
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t floats = 0;
  float score = 0;
  const kvd_sequence sequence = Create();
  ExpectRefused({
      {KVD_UNSUPPORTED, "",
       [&](auto* later) {
         return kvd_embed(client_, &text, 1, KVD_POOLING_DEFAULT, 0, &values, &rows, &floats,
                          later);
       }},
      {KVD_UNSUPPORTED, "",
       [&](auto* later) { return kvd_rank(client_, "query", documents, 1, &score, later); }},
      {KVD_UNSUPPORTED, "",
       [&](auto* later) {
         return kvd_encode(client_, sequence, kPrompt.data(), 4, nullptr, later);
       }},
  });
}

// A model with an encoder and a decoder.
class EncodeTest : public test::CApiTest {
 protected:
  EncodeTest() : CApiTest({"-m", test::TinyModelPath(Shape())}) {}
  static ModelShape Shape() {
    return {.name = "tiny-t5",
            .architecture = Architecture::kT5,
            .layers = 2,
            .embedding = 64,
            .heads = 4,
            .kv_heads = 4,
            .ffn = 96,
            .vocab = 96,
            .type = kernels::DataType::kF32};
  }
  std::vector<TokenId> Answer() override { return std::vector<TokenId>(8); }
};

TEST_F(EncodeTest, EncodeSetsTheTextOfASequenceOnce) {
  InBothForms([&] {
    const kvd_sequence sequence = Create();
    kvd_token start_token = 99;
    const auto encode = [&](auto* later) {
      return kvd_encode(client_, sequence, kPrompt.data(), 4, &start_token, later);
    };
    ASSERT_EQ(Call(encode), KVD_OK) << kvd_error_message();
    EXPECT_NE(start_token, 99);
    EXPECT_EQ(Call(encode), KVD_EXISTS);
    EXPECT_EQ(Call([&](auto* later) {
                return kvd_encode(client_, Create(), kPrompt.data(), 4, nullptr, later);
              }),
              KVD_OK);
    kvd_logits logits;
    ASSERT_EQ(
        kvd_decode(client_, sequence, kPrompt.data(), 4, 0, KVD_LOGITS_LAST, &logits, nullptr),
        KVD_OK)
        << kvd_error_message();
    EXPECT_TRUE(std::isfinite(logits.rows[0]));
    EXPECT_EQ(logits.cell_count, 4u);
    EXPECT_EQ(kvd_release(client_, &logits), KVD_OK);
    EXPECT_EQ(Call(encode), KVD_EXISTS);
  });
  kvd_client* other = Open();
  kvd_sequence theirs = 0;
  ASSERT_EQ(kvd_sequence_create(other, nullptr, &theirs, nullptr), KVD_OK);
  const kvd_sequence computed = Create();
  kvd_logits logits;
  EXPECT_EQ(kvd_decode(client_, computed, kPrompt.data(), 4, 0, KVD_LOGITS_LAST, &logits, nullptr),
            KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("no text is encoded"));
  ASSERT_EQ(kvd_encode(client_, computed, kPrompt.data(), 4, nullptr, nullptr), KVD_OK);
  const kvd_request computing = Compute(computed);
  ExpectRefused({
      {KVD_PERMISSION, "",
       [&](auto* later) { return kvd_encode(client_, theirs, kPrompt.data(), 4, nullptr, later); }},
      {KVD_BUSY, "",
       [&](auto* later) {
         return kvd_encode(client_, computed, kPrompt.data(), 4, nullptr, later);
       }},
      {KVD_NOT_FOUND, "99",
       [&](auto* later) { return kvd_encode(client_, 99, kPrompt.data(), 4, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "tokens: a null pointer",
       [&](auto* later) { return kvd_encode(client_, 99, nullptr, 4, nullptr, later); }},
  });
  Cancel(computing);
  kvd_close(other);
}

TEST_F(EncodeTest, StateFilesHoldNoEncodedText) {
  const kvd_sequence sequence = Create();
  kvd_logits logits;
  ASSERT_EQ(kvd_encode(client_, sequence, kPrompt.data(), 4, nullptr, nullptr), KVD_OK);
  ASSERT_EQ(kvd_decode(client_, sequence, kPrompt.data(), 4, 0, KVD_LOGITS_NONE, &logits, nullptr),
            KVD_OK);
  EXPECT_EQ(kvd_state_seq_get_size(client_, sequence, 0), 0u);
  EXPECT_EQ(kvd_error_code(), KVD_UNSUPPORTED) << kvd_error_message();
  EXPECT_EQ(kvd_state_get_size(client_, 0), 0u);
  EXPECT_EQ(kvd_error_code(), KVD_UNSUPPORTED) << kvd_error_message();
}

TEST_F(EncodeTest, EncodeRefusesATextThatDoesNotFitIntoThePool) {
  const std::vector<kvd_token> text(1500, 9);
  int code = KVD_OK;
  for (int i = 0; i < 8 && code == KVD_OK; ++i) {
    code = kvd_encode(client_, Create(), text.data(), text.size(), nullptr, nullptr);
  }
  EXPECT_EQ(code, KVD_NO_SPACE) << kvd_error_message();
  ExpectRefused({{KVD_NO_SPACE, "", [&](auto* later) {
                    return kvd_encode(client_, Create(), text.data(), text.size(), nullptr, later);
                  }}});
}

// A reranker, whose model also embeds texts.
class TextCallsOfARankerTest : public test::CApiTest {
 protected:
  explicit TextCallsOfARankerTest(const ModelShape& shape = Shape(),
                                  test::Tokenizer tokenizer = test::Tokenizer::kBundled)
      : CApiTest({"-m", test::TinyModelPath(shape, tokenizer)}) {}
  static ModelShape Shape() {
    return {.name = "tiny-bert",
            .architecture = Architecture::kBert,
            .layers = 2,
            .embedding = 64,
            .heads = 4,
            .kv_heads = 4,
            .ffn = 96,
            .vocab = 96,
            .context = 80,
            .pooling = Pooling::kRank,
            .type = kernels::DataType::kF32};
  }
  std::vector<TokenId> Answer() override { return std::vector<TokenId>(8); }
};

class EmbedderTest : public TextCallsOfARankerTest {
 protected:
  EmbedderTest() : TextCallsOfARankerTest(WithMean()) {}
  static ModelShape WithMean() {
    ModelShape shape = Shape();
    shape.pooling = Pooling::kMean;
    return shape;
  }
};

TEST_F(EmbedderTest, AnEmbedderRanksNoTexts) {
  const kvd_token_list text = {.tokens = kPrompt.data(), .token_count = kPrompt.size()};
  const char* documents[] = {"a"};
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t floats = 0;
  float score = 7;
  ExpectRefused({
      {KVD_UNSUPPORTED, "no classifier",
       [&](auto* later) {
         return kvd_embed(client_, &text, 1, KVD_POOLING_RANK, 0, &values, &rows, &floats, later);
       }},
      {KVD_UNSUPPORTED, "no classifier",
       [&](auto* later) { return kvd_rank(client_, "query", documents, 1, &score, later); }},
  });
  EXPECT_EQ(values, nullptr);
  EXPECT_EQ(score, 7);
}

class RankerWithoutATokenizerTest : public TextCallsOfARankerTest {
 protected:
  RankerWithoutATokenizerTest() : TextCallsOfARankerTest(Shape(), test::Tokenizer::kNone) {}
};

TEST_F(RankerWithoutATokenizerTest, RankNeedsATokenizer) {
  const char* documents[] = {"a"};
  float score = 0;
  ExpectRefused({{KVD_NO_TOKENIZER, "", [&](auto* later) {
                    return kvd_rank(client_, "query", documents, 1, &score, later);
                  }}});
}

TEST_F(TextCallsOfARankerTest, EmbedGivesTheRowsOfEachText) {
  const kvd_token_list texts[] = {{kPrompt.data(), 4}, {kPrompt.data(), 1}};
  InBothForms([&] {
    float* values = nullptr;
    std::size_t rows = 0;
    std::size_t floats = 0;
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_embed(client_, texts, 2, KVD_POOLING_MEAN, KVD_NORMALIZE, &values, &rows,
                                 &floats, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_EQ(rows, 2u);
    EXPECT_EQ(floats, 64u);
    double square = 0;
    for (std::size_t i = 0; i < floats; ++i) square += values[i] * values[i];
    EXPECT_NEAR(square, 1, 1e-4);
    kvd_free(values);
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_embed(client_, texts, 2, KVD_POOLING_NONE, 0, &values, &rows, &floats,
                                 later);
              }),
              KVD_OK);
    EXPECT_EQ(rows, 5u);
    kvd_free(values);
  });
  const std::vector<kvd_token> long_text(81, 9);
  const kvd_token_list too_long[] = {{kPrompt.data(), 4}, {long_text.data(), 81}};
  const kvd_token_list without_tokens = {nullptr, 1};
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t floats = 0;
  const auto embed = [&](const kvd_token_list* list, std::size_t count, int pooling,
                         std::uint32_t flags, kvd_request* later) {
    return kvd_embed(client_, list, count, pooling, flags, &values, &rows, &floats, later);
  };
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "text 1",
       [&](auto* later) { return embed(too_long, 2, KVD_POOLING_MEAN, 0, later); }},
      {KVD_INVALID_ARGUMENT, "text_count: 0",
       [&](auto* later) { return embed(texts, 0, KVD_POOLING_MEAN, 0, later); }},
      {KVD_INVALID_ARGUMENT, "text_count: 4097",
       [&](auto* later) { return embed(texts, 4097, KVD_POOLING_MEAN, 0, later); }},
      {KVD_INVALID_ARGUMENT, "pooling: 5",
       [&](auto* later) { return embed(texts, 2, 5, 0, later); }},
      {KVD_INVALID_ARGUMENT, "flags",
       [&](auto* later) { return embed(texts, 2, KVD_POOLING_MEAN, KVD_FORCE, later); }},
      {KVD_INVALID_ARGUMENT, "texts.tokens: a null pointer",
       [&](auto* later) { return embed(&without_tokens, 1, KVD_POOLING_MEAN, 0, later); }},
      {KVD_INVALID_ARGUMENT, "texts: a null pointer",
       [&](auto* later) { return embed(nullptr, 1, KVD_POOLING_MEAN, 0, later); }},
  });
  EXPECT_EQ(values, nullptr);
}

TEST_F(TextCallsOfARankerTest, EmbedRefusesRowsThatExceedTheOutputArena) {
  kvd_close(client_);
  client_ = Open([](kvd_connect_options& options) { options.result_arena_bytes = 64 << 10; });
  const std::vector<kvd_token> tokens(75, 9);
  const std::vector<kvd_token_list> texts(5, {.tokens = tokens.data(), .token_count = 75});
  float* values = nullptr;
  std::size_t rows = 0;
  std::size_t floats = 0;
  ExpectRefused({{KVD_TOO_LARGE, "result arena", [&](auto* later) {
                    return kvd_embed(client_, texts.data(), 5, KVD_POOLING_NONE, 0, &values, &rows,
                                     &floats, later);
                  }}});
}

TEST_F(TextCallsOfARankerTest, RankScoresEachDocument) {
  const char* documents[] = {"The kite is green.", "The drum is red."};
  InBothForms([&] {
    float scores[2] = {NAN, NAN};
    ASSERT_EQ(Call([&](auto* later) {
                return kvd_rank(client_, "Where is the kite?", documents, 2, scores, later);
              }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_TRUE(std::isfinite(scores[0]));
    EXPECT_NE(scores[0], scores[1]);
  });
  const std::string long_text(2000, 'a');
  const char* too_long[] = {"a", long_text.c_str()};
  const char* broken[] = {"a", "\xff"};
  const char* missing[] = {nullptr};
  float scores[2] = {};
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "1",
       [&](auto* later) { return kvd_rank(client_, "query", too_long, 2, scores, later); }},
      {KVD_INVALID_ARGUMENT, "1",
       [&](auto* later) { return kvd_rank(client_, "query", broken, 2, scores, later); }},
      {KVD_INVALID_ARGUMENT, "document_count: 0",
       [&](auto* later) { return kvd_rank(client_, "query", broken, 0, scores, later); }},
      {KVD_INVALID_ARGUMENT, "documents: a null pointer",
       [&](auto* later) { return kvd_rank(client_, "query", missing, 1, scores, later); }},
      {KVD_INVALID_ARGUMENT, "query: a null pointer",
       [&](auto* later) { return kvd_rank(client_, nullptr, documents, 1, scores, later); }},
      {KVD_INVALID_ARGUMENT, "scores: a null pointer",
       [&](auto* later) { return kvd_rank(client_, "query", documents, 1, nullptr, later); }},
  });
}

}  // namespace
}  // namespace kvd
