// The measuring programs of bench/http_compare, which starts the servers and prints the table.
//
//   http_bench load PORT PATH BODIES [--connections N] [--requests N] [--seconds S] [--mark TEXT]
//                   [--replies]
//     POSTs the lines of the file BODIES as JSON and prints {"seconds", "p50", "p99", "first_p50",
//     "sent_bytes", "status"} as JSON; "first_p50": the median time until the body has TEXT. With
//     --replies also "replies": a list of {"first", "end", "body"}.
//   http_bench hold PORT PATH BODIES [--connections N] [--seconds S]
//     Sends one request on each connection, prints "sent" and reads until standard input ends. Then
//     prints the number of replies that have ended.
//   http_bench direct DAEMON [--streams N] [--answer TOKENS] [--prompt TOKENS] [--token ID]
//     Generates the same number of tokens in N sequences of one session of libkvd, as the gateway
//     does, and prints {"seconds": S}.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/http_load.h"
#include "bench/must.h"
#include "client/client.h"
#include "text/json.h"

namespace kvd::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct DirectOptions {
  std::string daemon;
  std::size_t streams = 8;
  std::int32_t answer = 256;
  std::size_t prompt = 16;
  std::int32_t token = 300;  // the answers' token, see Run
};

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  if (lines.empty()) Must(Status(Fail(Code::kInvalidArgument, path, ": no bodies")));
  return lines;
}

double Percentile(std::vector<double>& values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

void PrintReplies(const std::vector<LoadReply>& replies) {
  std::printf(", \"replies\": [");
  for (const LoadReply& reply : replies) {
    const std::string body = Must(WriteJson(Value::String(reply.body), {.escape_non_ascii = true}));
    std::printf("%s{\"first\": %.6f, \"end\": %.6f, \"body\": %s}",
                &reply == replies.data() ? "" : ", ", reply.first_seconds, reply.end_seconds,
                body.c_str());
  }
  std::printf("]");
}

void RunAndPrint(const LoadOptions& options, bool wants_replies) {
  const LoadResult result = Must(RunLoad(options));
  std::vector<double> ends;
  std::vector<double> firsts;
  std::size_t sent_bytes = 0;
  int status = 0;
  for (const LoadReply& reply : result.replies) {
    ends.push_back(reply.end_seconds);
    firsts.push_back(reply.first_seconds);
    sent_bytes += reply.sent_bytes;
    status = std::max(status, reply.status);
  }
  std::printf(
      "{\"seconds\": %.6f, \"p50\": %.6f, \"p99\": %.6f, \"first_p50\": %.6f, "
      "\"sent_bytes\": %zu, \"status\": %d",
      result.seconds, Percentile(ends, 0.5), Percentile(ends, 0.99), Percentile(firsts, 0.5),
      sent_bytes, status);
  if (wants_replies) PrintReplies(result.replies);
  std::printf("}\n");
}

void SaySent() {
  std::printf("sent\n");
  std::fflush(stdout);
}

void Generate(const Client& client, const DirectOptions& options, std::size_t number) {
  std::vector<TokenId> prompt;
  const std::size_t vocab_size = client.session().vocab_size;
  for (std::size_t i = 0; i < options.prompt; ++i) {
    prompt.push_back(static_cast<TokenId>((i * 104729 + number * 31 + 7) % vocab_size));
  }
  const Sequence sequence = Must(client.NewSequence());
  const wire::LogitBias bias{.token = options.token, .bias = 1000.0f};
  Generation generation =
      Must(sequence.Generate({.tokens = prompt,
                              .predict_max = options.answer,
                              .sampling = DefaultSamplingAt(0.0f),
                              .seed = 1,
                              .flags = wire::kIgnoreEos | wire::kLlamaDraws | wire::kSkipLast,
                              .biases = {&bias, 1}}));
  std::size_t tokens = 0;
  while (const auto piece = Must(generation.Next())) tokens += piece->tokens.size();
  if (tokens != static_cast<std::size_t>(options.answer)) {
    Must(Status(Fail(Code::kInternal, tokens, " tokens instead of ", options.answer)));
  }
}

void RunDirect(const DirectOptions& options) {
  const Client client =
      Must(Client::Connect({.daemon_name = options.daemon, .client_name = "http_bench"}));
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < options.streams; ++i) {
      threads.emplace_back([&client, &options, i] { Generate(client, options, i); });
    }
  }
  std::printf("{\"seconds\": %.6f}\n", std::chrono::duration<double>(Clock::now() - begin).count());
}

CLI::App* AddLoad(CLI::App& app, const std::string& name, const std::string& text,
                  LoadOptions& options, std::string& bodies) {
  CLI::App* const command = app.add_subcommand(name, text);
  command->add_option("port", options.port)->required();
  command->add_option("path", options.path)->required();
  command->add_option("bodies", bodies, "file with a JSON body in each line")->required();
  command->add_option("--connections", options.connection_count)->check(CLI::Range(1, 4096));
  command->add_option("--seconds", options.seconds_max, "longest time")->check(CLI::Range(1, 3600));
  return command;
}

int Run(int argument_count, char** arguments) {
  CLI::App app("Loads for bench/http_compare");
  app.require_subcommand(1);
  LoadOptions options;
  std::string bodies;
  bool wants_replies = false;
  CLI::App* const load = AddLoad(app, "load", "measure requests", options, bodies);
  load->add_option("--requests", options.request_count)->check(CLI::Range(1, 1'000'000));
  load->add_option("--mark", options.first_mark, "text of the body that marks the first token");
  load->add_flag("--replies", wants_replies, "print the bodies of the replies");
  CLI::App* const hold = AddLoad(app, "hold", "hold streams", options, bodies);
  DirectOptions straight;
  CLI::App* const direct = app.add_subcommand("direct", "generate through libkvd");
  direct->add_option("daemon", straight.daemon, "name of the daemon")->required();
  direct->add_option("--streams", straight.streams)->check(CLI::Range(1, 64));
  direct->add_option("--answer", straight.answer)->check(CLI::Range(1, 65536));
  direct->add_option("--prompt", straight.prompt)->check(CLI::Range(1, 65536));
  // One token with a bias of 1000, so that random weights cannot choose parts of characters, which
  // servers hold back.
  direct->add_option("--token", straight.token);
  CLI11_PARSE(app, argument_count, arguments);
  if (direct->parsed()) {
    RunDirect(straight);
    return 0;
  }
  options.bodies = LinesOf(bodies);
  if (hold->parsed()) {
    options.request_count = options.connection_count;
    std::printf("%zu\n", Must(HoldStreams(options, SaySent)));
  } else {
    RunAndPrint(options, wants_replies);
  }
  return 0;
}

}  // namespace
}  // namespace kvd::bench

int main(int argument_count, char** arguments) {
  return kvd::bench::Run(argument_count, arguments);
}
