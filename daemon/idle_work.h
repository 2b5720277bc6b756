// IdleWork: work of the daemon itself that the scheduler does while no request computes.
#pragma once

namespace kvd {

class IdleWork {
 public:
  enum class Left {
    kNothing,  // the work is done
    kMore,
    kLater,  // the work cannot be done now, but perhaps later
  };

  virtual ~IdleWork() = default;
  // Does a part of the work that takes about a millisecond, and returns what is left. The scheduler
  // calls Slice on the engine thread; a request that arrives waits for one slice at most.
  virtual Left Slice() = 0;
};

}  // namespace kvd
