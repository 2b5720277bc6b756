// Measures what a grammar costs for each token of an answer, for the vocabulary of 128,256 tokens
// in ../shared/vocab or in the folder named by KVD_VOCAB_DIR: accepting the token and making the
// next mask, with states and masks that are new (a grammar's first answer) and that are held (its
// second answer). Also measures how long a grammar takes to compile. The limit is a memcpy of one
// mask.
//
// The counters are the median, the 99th percentile, the mean and the maximum of processor time over
// the tokens of all iterations.
//
// KVD_GRAMMARS_DIR names a folder with further grammars: NAME.gbnf with one sentence in NAME.txt.
// --write_grammars=FOLDER writes the grammars of this file and their sentences into a folder, with
// which another program can be measured.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "bench/must.h"
#include "bench/prose.h"
#include "engine/grammar/grammar.h"
#include "engine/model/gguf_file.h"
#include "engine/vocabulary/vocabulary.h"
#include "engine/vocabulary/vocabulary_data.h"

namespace {

using namespace kvd;
using bench::Must;

constexpr std::string_view kJson = R"gbnf(root ::= ws object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
)gbnf";
constexpr std::string_view kArithmetic = R"gbnf(root ::= (sum "=" blank term "\n")+
sum ::= term ([-+*/] blank term)*
term ::= name | number | "(" blank sum ")" blank
name ::= [a-z] [a-z0-9_]* blank
number ::= [0-9]+ blank
blank ::= [ \t\n]*
)gbnf";
constexpr std::string_view kList = R"gbnf(root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
)gbnf";
constexpr std::string_view kChess =
    R"gbnf(root ::= "1. " move " " move "\n" ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
castle ::= "O-O" "-O"?
)gbnf";
constexpr std::string_view kProgram = R"gbnf(root ::= (function)*
function ::= type blank name "(" (type blank name ("," blank type blank name)*)? ")" ws "{" ws (statement ws)* "}" ws
statement ::= type blank name ws ("=" ws sum)? ";" | name ws "=" ws sum ";" | "return" blank sum ";" |
  "while" ws "(" test ")" ws block | "if" ws "(" test ")" ws block (ws "else" ws block)? |
  "//" [^\n]* "\n"
block ::= "{" ws (statement ws)* "}"
test ::= sum ws ("<=" | "<" | "==" | "!=" | ">=" | ">") ws sum
sum ::= product (ws ("+" | "-") ws product)*
product ::= factor (ws ("*" | "/") ws factor)*
factor ::= name | number | "-" factor | name "(" (sum ("," ws sum)*)? ")" | "(" sum ")" | "\"" [^"\n]* "\""
type ::= "int" | "float" | "char"
name ::= [a-zA-Z_] [a-zA-Z_0-9]*
number ::= [0-9]+ ("." [0-9]+)?
blank ::= " "+
ws ::= [ \t\n]*
)gbnf";

constexpr int kFunctions = 100;
constexpr int kParameters = 10;
constexpr const char* kWords[] = {"city",   "date",  "user",   "count", "limit", "query", "path",
                                  "format", "email", "amount", "title", "owner", "state", "color"};

std::string ParameterName(int function, int parameter) {
  return std::string(kWords[(function + parameter * 3) % 14]) + "_" + std::to_string(parameter);
}
std::string FunctionName(int function) {
  return std::string(kWords[function % 14]) + "_tool_" + std::to_string(function);
}

// 100 functions with 10 parameters of several types each, as a chat template's tools become GBNF.
std::string ToolGrammar() {
  std::string gbnf = R"gbnf(char ::= [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})
space ::= | " " | "\n" [ \t]{0,20}
string ::= "\"" char* "\"" space
short ::= "\"" char{0,40} "\"" space
integer ::= "-"? ("0" | [1-9] [0-9]{0,15}) space
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,15})? space
boolean ::= ("true" | "false") space
strings ::= "[" space (string ("," space string)*)? "]" space
place ::= "{" space "\"street\"" space ":" space string "," space "\"number\"" space ":" space integer "}" space
kind ::= ("\"small\"" | "\"medium\"" | "\"large\"") space
)gbnf";
  constexpr const char* kTypes[] = {"string",  "integer", "boolean", "short",  "number",
                                    "strings", "place",   "kind",    "string", "short"};
  std::string root = "root ::= \"<tool_call>\\n\" (";
  for (int f = 0; f < kFunctions; ++f) {
    const std::string name = "tool-" + std::to_string(f);
    root += (f == 0 ? "" : " | ") + name;
    gbnf +=
        Concat(name, " ::= \"{\" space \"\\\"name\\\"\" space \":\" space \"\\\"", FunctionName(f),
               "\\\"\" space \",\" space \"\\\"arguments\\\"\" space \":\" space ", name,
               "-args \"}\" space\n", name, "-args ::= \"{\" space ");
    for (int p = 0; p < kParameters; ++p)
      gbnf += Concat(p == 0 ? "" : "\",\" space ", name, "-", p, " ");
    gbnf += "\"}\" space\n";
    for (int p = 0; p < kParameters; ++p)
      gbnf += Concat(name, "-", p, " ::= \"\\\"", ParameterName(f, p), "\\\"\" space \":\" space ",
                     kTypes[p], "\n");
  }
  return gbnf + root + ") \"</tool_call>\"\n";
}

std::string Words(std::size_t bytes, std::uint32_t seed) {
  std::string text = bench::MakeProse(bytes, seed);
  std::erase_if(text, [](char c) { return c == '"' || c == '\\' || c == '\n' || c == '\r'; });
  return text;
}

std::string ToolText(int f) {
  const auto seed = static_cast<std::uint32_t>(f);
  const std::string values[] = {"\"" + Words(120, seed) + "\"",
                                "42",
                                "true",
                                "\"" + Words(36, seed + 1).substr(0, 30) + "\"",
                                "-12.5e3",
                                "[\"" + Words(30, seed + 2) + "\", \"b\"]",
                                "{\"street\": \"" + Words(20, seed) + "\", \"number\": 7}",
                                "\"medium\"",
                                "\"" + Words(300, seed + 3) + "\"",
                                "\"short\""};
  std::string text = "<tool_call>\n{\"name\": \"" + FunctionName(f) + "\", \"arguments\": {";
  for (int p = 0; p < kParameters; ++p)
    text += (p == 0 ? "\"" : ", \"") + ParameterName(f, p) + "\": " + values[p];
  return text + "}}</tool_call>";
}

std::string JsonText() {
  std::string text = "{\"items\": [";
  for (int i = 0; i < 8; ++i)
    text += (i == 0 ? "{" : ", {") + std::string("\"name\": \"") + Words(60, 7) +
            "\", \"price\": " + std::to_string(i * 13) + ".5, \"tags\": [\"a\", \"" + Words(12, 3) +
            "\"], \"ok\": true}";
  return text + "], \"next\": null}";
}

std::string ListText() {
  std::string text;
  for (std::uint32_t i = 0; i < 8; ++i) text += "- " + Words(80, i) + "\n";
  return text;
}

constexpr std::string_view kProgramText = R"gbnf(int main(int count, float limit) {
  // adds the even numbers below the limit
  int sum = 0;
  int i = 0;
  while (i <= count) {
    if (i - (i / 2) * 2 == 0) { sum = sum + i * 3; } else { log("odd number found", i); }
    i = i + 1;
  }
  return scale(sum, limit) / (4.25 + -count);
}
)gbnf";

std::string WithoutCall(std::string_view program) {
  // A call is no statement of the grammar.
  std::string text(program);
  const std::string call = "log(\"odd number found\", i);";
  return text.replace(text.find(call), call.size(), "sum = log(\"odd number found\", i);");
}

struct Vocabularies {
  std::unique_ptr<Vocabulary> tokens;
  std::shared_ptr<const GrammarVocabulary> grammar;
};

const Vocabularies& Model() {
  static const Vocabularies model = [] {
    const char* const folder = std::getenv("KVD_VOCAB_DIR");
    const std::string path =
        std::string(folder == nullptr ? "../shared/vocab" : folder) + "/ggml-vocab-llama-bpe.gguf";
    Vocabularies made;
    made.tokens = Must(Vocabulary::Create(Must(ReadVocabulary(Must(GgufFile::Open(path))))));
    made.grammar = Must(GrammarVocabulary::Create(*made.tokens, made.tokens->vocab_size()));
    return made;
  }();
  return model;
}

// The processor time of the calling thread; reading it takes about 0.3 microseconds.
double ThreadMicroseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

double PartOf(std::vector<double>& times, double part) {
  const auto place =
      times.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), place, times.end());
  return *place;
}

void Measure(benchmark::State& state, const std::string& gbnf,
             const std::vector<std::string>& texts, bool is_held) {
  std::vector<std::vector<TokenId>> answers;
  for (const std::string& text : texts) answers.push_back(Must(Model().tokens->Tokenize(text, {})));
  std::vector<double> times;
  std::size_t held_bytes = 0;
  const auto follow = [&](const std::shared_ptr<Grammar>& grammar, bool is_measured) {
    for (const auto& answer : answers) {
      GrammarMatcher matcher(grammar);
      benchmark::DoNotOptimize(matcher.Mask());
      for (const TokenId token : answer) {
        const double begin = ThreadMicroseconds();
        Must(matcher.Accept(token));
        benchmark::DoNotOptimize(matcher.Mask());
        if (is_measured) times.push_back(ThreadMicroseconds() - begin);
      }
      if (!matcher.may_end()) std::fprintf(stderr, "grammar_bench: the text is no sentence\n");
    }
    held_bytes = grammar->held_bytes();
  };
  std::shared_ptr<Grammar> grammar;
  for (auto _ : state) {
    if (grammar == nullptr || !is_held) {
      state.PauseTiming();
      grammar = Must(Grammar::Compile(gbnf, Model().grammar));
      if (is_held) follow(grammar, false);
      state.ResumeTiming();
    }
    follow(grammar, true);
  }
  state.counters["tokens"] =
      static_cast<double>(times.size()) / static_cast<double>(state.iterations());
  state.counters["mean_us"] =
      std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  state.counters["median_us"] = PartOf(times, 0.5);
  state.counters["p99_us"] = PartOf(times, 0.99);
  state.counters["max_us"] = PartOf(times, 1);
  state.counters["held_MB"] = static_cast<double>(held_bytes) * 1e-6;
}

void BM_MaskCopy(benchmark::State& state) {
  std::vector<std::uint64_t> from((Model().grammar->row_size() + 63) / 64);
  std::vector<std::uint64_t> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof from[0]);
    benchmark::DoNotOptimize(to.data());
  }
}
BENCHMARK(BM_MaskCopy);

struct Subject {
  std::string name;
  std::string gbnf;
  std::vector<std::string> texts;  // sentences of the grammar
};

std::vector<Subject> OwnSubjects() {
  return {{"json", std::string(kJson), {JsonText()}},
          {"tools", ToolGrammar(), {ToolText(3), ToolText(57), ToolText(98)}},
          {"arithmetic", std::string(kArithmetic), {"a1 + (b_2*31 - (c/7)) = 12\nx*y=(z)\n"}},
          {"list", std::string(kList), {ListText()}},
          {"chess", std::string(kChess), {"1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n4. O-O Nxe4\n"}},
          {"program", std::string(kProgram), {WithoutCall(kProgramText)}}};
}

std::string TextOfFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "grammar_bench: %s cannot be read\n", path.c_str());
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

// The grammars of the folder KVD_GRAMMARS_DIR, in the order of their names.
std::vector<Subject> FurtherSubjects() {
  std::vector<Subject> subjects;
  const char* const folder = std::getenv("KVD_GRAMMARS_DIR");
  if (folder == nullptr) return subjects;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::filesystem::path path = entry.path();
    if (path.extension() != ".gbnf") continue;
    std::string gbnf = TextOfFile(path);
    const std::string name = path.stem().string() + ".gbnf";
    subjects.push_back({name, std::move(gbnf), {TextOfFile(path.replace_extension(".txt"))}});
  }
  std::ranges::sort(subjects, {}, &Subject::name);
  return subjects;
}

// Writes NAME.gbnf and NAME.txt, for several sentences NAME.0.txt and so on.
void WriteSubjects(const std::filesystem::path& folder) {
  for (const Subject& subject : OwnSubjects()) {
    std::ofstream(folder / (subject.name + ".gbnf")) << subject.gbnf;
    for (std::size_t i = 0; i < subject.texts.size(); ++i) {
      const std::string number = subject.texts.size() == 1 ? "" : Concat(".", i);
      std::ofstream(folder / (subject.name + number + ".txt")) << subject.texts[i];
    }
  }
}

void Add(const std::string& name, const std::string& gbnf, const std::vector<std::string>& texts) {
  for (const bool is_held : {false, true})
    benchmark::RegisterBenchmark(
        ("BM_GrammarToken/" + name + (is_held ? "/held" : "/new")).c_str(),
        [=](benchmark::State& state) { Measure(state, gbnf, texts, is_held); })
        ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark(("BM_GrammarCompile/" + name).c_str(), [=](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(Must(Grammar::Compile(gbnf, Model().grammar)));
    state.counters["KB"] = static_cast<double>(gbnf.size()) * 1e-3;
  })->Unit(benchmark::kMillisecond);
}

void BM_GrammarVocabularyCreate(benchmark::State& state) {
  const Vocabularies& model = Model();
  for (auto _ : state)
    benchmark::DoNotOptimize(
        Must(GrammarVocabulary::Create(*model.tokens, model.tokens->vocab_size())));
  state.counters["held_MB"] = static_cast<double>(model.grammar->held_bytes()) * 1e-6;
}
BENCHMARK(BM_GrammarVocabularyCreate)->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argument_count, char** arguments) {
  constexpr std::string_view kWrite = "--write_grammars=";
  if (argument_count == 2 && std::string_view(arguments[1]).starts_with(kWrite)) {
    WriteSubjects(arguments[1] + kWrite.size());
    return 0;
  }
  for (const Subject& subject : OwnSubjects()) Add(subject.name, subject.gbnf, subject.texts);
  for (const Subject& subject : FurtherSubjects()) Add(subject.name, subject.gbnf, subject.texts);
  benchmark::Initialize(&argument_count, arguments);
  benchmark::RunSpecifiedBenchmarks();
}
