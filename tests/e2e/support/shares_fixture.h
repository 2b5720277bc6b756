// SharesTest: a daemon that admits uid 65534, with clients of the daemon's own uid and of uid 65534
// in this process. The tests check the resources that these clients hold. With
// KVD_OTHER_IS_A_TENANT, the other owner is a tenant of the daemon's own uid.
#pragma once

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/support/other_owner.h"
#include "tests/e2e/support/served_daemon.h"
#include "tests/e2e/support/user_client.h"

namespace kvd::test {

inline std::string DataModel(const std::string& name) {
  return std::filesystem::absolute("tests/data/models/" + name + ".gguf").string();
}

// Returns `count` tokens for `number`. The first two tokens differ for any two numbers below 3,721.
inline std::vector<TokenId> TokensOf(std::size_t number, std::size_t count) {
  std::vector<TokenId> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<TokenId>((number * 7 + i * i + i * number) % 61);
  }
  if (count > 1) {
    tokens[0] = static_cast<TokenId>(number % 61);
    tokens[1] = static_cast<TokenId>(number / 61 % 61);
  }
  return tokens;
}

inline Status Append(const Client& client, SequenceHandle sequence,
                     std::span<const TokenId> tokens) {
  KVD_TRY(const wire::SequenceEntry entry, client.Query(sequence));
  KVD_TRY(Decoding decoding, client.StartDecode(sequence, tokens, Pos{entry.next_pos},
                                                wire::LogitsWanted::kLast, wire::kFlagNoPrefix));
  KVD_TRY(const Logits logits, decoding.Next());
  (void)logits;
  return {};
}

// Makes a new sequence with TokensOf(number, cells). If the tokens cannot be appended, the sequence
// is dropped and the error returned.
inline Result<SequenceHandle> Fill(const Client& client, std::size_t number, std::size_t cells) {
  KVD_TRY(const SequenceHandle sequence, client.Create());
  if (Status appended = Append(client, sequence, TokensOf(number, cells)); !appended) {
    (void)client.Drop(sequence);
    return std::unexpected(appended.error());
  }
  return sequence;
}

class SharesTest : public ServedDaemonTest {
 protected:
  static constexpr std::uint64_t kPoolBlocks = 128;               // 4,096 cells in all
  static constexpr std::uint64_t kShareBlocks = kPoolBlocks / 4;  // --other-pool-share's default
  static constexpr std::size_t kLargeCells = 960;                 // 30 blocks

  explicit SharesTest(std::vector<std::string> arguments = {})
      : ServedDaemonTest(WithOther(std::move(arguments))) {}

  void SetUp() override {
    if (!MayBeOther()) GTEST_SKIP() << "needs root to connect as another uid";
    ServedDaemonTest::SetUp();
    ASSERT_EQ(::chmod(daemon_->folder().c_str(), 0711), 0);
  }
  Result<Client> ConnectOther(ConnectOptions options) {
    options.socket_path = socket_path();
    options.call_timeout = std::chrono::seconds(60);
    options = OptionsOfOther(std::move(options));
    return kOtherIsTenant ? Client::Connect(options) : ConnectAs(kOtherUid, kOtherUid, options);
  }
  // Connects a client of uid kOtherUid, or of the tenant.
  Client Other() {
    auto client = ConnectOther({.client_name = "other"});
    if (!client) throw std::runtime_error(client.error().message);
    return std::move(*client);
  }

  // Returns the sum of the blocks of the uid's sequences that cannot be evicted. A block that
  // several sequences share is counted for each of them.
  static std::uint64_t HeldBlocks(const Client& client, uid_t uid) {
    const auto listed = client.List();
    EXPECT_TRUE(listed) << listed.error().message;
    std::uint64_t blocks = 0;
    for (const wire::SequenceEntry& entry : *listed) {
      if (entry.owner_uid != uid || IsRetained(entry)) continue;
      blocks += (entry.cell_count + layout::kBlockCells - 1) / layout::kBlockCells;
    }
    return blocks;
  }
  static bool IsRetained(const wire::SequenceEntry& entry) {
    return (entry.flags & layout::kSequenceRetained) != 0 &&
           (entry.flags & layout::kSequencePinned) == 0;
  }
  static std::size_t CountRetained(const Client& client) {
    const auto listed = client.List();
    EXPECT_TRUE(listed) << listed.error().message;
    return static_cast<std::size_t>(std::ranges::count_if(*listed, IsRetained));
  }
  // Makes `count` retained sequences of kLargeCells cells each. The sequences together are larger
  // than the uid's quota.
  static std::vector<SequenceHandle> RetainLarge(const Client& client, std::size_t count) {
    std::vector<SequenceHandle> retained;
    for (std::size_t number = 0; number < count; ++number) {
      Result<SequenceHandle> sequence = Fill(client, number, kLargeCells);
      // A dropped sequence counts for its uid until the daemon has freed it.
      for (int i = 0; i < 100 && !sequence; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        sequence = Fill(client, number, kLargeCells);
      }
      EXPECT_TRUE(sequence) << sequence.error().message;
      if (!sequence) return retained;
      EXPECT_TRUE(client.Retain(*sequence).value_or(false));
      retained.push_back(*sequence);
    }
    return retained;
  }
  // Checks that the error is kNoSpace and names the amount that owner 65534 holds.
  static void ExpectRefusedByShare(const Error& error) {
    EXPECT_EQ(error.code, Code::kNoSpace) << error.message;
    EXPECT_THAT(WithUidOfOther(error.message), testing::HasSubstr("owner 65534 holds"));
  }

 private:
  static std::vector<std::string> WithOther(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {kOtherIsTenant ? "--tenant-uid" : "--allow-uid", std::to_string(kOtherUid)});
    return arguments;
  }
};

}  // namespace kvd::test
