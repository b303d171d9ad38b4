// SPDX-License-Identifier: Apache-2.0
// The command `halyard` as a user sees it: what it writes, its one-line errors and its exit
// statuses. The compiler library is the stand-in, which takes text for a model. Devices and bench:
// command_devices_bench_test.cc.
#include <sys/stat.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/tools/command_fixture.h"

namespace halyard {
namespace {

TEST_F(CommandTest, ACachedProgramHidesNoPass) {
  Write("copy.onnx", "copy");
  // As JSON: text sums the phases that take no time to speak of.
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp --json"), testing::HasSubstr("cache lookup"));
  for (const char* variable : {"HALYARD_DUMP", "HALYARD_STOP_AFTER", "HALYARD_DISABLE_PASS"}) {
    setenv(variable, "fuse", 1);
    const std::string phases = Run("compile copy.onnx -o b.hyp --json");
    unsetenv(variable);
    EXPECT_EQ(status_, 0) << phases;
    EXPECT_THAT(phases, testing::Not(testing::HasSubstr("cache lookup"))) << variable;
    EXPECT_THAT(phases, testing::Not(testing::HasSubstr("store"))) << variable;
  }
}

TEST_F(CommandTest, RunWritesWhatItRead) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1.5f, -2.0f, 3.25f});
  const std::string out = Run("run copy.onnx --input-dir in --output-dir out");
  EXPECT_EQ(status_, 0) << out;
  EXPECT_THAT(out, testing::HasSubstr("output y [3]: min -2, max 3.25"));
  const std::string written = Read("out/output_0.npy");
  ASSERT_GE(written.size(), 12u);
  EXPECT_EQ(written.size() % 64, 12u);
  EXPECT_EQ(written.substr(written.size() - 12), Read("in/input_0.npy").substr(128));
  EXPECT_THAT(Run("run copy.onnx --input x=@in/input_0.npy --json"),
              testing::HasSubstr("\"run_seconds\""));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, CompileTellsWhatTheCacheHad) {
  Write("copy.onnx", "copy");
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp"), testing::StartsWith("wrote a.hyp\n"));
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp"),
              testing::StartsWith("wrote a.hyp, as the cache had it: nothing was compiled"));
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp --json"),
              testing::HasSubstr("\"opened\": \"loaded from the cache\""));
  EXPECT_THAT(Run("compile copy.onnx -o a.hyp --replan"), testing::StartsWith("wrote a.hyp\n"));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, OutputsWithoutElementsSaySo) {
  Write("copy.onnx", "copy");
  EXPECT_THAT(Run("run copy.onnx --shape n=0"), testing::StartsWith("output y [0]: no elements\n"));
}

TEST_F(CommandTest, RandomInputsComeFromTheSeed) {
  Write("copy.onnx", "copy");
  const auto output = [&](const std::string& options) {
    EXPECT_EQ((Run("run copy.onnx --output-dir out " + options), status_), 0);
    return Read("out/output_0.npy");
  };
  const std::string one = output("--seed 1 --shape n=100");
  EXPECT_EQ(one.size(), 128u + 400u);
  EXPECT_EQ(output("--seed 1 --shape n=100"), one);
  EXPECT_NE(output("--seed 2 --shape n=100"), one);
}

TEST_F(CommandTest, Expectations) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  WriteNpy("good/output_0.npy", {1, 2, 3.0001f});
  WriteNpy("bad/output_0.npy", {1, 2, 4});
  WriteNpy("short/output_0.npy", {1, 2});
  Run("run copy.onnx --input-dir in --expect-dir good --rtol 1e-3");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir bad"),
              testing::HasSubstr("output 'y': element 2 is 3; 4 is expected"));
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(Run("run copy.onnx --input-dir in --expect-dir short"),
              testing::HasSubstr("output 'y': it is f32[3]; f32[2] is expected"));
  EXPECT_EQ(status_, 4);
  WriteNpy("good/output_1.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir in --expect-dir good"), 2,
              "good/output_1.npy is there; the model has 1 output");
}

TEST_F(CommandTest, CompileThenRunWithoutACompiler) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  EXPECT_THAT(Run("compile copy.onnx -o copy.hyp"), testing::HasSubstr("wrote copy.hyp"));
  EXPECT_EQ(status_, 0);
  setenv("HALYARD_COMPILER_LIBRARY", "/nonexistent.so", 1);
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 2);  // there is no output_0.npy in that folder
  std::filesystem::copy(folder_ + "/in/input_0.npy", folder_ + "/in/output_0.npy");
  Run("run copy.hyp --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  Run("run copy.hyp --shape n=3 --input-dir in --expect-dir in");
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.hyp --shape m=3"), 1,
              "copy.hyp has no open size 'm'; its open sizes: 'n'");
  Write("other.onnx", "copy other");
  ExpectError(Run("run other.onnx"), 3, "The compiler library cannot be opened");
}

TEST_F(CommandTest, Explain) {
  Write("copy.onnx", "copy");
  const std::string text = Run("explain copy.onnx");
  EXPECT_EQ(status_, 0);
  EXPECT_THAT(text, testing::HasSubstr("placement\n  cpu:0: 2 copies\n"));
  EXPECT_THAT(text, testing::HasSubstr("fusion groups\n  group: a made-up record"));
  EXPECT_THAT(Run("explain copy.onnx --dot"), testing::StartsWith("digraph"));
  EXPECT_THAT(Run("explain copy.onnx --json"), testing::HasSubstr("\"placement\""));
  EXPECT_THAT(Run("explain copy.onnx --commands"), testing::StartsWith("program \""));
  const std::string page = Run("explain copy.onnx --html");
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::HasSubstr("a made-up record"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));  // refers to nothing outside
}

TEST_F(CommandTest, ExplainOneNode) {
  Write("copy.onnx", "copy");
  EXPECT_EQ(Run("explain copy.onnx --node folded"),
            "node: folded\nop: Add\nfate: gone after pass 'fold-constants'\n");
  EXPECT_EQ(Run("explain copy.onnx --node slow"),
            "node: slow\nop: Relu\nfate: in the interpreter\n"
            "fallback: Op 'odd' runs in the interpreter: no lowering\n");
  EXPECT_THAT(Run("explain copy.onnx --node slow --json"),
              testing::HasSubstr("\"in the interpreter\""));
  ExpectError(Run("explain copy.onnx --node none"), 2,
              "The model has no node, value or op 'none'.\n");
  ExpectError(Run("explain copy.onnx --node slw"), 2,
              "The model has no node, value or op 'slw'; near it are 'slow'.\n");
  ExpectError(Run("explain copy.onnx --node x"), 2, "'x' is an input of the model (f32)");
  ExpectError(Run("explain copy.onnx --node filter"), 2,
              "'filter' is a weight of the model (f32[8, 3]), which no node makes; 'conv' reads "
              "it.\n");
  ExpectError(Run("explain copy.onnx --why-not shared=cpu:0"), 2,
              "'shared' is a weight of the model (i64[]), which no node makes; 'conv', 'slow' read "
              "it.\n");
  for (const char* form : {"--dot", "--html", "--commands"}) {
    ExpectError(Run("explain copy.onnx --json " + std::string(form)), 1,
                "--json excludes " + std::string(form));
  }
  Write("odd.onnx", "interpret");  // y = x, in the interpreter of cpu:0
  EXPECT_THAT(Run("explain odd.onnx --why-not slow=cpu:0"),
              testing::StartsWith("RUNS_THERE: Node 'slow' runs on 'cpu:0', in the interpreter."));
  EXPECT_THAT(Run("explain copy.onnx --why-not folded=cpu:0"),
              testing::StartsWith("COMPUTED_AT_COMPILE_TIME: Node 'folded' runs on no device"));
  EXPECT_EQ(Run("explain copy.onnx --why-not slow=cpu:0"),
            "UNSUPPORTED_OP: Op 'odd' runs in the interpreter: no lowering\n");
  // A device that is here, and not asked for.
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  EXPECT_THAT(Run("explain copy.onnx --why-not slow=cpu:1"),
              testing::StartsWith("NOT_ASKED_FOR: Device 'cpu:1' has no part in this"));
  EXPECT_EQ(status_, 0);
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
  ExpectError(Run("explain copy.onnx --why-not slow"), 1, "--why-not takes NODE=DEVICE");
}

TEST_F(CommandTest, ExplainFindsWhatTheUserKnows) {
  Write("copy.onnx", "copy");
  EXPECT_EQ(Run("explain copy.onnx --node sum"),
            "'sum' is a value; the node that makes it:\nnode: folded\nop: Add\n"
            "fate: gone after pass 'fold-constants'\n");
  EXPECT_THAT(
      Run("explain copy.onnx --node conv_2"),
      testing::AllOf(testing::StartsWith("'conv_2' is a dispatch that computes 2 nodes:\n"),
                     testing::HasSubstr("node: conv\nop: Conv\nfate: in dispatch 'conv_2'\n"),
                     testing::HasSubstr("together_with: relu\n"),
                     testing::HasSubstr("\n\nnode: relu\n")));
  EXPECT_THAT(Run("explain copy.onnx --node rElU"),
              testing::AllOf(testing::StartsWith("'rElU' is the op of 2 nodes:\nnode: relu\n"),
                             testing::HasSubstr("\n\nnode: slow\n")));
  EXPECT_THAT(Run("explain copy.onnx --node folded_3"),
              testing::StartsWith("'folded_3' is a part of a node that the compiler named"));
  EXPECT_THAT(Run("explain copy.onnx --node Relu --json"), testing::StartsWith("[\n"));
  ExpectError(Run("explain copy.onnx --why-not Conv=abacus"), 1, "there is no driver 'abacus'");
  EXPECT_THAT(Run("explain copy.onnx --why-not Conv=cpu"), testing::HasSubstr(": "));
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, AProgramRefusesWhatOnlyModelsTake) {
  Write("copy.onnx", "copy");
  Run("compile copy.onnx -o copy.hyp");
  ExpectError(Run("run copy.hyp --no-tune --precision fp16"), 1,
              "copy.hyp is a compiled program, which keeps what it was compiled with; for models "
              "only: --no-tune, --precision");
  for (const char* option :
       {"--no-cache", "--replan", "--verify-plan", "--compile-shapes", "--affinity a=cpu:0",
        "--memory-cap cpu=1GB", "--on-unsupported-op warn", "--precision as-given",
        "--io-precision fp16", "--no-vendor-libs"}) {
    ExpectError(Run("run copy.hyp " + std::string(option)), 1,
                "for models only: " + std::string(option).substr(0, std::string(option).find(' ')));
  }
  ExpectError(Run("explain copy.hyp --shape n=3"), 1, "--shape fixes sizes of models only");
  ExpectError(Run("bench copy.hyp --precision fp16 --runs 1"), 1, "for models only: --precision");
  ExpectError(Run("bench copy.hyp --replan --runs 1"), 1, "for models only: --replan");
  ExpectError(Run("compile copy.hyp -o other.hyp"), 1, "is a compiled program already");
  Run("run copy.hyp --shape n=3 --device cpu:0 --on-missing-device error");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, MemoryCapsTakeUnits) {
  Write("copy.onnx", "copy");
  for (const char* size : {"1", "2000000", "1B", "64K", "64k", "64KB", "64KiB", "1.5mb", "1.5MiB",
                           "2G", "2GB", "2GiB", "2gib", "1T", "1TB", "1TiB", "0.5KiB"}) {
    const std::string out =
        Run("run copy.onnx --shape n=0 --memory-cap cpu:0=" + std::string(size));
    EXPECT_THAT(out, testing::Not(testing::HasSubstr("is not DEVICE=SIZE"))) << size;
  }
  // The cap itself: 1 KB holds 1000 bytes, 1 KiB 1024, and so does 1K.
  for (const auto& [size, bytes] : {std::pair("1KB", "1000"),
                                    {"1KiB", "1024"},
                                    {"1k", "1024"},
                                    {"0.75MB", "750000"},
                                    {"1000", "1000"}}) {
    const std::string out =
        Run("run copy.onnx --shape n=1000000 --memory-cap cpu:0=" + std::string(size));
    EXPECT_EQ(status_, 3) << out;
    EXPECT_THAT(out, testing::HasSubstr("the cap is " + std::string(bytes))) << size;
  }
  for (const char* size : {"", "0", "-1", "1X", "1KX", "1BB", "1KiBB", "GB", "1e3", "1.5",
                           "9999999T", "1 GB", "nan", "inf"}) {
    ExpectError(Run("run copy.onnx --memory-cap 'cpu:0=" + std::string(size) + "'"), 1,
                "is not DEVICE=SIZE, such as cuda:0=2GB; a size is a number of bytes, or one with "
                "KB, MB, GB, TB, KiB, MiB, GiB or TiB");
  }
}

TEST_F(CommandTest, NamesThatNobodyKnowsAreAnsweredWithThoseThatAreKnown) {
  Write("copy.onnx", "copy");
  ExpectError(Run("run copy.onnx --shapes n=3"), 1,
              "halyard run has no option '--shapes'; near it are '--shape'");
  ExpectError(Run("devices --prob"), 1,
              "halyard devices has no option '--prob'; near it are '--probe'");
  ExpectError(Run("explain copy.onnx --nodes x"), 1, "near it are '--node'");
  ExpectError(Run("run copy.onnx more"), 1,
              "'more' is one argument too many (see halyard run --help)");
  ExpectError(Run("run copy.onnx --device"), 1, "--device needs a value (see halyard run --help)");
  ExpectError(Run("explain copy.onnx --dot --html"), 1,
              "one at most of [--dot,--html,--commands,--node,--why-not] can be given");
  ExpectError(Run("runs copy.onnx"), 1,
              "there is no sub-command 'runs'; there are 'devices', 'run'");
  ExpectError(Run("run copy.onnx --precision fp8"), 1,
              "--precision: 'fp8' is not as-given or fp16");
  ExpectError(Run("run copy.onnx --input z=@a.npy"), 2, "there is no input 'z'; its inputs: 'x'");
}

TEST_F(CommandTest, AFolderWithoutInputsIsNotTakenForRandomOnes) {
  Write("copy.onnx", "copy");
  WriteNpy("other/x.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir other"), 2,
              "other/x.npy is there, which no input takes");
  WriteNpy("two/input_0.npy", {1});
  WriteNpy("two/input_1.npy", {1});
  ExpectError(Run("run copy.onnx --input-dir two"), 2,
              "two/input_1.npy is there, which no input takes; the model has 1 input");
}

TEST_F(CommandTest, FilesThatNoInputTakesAreNamed) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2});
  WriteNpy("in/output_0.npy", {1, 2});
  Run("run copy.onnx --input-dir in");
  EXPECT_EQ(status_, 0);
  WriteNpy("in/x.npy", {1, 2});
  ExpectError(Run("run copy.onnx --input-dir in"), 2, "in/x.npy is there, which no input takes");
  ExpectError(Run("run copy.onnx --input x=@in/x.npy --input x=@in/x.npy"), 1,
              "--input gives 'x' twice");
}

TEST_F(CommandTest, DriversAndKindsOfWishesThatDoNotExistAreWrongUsage) {
  Write("copy.onnx", "copy");
  ExpectError(
      Run("run copy.onnx --affinity slow=gpu:0"), 1,
      "--affinity 'slow=gpu:0': there is no driver 'gpu'; this build has: cpu, cuda, vulkan");
  ExpectError(Run("run copy.onnx --affinity slow=prefr:cpu:0"), 1,
              "'prefr:' is not require:, prefer: or forbid:");
}

TEST_F(CommandTest, AProgramNamesTheDevicesThatItNeeds) {
  Write("copy.onnx", "copy");
  Run("compile copy.onnx -o copy.hyp");
  ASSERT_EQ(status_, 0);
  const std::string out = Run("run copy.hyp --device vulkan:0");
  EXPECT_THAT(out, testing::HasSubstr("needs the devices that it was compiled for, in their order: "
                                      "'cpu:0'; given are: 'vulkan:0'."));
  EXPECT_EQ(status_, 2) << out;
  // A device that is missing is not replaced by another one, whatever the policy.
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  for (const char* policy : {"", " --on-missing-device fallback", " --on-missing-device warn",
                             " --on-missing-device error"}) {
    const std::string missing = Run("run copy.hyp --device cuda:0" + std::string(policy));
    ExpectError(missing, 3, "copy.hyp: device cuda:0: ");
    EXPECT_THAT(missing, testing::AllOf(testing::HasSubstr("'libnowhere.so.1'"),
                                        testing::HasSubstr("needs all of its devices"),
                                        testing::Not(testing::HasSubstr("cpu:0"))));
  }
  unsetenv("HALYARD_CUDA_LIBRARY");
  ExpectError(Run("run copy.hyp --device cpu:0,cpu"), 1, "'cpu:0' and 'cpu', which are the same");
}

TEST_F(CommandTest, AnExpectationOfAnotherShapeIsNoErrorOfZero) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2});
  WriteNpy("expected/output_0.npy", {1, 2, 3});
  const std::string out = Run("run copy.onnx --input-dir in --expect-dir expected");
  EXPECT_EQ(status_, 4);
  EXPECT_THAT(out, testing::HasSubstr("; it differs: it is f32[2]; f32[3] is expected"));
  EXPECT_THAT(out, testing::Not(testing::HasSubstr("largest error")));
}

// NaN where NaN is expected, and nowhere else; the same of infinities.
TEST_F(CommandTest, NotANumberIsEqualOnlyWhereItIsExpected) {
  Write("copy.onnx", "copy");
  const float nan = NAN, inf = INFINITY;
  WriteNpy("in/input_0.npy", {nan, 1, inf});
  WriteNpy("same/output_0.npy", {-nan, 1, inf});
  const std::string same = Run("run copy.onnx --input-dir in --expect-dir same");
  EXPECT_EQ(status_, 0) << same;
  EXPECT_THAT(same, testing::HasSubstr("y [3]: 1 NaN, the others min 1, max inf, mean inf, largest "
                                       "error 0 absolute"));
  WriteNpy("number/output_0.npy", {2, 1, inf});
  WriteNpy("nan/output_0.npy", {nan, nan, inf});
  WriteNpy("sign/output_0.npy", {nan, 1, -inf});
  for (const auto& [folder, what] : {std::pair("number", "element 0 is nan; 2 is expected"),
                                     {"nan", "element 1 is 1; nan is expected"},
                                     {"sign", "element 2 is inf; -inf is expected"}}) {
    const std::string out = Run("run copy.onnx --input-dir in --rtol 1e9 --atol 1e9 --expect-dir " +
                                std::string(folder));
    EXPECT_EQ(status_, 4) << out;
    EXPECT_THAT(out, testing::HasSubstr("output 'y': " + std::string(what)));
    EXPECT_THAT(out, testing::HasSubstr("; it differs: " + std::string(what)));
    EXPECT_THAT(out, testing::Not(testing::HasSubstr("largest error")));
  }
  // A small error elsewhere is not told as the largest.
  WriteNpy("in/input_0.npy", {1, nan});
  WriteNpy("both/output_0.npy", {1.5f, 1});
  EXPECT_THAT(Run("run copy.onnx --input-dir in --atol 1 --expect-dir both --json"),
              testing::HasSubstr("\"difference\": \"element 1 is nan; 1 is expected"));
  EXPECT_THAT(Run("run copy.onnx --input-dir in --atol 1 --expect-dir both"),
              testing::Not(testing::HasSubstr("largest error")));
  WriteNpy("in/input_0.npy", {nan, nan});
  EXPECT_THAT(Run("run copy.onnx --input-dir in"), testing::StartsWith("output y [2]: all NaN\n"));
}

TEST_F(CommandTest, HelpTellsDefaultsAndStatuses) {
  for (const char* command : {"", "run ", "compile ", "explain ", "devices ", "bench "}) {
    EXPECT_THAT(Run(std::string(command) + "--help"),
                testing::HasSubstr("Exit status: 0 done; 1 wrong usage; 2 the model"));
    EXPECT_EQ(status_, 0);
  }
  const std::string help = Run("run --help");
  EXPECT_THAT(help, testing::HasSubstr("--rtol FLOAT=0.0001"));
  EXPECT_THAT(help, testing::HasSubstr("--seed UINT=1"));
  EXPECT_THAT(help, testing::HasSubstr("{as-given,fp16}=as-given"));
  EXPECT_THAT(help, testing::HasSubstr("GiB"));
}

TEST_F(CommandTest, TheEnvironmentIsChecked) {
  Write("copy.onnx", "copy");
  setenv("HALYARD_LOG", "bogus", 1);
  setenv("HALYARD_THREADS", "many", 1);
  const std::string out = Run("run copy.onnx");
  unsetenv("HALYARD_THREADS");
  EXPECT_THAT(
      out,
      testing::AllOf(testing::HasSubstr("halyard: warning: The environment variable HALYARD_LOG is "
                                        "'bogus'; "
                                        "it takes error, warning, info, debug or off, and warning "
                                        "holds.\n"),
                     testing::HasSubstr("HALYARD_THREADS is 'many'; it takes a whole number")));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2 + 2) << out;
  setenv("HALYARD_LOG", "warning", 1);
  setenv("HALYARD_VALIDATE", "maybe", 1);
  EXPECT_THAT(Run("devices"),
              testing::StartsWith("halyard: warning: The environment variable HALYARD_VALIDATE is "
                                  "'maybe'; it takes 0 or 1, and 0 holds.\n"));
  unsetenv("HALYARD_VALIDATE");
  setenv("HALYARD_LOG", "off", 1);
  setenv("HALYARD_VALIDATE", "perhaps", 1);
  EXPECT_THAT(Run("run copy.onnx"), testing::StartsWith("output y"));
  unsetenv("HALYARD_VALIDATE");
  unsetenv("HALYARD_LOG");
  EXPECT_THAT(Run("run copy.onnx"), testing::StartsWith("output y"));
}

TEST_F(CommandTest, ErrorsAreOneLineWithTheirStatus) {
  Write("bad.onnx", "bad");
  Write("copy.onnx", "copy");
  Write("text.npy", "this is no array");
  ExpectError(Run("run none.onnx"), 2, "none.onnx");
  ExpectError(Run("run bad.onnx"), 2, "bad.onnx: Node 'g' is wrong.");
  ExpectError(Run("run copy.onnx --input x=@text.npy"), 2, "text.npy");
  ExpectError(Run("run copy.onnx --input z=@text.npy"), 2, "there is no input 'z'");
  ExpectError(Run("run copy.onnx --input x"), 1, "is not NAME=@FILE.npy");
  ExpectError(Run("run copy.onnx --shape n"), 1, "is not SYMBOL=N");
  ExpectError(Run("run copy.onnx --device cpu:99 --no-fallback"), 3, "cpu:99");
  ExpectError(Run("run copy.onnx --device cpu:0?x=1"), 1, "device 'cpu:0?x=1': ");
  ExpectError(Run("run"), 1, "MODEL is required");
  ExpectError(Run("dance"), 1, "halyard --help");
  ExpectError(Run(""), 1,
              "a sub-command is needed: 'devices', 'run', 'compile', 'explain', 'bench'");
  ExpectError(Run("run copy.onnx --device gpu --shape n=4"), 1,
              "device 'gpu': There is no driver 'gpu'; this build has: cpu, cuda, vulkan");
  ExpectError(Run("run copy.onnx --device cpu:0,gpu:1 --on-missing-device fallback"), 1, "'gpu'");
  ExpectError(Run("compile copy.onnx -o a.hyp --device ''"), 1,
              "--device is given as an empty text");
  ExpectError(Run("bench copy.onnx --device cpu:0,gpu"), 1, "There is no driver 'gpu'");
  ExpectError(Run("devices gpu"), 1, "There is no driver 'gpu'");
  setenv("HALYARD_CUDA_LIBRARY", "libnowhere.so.1", 1);
  EXPECT_THAT(Run("run copy.onnx --device cuda --shape n=4"),
              testing::HasSubstr("'cuda' is left out"));
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.onnx --device cuda --on-missing-device error"), 3, "device cuda");
  unsetenv("HALYARD_CUDA_LIBRARY");
  Run("--help");
  EXPECT_EQ(status_, 0);
}

TEST_F(CommandTest, ValuesThatNoOptionTakes) {
  Write("copy.onnx", "copy");
  for (const char* value : {"99999999999999999999", "-1", "1.5", "", "0x3", " 3"}) {
    ExpectError(Run("run copy.onnx --shape 'n=" + std::string(value) + "'"), 1, "is not SYMBOL=N");
  }
  for (const char* value : {"nan", "inf", "-1", "x", "''"}) {
    ExpectError(Run("run copy.onnx --rtol=" + std::string(value)), 1, "--rtol");
    ExpectError(Run("run copy.onnx --atol=" + std::string(value)), 1, "--atol");
  }
  for (const char* value : {"-1", "1e3", "99999999999999999999", "x"}) {
    ExpectError(Run("run copy.onnx --seed=" + std::string(value)), 1, "--seed");
  }
  ExpectError(Run("run copy.onnx --device 'cpu:0?threads=1&threads=2'"), 1, "given twice");
  ExpectError(Run("dance copy.onnx"), 1, "there is no sub-command 'dance'");
  ExpectError(Run("run copy.onnx --output-dir copy.onnx"), 3,
              "copy.onnx: the folder cannot be made");
}

TEST_F(CommandTest, SyntheticDevicesThatCannotBeSayWhichAndWhere) {
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1;speed=3", 1);
  EXPECT_THAT(Run("devices"), testing::HasSubstr("HALYARD_SYNTHETIC_DEVICES describes device cpu:2 "
                                                 "as 'speed=3': The CPU driver has no option "
                                                 "'speed'"));
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1", 1);
  const std::string text = Run("devices");
  EXPECT_THAT(text, testing::HasSubstr("\ncpu:1\nauto leaves it out: it is synthetic\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("cpu:0\nauto leaves it out")));
  setenv("HALYARD_SYNTHETIC_DEVICES", "threads=1;", 1);
  EXPECT_THAT(Run("devices"), testing::Not(testing::HasSubstr("cpu:2")));
  setenv("HALYARD_SYNTHETIC_DEVICES", ";threads=1", 1);
  EXPECT_THAT(Run("devices"), testing::HasSubstr("cpu:2")) << "an empty one has the defaults";
  unsetenv("HALYARD_SYNTHETIC_DEVICES");
}

TEST_F(CommandTest, OutputThatIsLostIsAFailure) {
  Write("copy.onnx", "copy");
  for (const char* command :
       {"run copy.onnx", "run copy.onnx --json", "devices", "explain copy.onnx", "--help",
        "--version", "run --help", "compile copy.onnx -o a.hyp"}) {
    for (const char* lost : {" >/dev/full", " >&-", " >&- <&-"}) {
      EXPECT_THAT(Run(std::string(command) + " 2>err" + lost + "; echo status $?"),
                  testing::HasSubstr("status 3"))
          << command << lost;
      EXPECT_THAT(Read("err"),
                  testing::StartsWith("halyard: error: standard output cannot be written"));
    }
  }
  // No file that is opened becomes the output that was closed.
  EXPECT_THAT(Run("compile copy.onnx -o b.hyp --json 2>err >&- <&-; echo status $?"),
              testing::HasSubstr("status 3"));
  EXPECT_EQ(Read("b.hyp"), Read("a.hyp"));
}

// A rename would put a file in the place of /dev/null.
TEST_F(CommandTest, AnEmptyValueIsNoValue) {
  Write("copy.onnx", "copy");
  ExpectError(Run("run copy.onnx --expect-dir ''"), 1, "--expect-dir is given as an empty text");
  ExpectError(Run("run ''"), 1, "is given as an empty text");
  ExpectError(Run("explain copy.onnx --node ''"), 1, "--node is given as an empty text");
  ExpectError(Run("run copy.onnx --input x=@"), 1, "--input 'x=@' names no file after '@'");
  ExpectError(Run("run copy.onnx --input =@x.npy"), 1, "names no input before '=@'");
}

TEST_F(CommandTest, AProgramIsRunWithTheSizesThatAreAsked) {
  Write("copy.onnx", "copy");
  WriteNpy("in/input_0.npy", {1, 2, 3});
  Run("compile copy.onnx -o copy.hyp");
  EXPECT_EQ(status_, 0);
  Run("run copy.hyp --input-dir in --shape n=3");
  EXPECT_EQ(status_, 0);
  ExpectError(Run("run copy.hyp --input-dir in --shape n=5"), 2,
              "dimension 0 of input 'x' is 3; --shape says n=5");
}

TEST_F(CommandTest, CompileReplacesNothingButFiles) {
  Write("copy.onnx", "copy");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectError(Run("compile copy.onnx -o pipe"), 3, "it is a pipe or a socket that nobody reads");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  ExpectError(Run("run pipe --shape n=3"), 2, "'pipe' is not a regular file");
  ExpectError(Run("compile copy.onnx -o ."), 3, "File '.' cannot be written: Is a directory");
  Write("old.hyp", "old");
  Run("compile copy.onnx -o old.hyp");
  EXPECT_EQ(status_, 0);
  EXPECT_NE(Read("old.hyp"), "old");
}

}  // namespace
}  // namespace halyard
