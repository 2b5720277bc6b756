// Asks questions about a context, each in a fork, with kvd.hpp: C++17 or later, and libkvd alone.
//
//   kvd-example-fork-cc 'Answer from the notebook. The drum is red.' 'What colour is the drum?'
//
// Compile: c++ -std=c++17 fork.cc $(pkg-config --cflags --libs kvd)
#include <kvd.hpp>

#include <iostream>
#include <string>

namespace {

int Complain(const kvd::api::CallError& error) {
  std::cerr << kvd_code_name(error.code) << ": " << error.message << "\n";
  return 1;
}

// Returns the end of the chat's text that follows the context.
kvd::api::Result<std::string> QuestionText(const kvd::api::Client& client,
                                           const std::string& context, const std::string& system,
                                           const std::string& question) {
  auto chat = client.Chat({{"system", system}, {"user", question}});
  if (!chat) return chat;
  return chat->substr(context.size());
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::cerr << "usage: " << arguments[0] << " CONTEXT QUESTION...\n";
    return 2;
  }
  const std::string system = arguments[1];
  auto client = kvd::api::Client::Connect();
  if (!client) return Complain(client.error());
  const auto context = client->Chat({{"system", system}}, 0);
  if (!context) return Complain(context.error());
  auto sequence = client->NewSequence();
  if (!sequence) return Complain(sequence.error());
  if (const auto computed = sequence->Prompt(*context, KVD_PARSE_SPECIAL); !computed) {
    return Complain(computed.error());
  }
  auto forks = sequence->Fork(static_cast<std::uint32_t>(argument_count - 2));
  if (!forks) return Complain(forks.error());
  kvd_generate_params params = kvd::api::DefaultParams();
  params.temperature = 0;
  for (int i = 2; i < argument_count; ++i) {
    const auto question = QuestionText(*client, *context, system, arguments[i]);
    if (!question) return Complain(question.error());
    const auto answer = (*forks)[static_cast<std::size_t>(i - 2)].Complete(
        *question, KVD_PARSE_SPECIAL,
        [](std::string_view piece) { std::cout << piece << std::flush; }, params);
    if (!answer) return Complain(answer.error());
    std::cout << "\n";
  }
  return 0;
}
