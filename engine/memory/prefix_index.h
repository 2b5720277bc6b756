// PrefixIndex: finds the sequence that begins with the longest part of a prompt. The index is a
// radix tree over tokens for each namespace.
//
// A memory owns the index and calls it under the memory's mutex; the index is not thread-safe. The
// index holds the pristine tokens of sequences (by index of their records) and can be rebuilt from
// the records at any moment. Tokens that several sequences have in common are stored once. The
// children of a node are ordered by their first token, and labels are compared token by token;
// there is no hash for which a client could construct collisions.
//
// In the tree, each sequence is a path from the root that spells its tokens. A sequence has one
// end, which marks the node after its last token, and may have points, which mark depths at which
// its recurrent state is kept.
//
// Appending a token costs O(1), apart from the logarithm of the number of sequences that end in the
// same node; a look-up compares as many tokens as the prompt and the tree have in common.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/ids.h"
#include "engine/memory/owner.h"

namespace kvd {

// The namespace in which a sequence can be found.
struct PrefixSpace {
  enum class Kind : std::uint8_t {
    kPrivate,  // one owner and salt
    kUser,     // one owner, any salt: snapshots that the owner published for itself
    kPublic,   // all owners: public snapshots
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
    std::uint32_t depth = 0;  // number of common tokens whose cells the candidate can provide
    friend bool operator==(const Candidate&, const Candidate&) = default;
  };
  struct Match {
    std::uint32_t depth = 0;  // the most tokens that a sequence of the namespace has in common
    // Ordered by descending depth, at most kCandidatesMax.
    std::vector<Candidate> candidates;
  };
  // Which depths a candidate can serve.
  enum class Serves : std::uint8_t {
    // Any depth up to the number of common tokens. Candidates: sequences that have match.depth
    // tokens in common, then sequences that end at smaller depths.
    kAnyDepth,
    kPoints,  // only depths that are points of the candidate
  };

  explicit PrefixIndex(std::uint32_t sequence_capacity);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  bool contains(std::uint32_t sequence) const { return entries_[sequence].node != nullptr; }
  // REQUIRES, for the following functions except Add and AddLike: contains(sequence).
  const PrefixSpace& space(std::uint32_t sequence) const;
  std::uint32_t depth(std::uint32_t sequence) const { return entries_[sequence].depth; }
  // Adds a sequence without tokens.
  void Add(std::uint32_t sequence, const PrefixSpace& space);
  // Adds a sequence with the first `depth` tokens of the sequence `other`, to the namespace of
  // `other`. REQUIRES: depth <= depth(other).
  void AddLike(std::uint32_t sequence, std::uint32_t other, std::uint32_t depth);
  void Append(std::uint32_t sequence, std::span<const TokenId> tokens);
  // Cuts the sequence to its first `depth` tokens and its points up to `depth`. REQUIRES: depth <=
  // depth(sequence).
  void Cut(std::uint32_t sequence, std::uint32_t depth);
  // Replaces the sequence's points. REQUIRES: ascending, 1 to depth(sequence).
  void SetPoints(std::uint32_t sequence, std::span<const std::uint32_t> depths);
  void Remove(std::uint32_t sequence);

  // Finds the sequences with the most tokens in common with `tokens`, and replaces `match`. If more
  // than kCandidatesMax sequences match at one depth, the choice among them is arbitrary.
  void Find(const PrefixSpace& space, std::span<const TokenId> tokens, Serves serves,
            Match* match) const;
  // The number of the sequence's last tokens that lie in the path of no other sequence of the
  // namespace.
  std::uint32_t CountUnshared(std::uint32_t sequence) const;
  // Whether `predicate` is true for one of the other sequences of the namespace that begin with all
  // tokens of this sequence; examines at most kCandidatesMax of them.
  template <class Predicate>
  bool IsCovered(std::uint32_t sequence, const Predicate& predicate) const {
    std::vector<Candidate> others;
    CollectThrough(*entries_[sequence].node, depth(sequence), &others);
    for (const Candidate& other : others) {
      if (other.sequence != sequence && predicate(other.sequence)) return true;
    }
    return false;
  }
  // The sequences whose CountUnshared may have changed since the last call, including removed
  // sequences. The returned span is valid until the next call.
  std::span<const std::uint32_t> TakeTouched();
  // All tokens of the sequence.
  std::vector<TokenId> Tokens(std::uint32_t sequence) const;

 private:
  struct Mark {
    std::uint32_t depth = 0;
    std::uint32_t sequence = 0;
    friend auto operator<=>(const Mark&, const Mark&) = default;
  };
  using Marked = std::set<Mark>::node_type;  // the memory of a mark
  // A node of the tree. The label of a node is the tokens [start, end()) of every sequence that
  // ends in this node or below it. The marks of a node (ends and points) have start < depth <=
  // end(); the marks of the root have depth 0. Every node except the root has a label that is not
  // empty, and has at least one end or at least two children. The label of a leaf ends at the
  // leaf's last end.
  struct Node {
    Node* parent = nullptr;
    std::uint32_t start = 0;
    // A sequence that ends in this node, or the witness of a child. The nodes that have the same
    // witness therefore form a path upwards from the node in which the witness ends.
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
    Node* node = nullptr;  // the node in which the sequence ends; null: not in the index
    std::uint32_t depth = 0;
    Trees::iterator tree;
    std::vector<std::uint32_t> points;
  };

  // Records the sequences whose CountUnshared may have changed, for TakeTouched. Only a sequence
  // whose end is the last end of a leaf has unshared tokens. A change of a node's ends, start or
  // children can change CountUnshared only for the node's last two ends and for the sequence whose
  // end changes.
  void Touch(const Node& node);
  static Node* NodeAt(Node* node, std::uint32_t depth);
  // `mark`: what TakeEnd returned, so that moving an end allocates nothing; or empty.
  void PutEnd(std::uint32_t sequence, Node* node, std::uint32_t depth, Marked mark = {});
  Marked TakeEnd(std::uint32_t sequence);
  // Inserts the mark, in the memory of `place` unless `place` is empty.
  static void Put(std::set<Mark>& marks, const Mark& mark, Marked place);
  // `moving`: a sequence whose end is about to be moved.
  void Split(Node* node, std::uint32_t depth, std::uint32_t moving);
  Node* AddLeaf(Node* parent, std::uint32_t sequence, std::span<const TokenId> tokens);
  // Called after the end of `gone` was removed from `node`: removes the nodes and tokens that no
  // sequence passes through any more. Returns the lowest remaining node of the path.
  Node* Tidy(Node* node, std::uint32_t gone);
  Node* MergeWithChild(Node* node, std::uint32_t gone);
  static void Renew(Node* node);
  // Chooses another witness for `node`, and for the nodes above `node`, whose witness is
  // `sequence`.
  static void RenewWitness(Node* node, std::uint32_t sequence);
  static void CollectThrough(const Node& node, std::uint32_t depth, std::vector<Candidate>* out);

  Trees trees_;
  std::vector<Entry> entries_;  // by sequence
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> taken_;  // the result of the last TakeTouched
};

}  // namespace kvd
