// Several agents share one context. The context is computed once and published. Each agent forks
// the context and continues its fork with a question, at the same time as the other agents.
//
//   kvd-example-agents CONTEXT QUESTION...
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"

namespace {

// Computes the text's tokens in a new sequence and publishes the sequence.
kvd::Status PublishContext(const kvd::Client& client, const std::string& name,
                           const std::string& text) {
  KVD_TRY(const auto tokens, client.Tokenize(text, kvd::wire::kFlagParseSpecial));
  KVD_TRY(kvd::Sequence sequence, client.NewSequence());
  KVD_TRY(auto reading, sequence.Generate({.tokens = tokens, .predict_max = 0}));
  for (;;) {
    KVD_TRY(const auto piece, reading.Next());
    if (!piece) break;
  }
  KVD_TRY([[maybe_unused]] const auto published, sequence.Publish(name));
  return {};
}

// Continues a fork of the context with a question and returns the answer. The program calls Ask for
// each question in a separate thread.
kvd::Result<std::string> Ask(const kvd::Client& client, const std::string& context,
                             const std::string& question) {
  const std::string prompt = "<|user|>" + question + "<|end|><|assistant|>";
  KVD_TRY(const auto tokens, client.Tokenize(prompt, kvd::wire::kFlagParseSpecial));
  KVD_TRY(kvd::Sequence fork, client.AttachSnapshot(context));
  KVD_TRY(auto generation,
          fork.Generate({.tokens = tokens, .sampling = kvd::DefaultSamplingAt(0.0f)}));
  std::string answer;
  for (;;) {
    KVD_TRY(const auto piece, generation.Next());
    if (!piece) return answer;
    answer += piece->text;
  }
}

int Fail(const kvd::Error& error) {
  std::cerr << kvd::CodeName(error.code) << ": " << error.message << "\n";
  return 1;
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::cerr << "usage: " << arguments[0] << " CONTEXT QUESTION...\n";
    return 2;
  }
  const auto client = kvd::Client::Connect();
  if (!client) return Fail(client.error());
  const std::string name = "agents";
  if (const auto done = PublishContext(*client, name, arguments[1]); !done) {
    return Fail(done.error());
  }
  const std::vector<std::string> questions(arguments + 2, arguments + argument_count);
  std::vector<kvd::Result<std::string>> answers(questions.size());
  {
    std::vector<std::jthread> agents;
    for (std::size_t i = 0; i < questions.size(); ++i) {
      agents.emplace_back([&, i] { answers[i] = Ask(*client, name, questions[i]); });
    }
  }
  int failed = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    if (!answers[i]) {
      failed = Fail(answers[i].error());
    } else {
      std::cout << questions[i] << " " << *answers[i] << "\n";
    }
  }
  return failed;
}
