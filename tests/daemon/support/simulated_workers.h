// SimulatedWorkers: workers in which nothing happens by itself. Their owner has the work called piece
// by piece, in an order of its choice between the sessions.
//
// Owner: a simulation. One thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/workers.h"

namespace kvd::test {

class SimulatedWorkers final : public Workers {
 public:
  // As SimulatedLoop's: a number below `count`, which is at least 1.
  using Choose = std::function<std::size_t(std::size_t count)>;

  explicit SimulatedWorkers(Choose choose) : choose_(std::move(choose)) {}

  void Queue(const WorkOwner& owner, RequestId request, Work work) override {
    pieces_.push_back({.owner = owner, .request = request, .work = std::move(work)});
  }
  void CancelSession(SessionId session) override {
    (void)CancelWhere([session](const Piece& piece) { return piece.owner.session == session; });
  }
  bool Cancel(SessionId session, RequestId request) override {
    return CancelWhere([session, request](const Piece& piece) {
      return piece.owner.session == session && piece.request == request;
    });
  }

  // Calls the first piece of one session. False: there is none.
  bool RunOne() {
    std::vector<std::size_t> firsts;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (IsFirst(i)) firsts.push_back(i);
    }
    if (firsts.empty()) return false;
    const auto chosen =
        pieces_.begin() + static_cast<std::ptrdiff_t>(firsts[choose_(firsts.size())]);
    const Piece piece = std::move(*chosen);
    pieces_.erase(chosen);
    Call(piece);
    return true;
  }
  // Forgets what waits, as workers that are stopped do.
  void DropQueued() { pieces_.clear(); }

 private:
  struct Piece {
    WorkOwner owner;
    RequestId request;
    Work work;
    bool is_cancelled = false;
  };
  class Cancelled final : public WorkControl {
   public:
    Status Continue() override { return Fail(Code::kCancelled, "cancelled"); }
  };

  static void Call(const Piece& piece) {
    Cancelled cancelled;
    piece.work(piece.is_cancelled ? static_cast<WorkControl&>(cancelled) : Uncontrolled());
  }
  bool IsFirst(std::size_t at) const {
    return std::none_of(
        pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(at),
        [&](const Piece& before) { return before.owner.session == pieces_[at].owner.session; });
  }
  // The first piece of a session may have begun: then it is called later, and hears of the cancel or
  // does not.
  template <class Matches>
  bool CancelWhere(const Matches& matches) {
    bool has_found = false;
    std::vector<Piece> ended;
    for (std::size_t i = 0; i < pieces_.size();) {
      if (!matches(pieces_[i])) {
        ++i;
        continue;
      }
      has_found = true;
      if (IsFirst(i) && choose_(2) == 1) {
        pieces_[i].is_cancelled = choose_(2) == 1;
        ++i;
        continue;
      }
      pieces_[i].is_cancelled = true;
      ended.push_back(std::move(pieces_[i]));
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const Piece& piece : ended) Call(piece);
    return has_found;
  }

  const Choose choose_;
  std::deque<Piece> pieces_;
};

}  // namespace kvd::test
