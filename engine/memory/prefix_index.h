// PrefixIndex: which sequence begins with the longest part of a prompt. A radix tree over tokens,
// one per namespace.
//
// Owner: a memory, under its mutex; not thread-safe. It holds the pristine tokens of sequences (by
// index of their records), nothing else, and can be made anew from those at any moment. Tokens that
// several sequences have in common are held once. Children are ordered by their first token and
// labels compared token by token: there is no hash that a client could aim at.
//
// A sequence passes through every token of its own. It has one end, behind its last token, and may
// have points: depths at which its recurrent state is kept.
//
// Costs: appending a token is O(1) but for the logarithm of how many sequences end beside it; a
// look-up compares as many tokens as are in common.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "engine/memory/owner.h"
#include "shm/ids.h"

namespace kvd {

// Who may find a sequence by its tokens.
struct PrefixSpace {
  enum class Kind : std::uint8_t {
    kPrivate,  // one owner and salt
    kUser,     // one owner, any salt: published by it for itself
    kPublic,   // all
  };
  Kind kind = Kind::kPrivate;
  OwnerId owner{};
  std::uint64_t salt = 0;
  friend auto operator<=>(const PrefixSpace&, const PrefixSpace&) = default;
};

class PrefixIndex {
 public:
  static constexpr std::size_t kCandidatesMax = 16;

  struct Candidate {
    std::uint32_t sequence = 0;
    std::uint32_t depth = 0;  // tokens in common that it may serve
    friend bool operator==(const Candidate&, const Candidate&) = default;
  };
  struct Match {
    std::uint32_t depth = 0;  // tokens in common with any sequence of the namespace
    // By falling depth, at most kCandidatesMax.
    std::vector<Candidate> candidates;
  };
  // What a candidate can serve.
  enum class Serves : std::uint8_t {
    kAnyDepth,  // all that it has in common: candidates at the match's depth, then ends before it
    kPoints,    // its points alone
  };

  explicit PrefixIndex(std::uint32_t sequence_capacity);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  bool contains(std::uint32_t sequence) const { return entries_[sequence].node != nullptr; }
  // REQUIRES of the following: contains(sequence), but of Add and AddLike not.
  const PrefixSpace& space(std::uint32_t sequence) const;
  std::uint32_t depth(std::uint32_t sequence) const { return entries_[sequence].depth; }
  // With no tokens yet.
  void Add(std::uint32_t sequence, const PrefixSpace& space);
  // With the first `depth` tokens of another sequence of its namespace.
  // REQUIRES: depth <= depth(other).
  void AddLike(std::uint32_t sequence, std::uint32_t other, std::uint32_t depth);
  void Append(std::uint32_t sequence, std::span<const TokenId> tokens);
  // Keeps the first `depth` tokens, and points up to there. REQUIRES: depth <= depth(sequence).
  void Cut(std::uint32_t sequence, std::uint32_t depth);
  // Replaces its points. REQUIRES: rising, 1 to depth(sequence).
  void SetPoints(std::uint32_t sequence, std::span<const std::uint32_t> depths);
  void Remove(std::uint32_t sequence);

  // Candidates: of the sequences at one depth whichever come first; `match` is cleared.
  void Find(const PrefixSpace& space, std::span<const TokenId> tokens, Serves serves,
            Match* match) const;
  // Tokens at its end that no other sequence of the namespace begins with.
  std::uint32_t CountUnshared(std::uint32_t sequence) const;
  // Whether one of the next few sequences of the namespace that pass through its end satisfies the
  // predicate.
  template <class Predicate>
  bool IsCovered(std::uint32_t sequence, const Predicate& predicate) const {
    std::vector<Candidate> others;
    CollectThrough(*entries_[sequence].node, depth(sequence), &others);
    for (const Candidate& other : others) {
      if (other.sequence != sequence && predicate(other.sequence)) return true;
    }
    return false;
  }
  // Whose CountUnshared may have changed since the last call; removed ones are among them.
  std::span<const std::uint32_t> TakeTouched();
  // All its tokens.
  std::vector<TokenId> Tokens(std::uint32_t sequence) const;

 private:
  struct Mark {
    std::uint32_t depth = 0;
    std::uint32_t sequence = 0;
    friend auto operator<=>(const Mark&, const Mark&) = default;
  };
  // Tokens [start, end()) of every sequence below. Marks have start < depth <= end(); those of the
  // root depth 0. A node but the root has a label, and a mark of an end or two children or more;
  // that of a leaf is as long as the last end in it says.
  struct Node {
    Node* parent = nullptr;
    std::uint32_t start = 0;
    // A sequence that ends in it, or the witness of a child: so the nodes of one witness are a path
    // up from where it ends.
    std::uint32_t witness = 0;
    std::vector<TokenId> label;
    std::map<TokenId, std::unique_ptr<Node>> children;
    std::set<Mark> ends;
    std::set<Mark> points;
    std::uint32_t end() const { return start + static_cast<std::uint32_t>(label.size()); }
  };
  struct Tree {
    std::unique_ptr<Node> root;
    std::uint32_t sequence_count = 0;
  };
  using Trees = std::map<PrefixSpace, Tree>;
  struct Entry {
    Node* node = nullptr;  // in which it ends; null: it is not here
    std::uint32_t depth = 0;
    Trees::iterator tree;
    std::vector<std::uint32_t> points;
  };

  // A sequence has tokens of its own only if its end is the last one of a leaf: whatever changes
  // ends, start or children of a node changes the count of its last two at most, and of the one
  // whose end it is.
  void Touch(const Node& node);
  static Node* NodeAt(Node* node, std::uint32_t depth);
  void PutEnd(std::uint32_t sequence, Node* node, std::uint32_t depth);
  void TakeEnd(std::uint32_t sequence);
  // `moving`: its end is about to be put elsewhere.
  void Split(Node* node, std::uint32_t depth, std::uint32_t moving);
  Node* AddLeaf(Node* parent, std::uint32_t sequence, std::span<const TokenId> tokens);
  // After the end of `gone` has left `node`: gives up what no sequence passes through any more; the
  // lowest node that is left of the path.
  Node* Tidy(Node* node, std::uint32_t gone);
  Node* MergeWithChild(Node* node, std::uint32_t gone);
  static void Renew(Node* node);
  // Of `node` and those above it whose witness was this sequence.
  static void RenewWitness(Node* node, std::uint32_t sequence);
  static void CollectThrough(const Node& node, std::uint32_t depth, std::vector<Candidate>* out);

  Trees trees_;
  std::vector<Entry> entries_;  // by sequence
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> taken_;  // what TakeTouched returned
};

}  // namespace kvd
