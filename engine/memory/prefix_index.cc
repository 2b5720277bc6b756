#include "engine/memory/prefix_index.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kvd {

PrefixIndex::PrefixIndex(std::uint32_t sequence_capacity) : entries_(sequence_capacity) {}

// The depth of a tree is limited only by the number of sequences, so the tree is destroyed
// iteratively, not recursively.
PrefixIndex::~PrefixIndex() {
  std::vector<std::unique_ptr<Node>> left;
  for (auto& [space, tree] : trees_) left.push_back(std::move(tree.root));
  while (!left.empty()) {
    const std::unique_ptr<Node> node = std::move(left.back());
    left.pop_back();
    for (auto& [token, child] : node->children) left.push_back(std::move(child));
  }
}

const PrefixSpace& PrefixIndex::space(std::uint32_t sequence) const {
  return entries_[sequence].tree->first;
}

// The node that contains `depth`, on the path from `node` to the root.
PrefixIndex::Node* PrefixIndex::NodeAt(Node* node, std::uint32_t depth) {
  while (node->parent != nullptr && depth <= node->start) node = node->parent;
  return node;
}

void PrefixIndex::PutEnd(std::uint32_t sequence, Node* node, std::uint32_t depth, Marked mark) {
  Put(node->ends, {depth, sequence}, std::move(mark));
  entries_[sequence].node = node;
  entries_[sequence].depth = depth;
  touched_.push_back(sequence);
  Touch(*node);
}

PrefixIndex::Marked PrefixIndex::TakeEnd(std::uint32_t sequence) {
  Marked mark = entries_[sequence].node->ends.extract({entries_[sequence].depth, sequence});
  Touch(*entries_[sequence].node);
  return mark;
}

void PrefixIndex::Put(std::set<Mark>& marks, const Mark& mark, Marked place) {
  if (place.empty()) {
    marks.insert(mark);
    return;
  }
  place.value() = mark;
  marks.insert(std::move(place));
}

void PrefixIndex::Touch(const Node& node) {
  auto end = node.ends.rbegin();
  for (int i = 0; i < 2 && end != node.ends.rend(); ++i, ++end) touched_.push_back(end->sequence);
}

std::span<const std::uint32_t> PrefixIndex::TakeTouched() {
  taken_.swap(touched_);
  touched_.clear();
  return taken_;
}

void PrefixIndex::Add(std::uint32_t sequence, const PrefixSpace& space) {
  KVD_ASSERT(!contains(sequence));
  const auto [tree, is_new] = trees_.try_emplace(space);
  if (is_new) {
    tree->second.root = std::make_unique<Node>();
    tree->second.root->witness = sequence;
  }
  ++tree->second.sequence_count;
  entries_[sequence].tree = tree;
  PutEnd(sequence, tree->second.root.get(), 0);
}

void PrefixIndex::AddLike(std::uint32_t sequence, std::uint32_t other, std::uint32_t depth) {
  KVD_ASSERT(!contains(sequence) && contains(other) && depth <= entries_[other].depth);
  entries_[sequence].tree = entries_[other].tree;
  ++entries_[sequence].tree->second.sequence_count;
  PutEnd(sequence, NodeAt(entries_[other].node, depth), depth);
}

// Splits the node's label at `depth`: a new node above `node` takes the tokens before `depth`.
void PrefixIndex::Split(Node* node, std::uint32_t depth, std::uint32_t moving) {
  KVD_ASSERT(node->start < depth && depth < node->end());
  const auto count = static_cast<std::ptrdiff_t>(depth - node->start);
  std::unique_ptr<Node>& place = node->parent->children.find(node->label.front())->second;
  auto upper = std::make_unique<Node>();
  upper->parent = node->parent;
  upper->start = node->start;
  upper->witness = node->witness;
  upper->label.assign(node->label.begin(), node->label.begin() + count);
  node->label.erase(node->label.begin(), node->label.begin() + count);
  node->start = depth;
  node->parent = upper.get();
  while (!node->ends.empty() && node->ends.begin()->depth <= depth) {
    entries_[node->ends.begin()->sequence].node = upper.get();
    upper->ends.insert(upper->ends.end(), node->ends.extract(node->ends.begin()));
  }
  while (!node->points.empty() && node->points.begin()->depth <= depth) {
    upper->points.insert(upper->points.end(), node->points.extract(node->points.begin()));
  }
  if (node->witness == moving || entries_[node->witness].node == upper.get()) Renew(node);
  const TokenId first = node->label.front();
  Touch(*node);
  Touch(*upper);
  upper->children.emplace(first, std::move(place));
  place = std::move(upper);
}

PrefixIndex::Node* PrefixIndex::AddLeaf(Node* parent, std::uint32_t sequence,
                                        std::span<const TokenId> tokens) {
  auto leaf = std::make_unique<Node>();
  leaf->parent = parent;
  leaf->start = parent->end();
  leaf->witness = sequence;
  leaf->label.assign(tokens.begin(), tokens.end());
  Touch(*parent);
  return parent->children.emplace(tokens.front(), std::move(leaf)).first->second.get();
}

void PrefixIndex::Append(std::uint32_t sequence, std::span<const TokenId> tokens) {
  KVD_ASSERT(contains(sequence));
  if (tokens.empty()) return;
  Node* node = entries_[sequence].node;
  std::uint32_t depth = entries_[sequence].depth;
  Marked mark = TakeEnd(sequence);
  while (!tokens.empty()) {
    if (depth < node->end()) {
      const auto label = std::span(node->label).subspan(depth - node->start);
      const auto common =
          static_cast<std::size_t>(std::ranges::mismatch(label, tokens).in2 - tokens.begin());
      depth += static_cast<std::uint32_t>(common);
      tokens = tokens.subspan(common);
      if (tokens.empty()) break;
      if (depth < node->end()) {
        Split(node, depth, sequence);
        node = node->parent;
      }
      continue;
    }
    if (const auto child = node->children.find(tokens.front()); child != node->children.end()) {
      if (node->witness == sequence) child->second->witness = sequence;
      node = child->second.get();
      continue;
    }
    if (node->parent != nullptr && node->children.empty()) {
      node->label.insert(node->label.end(), tokens.begin(), tokens.end());
    } else {
      node = AddLeaf(node, sequence, tokens);
    }
    depth = node->end();
    break;
  }
  PutEnd(sequence, node, depth, std::move(mark));
}

PrefixIndex::Node* PrefixIndex::MergeWithChild(Node* node, std::uint32_t gone) {
  std::unique_ptr<Node> child = std::move(node->children.begin()->second);
  node->children.clear();
  std::unique_ptr<Node>& place = node->parent->children.find(node->label.front())->second;
  child->parent = node->parent;
  child->start = node->start;
  if (node->witness != gone) child->witness = node->witness;
  child->label.insert(child->label.begin(), node->label.begin(), node->label.end());
  for (const Mark& mark : node->ends) entries_[mark.sequence].node = child.get();
  child->ends.merge(node->ends);
  child->points.merge(node->points);
  place = std::move(child);  // destroys `node`
  Touch(*place);
  return place.get();
}

PrefixIndex::Node* PrefixIndex::Tidy(Node* node, std::uint32_t gone) {
  while (node->parent != nullptr && node->children.empty()) {
    if (!node->ends.empty()) {
      node->label.resize(node->ends.rbegin()->depth - node->start);
      return node;
    }
    Node* const parent = node->parent;
    parent->children.erase(node->label.front());
    Touch(*parent);
    node = parent;
  }
  if (node->parent != nullptr && node->children.size() == 1) return MergeWithChild(node, gone);
  return node;
}

void PrefixIndex::Renew(Node* node) {
  if (!node->ends.empty()) {
    node->witness = node->ends.begin()->sequence;
  } else if (!node->children.empty()) {
    node->witness = node->children.begin()->second->witness;
  }
}

void PrefixIndex::RenewWitness(Node* node, std::uint32_t sequence) {
  // `node` may have been merged with a node that has another witness.
  if (node->witness == sequence) Renew(node);
  for (node = node->parent; node != nullptr && node->witness == sequence; node = node->parent) {
    Renew(node);
  }
}

void PrefixIndex::Cut(std::uint32_t sequence, std::uint32_t depth) {
  KVD_ASSERT(contains(sequence) && depth <= entries_[sequence].depth);
  if (depth == entries_[sequence].depth) return;
  const std::vector<std::uint32_t> points = entries_[sequence].points;
  SetPoints(sequence, {});
  Node* const node = entries_[sequence].node;
  TakeEnd(sequence);
  PutEnd(sequence, NodeAt(node, depth), depth);
  RenewWitness(Tidy(node, sequence), sequence);
  const auto kept = std::ranges::upper_bound(points, depth);
  SetPoints(sequence, {points.begin(), kept});
}

void PrefixIndex::SetPoints(std::uint32_t sequence, std::span<const std::uint32_t> depths) {
  Entry& entry = entries_[sequence];
  KVD_ASSERT(contains(sequence));
  if (std::ranges::equal(entry.points, depths)) return;
  // The points are handled from the deepest point upwards, so that the path to the root is walked
  // once. The first new point takes the place of the last old one.
  Marked place;
  Node* node = entry.node;
  for (auto depth = entry.points.rbegin(); depth != entry.points.rend(); ++depth) {
    node = NodeAt(node, *depth);
    place = node->points.extract({*depth, sequence});
  }
  node = entry.node;
  for (auto depth = depths.rbegin(); depth != depths.rend(); ++depth) {
    KVD_ASSERT(*depth >= 1 && *depth <= entry.depth);
    node = NodeAt(node, *depth);
    Put(node->points, {*depth, sequence}, std::exchange(place, {}));
  }
  entry.points.assign(depths.begin(), depths.end());
}

void PrefixIndex::Remove(std::uint32_t sequence) {
  KVD_ASSERT(contains(sequence));
  SetPoints(sequence, {});
  Entry& entry = entries_[sequence];
  TakeEnd(sequence);
  RenewWitness(Tidy(entry.node, sequence), sequence);
  if (--entry.tree->second.sequence_count == 0) trees_.erase(entry.tree);
  entry = {};
}

// Appends sequences that begin with the tokens up to `depth`, a depth in `node`: the sequences that
// end in the node at `depth` or deeper, and the witness of each child.
void PrefixIndex::CollectThrough(const Node& node, std::uint32_t depth,
                                 std::vector<Candidate>* out) {
  for (auto mark = node.ends.lower_bound({depth, 0});
       mark != node.ends.end() && out->size() < kCandidatesMax; ++mark) {
    out->push_back({mark->sequence, depth});
  }
  for (const auto& [token, child] : node.children) {
    if (out->size() >= kCandidatesMax) return;
    out->push_back({child->witness, depth});
  }
}

void PrefixIndex::Find(const PrefixSpace& space, std::span<const TokenId> tokens, Serves serves,
                       Match* match) const {
  match->depth = 0;
  match->candidates.clear();
  const auto tree = trees_.find(space);
  if (tree == trees_.end()) return;
  const Node* node = tree->second.root.get();
  std::uint32_t depth = 0;
  while (!tokens.empty()) {
    const auto child = node->children.find(tokens.front());
    if (child == node->children.end()) break;
    node = child->second.get();
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(node->label, tokens).in2 - tokens.begin());
    depth += static_cast<std::uint32_t>(common);
    tokens = tokens.subspan(common);
    if (depth < node->end()) break;
  }
  match->depth = depth;
  if (depth == 0) return;
  if (serves == Serves::kAnyDepth) CollectThrough(*node, depth, &match->candidates);
  // The sequences with marks at smaller depths follow, up to the root.
  for (; node != nullptr && match->candidates.size() < kCandidatesMax; node = node->parent) {
    const std::set<Mark>& marks = serves == Serves::kAnyDepth ? node->ends : node->points;
    const std::uint32_t limit = serves == Serves::kAnyDepth ? depth : depth + 1;
    for (auto mark = marks.lower_bound({limit, 0}); mark != marks.begin();) {
      --mark;
      if (mark->depth == 0 || match->candidates.size() >= kCandidatesMax) break;
      match->candidates.push_back({mark->sequence, mark->depth});
    }
  }
}

std::uint32_t PrefixIndex::CountUnshared(std::uint32_t sequence) const {
  const Entry& entry = entries_[sequence];
  const Node& node = *entry.node;
  const auto own = node.ends.find({entry.depth, sequence});
  if (std::next(own) != node.ends.end() || !node.children.empty()) return 0;
  if (own == node.ends.begin()) return entry.depth - node.start;
  return entry.depth - std::prev(own)->depth;
}

std::vector<TokenId> PrefixIndex::Tokens(std::uint32_t sequence) const {
  std::vector<TokenId> tokens(entries_[sequence].depth);
  for (const Node* node = entries_[sequence].node; node != nullptr; node = node->parent) {
    const auto count = std::min<std::size_t>(node->label.size(), tokens.size() - node->start);
    std::copy_n(node->label.begin(), count, tokens.begin() + node->start);
  }
  return tokens;
}

}  // namespace kvd
