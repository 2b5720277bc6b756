// ScriptedDaemon: a daemon without a model, which answers as a script says.
//
// It takes submissions and makes completions in the form of the wire, keeps sequences as lists of
// tokens, and writes answers that are given to it. A script makes chosen requests fail, makes them
// wait, or ends a session. It has no threads and no clock: what waits is executed by Step.
// tests/fuzz/scripted_connection.cc connects kvd::Connection to it.
//
// One object serves the process. Begin forgets everything of an earlier input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "client/handshake.h"
#include "shm/verb_table.h"
#include "tests/fuzz/scripted_answer.h"
#include "tests/fuzz/scripted_sequences.h"

namespace kvd::test {

// What the daemon says about its model.
struct ScriptedModel {
  std::string name = "scripted";
  std::vector<std::pair<std::string, std::string>> templates;  // by name; "": the default one
  bool has_bos = true;                                         // prompts begin with a BOS
  bool has_infill = true;         // the vocabulary has the tokens of infilling
  bool embeds = false;            // kEmbed and kRank are supported
  std::uint64_t state_bytes = 0;  // above 0: the model has a recurrent state
  std::uint32_t context = 1024;
  std::uint64_t arena_bytes = wire::kRequestArenaBytesDefault;  // of requests
};

// Changes the answer of one request.
struct ScriptRule {
  std::uint16_t verb = 0;   // 0: of any verb
  std::uint8_t number = 0;  // of the requests of this verb, counted from 0
  std::uint8_t delay = 0;   // steps before the request is executed
  Code code = Code::kOk;    // kDisconnected and kSessionLost end the session
  bool is_cut = false;      // the output comes in two pieces
};

struct DaemonScript {
  std::vector<ScriptRule> rules;
  std::vector<ScriptedAnswer> answers;  // of the generations, by turns; none: "ok"
  std::uint8_t refused_open = 0;        // the number of the session that is refused; 0: none
  Code open_code = Code::kDisconnected;
};

struct ScriptedCompletion {
  wire::Completion completion{};
  std::vector<std::byte> output;
};

class ScriptedDaemon {
 public:
  static ScriptedDaemon& Get();

  // `models`: of the sockets "0", "1", ...; they outlive the script.
  void Begin(DaemonScript script, std::span<const ScriptedModel* const> models);

  // ------------------------------------------------------------------ what a connection calls
  // A session with the token of an earlier one is that session.
  Result<SessionInfo> Open(const ConnectOptions& options);
  // The connection is gone. The session's sequences are dropped, unless `outlives`.
  void Close(std::uint64_t session, bool outlives);
  // An eventfd that is readable while Take may have something, or the session has failed.
  int EventDescriptor(std::uint64_t session);
  void Quiet(std::uint64_t session);
  std::optional<Error> Failure(std::uint64_t session) const;
  void Submit(std::uint64_t session, const wire::Submission& submission,
              std::vector<std::byte> payload);
  std::optional<ScriptedCompletion> Take(std::uint64_t session);
  std::uint64_t ArenaBytes(std::uint64_t session) { return At(session).model->arena_bytes; }
  // A request was larger than the arena, which a script may make small.
  void NoteFailure() { has_failed_ = true; }

  // ------------------------------------------------------------------------------ the script
  // Executes what waits, or sends the next pieces. Returns false if nothing waits.
  bool Step();
  // The script has made a request or a session fail.
  bool has_failed() const { return has_failed_; }
  // The script has made a request fail that releases a sequence.
  bool has_failed_release() const { return has_failed_release_; }

  // ------------------------------------------------------------------------------ the oracle
  // Requests without a final completion.
  std::size_t in_flight() const;
  const ScriptedSequences& sequences() const { return state_.sequences; }

  // --------------------------------------------- the end of a gateway's process (Keep, Restore)
  // Notes the sessions and sequences that a process that is killed now leaves behind.
  void Keep();
  // Returns to what Keep has noted. Generations were stopped after their last piece.
  void Restore();

 private:
  struct Request {
    std::uint64_t session = 0;
    wire::Submission submission{};
    std::vector<std::byte> payload;
    ScriptRule rule;
  };
  struct Session {
    std::array<std::uint8_t, 16> token{};
    const ScriptedModel* model = nullptr;
    int events = -1;
    bool is_rung = false;
    std::uint64_t last_request = 0;
    std::optional<Error> failure;
    std::deque<ScriptedCompletion> ready;
    std::deque<Request> waiting;
  };
  struct Running {
    std::uint64_t session = 0;
    SequenceHandle sequence = SequenceHandle::kNone;
    wire::Submission submission{};
    bool skips_last = false;
    bool is_cancelled = false;  // ends at the next step
    ScriptedGeneration generation;
  };
  struct State {
    std::map<std::uint64_t, Session> sessions;
    ScriptedSequences sequences;
    std::map<std::uint64_t, Running> begun;  // generations by request, for retries
  };

  Session& At(std::uint64_t session) { return state_.sessions.at(session); }
  const ScriptedModel& ModelOf(const Request& request) { return *At(request.session).model; }
  ScriptRule TakeRule(std::uint16_t verb);
  void Ring(Session& session);
  void Execute(const Request& request);
  void FailSession(std::uint64_t number, Error error);
  void Push(const Request& request, wire::Completion completion, std::vector<std::byte> output);
  void PushError(const Request& request, const Error& error);
  // Executes the request if its verb is that of Args. Returns whether it is.
  template <class Args>
  bool DoIf(const Request& request);
  // Ends a request that waits at once, and one that computes at the next step, as the real daemon
  // does between two steps of the model. Returns false if there is none.
  bool Cancel(std::uint64_t session, std::uint64_t request);

  Result<wire::OneReply<wire::InfoReply>> Do(const Request& request, const wire::InfoArgs& args);
  Result<wire::ChatTemplatesReply> Do(const Request& request, const wire::ChatTemplatesArgs& args);
  Result<wire::TokenizeReply> Do(const Request& request, const wire::TokenizeArgs& args);
  Result<wire::TextReply> Do(const Request& request, const wire::DetokenizeArgs& args);
  Result<wire::CreateReply> Do(const Request& request, const wire::CreateArgs& args);
  Result<wire::ForkReply> Do(const Request& request, const wire::ForkArgs& args);
  Result<wire::NoReply> Do(const Request& request, const wire::DropArgs& args);
  Result<wire::RetainReply> Do(const Request& request, const wire::RetainArgs& args);
  Result<wire::EditReply> Do(const Request& request, const wire::RemoveRangeArgs& args);
  Result<wire::NoReply> Do(const Request& request, const wire::AddArgs& args);
  Result<wire::QueryReply> Do(const Request& request, const wire::QueryArgs& args);
  Result<wire::ReadTokensReply> Do(const Request& request, const wire::ReadTokensArgs& args);
  Result<wire::ListReply<wire::SequenceEntry>> Do(const Request& request,
                                                  const wire::ListArgs& args);
  Result<wire::PublishReply> Do(const Request& request, const wire::PublishArgs& args);
  Result<wire::NoReply> Do(const Request& request, const wire::UnpublishArgs& args);
  Result<wire::ForkedReply> Do(const Request& request, const wire::AttachArgs& args);
  Result<wire::ListReply<wire::SnapshotEntry>> Do(const Request& request,
                                                  const wire::SnapshotsArgs& args);
  Result<wire::OneReply<wire::WhyRecord>> Do(const Request& request, const wire::WhyArgs& args);
  Result<wire::EmbedReply> Do(const Request& request, const wire::EmbedArgs& args);
  Result<wire::RankReply> Do(const Request& request, const wire::RankArgs& args);
  Result<wire::CancelReply> Do(const Request& request, const wire::CancelArgs& args);
  Result<wire::ExportStateReply> Do(const Request& request, const wire::ExportStateArgs& args);
  Result<wire::UploadStateReply> Do(const Request& request, const wire::UploadStateArgs& args);
  Result<wire::LoadReply> Do(const Request& request, const wire::ImportStateArgs& args);
  Result<wire::NoReply> Do(const Request& request, const wire::SetLifeArgs& args);

  // Generations (scripted_generations.cc).
  void Generate(const Request& request);
  Result<Running> Begun(const Request& request);
  Result<Running> Resumed(const Request& request, const wire::GenerateRequest& read);
  // Sends the next piece, or the end. Returns false if the generation has ended.
  bool Advance(Running& running);
  void Finish(Running& running, const Error* error);

  DaemonScript script_;
  std::vector<const ScriptedModel*> models_;
  State state_;
  std::optional<State> kept_;
  std::map<std::uint16_t, std::uint32_t> counts_;  // requests by verb; 0: all
  std::deque<Running> running_;
  std::vector<std::byte> upload_;
  std::size_t generations_ = 0;
  std::uint64_t opened_ = 0;
  bool has_failed_ = false;
  bool has_failed_release_ = false;
};

}  // namespace kvd::test
