#include "engine/memory/memory_home.h"

#include <string>
#include <utility>

namespace kvd {
namespace {

Result<OpenedMemory> TryAttach(const MemoryHome& home, const MemoryGeometry& geometry,
                               const FingerprintBytes& model_fingerprint,
                               const CellLimits& limits) {
  KVD_TRY(MemorySegments segments,
          MemorySegments::OpenInDirectory(home.directory, geometry, model_fingerprint,
                                          home.checks_boot, home.slab_bytes));
  std::uint32_t& form = segments.meta.view().header().numeric_form;
  const auto found = static_cast<NumericForm>(form);
  if (!MayUse(home.numeric_form, found)) {
    return Fail(Code::kConflict, "meta: numeric_form: ", NumericFormText(found),
                "; this daemon uses, with --deterministic, ", NumericFormText(home.numeric_form));
  }
  form = static_cast<std::uint32_t>(home.numeric_form);
  OpenedMemory opened;
  KVD_TRY(opened.memory, Memory::Attach(std::move(segments), limits, &opened.start.lost));
  opened.start.is_warm = true;
  opened.start.CountServed(*opened.memory);
  return opened;
}

}  // namespace

void MemoryStart::CountServed(const Memory& memory) {
  sequences = memory.Usage().live_sequences;
  snapshots = static_cast<std::uint32_t>(memory.snapshots().List().size());
}

Result<OpenedMemory> OpenMemory(const MemoryHome& home, const MemoryGeometry& geometry,
                                const FingerprintBytes& model_fingerprint,
                                const CellLimits& limits) {
  OpenedMemory fresh;
  if (home.directory >= 0) {
    Result<OpenedMemory> attached = TryAttach(home, geometry, model_fingerprint, limits);
    if (attached) return attached;
    if (attached.error().code != Code::kNotFound) fresh.start.why_cold = attached.error().message;
  }
  KVD_TRY(MemorySegments segments,
          home.directory < 0
              ? MemorySegments::CreateAnonymous(geometry, model_fingerprint, home.slab_bytes)
              : MemorySegments::CreateInDirectory(home.directory, geometry, model_fingerprint,
                                                  home.slab_bytes));
  segments.meta.view().header().numeric_form = static_cast<std::uint32_t>(home.numeric_form);
  fresh.memory = Memory::Create(std::move(segments));
  return fresh;
}

}  // namespace kvd
