// Tests state files of llama.cpp with a daemon: the C interface's state verbs, kvctl import and
// export, and the errors that a client may make with them.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "client/kvd.h"
#include "state_layout/section_plan.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A client of the C interface whose sequences hold a prompt.
class LlamaFilesTest : public test::ServedDaemonTest {
 protected:
  explicit LlamaFilesTest(std::vector<std::string> arguments = {})
      : ServedDaemonTest(std::move(arguments)) {}

  void SetUp() override {
    ServedDaemonTest::SetUp();
    kvd_connect_options options;
    kvd_connect_options_init(&options, sizeof options);
    options.socket_path = socket_path().c_str();
    options.timeout_ms = 60'000;
    ASSERT_EQ(kvd_connect(&options, &client_), KVD_OK) << kvd_error_message();
  }
  void TearDown() override {
    kvd_close(client_);
    ServedDaemonTest::TearDown();
  }

  // Makes a sequence of `count` tokens; `first` selects the first token.
  kvd_sequence Prompted(std::int32_t first, std::size_t count) {
    kvd_sequence sequence = 0;
    EXPECT_EQ(kvd_sequence_create(client_, nullptr, &sequence, nullptr), KVD_OK)
        << kvd_error_message();
    std::vector<kvd_token> tokens;
    for (std::size_t i = 0; i < count; ++i) {
      tokens.push_back(5 + (first + static_cast<std::int32_t>(i * 7)) % 200);
    }
    (void)Generated(sequence, tokens, 0);
    return sequence;
  }
  std::vector<kvd_token> Generated(kvd_sequence sequence, const std::vector<kvd_token>& tokens,
                                   std::int32_t predict_max) {
    kvd_generate_params params;
    kvd_generate_params_init(&params, sizeof params);
    params.tokens = tokens.data();
    params.token_count = tokens.size();
    params.predict_max = predict_max;
    params.temperature = 0.0f;
    params.flags = KVD_IGNORE_EOS;
    std::vector<kvd_token> drawn;
    const auto take = [](void* user, const kvd_piece* piece) {
      auto& all = *static_cast<std::vector<kvd_token>*>(user);
      all.insert(all.end(), piece->tokens, piece->tokens + piece->token_count);
      return 0;
    };
    EXPECT_EQ(kvd_generate(client_, sequence, &params, take, &drawn, nullptr, nullptr), KVD_OK)
        << kvd_error_message();
    return drawn;
  }
  std::vector<kvd_token> Continued(kvd_sequence sequence) {
    return Generated(sequence, {17, 23}, 12);
  }
  std::string Path(const std::string& name) { return daemon_->folder() + "/" + name; }

  kvd_client* client_ = nullptr;
};

class HybridLlamaFilesTest : public LlamaFilesTest {
 protected:
  HybridLlamaFilesTest()
      : LlamaFilesTest({"-m", std::filesystem::absolute("models/notebook-1m-hybrid-q8_0.gguf")}) {}
};

// Checks that the number of bytes that a call returned is not 0, and returns the number.
std::size_t Told(std::size_t bytes) {
  EXPECT_NE(bytes, 0u) << kvd_error_message();
  return bytes;
}

TEST_F(LlamaFilesTest, ImportedDataContinuesWithTheSameTokens) {
  const kvd_sequence sequence = Prompted(3, 100);
  for (const std::uint32_t flags :
       {0u, std::uint32_t{KVD_STATE_V_TRANSPOSED}, std::uint32_t{KVD_STATE_LAYOUT_2025},
        std::uint32_t{KVD_STATE_V_TRANSPOSED | KVD_STATE_LAYOUT_2025}, KVD_STATE_STREAMS(4)}) {
    const std::size_t bytes = Told(kvd_state_seq_get_size(client_, sequence, flags));
    std::vector<std::byte> data(bytes);
    EXPECT_EQ(kvd_state_seq_get_data(client_, sequence, data.data(), bytes, flags), bytes);
    kvd_sequence copy = 0;
    EXPECT_EQ(kvd_state_seq_set_data(client_, data.data(), bytes, 0, &copy), bytes)
        << kvd_error_message();
    kvd_sequence fork = 0;
    ASSERT_EQ(kvd_sequence_fork(client_, sequence, -1, 1, nullptr, &fork, nullptr, nullptr),
              KVD_OK);
    EXPECT_EQ(Continued(copy), Continued(fork));
  }
}

TEST_F(LlamaFilesTest, ImportedCellsAreNotReusedByOtherPrompts) {
  const kvd_sequence sequence = Prompted(3, 100);
  const std::size_t bytes = Told(kvd_state_seq_get_size(client_, sequence, 0));
  std::vector<std::byte> data(bytes);
  ASSERT_EQ(kvd_state_seq_get_data(client_, sequence, data.data(), bytes, 0), bytes);
  ASSERT_EQ(kvd_sequence_drop(client_, sequence, 0, nullptr), KVD_OK);
  kvd_sequence copy = 0;
  ASSERT_EQ(kvd_state_seq_set_data(client_, data.data(), bytes, 0, &copy), bytes);
  std::vector<kvd_token> tokens;
  for (std::int32_t i = 0; i < 101; ++i) tokens.push_back(5 + (3 + i * 7) % 200);
  kvd_sequence prompt = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &prompt, nullptr), KVD_OK);
  kvd_logits logits{};
  ASSERT_EQ(kvd_decode(client_, prompt, tokens.data(), tokens.size(), 0, KVD_LOGITS_NONE, &logits,
                       nullptr),
            KVD_OK);
  EXPECT_EQ(logits.prompt_shared, 0u);
  // The copy continues with the same tokens as a fork of it.
  kvd_sequence fork = 0;
  ASSERT_EQ(kvd_sequence_fork(client_, copy, -1, 1, nullptr, &fork, nullptr, nullptr), KVD_OK);
  EXPECT_EQ(Continued(copy), Continued(fork));
}

TEST_F(HybridLlamaFilesTest, AnImportedFileContinuesWithTheSameTokens) {
  const kvd_sequence sequence = Prompted(3, 100);
  std::vector<kvd_sequence> copies;
  for (const std::uint32_t flags : {0u, std::uint32_t{KVD_STATE_LAYOUT_2025}}) {
    const std::string path = Path("sequence.bin");
    const std::size_t bytes = Told(kvd_state_seq_save_file(client_, sequence, path.c_str(), flags));
    EXPECT_EQ(std::filesystem::file_size(path), bytes);
    EXPECT_EQ(kvd_state_seq_get_size(client_, sequence, flags), bytes);
    kvd_sequence copy = 0;
    EXPECT_EQ(kvd_state_seq_load_file(client_, path.c_str(), 0, &copy), bytes)
        << kvd_error_message();
    copies.push_back(copy);
  }
  const std::vector<kvd_token> expected = Continued(sequence);
  for (const kvd_sequence copy : copies) EXPECT_EQ(Continued(copy), expected);
}

// Returns the 32-bit number at byte `offset` of the file.
std::uint32_t NumberAt(std::span<const std::byte> file, std::size_t offset) {
  std::uint32_t number = 0;
  std::memcpy(&number, file.data() + offset, sizeof number);
  return number;
}

// Checks the files' sizes by the arithmetic of each layout, and the first numbers in which the
// layouts differ.
TEST_F(LlamaFilesTest, The2026LayoutIsWrittenUnlessThe2025LayoutIsRequested) {
  constexpr std::size_t kTokens = 60;
  const kvd_sequence sequence = Prompted(3, kTokens);
  constexpr std::size_t kHeader = 12 + kTokens * 4;  // magic, version, count, tokens
  const auto data = [&](std::uint32_t flags) {
    std::vector<std::byte> file(Told(kvd_state_seq_get_size(client_, sequence, flags)));
    EXPECT_EQ(kvd_state_seq_get_data(client_, sequence, file.data(), file.size(), flags),
              file.size());
    return file;
  };
  const auto newer = data(0);
  const auto older = data(KVD_STATE_LAYOUT_2025);
  const auto streams = data(KVD_STATE_STREAMS(4));
  // The newer layout adds the number of streams and one id per cell.
  ASSERT_EQ(newer.size(), older.size() + 4 + kTokens * 4);
  ASSERT_EQ(streams.size(), newer.size() + 3 * 4);
  EXPECT_EQ(NumberAt(newer, kHeader), 1u);           // the number of streams
  EXPECT_EQ(NumberAt(newer, kHeader + 4), kTokens);  // the number of cells
  EXPECT_EQ(NumberAt(newer, kHeader + 12), 1u);      // the number of ids of the first cell
  EXPECT_EQ(NumberAt(older, kHeader), kTokens);      // the number of cells
  EXPECT_EQ(NumberAt(older, kHeader + 8), 0u);       // the number of ids of the first cell
  EXPECT_EQ(NumberAt(streams, kHeader), 4u);
  EXPECT_EQ(NumberAt(streams, streams.size() - 12), 0u);  // the last three streams have no cells
  const SequenceHandle handle{sequence};
  const Client client = Connect();
  EXPECT_EQ(*client.ExportLlama({&handle, 1}), newer);
  EXPECT_EQ(*client.ExportLlama({&handle, 1}, {.layout = LlamaFileLayout::k2025}), older);
  EXPECT_EQ(*client.LlamaBytes({&handle, 1}, {.layout = LlamaFileLayout::k2025}), older.size());
  EXPECT_EQ(*client.LlamaBytes({&handle, 1}), newer.size());
  EXPECT_EQ(*client.LlamaBytes({&handle, 1}, {.streams = 4}), streams.size());
}

TEST_F(LlamaFilesTest, ASessionFileIsImportedAsAllItsSequences) {
  const kvd_sequence first = Prompted(3, 60);
  const kvd_sequence second = Prompted(90, 40);
  kvd_sequence empty = 0;
  ASSERT_EQ(kvd_sequence_create(client_, nullptr, &empty, nullptr), KVD_OK);
  const std::uint32_t flags[] = {0, KVD_STATE_LAYOUT_2025, KVD_STATE_STREAMS(2)};
  std::vector<std::vector<std::byte>> contexts;
  for (const std::uint32_t flag : flags) {
    contexts.emplace_back(Told(kvd_state_get_size(client_, flag)));
    EXPECT_EQ(kvd_state_get_data(client_, contexts.back().data(), contexts.back().size(), flag),
              contexts.back().size());
  }
  const std::string path = Path("context.bin");
  EXPECT_EQ(kvd_state_save_file(client_, path.c_str(), KVD_STATE_LAYOUT_2025), contexts[1].size());
  EXPECT_EQ(std::filesystem::file_size(path), contexts[1].size());
  EXPECT_EQ(kvd_state_save_file(client_, path.c_str(), 0), contexts[0].size());
  const std::vector<std::vector<kvd_token>> expected = {Continued(first), Continued(second)};
  for (std::size_t round = 0; round < 4; ++round) {
    const bool is_file = round == 3;
    const std::vector<std::byte>& data = contexts[round % 3];
    const std::size_t bytes = data.size();
    kvd_sequence* list = nullptr;
    std::size_t count = 0;
    const std::size_t read =
        is_file ? kvd_state_load_file(client_, path.c_str(), 0, &list, &count)
                : kvd_state_set_data(client_, data.data(), bytes, 0, &list, &count);
    EXPECT_EQ(read, bytes) << kvd_error_message();
    ASSERT_EQ(count, 2u);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(Continued(list[i]), expected[i]);
    kvd_free(list);
  }
}

TEST_F(LlamaFilesTest, ARefusedImportReturnsZeroAndChangesNothing) {
  const kvd_sequence sequence = Prompted(3, 20);
  const std::size_t bytes = Told(kvd_state_seq_get_size(client_, sequence, 0));
  std::vector<std::byte> data(bytes);
  EXPECT_EQ(kvd_state_seq_get_data(client_, sequence, data.data(), bytes, 0), bytes);
  const std::size_t sequences = Connect().List()->size();
  const auto refused = [](std::size_t result, int code, const char* reason) {
    EXPECT_EQ(result, 0u);
    EXPECT_EQ(kvd_error_code(), code) << kvd_error_message();
    EXPECT_THAT(kvd_error_message(), HasSubstr(reason));
  };
  kvd_sequence made = 0;
  refused(kvd_state_seq_get_data(client_, sequence, data.data(), bytes - 1, 0), KVD_NO_SPACE,
          "bytes, ");
  refused(kvd_state_seq_get_size(client_, 99, 0), KVD_NOT_FOUND, "99");
  refused(kvd_state_seq_get_size(client_, sequence, 8), KVD_INVALID_ARGUMENT, "flags: 8");
  refused(kvd_state_seq_get_size(client_, sequence, KVD_STATE_STREAMS(257)), KVD_INVALID_ARGUMENT,
          "257 streams, not in [1, 256]");
  refused(kvd_state_seq_get_size(client_, sequence, KVD_STATE_STREAMS(2) | KVD_STATE_LAYOUT_2025),
          KVD_INVALID_ARGUMENT, "the layout of 2025 has no streams");
  refused(kvd_state_seq_set_data(client_, data.data(), bytes, KVD_STATE_LAYOUT_2025, &made),
          KVD_INVALID_ARGUMENT, "flags: 4");
  refused(kvd_state_seq_set_data(client_, data.data(), bytes, KVD_STATE_STREAMS(2), &made),
          KVD_INVALID_ARGUMENT, "flags: 131072");
  refused(kvd_state_seq_get_size(nullptr, sequence, 0), KVD_INVALID_ARGUMENT, "client");
  refused(kvd_state_seq_get_data(client_, sequence, nullptr, 1, 0), KVD_INVALID_ARGUMENT, "data");
  refused(kvd_state_seq_set_data(client_, data.data(), bytes, 1, &made), KVD_INVALID_ARGUMENT,
          "flags: 1");
  refused(kvd_state_seq_set_data(client_, data.data(), 0, 0, &made), KVD_INVALID_ARGUMENT,
          "file: no bytes");
  refused(kvd_state_seq_set_data(client_, data.data(), bytes, 0, nullptr), KVD_INVALID_ARGUMENT,
          "sequence");
  refused(kvd_state_seq_save_file(client_, sequence, "/nowhere/x", 0), KVD_NOT_FOUND, "/nowhere");
  refused(kvd_state_seq_load_file(client_, "/nowhere/x", 0, &made), KVD_NOT_FOUND, "/nowhere");
  refused(kvd_state_seq_load_file(client_, "/tmp", 0, &made), KVD_INVALID_ARGUMENT,
          "not a regular file");
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{11}, std::size_t{40}, bytes / 2, bytes - 1}) {
    refused(kvd_state_seq_set_data(client_, data.data(), cut, 0, &made), KVD_CORRUPT, "at byte");
  }
  std::vector<std::byte> other = data;
  other[12] = other[13] = std::byte{0xff};  // makes the first token invalid
  refused(kvd_state_seq_set_data(client_, other.data(), bytes, 0, &made), KVD_INVALID_ARGUMENT,
          "token 0: id");
  other = data;
  std::memset(other.data() + bytes - 64, 0xff, 64);  // makes the last values NaN
  refused(kvd_state_seq_set_data(client_, other.data(), bytes, 0, &made), KVD_NUMERICAL,
          "not finite");
  EXPECT_THAT(*Connect().List(), SizeIs(sequences));
  ExpectServesOthers();
}

TEST_F(HybridLlamaFilesTest, AFileOfAnotherModelIsRefused) {
  auto plain =
      DaemonProcess::Start({.kvd_path = test::KvdPath(), .arguments = {"-c", "512", "-t", "1"}});
  ASSERT_TRUE(plain) << plain.error().message;
  const auto other = Client::Connect({.socket_path = plain->socket_path()});
  ASSERT_TRUE(other);
  const kvd_sequence sequence = Prompted(3, 20);
  for (const bool is_session : {false, true}) {
    const SequenceHandle handle{sequence};
    const auto file = Connect().ExportLlama({&handle, 1}, {.is_session = is_session});
    ASSERT_TRUE(file) << file.error().message;
    const auto refused = other->ImportLlama(*file);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("the model "));
  }
  EXPECT_THAT(*other->List(), SizeIs(0));
  EXPECT_TRUE(plain->Stop());
}

TEST_F(LlamaFilesTest, KvctlExportsAndImports) {
  const kvd_sequence sequence = Prompted(3, 50);
  const auto run = [&](const std::string& verb) {
    const std::string output = Path("output");
    const std::string command =
        BinaryFolder() + "/kvctl --socket " + socket_path() + " " + verb + " > " + output + " 2>&1";
    const int status = std::system(command.c_str());
    std::ifstream file(output);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return std::pair(WEXITSTATUS(status), text);
  };
  const std::string path = Path("kite.bin");
  const auto exported = run("export " + std::to_string(sequence) + " " + path);
  EXPECT_EQ(exported.first, 0) << exported.second;
  const auto imported = run("--json import " + path);
  EXPECT_EQ(imported.first, 0) << imported.second;
  EXPECT_THAT(imported.second, HasSubstr("\"name\":\"kite\""));
  EXPECT_THAT(imported.second, HasSubstr("\"cells\":50"));
  // The second import is refused, because the name exists.
  EXPECT_THAT(run("import " + path).second, HasSubstr("kite"));
  EXPECT_EQ(run("import " + path).first, 1);
  EXPECT_EQ(run("import -f " + path + " kite").first, 0);
  const auto narrow = run("export --session --v-transposed --type-k f32 --type-v f32 " +
                          std::to_string(sequence) + " " + Path("wide.bin"));
  EXPECT_EQ(narrow.first, 0) << narrow.second;
  const auto converted = run("import --seq 0 " + Path("wide.bin") + " wide");
  EXPECT_EQ(converted.first, 0) << converted.second;
  EXPECT_THAT(converted.second, HasSubstr("converted to the pool's types"));
  const std::string file = std::to_string(sequence) + " " + Path("layout.bin");
  std::vector<std::uintmax_t> sizes;
  for (const char* options : {"", "--layout 2026", "--layout 2025", "--streams 3"}) {
    const auto written = run(std::string("export --force ") + options + " " + file);
    EXPECT_EQ(written.first, 0) << written.second;
    sizes.push_back(std::filesystem::file_size(Path("layout.bin")));
    EXPECT_EQ(run("import -f " + Path("layout.bin")).first, 0) << options;
  }
  EXPECT_EQ(sizes[0], sizes[1]);
  EXPECT_EQ(sizes[0], sizes[2] + 4 + 50 * 4);
  EXPECT_EQ(sizes[3], sizes[0] + 2 * 4);
  const auto unknown = run("export --layout 2024 " + file);
  EXPECT_EQ(unknown.first, 1);
  EXPECT_THAT(unknown.second, HasSubstr("--layout 2024: must be 2025 or 2026"));
  EXPECT_THAT(run("export --force --layout 2025 --streams 2 " + file).second,
              HasSubstr("the layout of 2025 has no streams"));
  EXPECT_NE(run("export --streams 257 " + file).first, 0);
  EXPECT_THAT(run("export --type-k f64 " + std::to_string(sequence) + " " + path).second,
              HasSubstr("must be f32, f16, bf16, q8_0 or q4_0"));
  kvd_sequence attached = 0;
  for (const char* name : {"kite", "wide"}) {
    ASSERT_EQ(kvd_attach(client_, name, &attached, nullptr, nullptr), KVD_OK)
        << kvd_error_message();
    kvd_sequence fork = 0;
    ASSERT_EQ(kvd_sequence_fork(client_, sequence, -1, 1, nullptr, &fork, nullptr, nullptr),
              KVD_OK);
    EXPECT_EQ(Continued(attached), Continued(fork)) << name;
  }
}

// ------------------------------------------------------------------------------ upload and import

TEST_F(LlamaFilesTest, UploadPiecesOutOfOrderAreRefused) {
  const Client client = Connect();
  const std::vector<std::byte> bytes(100);
  const std::span<const std::byte> piece(bytes);
  const auto call = [&](wire::Verb verb, std::int64_t argument,
                        std::span<const std::byte> payload) {
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(verb);
    submission.argument = argument;
    auto answer = client.connection()->Call(submission, PayloadOf(payload), nullptr);
    return answer ? std::string() : answer.error().message;
  };
  EXPECT_THAT(call(wire::Verb::kImportState, 0, {}), HasSubstr("no state was uploaded"));
  EXPECT_THAT(call(wire::Verb::kUploadState, 1, piece), HasSubstr("1, but 0 bytes were received"));
  EXPECT_EQ(call(wire::Verb::kUploadState, 0, piece), "");
  EXPECT_EQ(call(wire::Verb::kUploadState, 100, piece), "");
  EXPECT_THAT(call(wire::Verb::kUploadState, 100, piece),
              HasSubstr("100, but 200 bytes were received"));
  EXPECT_THAT(call(wire::Verb::kUploadState, -1, piece), HasSubstr("upload_state.offset"));
  EXPECT_THAT(call(wire::Verb::kImportState, 0, {}), HasSubstr("state file: magic"));
  EXPECT_THAT(call(wire::Verb::kImportState, 0, {}), HasSubstr("no state was uploaded"));
  ExpectServesOthers();
}

std::vector<std::byte> ExportPayload(const wire::ExportStateParams& params,
                                     const std::vector<std::uint64_t>& handles) {
  std::vector<std::byte> payload(sizeof params + handles.size() * sizeof(std::uint64_t));
  std::memcpy(payload.data(), &params, sizeof params);
  if (!handles.empty()) {
    std::memcpy(payload.data() + sizeof params, handles.data(),
                handles.size() * sizeof(std::uint64_t));
  }
  return payload;
}

TEST_F(LlamaFilesTest, CellMetadataOfAClientIsChecked) {
  const Client client = Connect();
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < 101; ++i) tokens.push_back(5 + (3 + i * 7) % 200);
  const auto call = [&](wire::Verb verb, std::span<const std::byte> payload,
                        std::vector<std::byte>* output) {
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(verb);
    const auto answer = client.connection()->Call(submission, PayloadOf(payload), output);
    EXPECT_TRUE(answer) << answer.error().message;
  };
  const SequenceHandle computed = *client.Create();
  {
    auto decoding = client.StartDecode(computed, tokens, Pos{0}, wire::LogitsWanted::kNone);
    ASSERT_TRUE(decoding && decoding->Next());
  }
  std::vector<std::byte> state;
  const wire::ExportStateParams wanted{.flags = 0, .k_type = 255, .v_type = 255, .reserved = 0};
  call(wire::Verb::kExportState, ExportPayload(wanted, {static_cast<std::uint64_t>(computed)}),
       &state);
  state_file::FileHeader header;
  ASSERT_GT(state.size(), sizeof header);
  std::memcpy(&header, state.data(), sizeof header);
  state_file::SequenceHeader sequence;
  std::memcpy(&sequence, state.data() + StateHeadBytes(header.section_count), sizeof sequence);
  ASSERT_EQ(sequence.pristine_cells, 101u) << "the state says so";
  ASSERT_TRUE(client.Drop(computed));
  std::vector<std::byte> made;
  call(wire::Verb::kUploadState, state, nullptr);
  call(wire::Verb::kImportState, {}, &made);
  wire::LoadedEntry entry;
  ASSERT_EQ(made.size(), sizeof entry);
  std::memcpy(&entry, made.data(), sizeof entry);
  EXPECT_EQ(entry.cell_count, 101u);
  EXPECT_EQ(entry.flags & wire::kLoadedConverted, 0u);
  // A prompt with the same tokens does not take the imported cells as its prefix.
  tokens.push_back(9);
  const SequenceHandle prompt = *client.Create();
  auto decoding = client.StartDecode(prompt, tokens, Pos{0}, wire::LogitsWanted::kNone);
  ASSERT_TRUE(decoding);
  const auto piece = decoding->Next();
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->reuse().tokens, 0u);
}

TEST_F(LlamaFilesTest, InvalidExportRequestsAreRefused) {
  const Client client = Connect();
  const auto refusal = [&](const wire::ExportStateParams& params,
                           const std::vector<std::uint64_t>& handles = {}) {
    const std::vector<std::byte> payload = ExportPayload(params, handles);
    const std::span<const std::byte> sent(payload);
    wire::Submission submission{};
    submission.verb = static_cast<std::uint16_t>(wire::Verb::kExportState);
    const auto answer = client.connection()->Call(submission, PayloadOf(sent), nullptr);
    return answer ? std::string() : answer.error().message;
  };
  const auto params = [](std::uint32_t flags, std::uint8_t type) {
    return wire::ExportStateParams{.flags = flags, .k_type = type, .v_type = 255, .reserved = 0};
  };
  const kvd_sequence sequence = Prompted(3, 4);
  EXPECT_EQ(refusal(params(0, 255), {sequence}), "");
  EXPECT_THAT(refusal(params(64, 255), {sequence}), HasSubstr("export_state.flags: 64"));
  EXPECT_THAT(refusal(params(0, 77), {sequence}),
              HasSubstr("export_state.k_type: 77 is not a data type"));
  EXPECT_THAT(refusal(params(0, 3), {sequence}), HasSubstr("q4_1; f32, f16"));
  EXPECT_THAT(refusal({.flags = 0, .k_type = 255, .v_type = 255, .reserved = 3}, {sequence}),
              HasSubstr("export_state.reserved: 3"));
  EXPECT_THAT(refusal(params(wire::kStateModel, 255), {sequence}),
              HasSubstr("export_state.handles: 1 sequences, but the model flag allows none"));
  EXPECT_EQ(refusal(params(wire::kStateModel, 255)), "");
  EXPECT_THAT(refusal(params(0, 255)), HasSubstr("export_state.handles: no sequences"));
  EXPECT_THAT(refusal(params(0, 255), {99}), HasSubstr("99"));
  const LlamaFileOptions streams{.streams = 65535};
  const SequenceHandle handle{sequence};
  const auto named = client.ExportLlama({&handle, 1}, streams);
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message, HasSubstr("65535 streams, not in [1, 256]"));
  ExpectServesOthers();
}

}  // namespace
}  // namespace kvd
