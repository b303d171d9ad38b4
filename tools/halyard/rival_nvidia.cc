// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/rival_nvidia.h"

#include "tools/halyard/rival_report.h"

namespace halyard::tools {
namespace {

// One program and its session.
class NvidiaRival : public Rival {
 public:
  // `where`: the file of the library.
  NvidiaRival(Model model, const Inputs& inputs, std::string where)
      : model_(std::move(model)),
        inputs_(inputs),
        runner_(model_, inputs),
        where_(std::move(where)) {}
  double Run() override { return runner_.Run(); }
  Tensor Result() const override { return runner_.Results()[0]; }
  double KernelSeconds() override {
    // Its own device: the row's is of another instance.
    const Json profile = MeasureProfile(model_, inputs_, 0, model_.devices);
    return profile.is_object() ? KernelSecondsOf(profile) : 0;
  }
  std::string Describe() const override { return "copies as Halyard makes them; " + where_; }

 private:
  const Model model_;
  const Inputs& inputs_;
  Runner runner_;
  const std::string where_;
};

// What the records of the schedule say of the library.
struct Part {
  bool is_taken = false;  // a kernel is its
  std::string library;    // with the version; empty: not there
  std::string where;
  std::string why_not;
};
Part ReadSchedules(const Model& model) {
  Part part;
  const Json report = Json::parse(model.program.Report(HY_REPORT_SCHEDULE, HY_FORMAT_JSON));
  for (const Json& record : report.at("schedules")) {
    const std::string text = record.at("text");
    part.is_taken |= text.starts_with("gpu-library ");
    // "cuBLASLt 13.1.0, libcublasLt.so.13: its matrix products won 1 of 1 kernels, ..."
    const size_t end = text.find(": its "), comma = text.find(", ");
    if (end != text.npos && comma < end) {
      part.library = text.substr(0, comma);
      part.where = text.substr(comma + 2, end - comma - 2);
    }
    for (const std::string known :
         {"No library takes part in matrix products: ", "No library takes part in convolutions: ",
          "The library takes no part: "}) {
      if (text.starts_with(known)) part.why_not = text.substr(known.size());
    }
  }
  return part;
}

}  // namespace

RivalOffer OfferNvidiaLibrary(const BenchOptions& options, ModelOptions model_options,
                              const Inputs& inputs) {
  const bool is_convolution = options.op->op == "conv";
  RivalOffer offer{is_convolution ? "cuDNN" : "cuBLASLt", nullptr, ""};
  if (options.op->op != "matmul" && !is_convolution) {
    offer.why_not = "Halyard asks NVIDIA's libraries for matmul and conv only.";
    return offer;
  }
  if (model_options.no_tune) {
    offer.why_not = "it is asked only where schedules are tuned (without --no-tune).";
    return offer;
  }
  model_options.vendor_libs = HY_VENDOR_LIBRARIES_ALONE;
  try {
    Model model = OpenModel(model_options, true, options.make_graph);
    const Part part = ReadSchedules(model);
    if (!part.library.empty()) offer.library = part.library;
    if (part.is_taken) {
      offer.rival = std::make_unique<NvidiaRival>(std::move(model), inputs, part.where);
    } else {
      offer.why_not = !part.why_not.empty()
                          ? part.why_not
                          : "there is no such " +
                                std::string(is_convolution ? "convolution" : "product") +
                                " of it for " + NameOf(*options.op) + ".";
    }
  } catch (const std::runtime_error& error) {
    offer.why_not = error.what();
  }
  return offer;
}

}  // namespace halyard::tools
