// make_chat_corpus FOLDER: writes seeds for chat_fuzz, which are chats and texts of templates.
#include <string>
#include <string_view>
#include <vector>

#include "shm/payload_codec.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace {

using kvd::wire::ChatTurn;

// Texts of chat templates: names, single markers by which templates are recognised, and
// combinations of markers.
constexpr std::string_view kTemplates[] = {
    "chatml",
    "mistral-v7-tekken",
    "{{ '<|im_start|>' + message['role'] }}",
    "<|im_start|>assistant<|im_sep|>",
    "[INST] {{ content }} [/INST]",
    "[INST] <<SYS>>",
    "bos_token + '[INST] <<SYS>>",
    "[INST] <<SYS>> content.strip()",
    "[SYSTEM_PROMPT][INST]",
    "[AVAILABLE_TOOLS] [INST]",
    "[AVAILABLE_TOOLS]\"[INST]\"",
    "[AVAILABLE_TOOLS][INST]",
    "' [INST] ' + system_message",
    "<|user|>\\n<|assistant|><|end|>",
    "<|user|><|assistant|><|end|>",
    "[gMASK]<sop>",
    "<|user|><|endoftext|>",
    "{{ '<|user|>' + content + eos_token }}<|assistant|>",
    "{{ '<|user|>' + content }}<|assistant|>eos_token",
    "<start_of_turn>",
    "<|start_header_id|><|end_header_id|>",
    "",
};

std::string Chat(const std::vector<ChatTurn>& turns, char first) {
  std::vector<std::byte> bytes(kvd::wire::ChatBytes(turns));
  kvd::wire::EncodeChat(turns, bytes);
  std::string input(1, first);
  return input.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) return 2;
  const auto write = [&](const std::string& name, const std::string& input) {
    kvd::test::WriteSeed(arguments[1], name, std::as_bytes(std::span(input)));
  };
  write("chat", Chat({{"system", "Answer. "},
                      {"user", "Where?"},
                      {"assistant", " There.\n"},
                      {"user", "caf\u00e9"}},
                     1));
  write("system_last", Chat({{"user", " "}, {"system", "x"}}, 0));
  write("assistant_first", Chat({{"assistant", ""}, {"assistant", "a"}, {"user", ""}}, 0));
  write("other_role", Chat({{"user", "x"}, {"tool", "y"}}, 0));
  write("no_role", Chat({{"", "x"}}, 0));
  write("no_utf8", Chat({{"user", "\xff"}}, 0));
  write("nothing", std::string(1, '\0'));
  unsigned number = 0;
  for (const std::string_view text : kTemplates) {
    write("template" + std::to_string(number),
          std::string(1, static_cast<char>(0x80 | (number & 1))).append(text));
    ++number;
  }
}
