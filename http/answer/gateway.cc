#include "http/answer/gateway.h"

#include <algorithm>

namespace kvd::http {

Result<std::shared_ptr<DaemonSession>> Tenant::session() {
  if (session_ && !session_->is_failed()) return session_;
  slots_.Reset();
  session_.reset();
  KVD_TRY(session_, open_());
  return session_;
}

Result<Tenant*> Gateway::Find(const std::string& tenant, std::string_view model_name) {
  Backend* backend = nullptr;
  for (const auto& candidate : backends_) {
    if (std::ranges::find(candidate->model->names(), model_name) != candidate->model->names().end())
      backend = candidate.get();
  }
  if (backend == nullptr && (backends_.size() == 1 || model_name.empty())) {
    backend = backends_.front().get();
  }
  if (backend == nullptr) {
    std::string names;
    for (const auto& candidate : backends_) names += " " + candidate->model->id();
    return Fail(Code::kNotFound, "model: no model is named \"", model_name,
                "\"; there are:", names);
  }
  std::unique_ptr<Tenant>& found = backend->tenants[tenant];
  if (!found) {
    found = std::make_unique<Tenant>(loop_, tenant, *backend->model, backend->metrics, workers_,
                                     [backend, tenant] { return backend->open(tenant); });
  }
  return found.get();
}

}  // namespace kvd::http
