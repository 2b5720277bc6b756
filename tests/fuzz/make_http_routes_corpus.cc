// Writes seeds for http_routes_fuzz: a request of every form for every route.
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "tests/fuzz/corpus_makers.h"
#include "tests/fuzz/make_wire_corpus.h"

namespace kvd::http_routes_corpus {
namespace {

// Behind the two bytes that choose the route and its options; each is a seed for each route, so
// that the number of a route does not matter.
constexpr std::string_view kBodies[] = {
    "\n",
    "?model=a&fail_on_no_slot=1\n{}",
    "?action=erase\n{\"filename\":\"a\"}",
    "?conv_id=a&from=3\n",
    "?stream=true&starting_after=1\n",
    "\n{\"prompt\":\"a\",\"n_predict\":2,\"stream\":true,\"n_probs\":2,\"stop\":[\"b\"],"
    "\"logit_bias\":[[5,1.5],[\"a\",false]],\"samplers\":[\"top_k\",\"min_p\"],\"n\":2,"
    "\"response_fields\":[\"timings/prompt_n\"],\"temperature\":0.5,\"seed\":7}",
    "\n{\"prompt\":[[1,2,\"a\"],{\"prompt_string\":\"b\"}],\"max_tokens\":2,\"logprobs\":1,"
    "\"echo\":true,\"stream_options\":{\"include_usage\":true},\"dry_multiplier\":0.5}",
    "\n{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\",\"return_progress\":true,"
    "\"id_slot\":1,\"t_max_predict_ms\":5,\"post_sampling_probs\":true,\"n_probs\":1}",
    "\n{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},{\"role\":\"user\",\"content\":["
    "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"d\"}],"
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":"
    "\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}}}}}],\"tool_choice\":\"required\","
    "\"max_tokens\":2,\"stream\":true}",
    "\n{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"response_format\":{\"type\":"
    "\"json_schema\",\"json_schema\":{\"schema\":{\"const\":1}}},\"max_completion_tokens\":2,"
    "\"logprobs\":true,\"top_logprobs\":2,\"reasoning_effort\":\"low\","
    "\"chat_template_kwargs\":{\"a\":1}}",
    "\n{\"model\":\"a\",\"max_tokens\":2,\"system\":[{\"type\":\"text\",\"text\":\"a\"}],"
    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\","
    "\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
    "\"tool_use_id\":\"c\",\"content\":\"d\"}]}],\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],"
    "\"tool_choice\":{\"type\":\"any\"},\"stop_sequences\":[\"e\"],\"stream\":true,"
    "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":2}}",
    "\n{\"input\":\"a\",\"max_output_tokens\":2,\"store\":true,\"stream\":true}",
    "\n{\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
    "\"text\":\"a\"}]},{\"type\":\"reasoning\",\"summary\":[]},{\"type\":\"function_call\","
    "\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\","
    "\"call_id\":\"c\",\"output\":\"d\"}],\"instructions\":\"e\",\"max_output_tokens\":2,"
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{}}],\"text\":{\"format\":"
    "{\"type\":\"json_object\"}},\"previous_response_id\":\"resp_0\",\"background\":true}",
    "\n{\"input\":[\"a\",[1,2]],\"encoding_format\":\"base64\",\"dimensions\":2,"
    "\"embd_normalize\":1}",
    "\n{\"content\":\"a\",\"add_special\":true,\"with_pieces\":true,\"tokens\":[5,6]}",
    "\n{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"c\"}],\"top_n\":1,"
    "\"return_documents\":true}",
    "\n{\"query\":\"a\",\"texts\":[\"b\"],\"return_text\":true}",
    "\n{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"prompt\":\"c\",\"input_extra\":["
    "{\"filename\":\"d\",\"text\":\"e\"}]}",
    "\n{\"conversation_ids\":[\"a\"]}",
    "\n{\"messages\":[],\"prompt\":5,\"input\":{},\"n\":\"x\",\"stop\":7}",
    "\n{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}",
};
constexpr int kRoutesMax = 96;  // more than there are

}  // namespace

int Make(const std::string& folder) {
  int number = 0;
  for (int route = 0; route < kRoutesMax; ++route) {
    for (std::size_t i = 0; i < std::size(kBodies); ++i) {
      std::string seed = {static_cast<char>(route), static_cast<char>((route + i) % 2)};
      seed += kBodies[i];
      kvd::test::WriteSeed(folder, "routes_" + std::to_string(number++),
                           std::as_bytes(std::span(seed)));
    }
  }
  return 0;
}

}  // namespace kvd::http_routes_corpus
