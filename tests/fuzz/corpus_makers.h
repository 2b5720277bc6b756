// The functions that write the seeds of the fuzz targets: kvd::X_corpus::Make writes the seeds of
// X_fuzz into a folder. Each returns 0, or 1 after it has printed why the seeds cannot be written.
// make_corpus calls them. Each maker has its own namespace: all makers are compiled together.
#pragma once

#include <string>

namespace kvd::client_rings_corpus {
int Make(const std::string& folder);
}
namespace kvd::daemon_rings_corpus {
int Make(const std::string& folder);
}
namespace kvd::gbnf_corpus {
int Make(const std::string& folder);
}
namespace kvd::gguf_corpus {
int Make(const std::string& folder);
}
namespace kvd::hello_corpus {
int Make(const std::string& folder);
}
namespace kvd::http_request_corpus {
int Make(const std::string& folder);
}
namespace kvd::http_routes_corpus {
int Make(const std::string& folder);
}
namespace kvd::jinja_corpus {
int Make(const std::string& folder);
}
namespace kvd::llama_import_corpus {
int Make(const std::string& folder);
}
namespace kvd::llama_state_corpus {
int Make(const std::string& folder);
}
namespace kvd::map_corpus {
int Make(const std::string& folder);
}
namespace kvd::meta_attach_corpus {
int Make(const std::string& folder);
}
namespace kvd::prompt_store_corpus {
int Make(const std::string& folder);
}
namespace kvd::schema_corpus {
int Make(const std::string& folder);
}
namespace kvd::state_file_corpus {
int Make(const std::string& folder);
}
namespace kvd::submission_corpus {
int Make(const std::string& folder);
}
namespace kvd::tokenizer_corpus {
int Make(const std::string& folder);
}
namespace kvd::tool_calls_corpus {
int Make(const std::string& folder);
}
