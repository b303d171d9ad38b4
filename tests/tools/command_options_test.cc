// SPDX-License-Identifier: Apache-2.0
// Every option of every command with what it does not take: one sentence that names the option, and
// the status that docs and header state, whichever command it is of.
#include <map>
#include <set>

#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

struct Row {
  const char* arguments;
  int status;
  const char* part;  // of the sentence
};

constexpr const char* kCommands[] = {"run", "compile", "explain", "bench", "devices"};

// An option as --help lists it.
struct Listed {
  std::string name;  // "--device"
  bool has_value = false;
};

class OptionsTest : public CommandTest {
 protected:
  OptionsTest() {
    Write("copy.onnx", "copy");
    WriteNpy("in/input_0.npy", {1, 2});
    setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  }
  ~OptionsTest() override { unsetenv("HALYARD_CUDA_LIBRARY"); }

  // What else a command needs to get as far as its options.
  static std::string Needed(const std::string& command) {
    if (command == "devices") return "";
    return command == "compile" ? " copy.onnx -o out.hyp" : " copy.onnx";
  }

  std::vector<Listed> OptionsOf(const std::string& command) {
    std::vector<Listed> out;
    std::istringstream help(Run(command + " --help"));
    for (std::string line; std::getline(help, line);) {
      const size_t start = line.find_first_not_of(' ');
      if (start == std::string::npos || start > 2 || line[start] != '-') continue;
      const size_t end = std::min(line.find("  ", start), line.size());
      const std::string head = line.substr(start, end - start);
      const size_t value = head.find(' ');
      Listed option;
      const std::string rest = value == std::string::npos ? "" : head.substr(value + 1);
      option.has_value =
          !rest.empty() && !rest.starts_with("Needs:") && !rest.starts_with("Excludes:");
      const std::string names = head.substr(0, value);
      option.name = names.substr(names.find("--"));
      option.name = option.name.substr(0, option.name.find_first_of(",{"));
      if (option.name != "--help") out.push_back(option);
    }
    EXPECT_GT(out.size(), 8u) << command;
    return out;
  }
};

constexpr Row kRows[] = {
    // A device that is not there, one that cannot be, and one that is named twice.
    {"run copy.onnx --device cpu:77 --on-missing-device error", 3, "There is no CPU device 77"},
    {"compile copy.onnx -o a --device cpu:77 --no-fallback", 3, "There is no CPU device 77"},
    {"explain copy.onnx --device cuda --no-fallback", 3, "libnowhere.so.1"},
    {"bench copy.onnx --runs 5 --device cpu:77", 3, "There is no CPU device 77"},
    {"bench copy.onnx --runs 5 --device cuda", 3, "libnowhere.so.1"},
    {"devices cpu:77", 3, "There is no CPU device 77"},
    {"devices cuda", 3, "libnowhere.so.1"},
    {"explain copy.onnx --why-not conv=cpu:77", 3, "--why-not 'conv=cpu:77': There is no CPU"},
    {"explain copy.onnx --why-not conv=cuda:0", 3, "libnowhere.so.1"},
    {"run copy.onnx --memory-cap cuda=1GB", 3, "libnowhere.so.1"},
    {"run copy.onnx --affinity conv=cuda:0", 3, "libnowhere.so.1"},
    {"run copy.onnx --device gpu", 1, "There is no driver 'gpu'"},
    {"compile copy.onnx -o a --device gpu:0", 1, "There is no driver 'gpu'"},
    {"explain copy.onnx --device gpu", 1, "There is no driver 'gpu'"},
    {"bench copy.onnx --device gpu", 1, "There is no driver 'gpu'"},
    {"devices gpu", 1, "There is no driver 'gpu'"},
    {"devices null", 1, "There is no driver 'null'"},
    {"devices --why-missing gpu", 1, "there is no driver 'gpu'"},
    {"devices --why-missing null", 1, "there is no driver 'null'"},
    {"explain copy.onnx --why-not conv=gpu:0", 1, "there is no driver 'gpu'"},
    {"explain copy.onnx --why-not x=y=gpu:0?threads=1", 1, "there is no driver 'gpu'"},
    {"run copy.onnx --memory-cap gpu=1GB", 1, "there is no driver 'gpu'"},
    {"run copy.onnx --affinity conv=null:0", 1, "there is no driver 'null'"},
    {"run copy.onnx --device cpu,cpu", 1, "--device names 'cpu' twice"},
    {"compile copy.onnx -o a --device cpu,cpu:0", 1, "'cpu' and 'cpu:0', which are the same"},
    {"explain copy.onnx --device cpu,cpu", 1, "--device names 'cpu' twice"},
    {"bench copy.onnx --device cpu,cpu", 1, "--device names 'cpu' twice"},
    {"run copy.onnx --device cpu,", 1, "--device has nothing on one side of a comma"},
    {"compile copy.onnx -o a --device ,cpu", 1, "--device has nothing on one side of a comma"},
    {"explain copy.onnx --device cpu,,cpu", 1, "--device has nothing on one side of a comma"},
    {"bench copy.onnx --device cpu,", 1, "--device has nothing on one side of a comma"},
    {"run copy.onnx --device 'cpu:0?lose=1'", 1, "has no option 'lose'; it has: threads"},
    // What is given twice, in one word or two.
    {"run copy.onnx --memory-cap cpu=1GB --memory-cap cpu:0=2GB", 1,
     "--memory-cap limits 'cpu:0' twice"},
    {"run copy.onnx --shape n=1 --shape n=2", 1, "--shape gives 'n' twice"},
    {"bench copy.onnx --shape n=1,1", 1, "--shape names 'n=1' twice"},
    {"run copy.onnx --input x=@in/input_0.npy --input x=@in/input_0.npy", 1,
     "--input gives 'x' twice"},
    {"bench copy.onnx --precision fp16,fp16", 1, "--precision names 'fp16' twice"},
    // Lists with nothing on one side of a comma.
    {"bench copy.onnx --rate 5,,", 1, "--rate: '5,,' has nothing on one side of a comma"},
    {"bench copy.onnx --rate ,5", 1, "--rate: ',5' has nothing on one side of a comma"},
    {"bench copy.onnx --rate 5,x", 1, "--rate: 'x' is not a number"},
    {"bench copy.onnx --precision as-given,,fp16", 1, "has nothing on one side of a comma"},
    {"bench copy.onnx --precision fp16,", 1, "has nothing on one side of a comma"},
    {"bench copy.onnx --device cpu:0,", 1, "--device has nothing on one side of a comma"},
    {"bench copy.onnx --device cpu:0+", 1, "--device 'cpu:0+' has nothing on one side of a +"},
    {"bench copy.onnx --device +", 1, "--device '+' has nothing on one side of a +"},
    {"bench copy.onnx --device cpu:0,+cpu:0", 1, "'+cpu:0' has nothing on one side of a +"},
    {"bench copy.onnx --device cpu:0+,", 1, "has nothing on one side of a"},
    {"run copy.onnx --device cpu:0,,cuda:0", 1, "--device has nothing on one side of a comma"},
    {"compile copy.onnx -o a --device ,cpu:0", 1, "--device has nothing on one side of a comma"},
    {"explain copy.onnx --device cpu:0,", 1, "--device has nothing on one side of a comma"},
    {"bench copy.onnx --shape n=1,,2", 1, "--shape 'n=' is not SYMBOL=N"},
    {"bench --op add --shape 8x,", 1, "is not"},
    // An option is called as it was typed.
    {"bench copy.onnx -o xml", 1, "error: -o: 'xml' is not md, json or csv"},
    {"bench copy.onnx -oxml", 1, "error: -o: 'xml' is not md, json or csv"},
    {"bench copy.onnx --form xml", 1, "error: --form: 'xml' is not md, json or csv"},
    {"bench copy.onnx --form=xml", 1, "error: --form: 'xml' is not md, json or csv"},
    {"bench copy.onnx -o", 1, "error: -o needs a value"},
    {"compile copy.onnx -o ''", 1, "error: -o is given as an empty text"},
    {"bench copy.onnx -o md -o csv", 1, "error: -o is given more than once"},
    {"compile copy.onnx", 1, "error: --output is required"},
    {"compile copy.onnx -o a -o b", 1, "error: -o is given more than once"},
    {"compile copy.onnx --output a --output b", 1, "error: --output is given more than once"},
    // Forms.
    {"run copy.onnx --shape n", 1, "--shape 'n' is not SYMBOL=N"},
    {"bench copy.onnx --shape n=x", 1, "--shape 'n=x' is not SYMBOL=N"},
    {"run copy.onnx --shape n=2147483648", 1, "is not SYMBOL=N, N from 0 to 2^31 - 1"},
    {"run copy.onnx --memory-cap cpu:0", 1, "is not DEVICE=SIZE"},
    {"run copy.onnx --memory-cap cpu:0=99999999999TB", 1, "of 1 to 2^63 - 1 bytes"},
    {"run copy.onnx --affinity x=y=null:0?threads=1", 1, "there is no driver 'null'"},
    {"run copy.onnx --affinity x=prefer:", 1, "--affinity 'x=prefer:' names no device"},
    {"run copy.onnx --affinity x=cpu:0,cuda:0", 1, "names several devices; a wish names one"},
    {"devices cpu:0,", 1, "DEVICE has nothing on one side of a comma"},
    {"bench copy.onnx --cold-cache --concurrency 4", 1, "it takes no --concurrency"},
    {"run copy.onnx --memory-cap cpu:0=nan", 1, "is not DEVICE=SIZE"},
    {"run copy.onnx --memory-cap cpu:0=infGB", 1, "is not DEVICE=SIZE"},
    {"run copy.onnx --memory-cap cpu:0=-1", 1, "is not DEVICE=SIZE"},
    {"run copy.onnx --device cpu --memory-cap vulkan:77=1", 3, "--memory-cap 'vulkan:77=1'"},
    {"run copy.onnx --affinity conv", 1, "is not PATTERN=DEVICE"},
    {"run copy.onnx --input x", 1, "is not NAME=@FILE"},
    {"run copy.onnx --input z=@in/input_0.npy", 2, "there is no input 'z'"},
    {"run copy.onnx --input-dir nowhere", 2, "nowhere: there is no such folder"},
    {"run copy.onnx --expect-dir nowhere", 2, "nowhere/output_0.npy"},
    {"run copy.onnx --output-dir copy.onnx", 3, "copy.onnx: the folder cannot be made"},
    {"run copy.onnx --precision fp8", 1, "--precision: 'fp8' is not as-given or fp16"},
    {"run copy.onnx --io-precision fp8", 1, "--io-precision: 'fp8' is not"},
    {"run copy.onnx --on-missing-device no", 1, "--on-missing-device: 'no' is not"},
    {"run copy.onnx --on-unsupported-op no", 1, "--on-unsupported-op: 'no' is not"},
    {"explain copy.onnx --node nothing", 2, "The model has no node, value or op 'nothing'"},
    {"explain copy.onnx --why-not conv", 1, "--why-not takes NODE=DEVICE"},
    {"explain copy.onnx --why-not nothing=cpu:0", 2, "'nothing'"},
    {"explain copy.onnx --dot --html", 1, "one at most of"},
    {"explain copy.onnx --dot --json", 1, "excludes"},
    {"bench copy.onnx --op matmul", 1, "--op takes no model"},
    {"bench --op nothing --shape 1", 1, "there is no --op 'nothing'"},
    {"bench --op add --shape 0", 1, "--shape '0' is not"},
    {"bench --op add --shape 4 --dtype i8", 1, "--dtype 'i8' is not f32"},
    {"bench copy.onnx --form yaml", 1, "--form: 'yaml' is not md, json or csv"},
    {"bench copy.onnx --fail-if 'p50>nan'", 1, "'nan' is no number"},
    {"bench copy.onnx --fail-if 'p50>infs'", 1, "'infs' is no number"},
    {"bench copy.onnx --fail-if 'p50>1e999s'", 1, "'1e999s' is no number"},
    {"bench --compare a.json", 1, "--compare needs 2 values"},
    {"bench --compare a.json b.json", 2, "'a.json' cannot be read"},
    {"devices --diff a.json b.json", 2, "'a.json' cannot be read"},
    {"devices --diff a.json", 1, "--diff needs 2 values"},
    {"devices --again", 1, "--again requires --probe"},
    // Commands and words that are none.
    {"dance", 1, "there is no sub-command 'dance'"},
    {"", 1, "a sub-command is needed"},
    {"run", 1, "MODEL is required"},
    {"run --frob", 1, "halyard run has no option '--frob' (see halyard run --help)"},
    {"compile --outptu a", 1, "has no option '--outptu'; near it are"},
    {"compile copy.onnx --frob", 1, "halyard compile has no option '--frob'"},
    {"explain --nod x --html --json", 1, "has no option '--nod'; near it are '--node'"},
    {"bench --frob", 1, "halyard bench has no option '--frob'"},
    {"devices --again --frob", 1, "halyard devices has no option '--frob'"},
    {"run copy.onnx --shape n=4,m=2", 1, "--shape 'n=4,m=2' gives several sizes; each takes"},
    {"bench copy.onnx --shape n=4,m=2", 1, "--shape 'n=4,m=2' gives several sizes; each takes"},
    {"run copy.onnx other.onnx", 1, "'other.onnx' is one argument too many"},
    {"run copy.onnx --devise cpu", 1, "has no option '--devise'; near it are"},
    {"run copy.onnx --device", 1, "--device needs a value"},
    {"run none.onnx", 2, "none.onnx"},
    {"compile none.onnx -o a", 2, "none.onnx"},
    {"explain none.onnx", 2, "none.onnx"},
    {"bench none.onnx", 2, "none.onnx"},
};

TEST_F(OptionsTest, EachRefusalIsOneSentenceWithItsStatus) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.arguments);
    ExpectError(Run(std::string(row.arguments) + " 2>&1 >/dev/null; exit $?"), row.status,
                row.part);
  }
}

// NaN passes comparisons with bounds unless it is looked for.
TEST_F(OptionsTest, NumbersAreFiniteAndWithinTheirBounds) {
  const std::map<std::string, std::vector<std::string>> numeric = {
      {"run", {"--rtol", "--atol", "--seed"}},
      {"bench",
       {"--rtol", "--atol", "--seed", "--seconds", "--warm-up", "--runs", "--concurrency",
        "--rate"}},
      {"devices", {"--probe --seconds"}}};
  for (const auto& [command, options] : numeric) {
    for (const std::string& option : options) {
      for (const char* value : {"nan", "-nan", "inf", "-inf", "infinity", "1e999", "-1", "x", "1x",
                                "0x10", "''", "' 1'", "'1 '", "+1", "-0"}) {
        const std::string arguments = command + Needed(command) + " " + option + "=" + value;
        SCOPED_TRACE(arguments);
        ExpectError(Run(arguments), 1, option.substr(option.rfind("--")));
      }
    }
  }
}

// The same of the numbers within other texts.
TEST_F(OptionsTest, NumbersWithinTextsAreDigits) {
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"run copy.onnx --shape 'n=", "'"},
      {"compile copy.onnx -o out.hyp --shape 'n=", "'"},
      {"bench --op matmul --shape '4x", "x4'"},
      {"bench copy.onnx --fail-if 'cv<", "'"},
      {"bench copy.onnx --rate '2,", "'"},
      {"run copy.onnx --memory-cap 'cpu:0=", "'"},
      {"run copy.onnx --device 'cpu:0?threads=", "'"},
      {"run copy.onnx --device 'cpu:", "'"}};
  for (const auto& [before, after] : forms) {
    for (const char* value : {"-0", "+3", " 3", "3 ", "", "-", "0x3"}) {
      const std::string arguments = before + value + after;
      SCOPED_TRACE(arguments);
      ExpectError(Run(arguments + " 2>&1 >/dev/null; exit $?"), 1, "'");
    }
  }
  // CLI11 by itself takes what begins with 0 for octal, and refuses these.
  const std::string runs = "bench copy.onnx --no-check --no-profile --warm-up 0";
  EXPECT_EQ(Run(runs + " --runs 09 --seed 09 2>&1 >/dev/null; echo $?"), "0\n");
}

TEST_F(OptionsTest, FlagsTakeNoValueAndOthersOnlyOne) {
  const std::set<std::string> lists = {"--shape",   "--affinity", "--memory-cap", "--input",
                                       "--fail-if", "--rate",     "--diff",       "--compare"};
  const std::map<std::string, std::string> values = {{"--precision", "fp16"},
                                                     {"--io-precision", "fp16"},
                                                     {"--on-missing-device", "warn"},
                                                     {"--on-unsupported-op", "warn"},
                                                     {"--form", "md"}};
  for (const std::string command : kCommands) {
    for (const Listed& option : OptionsOf(command)) {
      const std::string start = command + Needed(command) + " " + option.name;
      SCOPED_TRACE(start);
      if (!option.has_value) {
        ExpectError(Run(start + "=x"), 1, option.name + " takes no value; given was 'x'");
        ExpectError(Run(start + "=false"), 1, option.name + " takes no value");
        continue;
      }
      ExpectError(Run(start + "= 2>&1 >/dev/null; exit $?"), 1, option.name);
      if (lists.contains(option.name) || (command == "bench" && option.name == "--precision"))
        continue;
      const auto found = values.find(option.name);
      const std::string value = found == values.end() ? "1" : found->second;
      ExpectError(Run(start + " " + value + " " + option.name + " " + value), 1,
                  option.name + " is given more than once");
    }
  }
}

// A program reads standard output: what failed is there too, and nothing else is.
TEST_F(OptionsTest, WithJsonAFailureIsAnObject) {
  Write("bad.onnx", "bad");
  for (const auto& [arguments, status] : {std::pair("run none.onnx --json", 2),
                                          {"run bad.onnx --json", 2},
                                          {"compile bad.onnx -o a --json", 2},
                                          {"explain bad.onnx --json", 2},
                                          {"devices cpu:77 --json", 3},
                                          {"bench --json", 1},
                                          {"bench copy.onnx -o json --fail-if x", 1},
                                          {"run copy.onnx --json --nonsense", 1},
                                          {"run copy.onnx --json=x", 1}}) {
    SCOPED_TRACE(arguments);
    const std::string out = Run(std::string(arguments) + " 2>errors; exit $?");
    EXPECT_EQ(status_, status) << out;
    const std::string errors = Read("errors");
    EXPECT_THAT(errors, testing::StartsWith("halyard: error: "));
    if (std::string(arguments).find("--json=x") != std::string::npos) continue;
    EXPECT_THAT(out, testing::StartsWith("{\n  \"error\": {\n    \"status\": " +
                                         std::to_string(status) + ",\n    \"message\": \""));
    EXPECT_THAT(out, testing::EndsWith("\"\n  }\n}\n"));
  }
}

TEST_F(OptionsTest, WarningsSaySoAndRunsSayWhere) {
  Write("warn.onnx", "warn");
  const std::string out = Run("run warn.onnx --shape n=3 2>errors; exit $?");
  EXPECT_EQ(Read("errors"), "halyard: warning: warn.onnx: It is odd.\n");
  EXPECT_THAT(out, testing::ContainsRegex("\ncompiled in .*, ran on cpu:0 in "));
  EXPECT_THAT(Run("run warn.onnx --shape n=3 2>errors"),
              testing::ContainsRegex("\nloaded from the cache in .*, ran on cpu:0 in "));
  Run("compile warn.onnx -o warn.hyp 2>errors");
  EXPECT_THAT(Run("run warn.hyp 2>errors"),
              testing::ContainsRegex("\nloaded in .*, ran on cpu:0 in "));
  EXPECT_THAT(Run("run copy.onnx --json"),
              testing::AllOf(testing::ContainsRegex("\"devices\": \\[\n *\"cpu:0\"\n"),
                             testing::HasSubstr("\"opened\": \"compiled\""),
                             testing::Not(testing::HasSubstr("sizes_open_seconds"))));
  // What it compiles for the sizes of its inputs is no part of the run.
  EXPECT_THAT(Run("run copy.onnx --input-dir in --compile-shapes"),
              testing::ContainsRegex("\nloaded from the cache in .*, "
                                     "for exactly these sizes in .*, ran on cpu:0 in "));
  EXPECT_THAT(Run("run copy.onnx --input-dir in --compile-shapes --json"),
              testing::HasSubstr("\"sizes_open_seconds\": "));
  EXPECT_THAT(Run("run copy.onnx --device cuda"),
              testing::StartsWith("halyard: warning: device 'cuda' is left out: "));
}

TEST_F(OptionsTest, DebugLinesTellWhatWasDone) {
  setenv("HALYARD_LOG", "debug", 1);
  for (const char* cached : {"not in the cache", "in the cache"}) {
    const std::string out = Run("run copy.onnx --shape n=3 2>&1 >/dev/null; exit $?");
    for (const std::string part :
         {"halyard: debug: driver 'cpu' has 1 device\n", "halyard: debug: device 'cpu:0' is open\n",
          "halyard: debug: copy.onnx: fingerprint took ",
          "halyard: debug: copy.onnx: load took "}) {
      EXPECT_THAT(out, testing::HasSubstr(part));
    }
    EXPECT_THAT(out, testing::HasSubstr(".hyp' is " + std::string(cached) + "\n"));
  }
  unsetenv("HALYARD_LOG");
  EXPECT_EQ(Run("run copy.onnx --shape n=3 2>&1 >/dev/null; exit $?"), "");
}

// What the program was compiled to keep to is kept by its file.
TEST_F(OptionsTest, AMemoryCapStaysWithTheProgram) {
  Write("weigh.onnx", "weigh");
  ExpectError(Run("compile weigh.onnx -o a.hyp --memory-cap cpu:0=4000"), 3, "the cap is 4000");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a.hyp"));
  Run("compile weigh.onnx -o a.hyp --memory-cap cpu:0=20000");
  EXPECT_EQ(status_, 0);
  for (const char* model : {"a.hyp", "weigh.onnx --memory-cap cpu:0=20000"}) {
    SCOPED_TRACE(model);
    Run("run " + std::string(model) + " --shape n=100");
    EXPECT_EQ(status_, 0);
    ExpectError(Run("run " + std::string(model) + " --shape n=30000"), 3, "the cap is 20000");
    EXPECT_THAT(Run("explain " + std::string(model)),
                testing::HasSubstr("cpu:0: all that the program takes stays within the cap of "));
    EXPECT_THAT(Run("explain --json " + std::string(model)),
                testing::HasSubstr("\"cap_bytes\": 20000"));
  }
  EXPECT_THAT(Run("explain weigh.onnx"), testing::Not(testing::HasSubstr("the cap of")));
}

}  // namespace
}  // namespace halyard
