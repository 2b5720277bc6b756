// Tests the entries of a prompt cache: entries are written, found with the exact number of common
// tokens, and read by other engines. The tests also cover damaged and foreign entries, and entries
// that other processes remove or lock.
#include "engine/saved_state/prompt_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <thread>

#include "engine/forward/architectures/architecture.h"
#include "engine/model/model_config.h"
#include "tests/engine/saved_state/state_folder.h"
#include "tests/support/tiny_model.h"

namespace kvd {
namespace {

using test::Feed;
using test::MakeEngine;
using test::RandomTokens;
using test::StateBytes;
using test::StateFolder;
using test::TinyLlama;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Tokens = std::vector<TokenId>;

constexpr OwnerId kOwner{1000};
constexpr std::uint64_t kSalt = 0x5a17'5a17'5a17'5a17;

EngineOptions Options() {
  return {.cells = 1024, .checkpoint_every = 32, .threads = 2, .deterministic = true};
}

std::vector<float> LogitsOf(Engine& engine, SequenceHandle sequence, const Tokens& tokens) {
  return Feed(engine, sequence, tokens, tokens.size());
}

class PromptStoreTest : public testing::Test {
 protected:
  std::unique_ptr<PromptStore> Open(Engine& engine, std::uint64_t bytes_max = 1u << 30) {
    auto store = PromptStore::Open(
        engine, {.path = folder_.PathOf("."),
                 .bytes_max = bytes_max,
                 .on_damaged = [this](const std::string&, const std::string& reason) {
                   damages_.push_back(reason);
                 }});
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }
  // Returns a retained sequence with these tokens.
  static SequenceHandle Hold(Engine& engine, const Tokens& tokens, std::uint64_t salt = kSalt) {
    const SequenceHandle handle =
        *engine.memory().sequences().Create({.id = kOwner, .namespace_salt = salt});
    (void)Feed(engine, handle, tokens, 50);
    EXPECT_TRUE(*engine.memory().prefixes().Retain(handle));
    return handle;
  }
  static Result<std::uint64_t> Write(PromptStore& store, Engine& engine, SequenceHandle handle) {
    KVD_TRY(SequenceExport from, SequenceExport::OpenPaused(engine, handle));
    return store.Write(from, nullptr);
  }
  static std::uint64_t Store(PromptStore& store, Engine& engine, const Tokens& tokens,
                             std::uint64_t salt = kSalt) {
    const SequenceHandle handle = Hold(engine, tokens, salt);
    const Result<std::uint64_t> bytes = Write(store, engine, handle);
    EXPECT_TRUE(bytes) << bytes.error().message;
    EXPECT_TRUE(engine.memory().sequences().Drop(handle));
    return bytes.value_or(0);
  }
  static std::uint32_t Found(const PromptStore& store, const Tokens& prompt,
                             std::uint64_t salt = kSalt) {
    const auto found = store.Find(kOwner, salt, prompt, 0);
    return found ? found->cells : 0;
  }
  static Result<SequenceHandle> Load(PromptStore& store, const Tokens& prompt) {
    const auto found = store.Find(kOwner, kSalt, prompt, 0);
    if (!found) return Fail(Code::kNotFound, "nothing was found");
    return store.Load(*found, {.id = kOwner, .namespace_salt = kSalt}, prompt, nullptr);
  }
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.PathOf("."))) {
      const std::string name = file.path().filename().string();
      if (PromptDirectory::ParseName(name)) names.push_back(name);
    }
    return names;
  }

  StateFolder folder_;
  std::vector<std::string> damages_;
  const ModelShape shape_ = TinyLlama();
  const Tokens prompt_ = RandomTokens(3, 200, shape_.vocab);
};

Tokens Cut(Tokens tokens, std::size_t count) {
  tokens.resize(count);
  return tokens;
}

TEST_F(PromptStoreTest, AnotherEngineContinuesWithTheSameBits) {
  const auto engine = MakeEngine(shape_, Options());
  const Tokens more = RandomTokens(4, 20, shape_.vocab);
  const SequenceHandle original = Hold(*engine, prompt_);
  {
    const auto store = Open(*engine);
    EXPECT_GT(*Write(*store, *engine, original), 0u);
    EXPECT_EQ(store->counts().entries, 1u);
    EXPECT_EQ(*Write(*store, *engine, original), 0u) << "the entry exists already";
  }
  const std::vector<float> expected = LogitsOf(*engine, original, more);

  const auto other = MakeEngine(shape_, Options());
  const auto store = Open(*other);
  Tokens whole = prompt_;
  whole.insert(whole.end(), more.begin(), more.end());
  EXPECT_EQ(Found(*store, whole), 200u);
  EXPECT_EQ(Found(*store, prompt_), 199u) << "all but the last token";
  const auto loaded = Load(*store, whole);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(other->memory().sequences().Query(*loaded)->pristine_cells, 200u);
  EXPECT_EQ(LogitsOf(*other, *loaded, more), expected);
}

TEST_F(PromptStoreTest, OnlyTheCommonPartOfALongerEntryIsRead) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  (void)Store(*store, *engine, prompt_);
  Tokens prompt = Cut(prompt_, 90);
  prompt.push_back((prompt_[90] + 1) % static_cast<TokenId>(shape_.vocab));
  prompt.insert(prompt.end(), {1, 2, 3});
  const auto found = store->Find(kOwner, kSalt, prompt, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cells, 90u);
  EXPECT_EQ(found->cells_read, 90u);
  EXPECT_LT(found->bytes_read, store->counts().entry_bytes);
  EXPECT_FALSE(store->Find(kOwner, kSalt, prompt, 90)) << "the pool already has these 90 cells";
  const auto loaded = Load(*store, prompt);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(engine->memory().sequences().Query(*loaded)->cell_count, 90u);
  const SequenceHandle computed = *engine->memory().sequences().Create({});
  (void)Feed(*engine, computed, Cut(prompt_, 90), 50);
  EXPECT_EQ(LogitsOf(*engine, *loaded, {5, 6}), LogitsOf(*engine, computed, {5, 6}));
  EXPECT_EQ(Found(*store, Cut(prompt_, 16)), 0u) << "the common prefix is too short";
}

TEST_F(PromptStoreTest, EntriesOfOtherNamespacesModelsAndTypesAreNotFound) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  (void)Store(*store, *engine, prompt_);
  EXPECT_EQ(Found(*store, prompt_, kSalt + 1), 0u);
  EXPECT_FALSE(store->Find(OwnerId{1001}, kSalt, prompt_, 0));
  const std::vector<char> bytes = folder_.Bytes(Entries().front());
  const auto* const salt = reinterpret_cast<const char*>(&kSalt);
  EXPECT_EQ(std::search(bytes.begin(), bytes.end(), salt, salt + sizeof kSalt), bytes.end());

  ModelShape other_shape = shape_;
  other_shape.name = "another";
  other_shape.seed += 1;
  const auto other_model = MakeEngine(other_shape, Options());
  EXPECT_EQ(Open(*other_model)->counts().entries, 0u);
  EngineOptions types = Options();
  types.k_type = kernels::DataType::kF32;
  const auto other_types = MakeEngine(shape_, types);
  EXPECT_EQ(Open(*other_types)->counts().entries, 0u);
  EXPECT_THAT(damages_, IsEmpty());
  EXPECT_THAT(Entries(), SizeIs(1));
}

TEST_F(PromptStoreTest, AContinuedPromptReplacesTheEntryOfItsBeginning) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  (void)Store(*store, *engine, Cut(prompt_, 100));
  const std::vector<std::string> first = Entries();
  (void)Store(*store, *engine, prompt_);
  EXPECT_EQ(store->counts().entries, 1u);
  EXPECT_THAT(Entries(), SizeIs(1));
  EXPECT_NE(Entries(), first);
  EXPECT_EQ(Store(*store, *engine, Cut(prompt_, 150)), 0u) << "the longer entry serves this prompt";
  EXPECT_EQ(Found(*store, Cut(prompt_, 150)), 149u);
}

TEST_F(PromptStoreTest, TheLeastRecentlyUsedEntriesAreEvicted) {
  const auto engine = MakeEngine(shape_, Options());
  std::uint64_t bytes = 0;
  {
    const auto store = Open(*engine);
    bytes = Store(*store, *engine, prompt_);
    (void)Store(*store, *engine, RandomTokens(5, 200, shape_.vocab));
  }
  // Sets the times of an entry, so that its last use appears to be long ago.
  const auto age = [&](const std::string& name, std::int64_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(::utimensat(folder_.descriptor(), name.c_str(), times, 0), 0);
  };
  for (const std::string& name : Entries()) age(name, 1000);
  const auto store = Open(*engine, bytes * 5 / 2);
  ASSERT_TRUE(Load(*store, prompt_)) << "a load counts as a use";
  (void)Store(*store, *engine, RandomTokens(6, 150, shape_.vocab));
  EXPECT_EQ(store->counts().entries, 2u);
  EXPECT_EQ(store->counts().entries_removed, 1u);
  EXPECT_EQ(Found(*store, prompt_), 199u);
  EXPECT_EQ(Found(*store, RandomTokens(5, 200, shape_.vocab)), 0u);

  const auto small = Open(*engine, bytes / 2);
  const SequenceHandle handle = Hold(*engine, RandomTokens(8, 200, shape_.vocab));
  const auto refused = Write(*small, *engine, handle);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_EQ(small->counts().entries, 2u) << "no entry is removed for one that is too large";
}

TEST_F(PromptStoreTest, EntriesNameTheirOwnerAndEntriesWithoutOneAreRead) {
  const auto engine = MakeEngine(shape_, Options());
  {
    const auto store = Open(*engine);
    (void)Store(*store, *engine, prompt_);
  }
  ASSERT_THAT(Entries(), SizeIs(1));
  const std::string name = Entries().front();
  PromptName parts = *PromptDirectory::ParseName(name);
  EXPECT_EQ(parts.owner, kOwner);
  EXPECT_EQ(PromptDirectory::NameOf(parts), name);
  // Names written by older versions lack the owner.
  parts.owner.reset();
  const std::string older = PromptDirectory::NameOf(parts);
  std::filesystem::rename(folder_.PathOf(name), folder_.PathOf(older));
  const auto store = Open(*engine);
  EXPECT_EQ(Found(*store, prompt_), 199u);
  EXPECT_EQ(Store(*store, *engine, prompt_), 0u) << "the entry exists already";
  EXPECT_THAT(Entries(), ElementsAre(older));
  EXPECT_THAT(damages_, IsEmpty());
}

TEST_F(PromptStoreTest, FilesWithOtherNamesAreIgnored) {
  const std::string model = "0123456789abcdef-";
  EXPECT_TRUE(PromptDirectory::ParseName(model + "0123456789abcdef.prompt"));
  EXPECT_EQ(PromptDirectory::ParseName(model + model + "00000000000003e8.prompt")->owner,
            OwnerId{1000});
  for (const char* const rest :
       {"", ".prompt", "0123456789abcdef", "0123456789abcde.prompt", "0123456789abcdefa.prompt",
        "0123456789abcdeF.prompt", "0123456789abcdef_0123456789abcdef.prompt",
        "0123456789abcdef-0123456789abcdef-0123456789abcdef.prompt", "0123456789abcdef-.prompt",
        "0123456789abcdex-0123456789abcdef.prompt"}) {
    EXPECT_FALSE(PromptDirectory::ParseName(model + rest)) << rest;
  }
}

TEST_F(PromptStoreTest, EachOwnerStaysWithinItsShareAfterARestart) {
  const auto engine = MakeEngine(shape_, Options());
  constexpr OwnerId kStranger{2000};
  std::uint64_t bytes_of_one = 0;  // a quarter more than the size of an entry
  const auto open = [&] {
    auto store = PromptStore::Open(*engine, {.path = folder_.PathOf("."),
                                             .bytes_max = 4 * bytes_of_one,
                                             .part_of = [&](OwnerId owner) -> PromptUse {
                                               const bool is_main = owner == kOwner;
                                               return {.bytes = (is_main ? 4 : 2) * bytes_of_one,
                                                       .entries = 100};
                                             },
                                             .main_owner = kOwner,
                                             .on_damaged = {}});
    EXPECT_TRUE(store) << store.error().message;
    return std::move(*store);
  };
  const auto write_as_stranger = [&](PromptStore& store, std::uint64_t number) {
    const SequenceHandle handle =
        *engine->memory().sequences().Create({.id = kStranger, .namespace_salt = kSalt});
    (void)Feed(*engine, handle, RandomTokens(100 + number, 200, shape_.vocab), 50);
    EXPECT_TRUE(*engine->memory().prefixes().Retain(handle));
    const auto written = Write(store, *engine, handle);
    EXPECT_TRUE(written) << written.error().message;
    EXPECT_TRUE(engine->memory().sequences().Drop(handle));
  };
  const auto found_by_stranger = [&](const PromptStore& store, std::uint64_t number) {
    return store.Find(kStranger, kSalt, RandomTokens(100 + number, 200, shape_.vocab), 0)
        .has_value();
  };
  bytes_of_one = 1u << 20;
  {
    const auto store = open();
    bytes_of_one = Store(*store, *engine, prompt_) * 5 / 4;
  }
  {
    const auto store = open();
    for (std::uint64_t number = 0; number < 4; ++number) write_as_stranger(*store, number);
    EXPECT_EQ(store->counts().entries, 3u);
    EXPECT_EQ(store->counts().entries_removed, 2u);
  }
  const auto store = open();
  for (std::uint64_t number = 4; number < 8; ++number) write_as_stranger(*store, number);
  EXPECT_EQ(store->counts().entries, 3u);
  EXPECT_EQ(Found(*store, prompt_), 199u) << "the entry of the main owner stays";
  EXPECT_TRUE(found_by_stranger(*store, 7));
  EXPECT_TRUE(found_by_stranger(*store, 6));
  EXPECT_FALSE(found_by_stranger(*store, 5));
}

TEST_F(PromptStoreTest, StoresOfOneDirectorySeeTheEntriesOfEachOther) {
  const auto engine = MakeEngine(shape_, Options());
  const auto writer = Open(*engine);
  const auto reader = Open(*engine);
  ASSERT_GE(reader->changes_descriptor(), 0);
  (void)Store(*writer, *engine, prompt_);
  EXPECT_EQ(Found(*reader, prompt_), 0u);
  reader->Refresh();
  EXPECT_EQ(Found(*reader, prompt_), 199u);
  // An entry that is removed before the reader notices is not reported as damaged.
  const std::string name = Entries().front();
  ASSERT_EQ(::unlinkat(folder_.descriptor(), name.c_str(), 0), 0);
  const auto missing = Load(*reader, prompt_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(Found(*reader, prompt_), 0u);
  EXPECT_EQ(Found(*writer, prompt_), 199u);
  writer->Refresh();
  EXPECT_EQ(Found(*writer, prompt_), 0u);
  EXPECT_THAT(damages_, IsEmpty());
}

TEST_F(PromptStoreTest, OnlyOneOfTwoWritersWritesAnEntry) {
  const auto engine = MakeEngine(shape_, Options());
  const auto one = Open(*engine);
  const auto two = Open(*engine);
  const SequenceHandle handle = Hold(*engine, prompt_);
  std::uint64_t bytes[2] = {0, 0};
  {
    std::jthread first([&] { bytes[0] = Write(*one, *engine, handle).value(); });
    std::jthread second([&] { bytes[1] = Write(*two, *engine, handle).value(); });
  }
  EXPECT_TRUE((bytes[0] == 0) != (bytes[1] == 0)) << bytes[0] << " " << bytes[1];
  EXPECT_EQ(folder_.FileCount(), 2u) << "the entry and the key";
}

TEST_F(PromptStoreTest, AnEntryThatAnotherStoreWritesIsSkipped) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  const SequenceHandle handle = Hold(*engine, prompt_);
  ASSERT_GT(*Write(*store, *engine, handle), 0u);
  const std::string name = Entries().front();
  ASSERT_EQ(::unlinkat(folder_.descriptor(), name.c_str(), 0), 0);
  store->Refresh();
  const std::string lock = folder_.PathOf(".lock-" + name);
  {
    const UniqueFd other(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
    EXPECT_EQ(*Write(*store, *engine, handle), 0u);
    EXPECT_THAT(Entries(), IsEmpty());
  }
  // The process that held the lock has ended, so the lock file has no effect, and the next Open
  // removes it.
  EXPECT_TRUE(std::filesystem::exists(lock));
  (void)Open(*engine);
  EXPECT_FALSE(std::filesystem::exists(lock));
  EXPECT_GT(*Write(*store, *engine, handle), 0u);
}

TEST_F(PromptStoreTest, ASequenceThatChangesDuringTheWriteIsNotWritten) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  const SequenceHandle handle = Hold(*engine, prompt_);
  auto from = SequenceExport::OpenPaused(*engine, handle);
  ASSERT_TRUE(from);
  ASSERT_TRUE(engine->memory().sequences().Drop(handle));
  const auto written = store->Write(*from, nullptr);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kConflict);
  EXPECT_EQ(folder_.FileCount(), 1u) << "the key";

  const SequenceHandle edited = Hold(*engine, prompt_);
  ASSERT_TRUE(engine->memory().sequences().RemoveRange(edited, {Pos{20}, Pos{30}}));
  const auto refused = Write(*store, *engine, edited);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  const std::atomic<bool> cancelled{true};
  auto again = SequenceExport::OpenPaused(*engine, Hold(*engine, prompt_));
  EXPECT_EQ(store->Write(*again, &cancelled).error().code, Code::kCancelled);
}

TEST_F(PromptStoreTest, ADamagedEntryIsDroppedAndReported) {
  const auto engine = MakeEngine(shape_, Options());
  std::string name;
  {
    const auto store = Open(*engine);
    (void)Store(*store, *engine, prompt_);
    name = Entries().front();
  }
  const std::vector<char> good = folder_.Bytes(name);
  StateBytes parts(good);
  std::vector<std::size_t> spots = {0, 9, offsetof(state_file::FileHeader, name_space),
                                    sizeof(state_file::FileHeader) + 5, good.size() - 1};
  for (std::size_t at = 0; at < parts.header().section_count; ++at) {
    spots.push_back(parts.section(at).offset + parts.section(at).stored_bytes / 2);
  }
  for (const std::size_t spot : spots) {
    std::vector<char> bad = good;
    bad[spot] = static_cast<char>(bad[spot] ^ 0x41);
    folder_.Write(name, bad);
    damages_.clear();
    const auto store = Open(*engine);
    if (Found(*store, prompt_) != 0) {
      const auto loaded = Load(*store, prompt_);
      ASSERT_FALSE(loaded) << "byte " << spot;
      EXPECT_EQ(loaded.error().code, Code::kCorrupt);
    }
    EXPECT_THAT(damages_, SizeIs(1)) << "byte " << spot;
    EXPECT_EQ(store->counts().entries, 0u);
    EXPECT_EQ(store->counts().entries_dropped, 1u);
    EXPECT_THAT(Entries(), IsEmpty()) << "byte " << spot;
  }
  for (const std::size_t length : {std::size_t{0}, std::size_t{100}, good.size() - 1}) {
    folder_.Write(name, std::vector<char>(good.begin(), good.begin() + static_cast<long>(length)));
    EXPECT_EQ(Open(*engine)->counts().entries_dropped, 1u) << length;
    EXPECT_THAT(Entries(), IsEmpty());
  }
  EXPECT_EQ(engine->memory().Usage().live_sequences, 0u);
}

TEST_F(PromptStoreTest, AValidFileUnderAnotherNameOrNamespaceIsDamaged) {
  const auto engine = MakeEngine(shape_, Options());
  {
    const auto store = Open(*engine);
    (void)Store(*store, *engine, prompt_);
  }
  const std::string name = Entries().front();
  const std::vector<char> good = folder_.Bytes(name);
  std::string other = name;
  other[20] = other[20] == 'a' ? 'b' : 'a';
  folder_.Write(other, good);
  EXPECT_EQ(Open(*engine)->counts().entries, 1u);
  EXPECT_THAT(damages_, ElementsAre(HasSubstr("its name does not match its tokens")));
  EXPECT_THAT(Entries(), ElementsAre(name));

  // The file is replaced after the store has indexed it.
  const auto store = Open(*engine);
  StateBytes foreign(good);
  foreign.header().name_space[1] ^= 1;
  foreign.SumUpHeader();
  folder_.Write(name, foreign.bytes);
  const auto loaded = Load(*store, prompt_);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("another namespace"));
  EXPECT_THAT(Entries(), IsEmpty());
  // A saved state is not an entry of a prompt cache.
  StateBytes saved(good);
  saved.header().name_space[0] = 0;
  saved.SumUpHeader();
  folder_.Write(name, saved.bytes);
  damages_.clear();
  (void)Open(*engine);
  EXPECT_THAT(damages_, ElementsAre(HasSubstr("not an entry of a prompt cache")));
}

TEST_F(PromptStoreTest, AFileReplacedByOneWithOtherTokensIsDamaged) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  (void)Store(*store, *engine, prompt_);
  const std::string name = Entries().front();
  const Tokens other = RandomTokens(4, prompt_.size(), shape_.vocab);
  (void)Store(*store, *engine, other);
  for (const std::string& entry : Entries()) {
    if (entry != name) folder_.Write(name, folder_.Bytes(entry));
  }
  const auto loaded = Load(*store, prompt_);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("its tokens have changed since it was indexed"));
  EXPECT_EQ(Entries().size(), 1u);
}

TEST_F(PromptStoreTest, AnEntryRemovedByAnotherDaemonIsForgotten) {
  const auto directory = PromptDirectory::Open(folder_.PathOf(""));
  ASSERT_TRUE(directory) << directory.error().message;
  const std::string name = PromptDirectory::NameOf({.model = 1, .prompt = 2, .owner = OwnerId{3}});
  folder_.Write(name, {'x'});
  EXPECT_TRUE(directory->Remove(name));
  EXPECT_TRUE(directory->Remove(name));
  ASSERT_EQ(::mkdirat(folder_.descriptor(), name.c_str(), 0700), 0);
  EXPECT_FALSE(directory->Remove(name)) << "a directory stays";
}

TEST_F(PromptStoreTest, LinksPipesAndFoldersAreNotFollowed) {
  const auto engine = MakeEngine(shape_, Options());
  {
    const auto store = Open(*engine);
    (void)Store(*store, *engine, prompt_);
  }
  const std::string name = Entries().front();
  std::filesystem::rename(folder_.PathOf(name), folder_.PathOf("elsewhere"));
  ASSERT_EQ(::symlinkat("elsewhere", folder_.descriptor(), name.c_str()), 0);
  EXPECT_EQ(Open(*engine)->counts().entries, 0u);
  EXPECT_THAT(damages_, ElementsAre(HasSubstr("symbolic link")));
  EXPECT_TRUE(std::filesystem::exists(folder_.PathOf("elsewhere")));
  ASSERT_EQ(::mkfifo(folder_.PathOf(name).c_str(), 0600), 0);
  EXPECT_EQ(Open(*engine)->counts().entries_dropped, 1u);
  ASSERT_EQ(::mkdir(folder_.PathOf(name).c_str(), 0700), 0);
  EXPECT_EQ(Open(*engine)->counts().entries, 0u);
}

TEST_F(PromptStoreTest, ADirectoryThatOthersCanReadIsRefused) {
  const auto engine = MakeEngine(shape_, Options());
  ASSERT_EQ(::fchmod(folder_.descriptor(), 0750), 0);
  const auto open = [&](const std::string& path) {
    return PromptStore::Open(*engine, {.path = path, .bytes_max = 1, .on_damaged = {}}).error();
  };
  EXPECT_EQ(open(folder_.PathOf(".")).code, Code::kPermission);
  ASSERT_EQ(::fchmod(folder_.descriptor(), 0700), 0);
  ASSERT_EQ(::symlinkat(".", folder_.descriptor(), "link"), 0);
  EXPECT_EQ(open(folder_.PathOf("link")).code, Code::kIo);
  EXPECT_EQ(open(folder_.PathOf("none/none")).code, Code::kIo);
  folder_.Write(".key", {'x'});
  EXPECT_EQ(open(folder_.PathOf(".")).code, Code::kCorrupt);
}

TEST_F(PromptStoreTest, WithoutRoomInThePoolTheEntryIsKept) {
  const auto engine = MakeEngine(shape_, Options());
  const auto store = Open(*engine);
  (void)Store(*store, *engine, prompt_);
  const SequenceHandle full = *engine->memory().sequences().Create({});
  (void)Feed(*engine, full, RandomTokens(9, 1000, shape_.vocab), 500);
  const auto loaded = Load(*store, prompt_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::kNoSpace);
  EXPECT_EQ(store->counts().entries, 1u);
}

// For models with windows or recurrent states, an entry is read as a whole, and it serves only
// prompts that reach its end, a window or a checkpoint.
class PromptStoreKindsTest : public PromptStoreTest,
                             public testing::WithParamInterface<Architecture> {};

TEST_P(PromptStoreKindsTest, AnotherEngineContinuesWithTheSameBits) {
  const ModelShape shape = test::TinyOf(GetParam());
  const auto engine = MakeEngine(shape, Options());
  const Tokens prompt = RandomTokens(3, 200, shape.vocab);
  const Tokens more = RandomTokens(4, 20, shape.vocab);
  const SequenceHandle original = Hold(*engine, prompt);
  const std::uint32_t held = engine->memory().sequences().Query(original)->cell_count;
  {
    const auto store = Open(*engine);
    ASSERT_GT(*Write(*store, *engine, original), 0u);
  }
  const auto other = MakeEngine(shape, Options());
  const auto store = Open(*other);
  ASSERT_EQ(store->counts().entries, 1u);
  Tokens whole = Cut(prompt, held);
  whole.insert(whole.end(), more.begin(), more.end());
  const auto found = store->Find(kOwner, kSalt, whole, 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cells, held);
  EXPECT_EQ(found->cells_read, held);
  EXPECT_EQ(Found(*store, Cut(prompt, 20)), 0u)
      << "20 tokens end before every checkpoint and window";
  const auto loaded = Load(*store, whole);
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(*other->memory().prefixes().Retain(*loaded));
  const SequenceHandle taker =
      *other->memory().sequences().Create({.id = kOwner, .namespace_salt = kSalt});
  const auto taken = other->memory().prefixes().Take(
      {.destination = taker, .tokens = whole, .applied = {}, .loaded = *loaded});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->cells, held);
  EXPECT_EQ(taken->origin, PrefixOrigin::kDisk);
  EXPECT_EQ(LogitsOf(*other, taker, more), LogitsOf(*engine, original, more));
}

INSTANTIATE_TEST_SUITE_P(All, PromptStoreKindsTest,
                         testing::Values(Architecture::kGemma2, Architecture::kMamba2,
                                         Architecture::kLfm2, Architecture::kQwen35,
                                         Architecture::kGemma4, Architecture::kGemma3n,
                                         Architecture::kGptOss, Architecture::kNemotronHMoe,
                                         Architecture::kKimiLinear));

}  // namespace
}  // namespace kvd
