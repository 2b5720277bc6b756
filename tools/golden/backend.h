// Backend: runs the steps of a golden script with the engine in this process, or with a daemon
// through the client library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "tools/golden/golden_case.h"

namespace kvd::golden {

// Returns the positions of a step: a negative end of the range is open (README of the golden
// folders).
inline PosRange RangeOf(const Step& step) {
  return {.begin = Pos{step.p0 < 0 ? 0 : step.p0}, .end = step.p1 < 0 ? kPosEnd : Pos{step.p1}};
}

class Backend {
 public:
  virtual ~Backend() = default;
  // Drops all sequences: every scenario starts with an empty cache.
  virtual Status Reset() = 0;
  // Computes the rows of `step` (a decode, or a decode_batch, whose rows are in one batch if the
  // backend can) and appends the wanted logits, row after row, to `logits`.
  virtual Status Decode(const Step& step, std::vector<float>* logits) = 0;
  virtual Status DecodeBatch(const Step& step, std::vector<float>* logits) = 0;
  // Appends the rows of the text's embedding, not normalised.
  virtual Status Embed(const Step& step, std::vector<float>* rows) = 0;
  virtual Status Encode(const Step& step) = 0;
  // Performs an edit: seq_cp, seq_rm, seq_keep, seq_add or seq_div.
  virtual Status Edit(const Step& step) = 0;
};

struct BackendOptions {
  std::string model_path;
  std::string k_type = "f32";
  std::string v_type = "f32";
  bool deterministic = false;
  bool llama_shifts = true;
};

Result<std::unique_ptr<Backend>> MakeEngineBackend(const BackendOptions& options);
// Starts `kvd_path` with a private socket and state directory. The Backend's destructor stops the
// daemon.
Result<std::unique_ptr<Backend>> MakeDaemonBackend(const std::string& kvd_path,
                                                   const BackendOptions& options);

}  // namespace kvd::golden
