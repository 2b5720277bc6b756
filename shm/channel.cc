#include "shm/channel.h"

#include <new>
#include <string>
#include <utility>

#include "shm/segment_layout.h"
#include "shm/shared_memory.h"

namespace kvd {

DaemonChannel::DaemonChannel(Mapping<kReadOnly> requests, Mapping<kReadWrite> results,
                             const ChannelGeometry& geometry)
    : requests_(std::move(requests)),
      results_(std::move(results)),
      geometry_(geometry),
      submissions_(requests_.bytes(), results_.bytes(), geometry),
      completions_(results_.bytes(), requests_.bytes(), geometry) {}

Result<bool> DaemonChannel::PrepareToSleep(bool stalled, std::uint32_t submissions_seen) {
  auto* header = reinterpret_cast<layout::ResultsHeader*>(results_.data());
  // If the client has read completions or released output since the last Refresh, the next Refresh
  // changes the number of free slots or the number of outstanding output bytes.
  const std::uint32_t free_before = completions_.free_slots();
  const std::uint64_t outstanding_before = completions_.output_bytes_outstanding();
  header->daemon_sleeps.store(stalled ? layout::kDaemonStalled : layout::kDaemonSleeps,
                              std::memory_order_seq_cst);
  KVD_TRY(const std::uint32_t waiting, submissions_.Waiting());
  bool something = waiting > submissions_seen;
  if (stalled) {
    KVD_CHECK_OK(completions_.Refresh());
    something = something || completions_.free_slots() != free_before ||
                completions_.output_bytes_outstanding() != outstanding_before;
  }
  if (something) WakeUp();
  return !something;
}

void DaemonChannel::WakeUp() {
  auto* header = reinterpret_cast<layout::ResultsHeader*>(results_.data());
  header->daemon_sleeps.store(layout::kDaemonAwake, std::memory_order_relaxed);
}

Result<CreatedChannel> CreateChannel(const ChannelGeometry& geometry, std::string_view name) {
  KVD_CHECK_OK(ValidateGeometry(geometry));
  const std::string prefix(name);
  KVD_TRY(auto requests, CreateSealedMemory(prefix + "-requests", geometry.request_segment_bytes(),
                                            Sealing::kSize));
  KVD_TRY(auto results, CreateSealedMemory(prefix + "-results", geometry.result_segment_bytes(),
                                           Sealing::kSizeAndLaterWrites));
  auto* requests_header = new (requests.mapping.data()) layout::RequestsHeader{};
  requests_header->magic = layout::kRequestsMagic;
  requests_header->submission_entries = geometry.submission_entries;
  requests_header->arena_offset = geometry.request_arena_offset();
  requests_header->arena_bytes = geometry.request_arena_bytes;
  auto* results_header = new (results.mapping.data()) layout::ResultsHeader{};
  results_header->magic = layout::kResultsMagic;
  results_header->completion_entries = geometry.completion_entries;
  results_header->arena_offset = geometry.result_arena_offset();
  results_header->arena_bytes = geometry.result_arena_bytes;
  // The daemon does not look at the new rings until a doorbell arrives, so the first submission
  // must ring the doorbell.
  results_header->daemon_sleeps.store(layout::kDaemonSleeps, std::memory_order_relaxed);
  requests.mapping = {};
  KVD_TRY(auto readable_requests, Mapping<kReadOnly>::MapRange(requests.descriptor.get(), 0,
                                                               geometry.request_segment_bytes()));
  return CreatedChannel{
      DaemonChannel(std::move(readable_requests), std::move(results.mapping), geometry),
      {std::move(requests.descriptor), std::move(results.descriptor)}};
}

ClientChannel::ClientChannel(Mapping<kReadWrite> requests, Mapping<kReadOnly> results,
                             const ChannelGeometry& geometry)
    : requests_(std::move(requests)),
      results_(std::move(results)),
      geometry_(geometry),
      submissions_(requests_.bytes(), results_.bytes(), geometry),
      completions_(results_.bytes(), requests_.bytes(), geometry) {}

Result<ClientChannel> ClientChannel::Attach(const ChannelGeometry& geometry,
                                            int requests_descriptor, int results_descriptor) {
  KVD_CHECK_OK(
      CheckSealedMemory(requests_descriptor, Sealing::kSize, geometry.request_segment_bytes()));
  KVD_CHECK_OK(CheckSealedMemory(results_descriptor, Sealing::kSizeAndLaterWrites,
                                 geometry.result_segment_bytes()));
  KVD_TRY(auto requests,
          Mapping<kReadWrite>::MapRange(requests_descriptor, 0, geometry.request_segment_bytes()));
  KVD_TRY(auto results,
          Mapping<kReadOnly>::MapRange(results_descriptor, 0, geometry.result_segment_bytes()));
  const auto* requests_header = reinterpret_cast<const layout::RequestsHeader*>(requests.data());
  const auto* results_header = reinterpret_cast<const layout::ResultsHeader*>(results.data());
  if (requests_header->magic != layout::kRequestsMagic ||
      requests_header->submission_entries != geometry.submission_entries ||
      requests_header->arena_offset != geometry.request_arena_offset() ||
      requests_header->arena_bytes != geometry.request_arena_bytes) {
    return Fail(Code::kCorrupt, "received segment: its header does not match Welcome (requests)");
  }
  if (results_header->magic != layout::kResultsMagic ||
      results_header->completion_entries != geometry.completion_entries ||
      results_header->arena_offset != geometry.result_arena_offset() ||
      results_header->arena_bytes != geometry.result_arena_bytes) {
    return Fail(Code::kCorrupt, "received segment: its header does not match Welcome (results)");
  }
  return ClientChannel(std::move(requests), std::move(results), geometry);
}

}  // namespace kvd
