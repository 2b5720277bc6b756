#include "tests/fuzz/mutate_choices.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <unordered_map>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t byte_count,
                                        std::size_t bytes_max);

namespace kvd::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Random = std::minstd_rand;

constexpr std::size_t kKeptEach = 24;    // nodes of earlier inputs, of each type
constexpr std::size_t kKeptBytes = 300;  // of a node
constexpr std::size_t kDrawnBytes = 96;

std::unordered_map<const void*, std::vector<Bytes>>& KeptNodes() {
  static std::unordered_map<const void*, std::vector<Bytes>> kept;
  return kept;
}

Bytes Part(const Bytes& input, const Choices::Node& node) {
  const auto begin =
      input.begin() + static_cast<std::ptrdiff_t>(std::min(node.begin, input.size()));
  const auto end = input.begin() + static_cast<std::ptrdiff_t>(std::min(node.end, input.size()));
  Bytes part(begin, end);
  part.resize(node.end - node.begin);
  return part;
}

void Keep(const Bytes& input, const Choices::Node& node, Random& random) {
  if (node.end - node.begin > kKeptBytes || node.end == node.begin) return;
  std::vector<Bytes>& kept = KeptNodes()[node.type];
  if (kept.size() < kKeptEach) {
    kept.push_back(Part(input, node));
  } else {
    kept[random() % kKeptEach] = Part(input, node);
  }
}

Bytes Replaced(const Bytes& input, const Choices::Node& node, const Bytes& by) {
  Bytes changed = input;
  changed.resize(std::max(changed.size(), node.end));
  const auto begin = changed.begin() + static_cast<std::ptrdiff_t>(node.begin);
  const auto end = changed.begin() + static_cast<std::ptrdiff_t>(node.end);
  changed.insert(changed.erase(begin, end), by.begin(), by.end());
  return changed;
}

// Draws the node again: random bytes stand in its place, and are cut where the new node ends.
Bytes Redrawn(const Bytes& input, const std::vector<Choices::Node>& nodes, std::size_t number,
              Random& random, NodesOfBytes nodes_of) {
  const Choices::Node& node = nodes[number];
  Bytes drawn(kDrawnBytes);
  for (std::uint8_t& byte : drawn) {
    byte = random() % 4 == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(random() >> 8);
  }
  Bytes front = input;
  front.resize(node.begin);
  front.insert(front.end(), drawn.begin(), drawn.end());
  const std::size_t end = nodes_of(front)[number].end;
  drawn.resize(std::min(end - node.begin, drawn.size()));
  return Replaced(input, node, drawn);
}

}  // namespace

std::size_t MutateChoices(std::span<std::uint8_t> data, std::size_t byte_count, unsigned int seed,
                          NodesOfBytes nodes_of) {
  Random random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data.data(), byte_count, data.size());
  Bytes input(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(byte_count));
  const std::size_t rounds = 1 + random() % 3;
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::vector<Choices::Node> nodes = nodes_of(input);
    if (nodes.empty()) break;
    const std::size_t number = random() % nodes.size();
    const Choices::Node node = nodes[number];
    Keep(input, node, random);
    const std::size_t how = random() % 8;
    if (how < 3) {
      input = Redrawn(input, nodes, number, random, nodes_of);
    } else if (how < 5) {
      const std::vector<Bytes>& kept = KeptNodes()[node.type];
      if (!kept.empty()) input = Replaced(input, node, kept[random() % kept.size()]);
    } else if (how < 6) {
      std::vector<Choices::Node> alike;
      std::ranges::copy_if(nodes, std::back_inserter(alike),
                           [&](const Choices::Node& other) { return other.type == node.type; });
      input = Replaced(input, node, Part(input, alike[random() % alike.size()]));
    } else {
      input.resize(std::max(input.size(), node.begin + 1));
      const std::size_t at =
          node.begin +
          random() % std::min<std::size_t>(std::max<std::size_t>(node.end - node.begin, 1), 3);
      if (at < input.size()) input[at] = static_cast<std::uint8_t>(random() >> 8);
    }
  }
  if (input.size() > std::min(data.size(), Choices::kBytesMax)) {
    input.resize(std::min(data.size(), Choices::kBytesMax));
  }
  std::ranges::copy(input, data.begin());
  return input.size();
}

std::size_t MakeNearUsual(std::span<std::uint8_t> data, unsigned int seed,
                          const std::vector<std::vector<std::uint8_t>>& usual_inputs) {
  Random random(seed);
  const auto draw = [&] { return static_cast<std::size_t>(random() >> 8); };
  Bytes input = usual_inputs[draw() % usual_inputs.size()];
  // The fields that further choices add are made of the bytes behind the usual ones.
  input.resize(std::min(input.size() + kDrawnBytes, data.size()));
  // Usual inputs differ in one choice, that of the route. Other choices before it would move it.
  const Bytes& last = usual_inputs.back();
  const std::size_t route_at = static_cast<std::size_t>(
      std::ranges::find_if(last, [](std::uint8_t byte) { return byte != 0; }) - last.begin());
  const std::size_t rarity = std::size_t{4} << draw() % 4;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (i > 0 && i <= route_at) continue;
    if (draw() % (i == 0 ? 2 : rarity) == 0) input[i] = static_cast<std::uint8_t>(draw());
  }
  std::ranges::copy(input, data.begin());
  return input.size();
}

}  // namespace kvd::test
