#include "engine/memory/memory_home.h"

#include <utility>

namespace kvd {
namespace {

Result<OpenedMemory> TryAttach(const MemoryHome& home, const MemoryGeometry& geometry,
                               const FingerprintBytes& model_fingerprint,
                               const CellLimits& limits) {
  KVD_TRY(MemorySegments segments,
          MemorySegments::OpenInDirectory(home.directory, geometry, model_fingerprint,
                                          home.checks_boot, home.slab_bytes));
  OpenedMemory opened;
  KVD_TRY(opened.memory, UnifiedMemory::Attach(std::move(segments), limits, &opened.start.lost));
  opened.start.is_warm = true;
  opened.start.CountServed(*opened.memory);
  return opened;
}

}  // namespace

void MemoryStart::CountServed(const UnifiedMemory& memory) {
  sequences = memory.Usage().live_sequences;
  snapshots = static_cast<std::uint32_t>(memory.Snapshots().size());
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
  KVD_TRY(fresh.memory, UnifiedMemory::Create(std::move(segments)));
  return fresh;
}

}  // namespace kvd
