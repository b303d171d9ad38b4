// SPDX-License-Identifier: Apache-2.0
// Profile of a model: runs apart from the timed ones, in which each command runs and is timed by
// itself. From them come the split of the time and the figures of each fused group.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/halyard/roofline.h"

namespace halyard::tools {

// One command or copy of one run; seconds from the start of the run.
struct ProfiledCommand {
  std::string label, device, kind, product;  // kind: "dispatch", "copy", ..., "input", "output"
  int queue = 0;
  double start_s = 0, submitted_s = 0, end_s = 0;
  double device_s = -1;           // by the device's clock; -1: not told
  double bytes = -1, flops = -1;  // -1: not known
  double live_bytes = -1;         // of planned activations while it runs
};
struct ProfiledRun {
  double seconds = 0;  // by the host, from the call to its return
  std::vector<ProfiledCommand> commands;
};

// The profile of at least one run of a model whose plain median is `plain_s`:
//   runs, seconds: median; overhead: that over the plain median;
//   split: seconds of the run with the median time: enqueue, copies_in, busy (by device),
//     inter_device, copies_out, waits, idle; they add up to its time;
//   link_shares: of copies_in, inter_device and copies_out, the least time that the measured peaks
//     of their links allow over their time of the split;
//   clocks: by device with a clock of its own, that against the host's: `ratio`, host seconds for a
//     second of the device, `error`, twice its standard error, and the `commands` it is from;
//   groups: label, device, kind, dispatches, seconds (median), share (of all commands), flops,
//     bytes, intensity, flops_per_s, bytes_per_s, product, roof (JudgeKernel), link (bytes_per_s
//     and share, of what copies over a measured link), by falling time;
//   roof_share: the least time that the roofs allow all dispatches over the plain median, when each
//     group of them that takes a hundredth of the time or more has a roof;
//   roofs: by device that has some: product_flops, levels, dispatch_s;
//   timeline: the commands of that run: label, kind, device, queue, start, end, device_seconds,
//     bytes, live_bytes.
// What is not known is missing.
Json SummarizeProfile(const std::vector<ProfiledRun>& runs, double plain_s,
                      const std::function<Roofs(const std::string& device)>& roofs_of);

// Adds `model_error` to a profile: by class of op, how far the cost model of placement is off, for
// the kernels that all were timed: class, kernels (sets that are predicted together), median_error
// and worst_error (|predicted / measured - 1|), median_ratio, seconds (what they took together),
// roof_share (the least that the roofs allow over what was taken, of the kernels that have a roof),
// samples (each prediction with what was measured and the least). `predictions`: of the placement
// report.
void AddModelErrors(const Json& predictions, Json* profile);

// Adds `nodes` to the groups of a profile whose labels do not say which nodes of the model they
// are. `dispatches`: of the fusion report.
void AddNodes(const Json& dispatches, Json* profile);

// "part of /a/b/conv, /a/relu" as "part of b/conv, relu": names of nodes without the folders that
// all of them are in; one name, or names that share none, as they are.
std::string WithoutSharedFolder(const std::string& nodes);

// What a row's profile says, as Markdown: the split of the time, and the groups that take most of
// it. Empty without a profile.
std::string FormatProfile(const Json& row);
// "37%" of the roofs of the whole row; "not probed" when nothing was measured, "-" without a
// profile.
std::string FormatRoofShare(const Json& row);

}  // namespace halyard::tools
