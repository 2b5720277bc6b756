// Choices: the choices from which a structured input is made, one byte each. They come from the
// bytes of an input, or are drawn at random and recorded as the bytes of a new input.
//
// What is made of the choices is a tree: a request, its body, a member of the body. While a node is
// made, a Scope notes its type and its bytes, so that a mutator can replace the bytes of one node
// and leave the other nodes as they are. After the last byte of an input every choice is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kvd::test {

class Choices {
 public:
  static constexpr std::size_t kBytesMax = 4096;

  // The part of the input that a node was made of. Two nodes with the same `type` are made in the
  // same way.
  struct Node {
    const void* type = nullptr;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) { nodes_.reserve(128); }
  // Draws with a seed other than 0.
  explicit Choices(std::uint64_t seed) : random_(seed | 1) {}

  std::uint8_t Take() {
    if (random_ == 0) return at_ < bytes_.size() ? bytes_[at_++] : Behind();
    if (recorded_.size() >= kBytesMax) return 0;
    recorded_.push_back(Draw());
    return recorded_.back();
  }
  // A number in [0, count). REQUIRES: 0 < count <= 256.
  std::size_t Below(std::size_t count) { return Take() % count; }

  std::size_t at() const { return random_ == 0 ? at_ : recorded_.size(); }
  const std::vector<std::uint8_t>& recorded() const { return recorded_; }
  const std::vector<Node>& nodes() const { return nodes_; }

  class Scope {
   public:
    Scope(Choices& choices, const void* type) : choices_(choices), number_(choices.nodes_.size()) {
      choices.nodes_.push_back({type, choices.at(), choices.at()});
    }
    ~Scope() { choices_.nodes_[number_].end = choices_.at(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Choices& choices_;
    std::size_t number_;
  };

 private:
  std::uint8_t Behind() {
    ++at_;
    return 0;
  }
  // A quarter of the bytes is 0, the usual choice.
  std::uint8_t Draw() {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ >> 40 & 3) == 0 ? std::uint8_t{0} : static_cast<std::uint8_t>(random_ >> 32);
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint64_t random_ = 0;  // 0: the choices are read
  std::vector<std::uint8_t> recorded_;
  std::vector<Node> nodes_;
};

}  // namespace kvd::test
