// AnswerGroup: the answers of one request, which run at the same time; their pieces arrive in one
// order.
//
// A request has several answers if it has several prompts, or wants several answers to a prompt.
// Each answer waits for its slot by itself and gives it back when it ends, so there may be more
// answers than slots. Destroying the group cancels all answers. `Source` is Answer or ChatAnswer.
//
// With a journal the order of the pieces of several answers is logged, and is the same one when the
// request runs again in another process.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "http/answer/answer.h"
#include "http/answer/answer_journal.h"
#include "http/answer/chat_answer.h"
#include "http/loop/await.h"
#include "http/loop/turn_watch.h"

namespace kvd::http {

template <class Source>
struct PieceOf;
template <>
struct PieceOf<Answer> {
  using Type = AnswerPiece;
};
template <>
struct PieceOf<ChatAnswer> {
  using Type = ChatPiece;
};

template <class Source>
class AnswerGroup {
 public:
  using Piece = typename PieceOf<Source>::Type;
  using Sources = std::vector<std::unique_ptr<Source>>;
  // Starts the answers to one prompt.
  using Start = std::function<Await<Result<Sources>>()>;

  // What has happened to the answer `index`: it has a piece, or it has ended, or it has failed.
  struct Event {
    std::size_t index = 0;
    // The answer; it lives as long as the event. Null: it could not be started.
    Source* source = nullptr;
    std::optional<Piece> piece;
    std::unique_ptr<Source> ended;
    std::optional<Error> error;
  };

  // `count_each`: the number of answers that each of `starts` starts. The answers to the first
  // prompt have the first indices. `journal`: of the answers, may be null.
  AnswerGroup(Loop& loop, std::vector<Start> starts, std::size_t count_each,
              std::shared_ptr<AnswerJournal> journal)
      : state_(std::make_shared<State>(loop)), size_(starts.size() * count_each) {
    state_->sources.resize(size_);
    state_->ends_early.resize(size_);
    if (journal && size_ > 1) {
      state_->order = journal->TakeEvents();
      state_->held.resize(size_);
      journal->KeepAttemptOpen();
      state_->journal = std::move(journal);
    }
    for (std::size_t i = 0; i < starts.size(); ++i) {
      boost::asio::co_spawn(Labelled(loop, TurnLabel::Current()),
                            Run(state_, std::move(starts[i]), i * count_each),
                            boost::asio::detached);
    }
  }
  ~AnswerGroup() { Cancel(); }
  AnswerGroup(const AnswerGroup&) = delete;
  AnswerGroup& operator=(const AnswerGroup&) = delete;

  std::size_t size() const { return size_; }
  // Every answer has ended, and its events were taken.
  bool is_over() const { return ended_ == size_; }

  // Waits for the next event, at most `time`; 0: without limit. nullopt: the time has passed, or
  // the group was cancelled. After an event with an error no further event is of use. REQUIRES:
  // !is_over().
  Await<std::optional<Event>> Next(std::chrono::milliseconds time = {}) {
    std::optional<Event> next;
    while (state_->events.empty() && !state_->is_cancelled) {
      if (time.count() == 0) {
        co_await state_->changed.Wait();
      } else if (!co_await state_->changed.WaitFor(time)) {
        co_return next;
      }
    }
    if (state_->is_cancelled) co_return next;
    next.emplace(std::move(state_->events.front()));
    state_->events.pop_front();
    if (next->ended) ++ended_;
    co_return next;
  }

  // Ends one answer before the model does: its next event is its end. The answer's own end() says
  // what was known until now.
  void EndEarly(std::size_t index) {
    Source* const source = state_->sources[index];
    if (source == nullptr) return;
    state_->ends_early[index] = true;
    source->Cancel();
  }
  // What Cancel cancels before there are answers.
  void AlsoCancel(std::function<void()> call) { state_->also_cancel = std::move(call); }
  void Cancel() {
    if (std::exchange(state_->is_cancelled, true)) return;
    if (state_->also_cancel) state_->also_cancel();
    for (Source* const source : state_->sources) {
      if (source != nullptr) source->Cancel();
    }
    state_->events.clear();
    state_->changed.Notify();
  }
  bool is_cancelled() const { return state_->is_cancelled; }

 private:
  struct State {
    explicit State(Loop& given_loop) : loop(given_loop), changed(given_loop) {}
    Loop& loop;
    std::deque<Event> events;
    std::vector<Source*> sources;            // that run, by index
    std::vector<bool> ends_early;            // by index
    std::shared_ptr<AnswerJournal> journal;  // of several answers
    std::deque<std::uint32_t> order;         // indices of the events of an earlier process
    std::vector<std::deque<Event>> held;     // by index: events that come later in the order
    Signal changed;
    std::function<void()> also_cancel;
    bool is_cancelled = false;
  };

  static void Deliver(State& state, Event event) {
    if (state.journal) state.journal->PutEvent(static_cast<std::uint32_t>(event.index));
    state.events.push_back(std::move(event));
    state.changed.Notify();
  }

  static void Push(State& state, Event event) {
    if (state.order.empty()) return Deliver(state, std::move(event));
    const std::size_t index = event.index;
    state.held[index].push_back(std::move(event));
    while (!state.order.empty()) {
      if (state.order.front() >= state.held.size()) {  // of another request
        state.order.clear();
        break;
      }
      std::deque<Event>& next = state.held[state.order.front()];
      if (next.empty()) return;
      state.order.pop_front();
      // An answer that fails has no further events, which the order would wait for.
      if (next.front().error) state.order.clear();
      state.events.push_back(std::move(next.front()));
      next.pop_front();
      state.changed.Notify();
    }
    for (std::deque<Event>& rest : state.held) {
      for (; !rest.empty(); rest.pop_front()) Deliver(state, std::move(rest.front()));
    }
  }

  static Await<void> Run(std::shared_ptr<State> state, Start start, std::size_t first) {
    Result<Sources> sources = co_await start();
    if (state->is_cancelled) co_return;
    if (!sources) {
      Event event;
      event.index = first;
      event.error = std::move(sources).error();
      Push(*state, std::move(event));
      co_return;
    }
    for (std::size_t i = 0; i < sources->size(); ++i) {
      std::unique_ptr<Source> source = std::move((*sources)[i]);
      state->sources[first + i] = source.get();
      boost::asio::co_spawn(Labelled(state->loop, TurnLabel::Current()),
                            Take(state, std::move(source), first + i), boost::asio::detached);
    }
  }

  static Await<void> Take(std::shared_ptr<State> state, std::unique_ptr<Source> source,
                          std::size_t index) {
    Source* const own = source.get();  // `source` is given away with the last event
    for (bool is_over = false; !is_over;) {
      auto piece = co_await own->Next();
      if (state->is_cancelled) break;
      Event event;
      event.index = index;
      event.source = own;
      is_over = !piece || !*piece;
      if (piece && *piece) {
        event.piece = std::move(*piece);
      } else if (piece || state->ends_early[index]) {
        event.ended = std::move(source);
      } else {
        event.error = std::move(piece).error();
      }
      if (is_over) state->sources[index] = nullptr;
      Push(*state, std::move(event));
    }
    state->sources[index] = nullptr;
  }

  std::shared_ptr<State> state_;
  std::size_t size_;
  std::size_t ended_ = 0;
};

}  // namespace kvd::http
