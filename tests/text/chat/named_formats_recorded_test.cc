// The texts of llama-server (llama.cpp 3f545becc, POST /apply-template with --no-jinja and
// --chat-template NAME) for three conversations, and those of the formats with these names.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "base/text.h"
#include "tests/text/chat/chat_case.h"
#include "text/chat/named_formats.h"

namespace kvd {
namespace {

using test::Formatted;
using test::TextsWith;

// Contents have white space around them, because some formats remove it.
constexpr std::array<std::string_view, 3> kConversations = {
    R"("messages": [{"role": "system", "content": " S "}, {"role": "user", "content": " U "},
        {"role": "assistant", "content": " A "}, {"role": "user", "content": "V"}])",
    R"("add_generation_prompt": false,
       "messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
        {"role": "user", "content": " V\n"}])",
    R"("add_generation_prompt": false, "continue_final_message": false,
       "messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": " A\n"}])"};

struct Recorded {
  std::string_view name;
  std::array<std::string_view, kConversations.size()> texts;
};

constexpr auto kRecorded = std::to_array<Recorded>({
    {"bailing",
     {"<role>SYSTEM</role> S <role>HUMAN</role> U <role>ASSISTANT</role> A "
      "<role>HUMAN</role>V<role>ASSISTANT</role>",
      "<role>HUMAN</role>U<role>ASSISTANT</role>A<role>HUMAN</role> V\n",
      "<role>HUMAN</role>U<role>ASSISTANT</role> A\n"}},
    {"bailing-think",
     {"<role>SYSTEM</role> S <role>HUMAN</role> U <role>ASSISTANT</role> A "
      "<role>HUMAN</role>V<role>ASSISTANT</role><think>",
      "<role>HUMAN</role>U<role>ASSISTANT</role>A<role>HUMAN</role> V\n",
      "<role>HUMAN</role>U<role>ASSISTANT</role> A\n"}},
    {"bailing2",
     {"<role>SYSTEM</role> S <|role_end|><role>HUMAN</role> U <|role_end|><role>ASSISTANT</role> A "
      "<|role_end|><role>HUMAN</role>V<|role_end|><role>ASSISTANT</role>",
      "<role>SYSTEM</role>detailed thinking "
      "off<|role_end|><role>HUMAN</role>U<|role_end|><role>ASSISTANT</"
      "role>A<|role_end|><role>HUMAN</role> V\n<|role_end|>",
      "<role>SYSTEM</role>detailed thinking "
      "off<|role_end|><role>HUMAN</role>U<|role_end|><role>ASSISTANT</role> A\n<|role_end|>"}},
    {"chatglm3",
     {"[gMASK]sop<|system|>\n  S <|user|>\n  U <|assistant|>\n  A <|user|>\n V<|assistant|>",
      "[gMASK]sop<|user|>\n U<|assistant|>\n A<|user|>\n  V\n",
      "[gMASK]sop<|user|>\n U<|assistant|>\n  A\n"}},
    {"chatglm4",
     {"[gMASK]<sop><|system|>\n S <|user|>\n U <|assistant|>\n A <|user|>\nV<|assistant|>\n",
      "[gMASK]<sop><|user|>\nU<|assistant|>\nA<|user|>\n V\n",
      "[gMASK]<sop><|user|>\nU<|assistant|>\n A\n"}},
    {"chatml",
     {"<|im_start|>system\n S <|im_end|>\n<|im_start|>user\n U <|im_end|>\n<|im_start|>assistant\n "
      "A <|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n",
      "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\n "
      "V\n<|im_end|>\n",
      "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n A\n<|im_end|>\n"}},
    {"command-r",
     {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_"
      "TOKEN|>U<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>A<|END_OF_TURN_TOKEN|><"
      "|START_OF_TURN_TOKEN|><|USER_TOKEN|>V<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_"
      "TOKEN|>",
      "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_"
      "TOKEN|>A<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>V<|END_OF_TURN_TOKEN|>",
      "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>U<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_"
      "TOKEN|>A<|END_OF_TURN_TOKEN|>"}},
    {"deepseek",
     {" S ### Instruction:\n U \n### Response:\n A \n<|EOT|>\n### Instruction:\nV\n### Response:\n",
      "### Instruction:\nU\n### Response:\nA\n<|EOT|>\n### Instruction:\n V\n\n",
      "### Instruction:\nU\n### Response:\n A\n\n<|EOT|>\n"}},
    {"deepseek-ocr", {" S  U  A V", "UA V\n", "U A\n"}},
    {"deepseek2",
     {" S \n\nUser:  U \n\nAssistant:  A <｜end▁of▁sentence｜>User: V\n\nAssistant:",
      "User: U\n\nAssistant: A<｜end▁of▁sentence｜>User:  V\n\n\n",
      "User: U\n\nAssistant:  A\n<｜end▁of▁sentence｜>"}},
    {"deepseek3",
     {" S \n\n<｜User｜> U <｜Assistant｜> A <｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>",
      "<｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜> V\n",
      "<｜User｜>U<｜Assistant｜> A\n<｜end▁of▁sentence｜>"}},
    {"exaone-moe",
     {"<|system|>\nS<|endofturn|>\n<|user|>\nU<|endofturn|>\n<|assistant|>\nA<|endofturn|>\n<|user|"
      ">\nV<|endofturn|>\n<|assistant|>\n",
      "<|user|>\nU<|endofturn|>\n<|assistant|>\nA<|endofturn|>\n<|user|>\nV<|endofturn|>\n",
      "<|user|>\nU<|endofturn|>\n<|assistant|>\nA<|endofturn|>\n"}},
    {"exaone3",
     {"[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n[|assistant|]",
      "[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n",
      "[|user|]U\n[|assistant|]A[|endofturn|]\n"}},
    {"exaone4",
     {"[|system|]S[|endofturn|]\n[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n[|assistant|]",
      "[|user|]U\n[|assistant|]A[|endofturn|]\n[|user|]V\n",
      "[|user|]U\n[|assistant|]A[|endofturn|]\n"}},
    {"falcon3",
     {"<|system|>\n S \n<|user|>\n U \n<|assistant|>\n A \n<|user|>\nV\n<|assistant|>\n",
      "<|user|>\nU\n<|assistant|>\nA\n<|user|>\n V\n\n", "<|user|>\nU\n<|assistant|>\n A\n\n"}},
    {"gemma",
     {"<start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_"
      "turn>user\nV<end_of_turn>\n<start_of_turn>model\n",
      "<start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>"
      "user\nV<end_of_turn>\n",
      "<start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n"}},
    {"gigachat",
     {"<s> S <|message_sep|>user<|role_sep|> U <|message_sep|>available "
      "functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|> A "
      "<|message_sep|>user<|role_sep|>V<|message_sep|>available "
      "functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>",
      "<s>user<|role_sep|>U<|message_sep|>available "
      "functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>A<|message_sep|>user<|role_sep|> "
      "V\n<|message_sep|>available functions<|role_sep|>[]<|message_sep|>",
      "<s>user<|role_sep|>U<|message_sep|>available "
      "functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|> A\n<|message_sep|>"}},
    {"glmedge",
     {"<|system|>\n S <|user|>\n U <|assistant|>\n A <|user|>\nV<|assistant|>",
      "<|user|>\nU<|assistant|>\nA<|user|>\n V\n", "<|user|>\nU<|assistant|>\n A\n"}},
    {"gpt-oss",
     {"<|start|>system<|message|> S <|end|><|start|>user<|message|> U "
      "<|end|><|start|>assistant<|message|> A "
      "<|return|><|start|>user<|message|>V<|end|><|start|>assistant",
      "<|start|>user<|message|>U<|end|><|start|>assistant<|message|>A<|return|><|start|>user<|"
      "message|> V\n<|end|>",
      "<|start|>user<|message|>U<|end|><|start|>assistant<|message|> A\n<|return|>"}},
    {"granite",
     {"<|start_of_role|>system<|end_of_role|> S "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> U "
      "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|> A "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>V<|end_of_text|>\n<|start_of_role|>"
      "assistant<|end_of_role|>",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|>A<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> V\n<|end_of_text|>\n",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|> A\n<|end_of_text|>\n"}},
    {"granite-4.0",
     {"<|start_of_role|>system<|end_of_role|> S "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> U "
      "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|> A "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>V<|end_of_text|>\n<|start_of_role|>"
      "assistant<|end_of_role|>",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|>A<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> V\n<|end_of_text|>\n",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|> A\n<|end_of_text|>\n"}},
    {"granite-4.1",
     {"<|start_of_role|>system<|end_of_role|> S "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> U "
      "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|> A "
      "<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>V<|end_of_text|>\n<|start_of_role|>"
      "assistant<|end_of_role|>",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|>A<|end_of_text|>\n<|start_of_role|>user<|end_of_role|> V\n<|end_of_text|>\n",
      "<|start_of_role|>user<|end_of_role|>U<|end_of_text|>\n<|start_of_role|>assistant<|end_of_"
      "role|> A\n<|end_of_text|>\n"}},
    {"grok-2",
     {"System: S<|separator|>\n\nHuman: U<|separator|>\n\nAssistant:  A <|separator|>\n\nHuman: "
      "V<|separator|>\n\nAssistant:",
      "Human: U<|separator|>\n\nAssistant: A<|separator|>\n\nHuman: V<|separator|>\n\n",
      "Human: U<|separator|>\n\nAssistant:  A\n<|separator|>\n\n"}},
    {"hunyuan-dense",
     {" S <｜hy_place▁holder▁no▁3｜><｜hy_User｜> U <｜hy_Assistant｜><｜hy_Assistant｜> A "
      "<｜hy_place▁holder▁no▁2｜><｜hy_User｜>V<｜hy_Assistant｜>",
      "<｜hy_User｜>U<｜hy_Assistant｜><｜hy_Assistant｜>A<｜hy_place▁holder▁no▁2｜><｜hy_User｜> "
      "V\n<｜hy_Assistant｜>",
      "<｜hy_User｜>U<｜hy_Assistant｜><｜hy_Assistant｜> A\n<｜hy_place▁holder▁no▁2｜>"}},
    {"hunyuan-moe",
     {"<|startoftext|> S <|extra_4|><|startoftext|> U <|extra_0|> A "
      "<|eos|><|startoftext|>V<|extra_0|>",
      "<|startoftext|>U<|extra_0|>A<|eos|><|startoftext|> V\n<|extra_0|>",
      "<|startoftext|>U<|extra_0|> A\n<|eos|>"}},
    {"hunyuan-vl",
     {"<｜hy_begin▁of▁sentence｜> S <｜hy_place▁holder▁no▁3｜> U <｜hy_User｜> A "
      "<｜hy_Assistant｜>V<｜hy_User｜>",
      "<｜hy_begin▁of▁sentence｜>U<｜hy_User｜>A<｜hy_Assistant｜> V\n<｜hy_User｜>",
      "<｜hy_begin▁of▁sentence｜>U<｜hy_User｜> A\n<｜hy_Assistant｜>"}},
    {"kimi-k2",
     {"<|im_system|>system<|im_middle|> S <|im_end|><|im_user|>user<|im_middle|> U "
      "<|im_end|><|im_assistant|>assistant<|im_middle|> A "
      "<|im_end|><|im_user|>user<|im_middle|>V<|im_end|><|im_assistant|>assistant<|im_middle|>",
      "<|im_user|>user<|im_middle|>U<|im_end|><|im_assistant|>assistant<|im_middle|>A<|im_end|><|"
      "im_user|>user<|im_middle|> V\n<|im_end|>",
      "<|im_user|>user<|im_middle|>U<|im_end|><|im_assistant|>assistant<|im_middle|> "
      "A\n<|im_end|>"}},
    {"llama2",
     {"[INST]  S \n U  [/INST] A </s>[INST] V [/INST]", "[INST] U [/INST]A</s>[INST]  V\n [/INST]",
      "[INST] U [/INST] A\n</s>"}},
    {"llama2-sys",
     {"[INST] <<SYS>>\n S \n<</SYS>>\n\n U  [/INST] A </s>[INST] V [/INST]",
      "[INST] U [/INST]A</s>[INST]  V\n [/INST]", "[INST] U [/INST] A\n</s>"}},
    {"llama2-sys-bos",
     {"[INST] <<SYS>>\n S \n<</SYS>>\n\n U  [/INST] A </s><s>[INST] V [/INST]",
      "[INST] U [/INST]A</s><s>[INST]  V\n [/INST]", "[INST] U [/INST] A\n</s>"}},
    {"llama2-sys-strip",
     {"[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]A</s>[INST] V [/INST]",
      "[INST] U [/INST]A</s>[INST] V [/INST]", "[INST] U [/INST]A</s>"}},
    {"llama3",
     {"<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_"
      "header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|"
      "start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\n",
      "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|>",
      "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|start_header_id|>assistant<|end_"
      "header_id|>\n\nA<|eot_id|>"}},
    {"llama4",
     {"<|header_start|>system<|header_end|>\n\nS<|eot|><|header_start|>user<|header_end|>\n\nU<|"
      "eot|><|header_start|>assistant<|header_end|>\n\nA<|eot|><|header_start|>user<|header_end|>"
      "\n\nV<|eot|><|header_start|>assistant<|header_end|>\n\n",
      "<|header_start|>user<|header_end|>\n\nU<|eot|><|header_start|>assistant<|header_end|>\n\nA<|"
      "eot|><|header_start|>user<|header_end|>\n\nV<|eot|>",
      "<|header_start|>user<|header_end|>\n\nU<|eot|><|header_start|>assistant<|header_end|>\n\nA<|"
      "eot|>"}},
    {"megrez",
     {"<|role_start|>system<|role_end|> S <|turn_end|><|role_start|>user<|role_end|> U "
      "<|turn_end|><|role_start|>assistant<|role_end|> A "
      "<|turn_end|><|role_start|>user<|role_end|>V<|turn_end|><|role_start|>assistant<|role_end|>",
      "<|role_start|>user<|role_end|>U<|turn_end|><|role_start|>assistant<|role_end|>A<|turn_end|><"
      "|role_start|>user<|role_end|> V\n<|turn_end|>",
      "<|role_start|>user<|role_end|>U<|turn_end|><|role_start|>assistant<|role_end|> "
      "A\n<|turn_end|>"}},
    {"minicpm", {"S<用户>U<AI>A<用户>V<AI>", "<用户>U<AI>A<用户>V<AI>", "<用户>U<AI>A"}},
    {"mistral-v1",
     {" [INST]  S \n\n U  [/INST]  A </s> [INST] V [/INST]",
      " [INST] U [/INST] A</s> [INST]  V\n [/INST]", " [INST] U [/INST]  A\n</s>"}},
    {"mistral-v3",
     {"[INST]  S \n\n U [/INST] A</s>[INST] V[/INST]", "[INST] U[/INST] A</s>[INST]  V\n[/INST]",
      "[INST] U[/INST] A</s>"}},
    {"mistral-v3-tekken",
     {"[INST] S \n\n U [/INST] A </s>[INST]V[/INST]", "[INST]U[/INST]A</s>[INST] V\n[/INST]",
      "[INST]U[/INST] A\n</s>"}},
    {"mistral-v7",
     {"[SYSTEM_PROMPT]  S [/SYSTEM_PROMPT][INST]  U [/INST]  A </s>[INST] V[/INST]",
      "[INST] U[/INST] A</s>[INST]  V\n[/INST]", "[INST] U[/INST]  A\n</s>"}},
    {"mistral-v7-tekken",
     {"[SYSTEM_PROMPT] S [/SYSTEM_PROMPT][INST] U [/INST] A </s>[INST]V[/INST]",
      "[INST]U[/INST]A</s>[INST] V\n[/INST]", "[INST]U[/INST] A\n</s>"}},
    {"monarch",
     {"system\n S </s>\n<s>user\n U </s>\n<s>assistant\n A </s>\n<s>user\nV</s>\n<s>assistant\n",
      "user\nU</s>\n<s>assistant\nA</s>\n<s>user\n V\n</s>\n",
      "user\nU</s>\n<s>assistant\n A\n</s>\n"}},
    {"openchat",
     {" S <|end_of_turn|>GPT4 Correct User:  U <|end_of_turn|>GPT4 Correct Assistant:  A "
      "<|end_of_turn|>GPT4 Correct User: V<|end_of_turn|>GPT4 Correct Assistant:",
      "GPT4 Correct User: U<|end_of_turn|>GPT4 Correct Assistant: A<|end_of_turn|>GPT4 Correct "
      "User:  V\n<|end_of_turn|>",
      "GPT4 Correct User: U<|end_of_turn|>GPT4 Correct Assistant:  A\n<|end_of_turn|>"}},
    {"orion",
     {"Human:  S \n\n U \n\nAssistant: </s> A </s>Human: V\n\nAssistant: </s>",
      "Human: U\n\nAssistant: </s>A</s>Human:  V\n\n\nAssistant: </s>",
      "Human: U\n\nAssistant: </s> A\n</s>"}},
    {"pangu-embedded",
     {"[unused9]系统： S [unused10][unused9]用户： U [unused10][unused9]助手： A "
      "[unused10][unused9]用户：V[unused10][unused9]助手：",
      "[unused9]系统：[unused10][unused9]用户：U[unused10][unused9]助手：A[unused10][unused9]"
      "用户： V\n[unused10]",
      "[unused9]系统：[unused10][unused9]用户：U[unused10][unused9]助手： A\n[unused10]"}},
    {"phi3",
     {"<|system|>\n S <|end|>\n<|user|>\n U <|end|>\n<|assistant|>\n A "
      "<|end|>\n<|user|>\nV<|end|>\n<|assistant|>\n",
      "<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\n V\n<|end|>\n",
      "<|user|>\nU<|end|>\n<|assistant|>\n A\n<|end|>\n"}},
    {"phi4",
     {"<|im_start|>system<|im_sep|> S <|im_end|><|im_start|>user<|im_sep|> U "
      "<|im_end|><|im_start|>assistant<|im_sep|> A "
      "<|im_end|><|im_start|>user<|im_sep|>V<|im_end|><|im_start|>assistant<|im_sep|>",
      "<|im_start|>user<|im_sep|>U<|im_end|><|im_start|>assistant<|im_sep|>A<|im_end|><|im_start|>"
      "user<|im_sep|> V\n<|im_end|>",
      "<|im_start|>user<|im_sep|>U<|im_end|><|im_start|>assistant<|im_sep|> A\n<|im_end|>"}},
    {"rwkv-world",
     {"System: S\n\nUser: U\n\nAssistant: A\n\nUser: V\n\nAssistant:",
      "User: U\n\nAssistant: A\n\nUser: V\n\nAssistant:", "User: U\n\nAssistant: A\n\n"}},
    {"seed_oss",
     {"<seed:bos>system\n S <seed:eos><seed:bos>user\n U "
      "<seed:eos><seed:bos>assistant\nA<seed:eos><seed:bos>user\nV<seed:eos><seed:bos>assistant\n",
      "<seed:bos>user\nU<seed:eos><seed:bos>assistant\nA<seed:eos><seed:bos>user\n V\n<seed:eos>",
      "<seed:bos>user\nU<seed:eos><seed:bos>assistant\nA<seed:eos>"}},
    {"smolvlm",
     {"<|im_start|> S \n\nUser:  U <end_of_utterance>\nAssistant:  A <end_of_utterance>\nUser: "
      "V<end_of_utterance>\nAssistant:",
      "<|im_start|>User: U<end_of_utterance>\nAssistant: A<end_of_utterance>\nUser:  "
      "V\n<end_of_utterance>\n",
      "<|im_start|>User: U<end_of_utterance>\nAssistant:  A\n<end_of_utterance>\n"}},
    {"solar-open",
     {"<|begin|>system<|content|> S <|end|><|begin|>user<|content|> U "
      "<|end|><|begin|>assistant<|content|> A "
      "<|end|><|begin|>user<|content|>V<|end|><|begin|>assistant",
      "<|begin|>user<|content|>U<|end|><|begin|>assistant<|content|>A<|end|><|begin|>user<|content|"
      "> V\n<|end|>",
      "<|begin|>user<|content|>U<|end|><|begin|>assistant<|content|> A\n<|end|>"}},
    {"vicuna",
     {" S \n\nUSER:  U \nASSISTANT:  A </s>\nUSER: V\nASSISTANT:",
      "USER: U\nASSISTANT: A</s>\nUSER:  V\n\n", "USER: U\nASSISTANT:  A\n</s>\n"}},
    {"vicuna-orca",
     {"SYSTEM:  S \nUSER:  U \nASSISTANT:  A </s>\nUSER: V\nASSISTANT:",
      "USER: U\nASSISTANT: A</s>\nUSER:  V\n\n", "USER: U\nASSISTANT:  A\n</s>\n"}},
    {"yandex",
     {" Пользователь:  U \n\n Ассистент:  A \n\n Пользователь: V\n\n Ассистент:[SEP]",
      " Пользователь: U\n\n Ассистент: A\n\n Пользователь:  V\n\n\n",
      " Пользователь: U\n\n Ассистент:  A\n\n\n"}},
    {"zephyr",
     {"<|system|>\n S <|endoftext|>\n<|user|>\n U <|endoftext|>\n<|assistant|>\n A "
      "<|endoftext|>\n<|user|>\nV<|endoftext|>\n<|assistant|>\n",
      "<|user|>\nU<|endoftext|>\n<|assistant|>\nA<|endoftext|>\n<|user|>\n V\n<|endoftext|>\n",
      "<|user|>\nU<|endoftext|>\n<|assistant|>\n A\n<|endoftext|>\n"}},
});

TEST(NamedFormatsRecordedTest, EveryNameOfLlamaServerGivesItsText) {
  for (const auto& [name, texts] : kRecorded) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(Formatted(TextsWith(""),
                          Concat("{", kConversations[i], R"(, "chat_template": ")", name, R"("})")),
                texts[i])
          << name << ", conversation " << i;
    }
  }
}

}  // namespace
}  // namespace kvd
