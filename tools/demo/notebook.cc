#include "tools/demo/notebook.h"

#include <array>
#include <numeric>
#include <span>
#include <string_view>

namespace kvd::demo {
namespace {

constexpr std::array<std::string_view, 24> kNames = {
    "Mia",   "Tom",  "Ann",  "Ben",  "Lily", "Sam",   "Zoe",  "Max",
    "Ella",  "Leo",  "Nora", "Jack", "Ruby", "Finn",  "Ivy",  "Hugo",
    "Clara", "Otto", "Rosa", "Theo", "Wren", "Felix", "June", "Oscar"};
constexpr std::array<std::string_view, 12> kColours = {"red",   "blue",   "green",  "yellow",
                                                       "white", "black",  "brown",  "pink",
                                                       "grey",  "orange", "purple", "silver"};
constexpr std::array<std::string_view, 20> kThings = {
    "ball", "kite", "hat", "cup",   "key",   "lamp", "book", "drum",  "boat",  "coat",
    "ring", "bell", "box", "shell", "spoon", "map",  "rope", "clock", "flute", "basket"};
constexpr std::array<std::string_view, 8> kAnimals = {"fox",  "bear", "rabbit", "mouse",
                                                      "duck", "frog", "turtle", "goat"};
constexpr std::array<std::string_view, 6> kFoods = {"bread", "soup",   "honey",
                                                    "cake",  "cheese", "porridge"};
constexpr std::array<std::string_view, 16> kPlaces = {
    "garden", "kitchen", "forest", "river",   "barn",    "hill", "market", "school",
    "lake",   "attic",   "meadow", "harbour", "library", "mill", "cave",   "orchard"};

// With two stories the model, which is trained on texts of 256 tokens, forgets facts.
constexpr int kStoryCount = 1;

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::size_t Below(std::size_t limit) { return Next() % limit; }
  std::string Pick(std::span<const std::string_view> words) {
    return std::string(words[Below(words.size())]);
  }
  // Returns `count` different numbers below `limit` in random order.
  std::vector<std::size_t> Draw(std::size_t limit, std::size_t count) {
    std::vector<std::size_t> order(limit);
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + Below(limit - i)]);
    order.resize(count);
    return order;
  }

 private:
  std::uint64_t state_;
};

std::string Sentence(const Fact& fact) {
  return "The " + fact.thing + " is " + fact.colour + ", kept by " + fact.keeper + " in the " +
         fact.place + ".";
}

// Returns a short story without facts, which separates the facts from the questions, so that the
// answer to a question is far back in the context.
std::string Story(Random* random) {
  const std::string name = random->Pick(kNames), animal = random->Pick(kAnimals),
                    place = random->Pick(kPlaces);
  return "One day, " + name + " was in the " + random->Pick(kPlaces) + ". It was a quiet day. " +
         name + " met the " + animal + ". The " + animal + " was sad. \"What is wrong?\" asked " +
         name + ". \"I lost my way to the " + place + ",\" said the " + animal + ". " + name +
         " took the " + animal + " to the " + place + ". On the way they shared some " +
         random->Pick(kFoods) + ". \"Thank you, " + name + ",\" said the " + animal +
         ". A kind word costs nothing. The end.";
}

}  // namespace

std::vector<Fact> DrawFacts(std::uint64_t seed, std::size_t fact_count) {
  Random random(seed);
  const std::vector<std::size_t> things = random.Draw(kThings.size(), fact_count);
  const std::vector<std::size_t> keepers = random.Draw(kNames.size(), fact_count);
  std::vector<Fact> facts;
  for (std::size_t i = 0; i < fact_count; ++i) {
    facts.push_back({.thing = std::string(kThings[things[i]]),
                     .colour = random.Pick(kColours),
                     .keeper = std::string(kNames[keepers[i]]),
                     .place = random.Pick(kPlaces)});
  }
  return facts;
}

std::string NotebookText(std::uint64_t seed, const std::vector<Fact>& facts) {
  Random random(seed ^ 0x73746f7279);
  std::string text = "Answer from the notebook.";
  for (const Fact& fact : facts) text += " " + Sentence(fact);
  for (int story = 0; story < kStoryCount; ++story) text += " " + Story(&random);
  return text;
}

Question DrawQuestion(std::uint64_t seed, const std::vector<Fact>& facts, std::size_t number) {
  Random order(seed ^ 0x71656e);
  const std::vector<std::size_t> asked = order.Draw(facts.size(), facts.size());
  const Fact& fact = facts[asked[number % facts.size()]];
  Random random(seed * 1000 + number);
  switch (random.Below(4)) {
    case 0: return {"Tell me about the " + fact.thing + ".", Sentence(fact)};
    case 1:
      return {"What colour is the " + fact.thing + "?",
              "The " + fact.thing + " is " + fact.colour + "."};
    case 2:
      return {"Who keeps the " + fact.thing + "?",
              "The " + fact.thing + " is kept by " + fact.keeper + "."};
    default:
      return {"Where is the " + fact.thing + "?",
              "The " + fact.thing + " is in the " + fact.place + "."};
  }
}

}  // namespace kvd::demo
