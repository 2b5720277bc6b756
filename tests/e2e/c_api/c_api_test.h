// CApiTest: a real daemon and a client of the C interface, which calls each verb in both forms:
// with a null `later`, and with `later` and kvd_finish.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/kvd.h"
#include "tests/e2e/support/new_sequence.h"
#include "tests/e2e/support/served_daemon.h"

namespace kvd::test {

inline constexpr std::int32_t kPatienceMs = 60'000;

enum class Form : std::uint8_t { kWaits, kLater };

// A call of a verb; the argument is its parameter `later`.
using VerbCall = std::function<int(kvd_request* later)>;

// A call that fails in both forms.
struct Refusal {
  int code = KVD_OK;
  std::string message;  // a part of the error's message
  VerbCall call;
};

class CApiTest : public ServedDaemonTest {
 protected:
  explicit CApiTest(std::vector<std::string> arguments = {});
  void SetUp() override;
  void TearDown() override;

  // Opens a session. `change` sets further options.
  kvd_client* Open(const std::function<void(kvd_connect_options&)>& change = {}) const;

  // Runs the body once for each form of Call.
  void InBothForms(const std::function<void()>& body);
  // Calls a verb in the present form and returns the verb's code. Checks that a submit that fails
  // makes the request 0.
  int Call(const VerbCall& call) const;
  // Checks that each call fails in both forms.
  void ExpectRefused(const std::vector<Refusal>& refusals);

  kvd_sequence Create() const;
  // Creates a sequence with the cells of `count` tokens, which differ from those of other calls.
  kvd_sequence Filled(std::int32_t count);
  // Starts a generation that ends only when it is cancelled.
  kvd_request Compute(kvd_sequence sequence) const;
  void Cancel(kvd_request request) const;
  kvd_sequence_info Query(kvd_sequence sequence) const;
  bool Exists(kvd_sequence sequence) const;
  // The tokens and positions of the sequence's cells, for example "5@0 6@1 ".
  std::string Cells(kvd_sequence sequence) const;

  kvd_client* client_ = nullptr;

 private:
  Form form_ = Form::kWaits;
  kvd_token filled_ = 0;
};

}  // namespace kvd::test
