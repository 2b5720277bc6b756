#include "http/loop/turn_watch.h"

#include <time.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"

namespace kvd::http {

// The time of a turn is what the CPU time has grown since the last mark, without what may have been
// used between the mark and the turn's beginning, which is at most the time by the clock. So a turn
// is never measured too long.

namespace {

constexpr std::chrono::seconds kLogPause{1};

// What requests can still make long on the loop, by route. Each entry is removed with its cause.
constexpr KnownLongTurn kKnownLongTurns[] = {
    {kStartLabel, "the start reads the model's chat templates and the journals of streams"},
    {"/apply-template", "a short chat is formatted on the loop, whatever its template does"},
    {"/chat/completions", "a short chat is formatted on the loop, whatever its template does"},
    {"/v1/chat/completions", "a short chat is formatted on the loop, whatever its template does"},
    {"/chat/completions/input_tokens", "as /chat/completions"},
    {"/v1/chat/completions/input_tokens", "as /chat/completions"},
    {"/v1/messages", "a short chat is formatted on the loop, whatever its template does"},
    {"/v1/messages/count_tokens", "as /v1/messages"},
    {"/v1/responses", "a short chat is formatted on the loop, whatever its template does"},
    {"/responses", "as /v1/responses"},
    {"/v1/responses/input_tokens", "as /v1/responses"},
    {"/responses/input_tokens", "as /v1/responses"},
    {"/completion", "a JSON Schema becomes a grammar on the loop"},
    {"/completions", "as /completion"},
    {"/v1/completions", "as /completion"},
    {"/infill", "as /completion"},
};

thread_local const std::string* current_label = nullptr;
thread_local const std::string* turn_label = nullptr;  // the first label of the turn

// The clock of the kernel, since a fuzz target has a steady_clock of its own.
TurnWatch::Clock::time_point Now() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  return TurnWatch::Clock::time_point(std::chrono::seconds(now.tv_sec) +
                                      std::chrono::nanoseconds(now.tv_nsec));
}

double Milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

std::string_view ReasonForLongTurns(std::string_view label) {
  const auto* const found = std::ranges::find(kKnownLongTurns, label, &KnownLongTurn::label);
  return found == std::end(kKnownLongTurns) ? std::string_view() : found->reason;
}

TurnWatch::Mark TurnWatch::MarkNow() {
  timespec cpu{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return {.at = Now(),
          .cpu = std::chrono::seconds(cpu.tv_sec) + std::chrono::nanoseconds(cpu.tv_nsec)};
}

void TurnWatch::Run() {
  mark_ = MarkNow();
  for (;;) {
    const Clock::time_point begun = Now();
    turn_label = nullptr;
    if (loop_.run_one() == 0) return;
    EndTurn(begun);
  }
}

bool TurnWatch::RunOneFor(Clock::duration time) {
  mark_ = MarkNow();
  const Clock::time_point begun = mark_.at;
  turn_label = nullptr;
  if (loop_.run_one_for(time) == 0) return false;
  EndTurn(begun);
  return true;
}

bool TurnWatch::PollOne() {
  const Clock::time_point begun = Now();
  turn_label = nullptr;
  if (loop_.poll_one() == 0) return false;
  EndTurn(begun);
  return true;
}

void TurnWatch::EndTurn(Clock::time_point begun) {
  const Clock::time_point ended = Now();
  if (ended - begun > kLongTurn) {
    const Mark now = MarkNow();
    const std::chrono::nanoseconds before = std::max(begun - mark_.at, Clock::duration(0));
    const std::chrono::nanoseconds time = now.cpu - mark_.cpu - before;
    if (time > kLongTurn) Count(time);
    mark_ = now;
  } else if (ended - mark_.at > kMarkTime) {
    mark_ = MarkNow();
  }
}

void TurnWatch::Count(std::chrono::nanoseconds time) {
  const std::string label = turn_label == nullptr ? std::string() : *turn_label;
  LongTurns& turns = long_turns_[label];
  ++turns.count;
  turns.longest = std::max(turns.longest, time);
  const Clock::time_point now = Now();
  if (now - logged_at_ < kLogPause) return;
  logged_at_ = now;
  const std::string_view reason = ReasonForLongTurns(label);
  const std::string known = reason.empty() ? std::string() : Concat("; known: ", reason);
  std::fprintf(stderr, "kvd-http: a turn of the event loop took %.0f ms of CPU time (%s%s)\n",
               Milliseconds(time), label.empty() ? "no route" : label.c_str(), known.c_str());
}

std::string TurnWatch::UnexplainedLongTurns() const {
  std::string text;
  for (const auto& [label, turns] : long_turns_) {
    if (!ReasonForLongTurns(label).empty()) continue;
    text += Concat(text.empty() ? "" : ", ", label, ": ", turns.count, " of at most ",
                   static_cast<std::uint64_t>(Milliseconds(turns.longest)), " ms");
  }
  return text;
}

TurnLabel::TurnLabel(const std::string* label) : outer_(current_label) {
  current_label = label;
  if (turn_label == nullptr) turn_label = label;
}

TurnLabel::~TurnLabel() { current_label = outer_; }

const std::string* TurnLabel::Current() { return current_label; }

}  // namespace kvd::http
