// Tests Jobs: limits, ends, and how jobs are found. Recovery has its own tests.
#include "http/answer/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/http/jobs/stream_folder.h"
#include "tests/http/recording_responder.h"

namespace kvd::test {
namespace {

using http::Await;
using http::Job;
using http::JobLimits;
using http::Request;
using http::Responder;

// Each handler takes what it needs by value, because a coroutine keeps its arguments only.
Await<void> Throw(Responder& responder, bool begins) {
  if (begins) {
    http::GatewayReply head{.body = {}, .content_type = std::string(http::kEventStreamType)};
    co_await responder.Begin(std::move(head));
    co_await responder.Write("data: 1\n\n");
  }
  throw std::runtime_error("out of luck");
}

Await<void> ThrowNumber() {
  throw 7;
  co_return;
}

Await<void> WriteAndStop(Responder& responder, std::size_t bytes) {
  http::GatewayReply head{.body = {}, .content_type = std::string(http::kEventStreamType)};
  co_await responder.Begin(std::move(head));
  for (std::size_t i = 0; i < bytes; i += 1000) co_await responder.Write(std::string(1000, 'x'));
  co_await Forever();
}

class JobsTest : public ::testing::Test {
 protected:
  void Begin(const JobLimits& limits = {}) {
    process_ = std::make_unique<JobsProcess>(folder_.path(), limits);
    process_->Add("/throws",
                  [](const Request& request, const std::vector<std::string>&,
                     Responder& responder) { return Throw(responder, request.body == "begin"); });
    process_->Add("/throws_number", [](const Request&, const std::vector<std::string>&,
                                       Responder&) { return ThrowNumber(); });
    process_->Add("/stops", [](const Request& request, const std::vector<std::string>&,
                               Responder& responder) {
      return WriteAndStop(responder, request.body.empty() ? 0 : std::stoul(request.body));
    });
  }
  // Starts a job, and runs what is ready.
  Result<std::shared_ptr<Job>> Start(const std::string& id, const std::string& path,
                                     const std::string& body = "", const std::string& tenant = "") {
    Request request = RequestOf(id, path, tenant);
    request.body = body;
    auto job = process_->jobs().Start(id, path, request);
    process_->Poll();
    return job;
  }
  std::string TextOf(const Job& job) {
    RecordingResponder reader;
    boost::asio::co_spawn(process_->loop(), job.buffer->Follow(0, reader), boost::asio::detached);
    process_->Poll();
    if (reader.whole) return std::to_string(reader.whole->status) + " " + reader.whole->body;
    return reader.text;
  }
  http::Jobs& jobs() { return process_->jobs(); }

  StreamFolder folder_;
  std::unique_ptr<JobsProcess> process_;
};

TEST_F(JobsTest, AHandlerThatThrowsEndsItsJobWithAnErrorReply) {
  Begin();
  for (const char* const path : {"/throws", "/throws_number"}) {
    const auto job = Start("t", path);
    ASSERT_TRUE(job);
    EXPECT_TRUE((*job)->buffer->is_over());
    EXPECT_NE((*job)->completed_unix_s, 0);
    EXPECT_THAT(TextOf(**job), testing::StartsWith("500 "));
    EXPECT_THAT(TextOf(**job), testing::HasSubstr("the request has failed"));
    EXPECT_TRUE(folder_.Read("t")->is_over());
    EXPECT_EQ(jobs().shares().of("").jobs, 1u);
  }
}

TEST_F(JobsTest, AHandlerThatThrowsInItsStreamEndsItWithAnErrorEvent) {
  Begin();
  const auto job = Start("t", "/throws", "begin");
  ASSERT_TRUE(job);
  EXPECT_THAT(TextOf(**job), testing::StartsWith("data: 1\n\ndata: {"));
  EXPECT_THAT(TextOf(**job), testing::HasSubstr("out of luck"));
  EXPECT_TRUE(folder_.Read("t")->is_over());
}

TEST_F(JobsTest, OnlyATenantAtItsLimitOfJobsIsRefused) {
  Begin({.of_each = {.jobs = 2, .memory_bytes = 1u << 20, .journal_bytes = 1u << 20}});
  ASSERT_TRUE(Start("1", "/stops", "", "anna"));
  ASSERT_TRUE(Start("2", "/stops", "", "anna"));
  const auto third = Start("3", "/stops", "", "anna");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, Code::kNoSpace);
  EXPECT_EQ(third.error().message,
            "streams that are kept: 2 and 1 more are beyond the limit of 2; delete some");
  EXPECT_EQ(http::RefusalOf(third.error()).status, 429);
  EXPECT_TRUE(Start("1", "/stops", "", "bert"));
  EXPECT_TRUE(Start("2", "/stops", "", "anna")) << "a job that is replaced makes room";
}

TEST_F(JobsTest, TheOldestEndedJobOfATenantIsRemovedForANewOne) {
  Begin({.of_each = {.jobs = 2, .memory_bytes = 1u << 20, .journal_bytes = 1u << 20}});
  ASSERT_TRUE(Start("1", "/healthy", "", "anna"));
  ASSERT_TRUE(Start("2", "/healthy", "", "anna"));
  ASSERT_TRUE(Start("1", "/healthy", "", "bert"));
  ASSERT_TRUE(Start("3", "/healthy", "", "anna"));
  EXPECT_EQ(jobs().Find("anna", "1"), nullptr);
  EXPECT_NE(jobs().Find("anna", "2"), nullptr);
  EXPECT_NE(jobs().Find("bert", "1"), nullptr);
}

TEST_F(JobsTest, AtTheCommonLimitTheLargestTenantLosesItsOldestJob) {
  Begin({.of_each = {.jobs = 3, .memory_bytes = 1u << 20, .journal_bytes = 1u << 20},
         .of_all = {.jobs = 4, .memory_bytes = 1u << 20, .journal_bytes = 1u << 20}});
  for (const char* const id : {"1", "2", "3"}) ASSERT_TRUE(Start(id, "/healthy", "", "anna"));
  ASSERT_TRUE(Start("1", "/stops", "", "bert"));
  ASSERT_TRUE(Start("2", "/stops", "", "bert"));
  EXPECT_EQ(jobs().Find("anna", "1"), nullptr);
  ASSERT_TRUE(Start("1", "/stops", "", "carl"));
  EXPECT_TRUE(Start("1", "/stops", "", "dora")) << "anna has one that has ended";
  const auto last = Start("1", "/stops", "", "emil");
  ASSERT_FALSE(last);
  EXPECT_THAT(last.error().message, testing::HasSubstr("the limit of 4 of all tenants"));
}

TEST_F(JobsTest, ABodyBeyondTheMemoryLimitIsRefused) {
  Begin({.of_each = {.jobs = 9, .memory_bytes = 5'000, .journal_bytes = 1u << 20}});
  const auto job = Start("1", "/stops", std::string(6'000, '0'));
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, testing::HasSubstr("bytes of streams in memory: 0 and 6000"));
}

TEST_F(JobsTest, ARequestWhoseJournalExceedsTheLimitIsRefused) {
  Begin({.of_each = {.jobs = 9, .memory_bytes = 1u << 20, .journal_bytes = 5'000}});
  const auto job = Start("1", "/stops", std::string(6'000, '0'));
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message, testing::HasSubstr("bytes of journals"));
  EXPECT_TRUE(folder_.Files().empty());
}

TEST_F(JobsTest, AStreamBeyondTheMemoryOfItsTenantDropsItsFirstBytes) {
  constexpr std::uint64_t kMemory = 1u << 20;
  Begin({.of_each = {.jobs = 9, .memory_bytes = kMemory, .journal_bytes = 1u << 30}});
  const auto job = Start("1", "/stops", std::to_string(4 * kMemory));
  ASSERT_TRUE(job);
  const http::StreamBuffer& buffer = *(*job)->buffer;
  EXPECT_GT(buffer.byte_count(), 4 * kMemory - 1000);
  EXPECT_GT(buffer.dropped_bytes(), 2 * kMemory);
  EXPECT_LE(buffer.byte_count() - buffer.dropped_bytes(), kMemory);
  EXPECT_LE(jobs().shares().of("").memory_bytes, kMemory);
}

TEST_F(JobsTest, AStreamOfATenantWithoutMemoryKeepsItsLastBytes) {
  Begin({.of_each = {.jobs = 9, .memory_bytes = 1000, .journal_bytes = 1u << 30}});
  const auto job = Start("1", "/stops", "300000");
  ASSERT_TRUE(job);
  const http::StreamBuffer& buffer = *(*job)->buffer;
  EXPECT_GE(buffer.byte_count() - buffer.dropped_bytes(), http::StreamBuffer::kBytesLeast);
  EXPECT_LE(buffer.byte_count() - buffer.dropped_bytes(), 3 * http::StreamBuffer::kBytesLeast);
}

TEST_F(JobsTest, AJournalBeyondTheShareOfItsTenantIsRemovedAndTheStreamContinues) {
  Begin({.of_each = {.jobs = 9, .memory_bytes = 1u << 20, .journal_bytes = 50'000}});
  testing::internal::CaptureStderr();
  const auto job = Start("1", "/stops", "90000");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("the limit of 50000"));
  ASSERT_TRUE(job);
  EXPECT_FALSE(folder_.Has("1"));
  EXPECT_EQ((*job)->buffer->byte_count(), 90'000u);
  EXPECT_EQ(jobs().shares().of("").journal_bytes, 0u);
}

TEST_F(JobsTest, RemovedJobsFreeTheirShare) {
  Begin();
  ASSERT_TRUE(Start("1", "/healthy", "body"));
  EXPECT_EQ(jobs().shares().of("").jobs, 1u);
  EXPECT_GT(jobs().shares().of("").journal_bytes, 0u);
  jobs().Remove("", "1");
  process_->Poll();
  EXPECT_EQ(jobs().shares().of_all().jobs, 0u);
  EXPECT_EQ(jobs().shares().of_all().memory_bytes, 0u);
  EXPECT_EQ(jobs().shares().of_all().journal_bytes, 0u);
}

TEST_F(JobsTest, AnIdleGatewayForgetsJobsThatHaveEnded) {
  Begin({.kept = std::chrono::milliseconds(30)});
  ASSERT_TRUE(Start("1", "/healthy"));
  ASSERT_TRUE(folder_.Has("1"));
  process_->loop().restart();
  while (folder_.Has("1")) process_->loop().run_one_for(std::chrono::seconds(1));
  EXPECT_EQ(jobs().shares().of_all().jobs, 0u);
}

TEST_F(JobsTest, VariantsOfAnIdAreFound) {
  Begin();
  for (const char* const id : {"a", "a::b", "a::b::c", "ab", "a:b", "::x"}) {
    ASSERT_TRUE(Start(id, "/healthy", "", "anna"));
  }
  ASSERT_TRUE(Start("a::other", "/healthy", "", "bert"));
  const auto found = [&](const std::string& id) {
    std::vector<std::string> ids;
    for (const auto& job : jobs().FindAll("anna", id)) ids.push_back(job->id);
    return ids;
  };
  using testing::UnorderedElementsAre;
  EXPECT_THAT(found("a"), UnorderedElementsAre("a", "a::b", "a::b::c"));
  EXPECT_THAT(found("a::b"), UnorderedElementsAre("a::b", "a::b::c"));
  EXPECT_THAT(found("a::b::c"), UnorderedElementsAre("a::b::c"));
  EXPECT_THAT(found("ab"), UnorderedElementsAre("ab"));
  EXPECT_THAT(found("a:"), UnorderedElementsAre());
  jobs().Remove("anna", "a::b");
  EXPECT_THAT(found("a"), UnorderedElementsAre("a", "a::b::c"));
}

TEST_F(JobsTest, AJobIsFoundByItsConversationAndItsVariants) {
  Begin();
  Request request = RequestOf("chat::model", "/healthy");
  ASSERT_TRUE(jobs().Start("resp_1", "/healthy", request));
  process_->Poll();
  ASSERT_NE(jobs().Find("", "chat::model"), nullptr);
  EXPECT_EQ(jobs().Find("", "chat::model")->id, "resp_1");
  EXPECT_EQ(jobs().FindAll("", "chat").size(), 1u);
  EXPECT_EQ(jobs().FindAll("", "resp_1").size(), 1u);
  // Another job of the conversation replaces it.
  ASSERT_TRUE(jobs().Start("resp_2", "/healthy", request));
  process_->Poll();
  EXPECT_EQ(jobs().Find("", "resp_1"), nullptr);
  EXPECT_EQ(jobs().Find("", "chat::model")->id, "resp_2");
}

TEST_F(JobsTest, ABodyTooLargeForAJournalIsRefused) {
  Begin();
  const auto job = Start("1", "/stops", std::string(http::AnswerJournal::kBytesMax, '0'));
  ASSERT_FALSE(job);
  EXPECT_EQ(http::RefusalOf(job.error()).status, 400);
  EXPECT_THAT(job.error().message, testing::StartsWith("body: 67108864 bytes are too many"));
}

TEST_F(JobsTest, IdsOfAWrongLengthAreRefused) {
  Begin();
  for (const std::string& id : {std::string(), std::string(1025, 'x')}) {
    const auto job = jobs().Start(id, "/healthy", RequestOf("c", "/healthy"));
    ASSERT_FALSE(job);
    EXPECT_EQ(http::RefusalOf(job.error()).status, 400);
  }
  EXPECT_EQ(http::RefusalOf({Code::kIo, "disk"}).status, 503);
}

}  // namespace
}  // namespace kvd::test
