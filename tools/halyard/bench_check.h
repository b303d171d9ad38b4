// SPDX-License-Identifier: Apache-2.0
// Whether outputs are right: what a device gave against what the processor gives in f32.
#pragma once

#include <string>
#include <vector>

#include "tools/halyard/bench_report.h"
#include "tools/halyard/tensor_io.h"

namespace halyard::tools {

struct CheckOptions {
  double rtol = 1e-2, atol = 1e-3;
  bool is_half = false;  // what made the results rounds to 16 bits inside
};

// Part `errors` of a row (docs/bench.schema.json): the largest errors, and in `wrong` the first
// output that differs, in words. An output differs where
//  - an element is off by more than rtol of itself and atol of the output's size, which is its
//    largest finite magnitude: below that a value is the rest of larger terms, and its error is as
//    large as theirs. An output that is wholly small is measured by its own size, and nothing is
//    let pass because it is near 0; one of zeros alone has no size and takes atol as it stands. Of
//    f32 beyond 1 atol is not scaled: its rounding is far below it. Devices may take the subnormal
//    numbers of f16 for 0, so 6.1e-5 is allowed of 16 bits, but no more than a twentieth of the
//    size.
//  - half of its elements are off by more than a quarter of themselves, as far as 16 bits can hold
//    them. A large element beside them would hide that from the first.
//  - one is infinite or not a number on one side alone.
// `overflows` says in which outputs the reference itself is not finite, so that nothing is known
// there. `names` of the outputs ("output 'y'"), as many as tensors, and `reference` ("that
// of cpu:0") are words of the sentences.
Json JudgeOutputs(const std::vector<std::string>& names, const std::vector<Tensor>& results,
                  const std::vector<Tensor>& expected, const std::string& reference,
                  const CheckOptions& options);

// What verdicts say first: that the outputs are wrong, or that the reference is not finite.
std::vector<std::string> CheckVerdicts(const Json& row);

// "0.0012%": the largest error over the size of its output; "wrong, 95%" of what is;
// "not compared" without a comparison.
std::string FormatErrors(const Json& row);

}  // namespace halyard::tools
