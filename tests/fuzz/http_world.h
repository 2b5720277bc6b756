// HttpWorld: the gateway's routes over the scripted daemon, with real files in a folder of its own.
//
// Run serves the requests of one input, and checks the replies and that everything is released. A
// gateway without tenants, jobs and files serves the next input with the same setup, because making
// one takes a third of an input's time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "http/answer/gateway.h"
#include "http/loop/turn_watch.h"
#include "http/serve/router.h"
#include "tests/fuzz/http_program.h"
#include "tests/fuzz/http_setups.h"
#include "tests/fuzz/kept_reply.h"

namespace kvd::test {

class HttpWorld {
 public:
  HttpWorld();
  ~HttpWorld();
  HttpWorld(const HttpWorld&) = delete;
  HttpWorld& operator=(const HttpWorld&) = delete;

  void Run(const HttpProgram& program);

 private:
  // What of a program a gateway depends on.
  struct Kind {
    std::size_t setup = 0;
    bool keeps_journals = false;
    bool stores_responses = false;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  // A process of the gateway. Its files are in a folder of its own, so that the other processes do
  // not have to be made again after they were removed.
  struct Process {
    Process(http::Loop& loop, http::LoopWorkers& workers, http::Settings settings,
            std::string folder, bool keeps_journals);
    std::string folder;
    http::Settings settings;
    std::unique_ptr<http::Jobs> jobs;
    http::Gateway gateway;
    http::Router router;
  };
  // A request in flight.
  struct Call {
    const HttpStep* step = nullptr;
    http::Request request;
    std::vector<std::string> parts;
    std::unique_ptr<KeptReply> reply;
    std::size_t begun_at = 0;  // turn
    bool is_part = false;
    bool has_returned = false;
  };
  using SessionToken = std::array<std::uint8_t, 16>;

  const HttpSetup& setup() const { return setups_[kind_.setup]; }
  std::vector<const ScriptedModel*> ScriptedModels() const;
  std::unique_ptr<http::ServedModel> MakeModel(std::size_t number);
  void Make();
  void AddBackend(std::size_t number, const std::string& name);
  // Ends the sessions of the gateway.
  void EndSessions();
  // The gateway is killed and started again: it finds the files and sessions of that moment.
  void Restart();
  void Begin(const HttpStep& step, std::size_t number);
  static http::Await<void> Serve(const http::Handler& handler, Call& call);
  http::Await<void> Recover(bool& is_over);

  // The one place where the loop runs. Returns false if nothing was ready.
  bool Turn();
  // Runs the loop, and the daemon when the loop is idle, until `is_over`. Fails if that does not
  // come, whatever the time.
  void RunUntil(const std::function<bool()>& is_over);
  // Until neither the loop nor the daemon has anything to do.
  void RunUntilIdle();
  void HangUpLate();
  bool AreServed() const;

  // The path names a response of the other tenant.
  bool IsForeign(const HttpStep& step) const;
  void CheckReplies() const;
  void CheckTurns() const;  // none kept the loop busy for long
  void CheckReleased();
  // Every job has ended.
  void ForgetJobs();
  void ClearFiles();

  std::string folder_;  // with the folders of the processes
  std::span<const HttpSetup> setups_;
  http::Loop loop_;
  http::TurnWatch watch_{loop_};
  http::LoopWorkers workers_{0};
  std::map<Kind, std::unique_ptr<Process>> processes_;
  Kind kind_;
  Process* process_ = nullptr;
  std::vector<std::unique_ptr<Call>> calls_;
  std::map<std::pair<std::size_t, std::string>, SessionToken> sessions_;  // by daemon and tenant
  std::map<std::pair<std::size_t, std::string>, SessionToken> resumed_;   // after a restart
  std::span<const HttpStep> steps_;  // of the program that runs
  FileFault file_fault_ = FileFault::kNone;
  std::size_t turns_ = 0;
};

}  // namespace kvd::test
