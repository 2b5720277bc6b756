// What answers a golden script: the engine in this process, or a daemon through the client library.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shm/error.h"
#include "tools/golden/golden_case.h"

namespace kvd::golden {

class Backend {
 public:
  virtual ~Backend() = default;
  // Forgets all sequences: every scenario starts on a fresh cache.
  virtual Status Reset() = 0;
  // Appends the rows of `step` (a decode, or a decode_batch with its rows in one batch where the
  // backend can) and appends the wanted logits, row after row, to `logits`.
  virtual Status Decode(const Step& step, std::vector<float>* logits) = 0;
  virtual Status DecodeBatch(const Step& step, std::vector<float>* logits) = 0;
  // Appends the row of the text's embedding, as it is.
  virtual Status Embed(const Step& step, std::vector<float>* rows) = 0;
  virtual Status Encode(const Step& step) = 0;
  virtual Status Edit(const Step& step) = 0;  // seq_cp, seq_rm, seq_keep, seq_add, seq_div
};

struct BackendOptions {
  std::string model_path;
  std::string k_type = "f32";
  std::string v_type = "f32";
  bool deterministic = false;
};

Result<std::unique_ptr<Backend>> MakeEngineBackend(const BackendOptions& options);
// Starts `kvd_path` on a private socket and state directory, stops it at the end.
Result<std::unique_ptr<Backend>> MakeDaemonBackend(const std::string& kvd_path,
                                                   const BackendOptions& options);

}  // namespace kvd::golden
