// Tests that kGenerate refuses what it cannot compute, and computes nothing of it.
#include <limits>

#include "daemon/verbs/service.h"
#include "shm/payload_codec.h"
#include "tests/daemon/support/service_fixture.h"

namespace kvd {
namespace {

using test::ReceivedCompletion;
using test::ServiceTest;

struct BadGenerate {
  const char* name;
  void (*spoil)(wire::GenerateRequest&);
};
class ServiceGenerateTest : public ServiceTest,
                            public ::testing::WithParamInterface<BadGenerate> {};

TEST_P(ServiceGenerateTest, AWrongParameterIsRefusedAndNothingIsComputed) {
  const SequenceHandle sequence = Create(client_);
  wire::GenerateRequest request;
  request.params.predict_max = 4;
  request.params.sampling = kPlainSampling;
  request.tokens = {5, 6};
  GetParam().spoil(request);
  std::vector<std::string_view> stops(request.stops.begin(), request.stops.end());
  std::vector<std::string_view> breakers(request.breakers.begin(), request.breakers.end());
  const wire::GenerateView view{.params = request.params,
                                .tokens = request.tokens,
                                .biases = request.biases,
                                .stops = stops,
                                .breakers = breakers};
  std::vector<std::byte> payload(wire::GenerateBytes(view));
  wire::EncodeGenerate(view, payload);
  wire::Submission generate = Make(wire::GenerateArgs{.sequence = sequence});
  const ReceivedCompletion reply = Call(client_, generate, payload);
  EXPECT_EQ(reply.code(), Code::kInvalidArgument) << Text(reply);
  EXPECT_FALSE(Text(reply).empty());
  RunDry();
  EXPECT_EQ(Cells(sequence), 0u);
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
INSTANTIATE_TEST_SUITE_P(
    All, ServiceGenerateTest,
    ::testing::Values(
        BadGenerate{"nan_temperature",
                    [](wire::GenerateRequest& r) { r.params.sampling.temperature = kNan; }},
        BadGenerate{"negative_temperature",
                    [](wire::GenerateRequest& r) { r.params.sampling.temperature = -1; }},
        BadGenerate{"negative_top_k",
                    [](wire::GenerateRequest& r) { r.params.sampling.top_k = -1; }},
        BadGenerate{"top_p_0", [](wire::GenerateRequest& r) { r.params.sampling.top_p = 0; }},
        BadGenerate{"top_p_2", [](wire::GenerateRequest& r) { r.params.sampling.top_p = 2; }},
        BadGenerate{"nan_min_p", [](wire::GenerateRequest& r) { r.params.sampling.min_p = kNan; }},
        BadGenerate{"typical_p_0",
                    [](wire::GenerateRequest& r) { r.params.sampling.typical_p = 0; }},
        BadGenerate{"repeat_penalty_0",
                    [](wire::GenerateRequest& r) { r.params.sampling.repeat_penalty = 0; }},
        BadGenerate{"presence_3",
                    [](wire::GenerateRequest& r) { r.params.sampling.presence_penalty = 3; }},
        BadGenerate{"frequency_nan",
                    [](wire::GenerateRequest& r) { r.params.sampling.frequency_penalty = kNan; }},
        BadGenerate{"logprobs_65", [](wire::GenerateRequest& r) { r.params.logprob_count = 65; }},
        BadGenerate{"unknown_flag", [](wire::GenerateRequest& r) { r.params.flags = 1u << 9; }},
        BadGenerate{"predict_minus_2", [](wire::GenerateRequest& r) { r.params.predict_max = -2; }},
        BadGenerate{"no_tokens", [](wire::GenerateRequest& r) { r.tokens.clear(); }},
        BadGenerate{"token_64", [](wire::GenerateRequest& r) { r.tokens = {64}; }},
        BadGenerate{"bias_1001", [](wire::GenerateRequest& r) { r.biases = {{5, 1001.0f}}; }},
        BadGenerate{"bias_nan", [](wire::GenerateRequest& r) { r.biases = {{5, kNan}}; }},
        BadGenerate{"bias_token", [](wire::GenerateRequest& r) { r.biases = {{64, 1.0f}}; }},
        BadGenerate{"empty_stop", [](wire::GenerateRequest& r) { r.stops = {""}; }},
        BadGenerate{"long_stop",
                    [](wire::GenerateRequest& r) { r.stops = {std::string(257, 'x')}; }},
        BadGenerate{"malformed_stop", [](wire::GenerateRequest& r) { r.stops = {"\xff"}; }}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace kvd
