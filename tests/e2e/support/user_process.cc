#include "tests/e2e/support/user_process.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace kvd::test {
namespace {

bool BecomeUser(uid_t uid, gid_t gid) {
  return ::setgroups(0, nullptr) == 0 && ::setresgid(gid, gid, gid) == 0 &&
         ::setresuid(uid, uid, uid) == 0;
}

}  // namespace

Complaints AsUser(uid_t uid, gid_t gid, const std::function<Complaints()>& body) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const Complaints complaints = BecomeUser(uid, gid) ? body() : "did not become the uid";
    (void)!::write(write_end.get(), complaints.data(), complaints.size());
    ::_exit(0);
  }
  write_end.reset();
  Complaints complaints;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(read_end.get(), buffer, sizeof buffer)) > 0;)
    complaints.append(buffer, static_cast<std::size_t>(got));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the process of uid " << uid;
  return complaints;
}

int StatusAsUser(uid_t uid, gid_t gid, const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(BecomeUser(uid, gid) ? body() : 99);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

}  // namespace kvd::test
