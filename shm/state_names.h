// The names of the files and folders of a state, which the daemon and kvctl share.
//
// A state is a folder with the files (engine/memory/state_files.h):
//
//   meta                    the committed records
//   pool, pool.N            part of pool 0, or of pool N, with the blocks of group 0
//   pool-PART, pool.N-PART  the other parts: g1 to g3, states, logits
//   meta.new                a `meta` that is being written
//   meta.bad, meta.bad.N    a `meta` that was kept aside, with pool 0 or pool N
//
// The default directory of a daemon's name has a folder for the state of each model.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kvd {

// The number of the pool of which `name` is a part; nullopt: another name.
std::optional<std::uint64_t> PoolNumberOf(std::string_view name);
// The number of the pool of the `meta` that was kept aside as `name`; nullopt: another name.
std::optional<std::uint64_t> AsideNumberOf(std::string_view name);
bool IsStateFile(std::string_view name);

// The name of a model's folder is the stem and 16 hexadecimal digits of the model's fingerprint.
inline constexpr std::string_view kModelFolderStem = "m-";
bool IsModelFolder(std::string_view name);

}  // namespace kvd
