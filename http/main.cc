// The main program of kvd-http. Exit status: 0: the program was stopped by a signal, or --help,
// --version or --make-key is done; 1: it could not start or continue; 2: the command line is wrong.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "http/backend/tenants.h"
#include "http/options/model_cache.h"
#include "http/options/parse_flags.h"
#include "http/program/program.h"

namespace kvd::http {
namespace {

int FailStart(const Error& error, int status) {
  std::fprintf(stderr, "kvd-http: %s\n", error.message.c_str());
  return status;
}

int PrintKey(const std::string& name) {
  const Result<NewKey> made = MakeKey(name);
  if (!made) return FailStart(made.error(), 2);
  std::printf("%s\n%s\n", made->key.c_str(), made->record.c_str());
  return 0;
}

int Main(int argument_count, char** arguments) {
  // Other processes of the same uid shall not read keys and prompts in the memory of this process.
  (void)::prctl(PR_SET_DUMPABLE, 0);
  (void)::umask(077);
  ::signal(SIGPIPE, SIG_IGN);
  const Environment environment = [](const char* name) -> const char* { return std::getenv(name); };
  Result<ParsedFlags> parsed = ParseFlags(argument_count, arguments, environment);
  if (!parsed) return FailStart(parsed.error(), 2);
  if (parsed->print) {
    std::fputs(parsed->print->c_str(), stdout);
    return 0;
  }
  Settings settings = std::move(parsed->settings);
  if (!settings.make_key.empty()) return PrintKey(settings.make_key);
  for (const std::string& note : parsed->notes) {
    std::fprintf(stderr, "kvd-http: %s\n", note.c_str());
  }
  Result<std::string> model = FindModelFile(settings, environment);
  if (!model) return FailStart(model.error(), 1);
  settings.model_path = std::move(*model);
  const Result<std::unique_ptr<Program>> program = Program::Create(std::move(settings));
  if (!program) return FailStart(program.error(), 1);
  const int status = (*program)->Run();
  // Without destructors: see Program::Run. Sessions stay with daemons that live on.
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace
}  // namespace kvd::http

int main(int argument_count, char** arguments) {
  return kvd::http::Main(argument_count, arguments);
}
