// make_corpus NAME FOLDER: writes the seeds of NAME_fuzz. Runs in the repository's root.
#include <cstdio>
#include <string>
#include <string_view>

#include "tests/fuzz/corpus_makers.h"

namespace {

struct Maker {
  std::string_view name;
  int (*make)(const std::string& folder);
};

constexpr Maker kMakers[] = {
    {"client_rings", kvd::client_rings_corpus::Make},
    {"daemon_rings", kvd::daemon_rings_corpus::Make},
    {"gbnf", kvd::gbnf_corpus::Make},
    {"gguf", kvd::gguf_corpus::Make},
    {"hello", kvd::hello_corpus::Make},
    {"http_request", kvd::http_request_corpus::Make},
    {"http_routes", kvd::http_routes_corpus::Make},
    {"jinja", kvd::jinja_corpus::Make},
    {"llama_import", kvd::llama_import_corpus::Make},
    {"llama_state", kvd::llama_state_corpus::Make},
    {"map", kvd::map_corpus::Make},
    {"meta_attach", kvd::meta_attach_corpus::Make},
    {"prompt_store", kvd::prompt_store_corpus::Make},
    {"schema", kvd::schema_corpus::Make},
    {"state_file", kvd::state_file_corpus::Make},
    {"submission", kvd::submission_corpus::Make},
    {"tokenizer", kvd::tokenizer_corpus::Make},
    {"tool_calls", kvd::tool_calls_corpus::Make},
};

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 3) {
    std::fprintf(stderr, "usage: make_corpus NAME FOLDER\n");
    return 2;
  }
  for (const Maker& maker : kMakers) {
    if (maker.name == arguments[1]) return maker.make(arguments[2]);
  }
  std::fprintf(stderr, "make_corpus: no seeds for %s\n", arguments[1]);
  return 2;
}
