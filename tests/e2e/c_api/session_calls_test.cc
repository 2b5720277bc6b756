// The calls of the C interface for sessions, for the daemon's description, and for requests that
// were submitted with `later`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shm/wire_messages.h"
#include "tests/e2e/c_api/c_api_test.h"

namespace kvd {
namespace {

using test::kPatienceMs;
using testing::HasSubstr;

class SessionCallsTest : public test::CApiTest {
 protected:
  SessionCallsTest() : CApiTest({"-c", "16384"}) {}
};

TEST_F(SessionCallsTest, SessionAndInfoDescribeTheDaemon) {
  kvd_session_info session{};
  session.size = sizeof session;
  ASSERT_EQ(kvd_session(client_, &session), KVD_OK);
  EXPECT_GE(session.pool_cells, 16384u);
  EXPECT_NE(session.session, 0u);
  InBothForms([&] {
    kvd_daemon_info info{};
    info.size = sizeof info;
    ASSERT_EQ(Call([&](auto* later) { return kvd_info(client_, &info, later); }), KVD_OK);
    EXPECT_EQ(info.size, sizeof info);
    EXPECT_EQ(info.vocab_size, session.vocab_size);
    EXPECT_EQ(info.pool_cells, session.pool_cells);
    EXPECT_EQ(info.has_tokenizer, 1u);
    EXPECT_GE(info.sessions, 1u);
    info = {};
    info.size = offsetof(kvd_daemon_info, layer_count);
    ASSERT_EQ(Call([&](auto* later) { return kvd_info(client_, &info, later); }), KVD_OK);
    EXPECT_NE(info.context_trained, 0u);
    EXPECT_EQ(info.layer_count, 0u) << "written beyond info.size";
  });
  kvd_daemon_info unsized{};
  ExpectRefused({
      {KVD_INVALID_ARGUMENT, "info: a null pointer",
       [&](auto* later) { return kvd_info(client_, nullptr, later); }},
      {KVD_INVALID_ARGUMENT, "size: 0 bytes",
       [&](auto* later) { return kvd_info(client_, &unsized, later); }},
      {KVD_INVALID_ARGUMENT, "client: a null pointer",
       [&](auto* later) { return kvd_info(nullptr, &unsized, later); }},
  });
  session.size = 0;
  EXPECT_EQ(kvd_session(client_, &session), KVD_INVALID_ARGUMENT);
}

TEST_F(SessionCallsTest, PingMeasuresATimeAndBoundsItsPayload) {
  InBothForms([&] {
    std::uint64_t nanoseconds = 0;
    ASSERT_EQ(Call([&](auto* later) { return kvd_ping(client_, 4096, &nanoseconds, later); }),
              KVD_OK)
        << kvd_error_message();
    EXPECT_GT(nanoseconds, 0u);
    EXPECT_EQ(Call([&](auto* later) { return kvd_ping(client_, 0, nullptr, later); }), KVD_OK);
  });
  for (const std::size_t bytes : {std::size_t{4097}, std::size_t{8} << 20, SIZE_MAX}) {
    ExpectRefused({{KVD_INVALID_ARGUMENT, "payload_bytes",
                    [&](auto* later) { return kvd_ping(client_, bytes, nullptr, later); }}});
  }
}

TEST_F(SessionCallsTest, DefragMovesCellsTogether) {
  std::vector<kvd_sequence> sequences;
  for (int i = 0; i < 64; ++i) sequences.push_back(Filled(8));
  InBothForms([&] {
    for (int i = 0; i < 16; ++i) {
      ASSERT_EQ(kvd_sequence_drop(client_, sequences.back(), 0, nullptr), KVD_OK);
      sequences.pop_back();
    }
    kvd_defrag_report report{};
    ASSERT_EQ(Call([&](auto* later) { return kvd_defrag(client_, &report, later); }), KVD_OK)
        << kvd_error_message();
    EXPECT_GT(report.packing_ns, 0u);
    EXPECT_EQ(Call([&](auto* later) { return kvd_defrag(client_, nullptr, later); }), KVD_OK);
  });
  EXPECT_EQ(Query(sequences[0]).cell_count, 8u);
}

TEST_F(SessionCallsTest, DefragRefusesATenantAndASecondDefrag) {
  kvd_client* tenant = Open([](kvd_connect_options& options) { options.tenant[0] = 1; });
  std::swap(client_, tenant);
  ExpectRefused(
      {{KVD_PERMISSION, "", [&](auto* later) { return kvd_defrag(client_, nullptr, later); }}});
  std::swap(client_, tenant);
  kvd_close(tenant);
  // The first defragmentation begins after the step of a long prompt.
  const std::vector<kvd_token> prompt(1000, 9);
  kvd_request decode = 0;
  kvd_request first = 0;
  ASSERT_EQ(kvd_decode(client_, Create(), prompt.data(), prompt.size(), 0, KVD_LOGITS_NONE, nullptr,
                       &decode),
            KVD_OK);
  ASSERT_EQ(kvd_defrag(client_, nullptr, &first), KVD_OK);
  kvd_request second = 0;
  EXPECT_EQ(kvd_defrag(client_, nullptr, nullptr), KVD_BUSY);
  ASSERT_EQ(kvd_defrag(client_, nullptr, &second), KVD_OK);
  EXPECT_EQ(kvd_finish(client_, second, kPatienceMs), KVD_BUSY);
  EXPECT_EQ(kvd_finish(client_, first, kPatienceMs), KVD_OK) << kvd_error_message();
  kvd_logits logits;
  EXPECT_EQ(kvd_decode_next(client_, decode, kPatienceMs, &logits), KVD_OK);
}

// A daemon with many sequences, which exhaust the room for lists of cells before that for cells.
class ManyListsTest : public test::CApiTest {
 protected:
  ManyListsTest() : CApiTest({"-c", "2048"}) {}
};

TEST_F(ManyListsTest, DefragNeedsRoomForTheListsOfTheMovedCells) {
  // Every second cell of a sequence is removed, so its list is long and its blocks are half empty.
  const kvd_sequence source = Filled(1000);
  for (std::int32_t pos = 998; pos > 0; pos -= 2) {
    ASSERT_EQ(kvd_sequence_remove(client_, source, pos, pos + 1, nullptr, nullptr, nullptr),
              KVD_OK);
  }
  // Forks with long and then with short lists leave no room for another list.
  std::vector<kvd_sequence> forks(1024);
  for (std::uint32_t count = 1024; count > 0; count /= 2) {
    for (const std::int32_t cells : {-1, 1}) {
      int code = KVD_OK;
      while (code == KVD_OK) {
        code = kvd_sequence_fork(client_, source, cells, count, nullptr, forks.data(), nullptr,
                                 nullptr);
      }
      EXPECT_EQ(code, KVD_NO_SPACE) << kvd_error_message();
    }
  }
  const std::string before = Cells(source);
  ExpectRefused(
      {{KVD_NO_SPACE, "", [&](auto* later) { return kvd_defrag(client_, nullptr, later); }}});
  EXPECT_EQ(Cells(source), before);
  ASSERT_EQ(kvd_sequence_keep(client_, source, nullptr), KVD_OK);
  EXPECT_EQ(kvd_defrag(client_, nullptr, nullptr), KVD_OK) << kvd_error_message();
  EXPECT_EQ(Cells(source), before);
}

TEST_F(SessionCallsTest, AMapMustBeAnnouncedToConnect) {
  kvd_map* map = nullptr;
  EXPECT_EQ(kvd_map_open(client_, &map), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(map, nullptr);
  EXPECT_EQ(kvd_map_open(nullptr, &map), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_open(client_, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_refresh(nullptr, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(SessionCallsTest, ReadingAMapNamesAMissingOutput) {
  kvd_client* client = Open([](kvd_connect_options& options) { options.wants_map = 1; });
  kvd_map* map = nullptr;
  ASSERT_EQ(kvd_map_open(client, &map), KVD_OK) << kvd_error_message();
  kvd_close(client);
  EXPECT_EQ(kvd_map_refresh(map, nullptr), KVD_OK) << "also after kvd_close";
  kvd_map_totals totals{};
  kvd_map_sequence* sequences = nullptr;
  kvd_map_block* blocks = nullptr;
  std::size_t count = 7;
  EXPECT_EQ(kvd_map_read_totals(map, &totals), KVD_INVALID_ARGUMENT);
  EXPECT_THAT(kvd_error_message(), HasSubstr("size: 0 bytes"));
  EXPECT_EQ(kvd_map_read_totals(map, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_totals(nullptr, &totals), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_sequences(map, nullptr, &count), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_sequences(map, &sequences, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_sequences(nullptr, &sequences, &count), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_blocks(map, nullptr, &count), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_blocks(map, &blocks, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_map_read_blocks(nullptr, &blocks, &count), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(sequences, nullptr);
  EXPECT_EQ(blocks, nullptr);
  EXPECT_EQ(count, 7u);
  kvd_map_close(map);
  kvd_map_close(nullptr);
}

TEST_F(SessionCallsTest, CallsThatOpenADescriptorNeedAFreeOne) {
  kvd_client* watcher = Open([](kvd_connect_options& options) { options.wants_map = 1; });
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = ::dup(0);  // the lowest free number
  ASSERT_GE(next, 0);
  ASSERT_EQ(::close(next), 0);
  rlimit few = limit;
  few.rlim_cur = static_cast<rlim_t>(next);
  int descriptor = -1;
  kvd_map* map = nullptr;
  kvd_client* third = nullptr;
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  const std::function<int()> calls[] = {
      [&] { return kvd_event_fd(client_, &descriptor); },
      [&] { return kvd_map_open(watcher, &map); },
      [&] { return kvd_connect(&options, &third); },
  };
  for (const auto& call : calls) {
    SCOPED_TRACE(&call - calls);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const int code = call();
    const std::string message = kvd_error_message();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(code, KVD_IO);
    EXPECT_THAT(message, HasSubstr("Too many open files"));
  }
  EXPECT_EQ(descriptor, -1);
  EXPECT_EQ(map, nullptr);
  EXPECT_EQ(third, nullptr);
  kvd_close(watcher);
  EXPECT_EQ(kvd_event_fd(client_, &descriptor), KVD_OK) << kvd_error_message();
}

TEST_F(SessionCallsTest, ConnectSaysWhyItFails) {
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  kvd_client* client = nullptr;
  options.socket_path = "/nonexistent";
  EXPECT_EQ(kvd_connect(&options, &client), KVD_DISCONNECTED);
  EXPECT_THAT(kvd_error_message(), HasSubstr("start one with"));
  options.socket_path = socket_path().c_str();
  options.submission_entries = 7;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(client, nullptr);
  EXPECT_STREQ(kvd_code_name(KVD_DISCONNECTED), "disconnected");
  EXPECT_EQ(kvd_protocol_version(), wire::kProtocolVersion);
  EXPECT_STREQ(kvd_prefix_limit_name(KVD_PREFIX_NO_CHECKPOINT), "no-checkpoint");
  EXPECT_STREQ(kvd_prefix_limit_name(1000), "unknown");
}

// A daemon of one connection beside that of the fixture, for tenants of another uid.
class RefusingDaemonTest : public test::CApiTest {
 protected:
  RefusingDaemonTest() : CApiTest({"--max-connections", "2", "--tenant-uid", "54321"}) {}
};

TEST_F(RefusingDaemonTest, ConnectNamesTheLimitAndThePermission) {
  kvd_connect_options options;
  kvd_connect_options_init(&options, sizeof options);
  options.socket_path = socket_path().c_str();
  options.tenant[0] = 1;
  kvd_client* client = nullptr;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_PERMISSION) << kvd_error_message();
  kvd_client* second = Open();
  options.tenant[0] = 0;
  EXPECT_EQ(kvd_connect(&options, &client), KVD_NO_SPACE) << kvd_error_message();
  EXPECT_EQ(client, nullptr);
  kvd_close(second);
}

TEST_F(SessionCallsTest, LeaveEndsTheConnectionAndRenewOpensAnotherSession) {
  kvd_session_info before{};
  kvd_session_info after{};
  before.size = after.size = sizeof before;
  ASSERT_EQ(kvd_session(client_, &before), KVD_OK);
  EXPECT_EQ(kvd_renew(client_), KVD_OK) << "a session that has not failed";
  const kvd_sequence sequence = Create();
  ASSERT_EQ(kvd_leave(client_), KVD_OK);
  ExpectRefused(
      {{KVD_DISCONNECTED, "", [&](auto* later) { return kvd_ping(client_, 0, nullptr, later); }},
       {KVD_DISCONNECTED, "",
        [&](auto* later) { return kvd_sequence_drop(client_, sequence, 0, later); }}});
  ASSERT_EQ(kvd_renew(client_), KVD_OK) << kvd_error_message();
  ASSERT_EQ(kvd_session(client_, &after), KVD_OK);
  EXPECT_NE(after.session, before.session);
  EXPECT_EQ(kvd_sequence_clear(client_, sequence, nullptr), KVD_PERMISSION)
      << "a sequence of the session before";
  EXPECT_EQ(kvd_renew(nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_leave(nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(SessionCallsTest, CancelEndsARequestAndSaysWhetherItWasFound) {
  InBothForms([&] {
    const kvd_sequence sequence = Create();
    const kvd_request request = Compute(sequence);
    int was_found = 9;
    ASSERT_EQ(Call([&](auto* later) { return kvd_cancel(client_, request, &was_found, later); }),
              KVD_OK);
    EXPECT_EQ(was_found, 1);
    kvd_piece piece;
    int code = KVD_OK;
    while (code == KVD_OK) code = kvd_generate_next(client_, request, kPatienceMs, &piece, nullptr);
    EXPECT_EQ(code, KVD_CANCELLED);
    ASSERT_EQ(Call([&](auto* later) { return kvd_cancel(client_, request, &was_found, later); }),
              KVD_OK);
    EXPECT_EQ(was_found, 0);
    EXPECT_EQ(Call([&](auto* later) { return kvd_cancel(client_, request, nullptr, later); }),
              KVD_OK);
  });
}

TEST_F(SessionCallsTest, AbandonDiscardsTheOutputsOfARequest) {
  auto sequence = std::make_unique<kvd_sequence>(7);
  kvd_request request = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, sequence.get(), &request), KVD_OK);
  kvd_abandon(client_, request);
  EXPECT_EQ(*sequence, 7u);
  sequence.reset();
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_NOT_FOUND);
  const kvd_request generation = Compute(Create());
  kvd_abandon(client_, generation);
  kvd_piece piece;
  EXPECT_EQ(kvd_generate_next(client_, generation, 0, &piece, nullptr), KVD_NOT_FOUND);
  kvd_abandon(client_, 12345);
  kvd_abandon(nullptr, 1);
}

TEST_F(SessionCallsTest, WaitAnyFindsTheRequestThatHasAnAnswer) {
  const kvd_request generation = Compute(Create());
  kvd_piece piece;
  ASSERT_EQ(kvd_generate_next(client_, generation, kPatienceMs, &piece, nullptr), KVD_OK);
  kvd_daemon_info info{};
  info.size = sizeof info;
  kvd_request request = 0;
  ASSERT_EQ(kvd_info(client_, &info, &request), KVD_OK);
  int descriptor = -1;
  ASSERT_EQ(kvd_event_fd(client_, &descriptor), KVD_OK);
  std::size_t index = 9;
  int code = KVD_TIMEOUT;
  while ((code = kvd_wait_any(client_, &request, 1, 0, &index)) == KVD_TIMEOUT) {
    pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&entry, 1, kPatienceMs), 1);
  }
  ASSERT_EQ(code, KVD_OK) << kvd_error_message();
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(kvd_finish(client_, request, 0), KVD_OK);
  EXPECT_NE(info.vocab_size, 0u);
  EXPECT_EQ(kvd_wait_any(client_, &request, 1, 0, &index), KVD_NOT_FOUND);
  const kvd_request both[] = {request, generation};
  ASSERT_EQ(kvd_wait_any(client_, both, 2, kPatienceMs, &index), KVD_OK);
  EXPECT_EQ(index, 1u);
  Cancel(generation);
  EXPECT_EQ(kvd_wait_any(nullptr, both, 2, 0, &index), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_wait_any(client_, both, 2, 0, nullptr), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_event_fd(client_, nullptr), KVD_INVALID_ARGUMENT);
}

TEST_F(SessionCallsTest, FinishKnowsOnlyRequestsInFlight) {
  kvd_sequence sequence = 0;
  kvd_request request = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &sequence, &request), KVD_OK);
  EXPECT_EQ(kvd_finish(nullptr, request, 0), KVD_INVALID_ARGUMENT);
  EXPECT_EQ(kvd_finish(client_, request, kPatienceMs), KVD_OK);
  EXPECT_EQ(kvd_finish(client_, request, kPatienceMs), KVD_NOT_FOUND);
  EXPECT_EQ(kvd_finish(client_, 0, 0), KVD_NOT_FOUND);
}

// Outputs of every size of reply lie in memory that ends with the client, so that
// AddressSanitizer sees a write after kvd_close.
TEST_F(SessionCallsTest, NothingIsWrittenToOutputsAfterClose) {
  struct Outputs {
    kvd_sequence sequence = 7;
    kvd_sequence_info info{};
    kvd_sequence_info* list = nullptr;
    std::size_t count = 7;
    kvd_token* tokens = nullptr;
    std::size_t token_count = 7;
    std::uint64_t nanoseconds = 7;
  };
  const kvd_sequence filled = Filled(10);
  auto outputs = std::make_unique<Outputs>();
  kvd_request request = 0;
  EXPECT_EQ(kvd_sequence_create(client_, nullptr, &outputs->sequence, &request), KVD_OK);
  EXPECT_EQ(kvd_sequence_query(client_, filled, &outputs->info, &request), KVD_OK);
  EXPECT_EQ(kvd_list(client_, &outputs->list, &outputs->count, &request), KVD_OK);
  EXPECT_EQ(kvd_tokenize(client_, "kite", 4, 0, &outputs->tokens, &outputs->token_count, &request),
            KVD_OK);
  EXPECT_EQ(kvd_ping(client_, 10, &outputs->nanoseconds, &request), KVD_OK);
  std::size_t index = 0;
  EXPECT_EQ(kvd_wait_any(client_, &request, 1, kPatienceMs, &index), KVD_OK);
  (void)Compute(filled);
  kvd_close(std::exchange(client_, nullptr));
  EXPECT_EQ(outputs->sequence, 7u);
  EXPECT_EQ(outputs->info.handle, 0u);
  EXPECT_EQ(outputs->list, nullptr);
  EXPECT_EQ(outputs->count, 7u);
  EXPECT_EQ(outputs->tokens, nullptr);
  EXPECT_EQ(outputs->nanoseconds, 7u);
  outputs.reset();
}

// Returns 0, or the number of the first check that failed in a forked child.
int ChecksOfAChild(kvd_client* client, kvd_request create, const kvd_sequence* created,
                   kvd_request generation) {
  kvd_sequence sequence = 0;
  kvd_request request = 99;
  kvd_piece piece;
  std::size_t index = 0;
  if (kvd_finish(client, create, 1000) != KVD_INVALID_ARGUMENT) return 1;
  if (*created != 0) return 2;
  if (kvd_sequence_create(client, nullptr, &sequence, nullptr) != KVD_INVALID_ARGUMENT) return 3;
  if (kvd_sequence_create(client, nullptr, &sequence, &request) != KVD_INVALID_ARGUMENT) return 4;
  if (request != 0 || sequence != 0) return 5;
  if (kvd_generate_next(client, generation, 1000, &piece, nullptr) != KVD_INVALID_ARGUMENT)
    return 6;
  if (kvd_wait_any(client, &create, 1, 1000, &index) != KVD_INVALID_ARGUMENT) return 7;
  kvd_abandon(client, create);
  kvd_close(client);
  return *created == 0 ? 0 : 8;
}

TEST_F(SessionCallsTest, AForkedChildWritesNoOutputsAndLeavesTheParentsRequests) {
  kvd_sequence created = 0;
  kvd_request create = 0;
  const kvd_request generation = Compute(Create());
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &created, &create), KVD_OK);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(ChecksOfAChild(client_, create, &created, generation));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(created, 0u) << "written without kvd_finish";
  EXPECT_EQ(kvd_finish(client_, create, kPatienceMs), KVD_OK) << kvd_error_message();
  EXPECT_NE(created, 0u);
  Cancel(generation);
}

}  // namespace
}  // namespace kvd
