#include "shm/sampler_chain.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kvd {
namespace {

struct SamplerName {
  std::string_view name;
  std::string_view alias;  // a second name that does not follow from the first; empty: none
  char letter;
};

// By SamplerKind, from 1.
constexpr std::array<SamplerName, kSamplerKinds> kNames = {{
    {"penalties", "", 'e'},
    {"dry", "", 'd'},
    {"top_n_sigma", "", 's'},
    {"top_k", "", 'k'},
    {"typ_p", "typ", 'y'},
    {"top_p", "nucleus", 'p'},
    {"min_p", "", 'm'},
    {"xtc", "", 'x'},
    {"temperature", "temp", 't'},
    {"adaptive_p", "", 'a'},
}};

std::string_view NameOf(SamplerKind kind) { return kNames[std::to_underlying(kind) - 1u].name; }

// A chain that is built sampler by sampler.
class ChainBuilder {
 public:
  Status Add(SamplerKind kind) {
    if (HasSampler(chain_, kind)) {
      return Fail(Code::kInvalidArgument, "samplers: ", NameOf(kind), " occurs twice");
    }
    chain_.kinds[count_++] = kind;
    return {};
  }
  const SamplerChain& chain() const { return chain_; }

 private:
  SamplerChain chain_{};
  std::size_t count_ = 0;
};

// The name in lower case without '-' and '_', which spellings of one name have in common.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char letter : name) {
    if (letter == '-' || letter == '_') continue;
    plain += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return plain;
}

SamplerKind KindOfName(std::string_view name) {
  const std::string plain = Plain(name);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (plain == Plain(kNames[i].name) || (!plain.empty() && plain == kNames[i].alias)) {
      return static_cast<SamplerKind>(i + 1);
    }
  }
  return SamplerKind::kNone;
}

// The text of an error shows at most this many bytes of a wrong name.
constexpr std::size_t kShownBytesMax = 32;

}  // namespace

Status ValidateChain(const SamplerChain& chain, std::string_view field) {
  SamplerChain seen{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < chain.kinds.size(); ++i) {
    const SamplerKind kind = chain.kinds[i];
    if (kind == SamplerKind::kNone) continue;
    if (std::to_underlying(kind) > kSamplerKinds) {
      return Fail(Code::kInvalidArgument, field, ": number ", i, " is ",
                  unsigned{std::to_underlying(kind)}, ", must be at most ", kSamplerKinds);
    }
    if (i != count) {
      return Fail(Code::kInvalidArgument, field, ": ", NameOf(kind), " behind the chain's end");
    }
    if (HasSampler(seen, kind)) {
      return Fail(Code::kInvalidArgument, field, ": ", NameOf(kind), " occurs twice");
    }
    seen.kinds[count++] = kind;
  }
  return {};
}

Result<SamplerChain> ParseSamplerNames(std::string_view text) {
  ChainBuilder builder;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    const SamplerKind kind = KindOfName(name);
    if (kind == SamplerKind::kNone) {
      return Fail(Code::kInvalidArgument, "samplers: \"", name.substr(0, kShownBytesMax),
                  "\" is not a sampler");
    }
    KVD_CHECK_OK(builder.Add(kind));
  }
  return builder.chain();
}

Result<SamplerChain> ParseSamplerLetters(std::string_view text) {
  ChainBuilder builder;
  for (const char letter : text) {
    const auto found = std::ranges::find(kNames, letter, &SamplerName::letter);
    if (found == kNames.end()) {
      return Fail(Code::kInvalidArgument, "samplers: '", std::string(1, letter),
                  "' is not the letter of a sampler");
    }
    KVD_CHECK_OK(builder.Add(static_cast<SamplerKind>(found - kNames.begin() + 1)));
  }
  return builder.chain();
}

std::string SamplerNames(const SamplerChain& chain) {
  std::string names;
  for (const SamplerKind kind : chain.kinds) {
    if (kind == SamplerKind::kNone) break;
    if (!names.empty()) names += ';';
    names += NameOf(kind);
  }
  return names;
}

}  // namespace kvd
