// write_saved_forms FOLDER: has the daemon in KVD_BIN write saved files and entries of the prompt
// cache, one of each kind (support/saved_forms.h), as FOLDER/states/NAME and FOLDER/cache/.
//
// Run the program as root from the project's root, because the entries of the prompt cache belong
// to uid 0. See tests/data/README.md. Exit codes: 0 written, 1 failed, 2 wrong usage.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "client/client.h"
#include "tests/e2e/support/saved_forms.h"
#include "tests/e2e/support/temporary_folder.h"
#include "tools/daemon_process/daemon_process.h"

namespace kvd::test {
namespace {

namespace fs = std::filesystem;

// Computes and retains a prompt and waits until the prompt cache has one more entry.
Status WriteEntry(const Client& client) {
  KVD_TRY(const auto before, client.Call(wire::CacheArgs{}));
  KVD_TRY(const SequenceHandle sequence, client.Create());
  KVD_TRY(Decoding decoding, client.StartDecode(sequence, FormTokens(), Pos{0},
                                                wire::LogitsWanted::kLast, wire::kFlagNoPrefix));
  KVD_TRY(const Logits logits, decoding.Next());
  (void)logits;
  KVD_TRY(const bool is_retained, client.Retain(sequence));
  if (!is_retained) return Fail(Code::kInternal, "the sequence was not retained");
  for (int i = 0; i < 2000; ++i) {
    KVD_TRY(const auto now, client.Call(wire::CacheArgs{}));
    if (now.record.entries == before.record.entries + 1) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Fail(Code::kTimeout, "the prompt cache did not write the entry");
}

Status Write(const SavedForm& form, const fs::path& store, const fs::path& cache) {
  KVD_TRY(DaemonProcess daemon,
          DaemonProcess::Start({.kvd_path = BinaryFolder() + "/kvd",
                                .arguments = ArgumentsFor(form, store.string(),
                                                          form.is_cached ? cache.string() : "")}));
  {
    KVD_TRY(const Client client, Client::Connect({.socket_path = daemon.socket_path()}));
    KVD_TRY(const std::vector<SequenceHandle> sequences, MakeForm(client, form));
    KVD_TRY(const SaveInfo info, SaveForm(client, form, sequences));
    std::printf("%-28s %llu bytes\n", form.name.c_str(),
                static_cast<unsigned long long>(info.file_bytes));
    for (const SequenceHandle sequence : sequences) KVD_CHECK_OK(client.Drop(sequence));
    if (form.is_cached) KVD_CHECK_OK(WriteEntry(client));
  }
  return daemon.Stop();
}

int Run(const fs::path& folder) {
  const TemporaryFolder store;
  fs::create_directories(folder / "states");
  for (const SavedForm& form : SavedForms()) {
    const Status written = Write(form, store.path(), folder / "cache");
    if (!written) {
      std::fprintf(stderr, "write_saved_forms: %s: %s\n", form.name.c_str(),
                   written.error().message.c_str());
      return 1;
    }
    fs::copy_file(store.path() / std::to_string(::geteuid()) / form.name,
                  folder / "states" / form.name, fs::copy_options::overwrite_existing);
  }
  return 0;
}

}  // namespace
}  // namespace kvd::test

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::fprintf(stderr, "usage: write_saved_forms FOLDER\n");
    return 2;
  }
  return kvd::test::Run(arguments[1]);
}
