// SPDX-License-Identifier: Apache-2.0
#include "tools/halyard/rival_onednn.h"

#include <chrono>

#include "base/dtype.h"
#include "tools/halyard/clock.h"
#include "tools/halyard/onednn_api.h"

namespace halyard::tools {
namespace {

// Throws for what the library answers.
void Check(int status, const std::string& what) {
  if (status == 0) return;
  throw CommandError(kSystemFailure, status == kOneDnnUnimplemented
                                         ? "it has no " + what + " for this processor"
                                         : what + " failed with status " + std::to_string(status));
}

int TypeOf(hy_dtype dtype) {
  switch (dtype) {
    case HY_DTYPE_F16:
      return kOneDnnF16;
    case HY_DTYPE_BF16:
      return kOneDnnBf16;
    case HY_DTYPE_F32:
      return kOneDnnF32;
    default:
      throw CommandError(kWrongUsage, "Halyard does not ask it in " +
                                          std::string(FormatDType(static_cast<DType>(dtype))));
  }
}

// How a tensor lies: release 2 fills a structure of the caller, release 3 makes an object.
class Layout {
 public:
  // Row-major.
  Layout(const OneDnnApi& api, const std::vector<int64_t>& dims, int dtype) : api_(api) {
    std::vector<int64_t> strides(dims.size(), 1);
    for (size_t i = dims.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * dims[i + 1];
    const int rank = static_cast<int>(dims.size());
    Check(api.is_release_2() ? api.dnnl_memory_desc_init_by_strides(Room(), rank, dims.data(),
                                                                    dtype, strides.data())
                             : api.dnnl_memory_desc_create_with_strides(&object_, rank, dims.data(),
                                                                        dtype, strides.data()),
          "such tensors");
  }
  // As the library likes it.
  static Layout Any(const OneDnnApi& api, const std::vector<int64_t>& dims, int dtype) {
    Layout layout(api);
    const int rank = static_cast<int>(dims.size());
    Check(api.is_release_2() ? api.dnnl_memory_desc_init_by_tag(layout.Room(), rank, dims.data(),
                                                                dtype, kOneDnnAnyLayout)
                             : api.dnnl_memory_desc_create_with_tag(
                                   &layout.object_, rank, dims.data(), dtype, kOneDnnAnyLayout),
          "such tensors");
    return layout;
  }
  Layout(Layout&& other) noexcept
      : api_(other.api_), room_(std::move(other.room_)), object_(other.object_) {
    other.object_ = nullptr;
  }
  Layout& operator=(Layout&&) = delete;
  ~Layout() {
    if (object_ != nullptr) api_.dnnl_memory_desc_destroy(object_);
  }
  const void* get() const { return object_ != nullptr ? object_ : room_.data(); }

 private:
  explicit Layout(const OneDnnApi& api) : api_(api) {}
  void* Room() {
    room_.resize(kOneDnn2LayoutBytes / sizeof(uint64_t));
    return room_.data();
  }

  const OneDnnApi& api_;
  std::vector<uint64_t> room_;
  void* object_ = nullptr;
};

class OneDnnRival : public Rival {
 public:
  OneDnnRival(std::shared_ptr<const OneDnnApi> api, const OpCase& op,
              const std::vector<Tensor>& inputs, int threads)
      : api_(std::move(api)), name_(NameOf(op)), inputs_(inputs), threads_(threads) {}
  // Apart from the constructor, so that what throws half-way is destroyed.
  void Prepare(const OpCase& op) {
    UseThreads();
    Check(api_->dnnl_engine_create(&engine_, kOneDnnCpu, 0), "engine");
    Check(api_->dnnl_stream_create(&stream_, engine_, kOneDnnInOrder), "stream");
    result_.dtype = op.dtype;
    const int dtype = TypeOf(op.dtype);
    if (op.op == "matmul") MatMul(op.dims, dtype);
    if (op.op == "conv") Conv(op.dims, dtype);
    if (op.op == "softmax") Softmax(op.dims, dtype);
    if (op.op == "layernorm") LayerNorm(op.dims, dtype);
  }
  OneDnnRival(const OneDnnRival&) = delete;
  OneDnnRival& operator=(const OneDnnRival&) = delete;
  ~OneDnnRival() override {
    for (const Step& step : steps_) api_->dnnl_primitive_destroy(step.primitive);
    for (void* memory : memories_) api_->dnnl_memory_destroy(memory);
    if (stream_ != nullptr) api_->dnnl_stream_destroy(stream_);
    if (engine_ != nullptr) api_->dnnl_engine_destroy(engine_);
  }

  double Run() override {
    UseThreads();
    const auto start = std::chrono::steady_clock::now();
    for (const Step& step : steps_) {
      Check(api_->dnnl_primitive_execute(step.primitive, stream_,
                                         static_cast<int>(step.arguments.size()),
                                         step.arguments.data()),
            name_);
    }
    Check(api_->dnnl_stream_wait(stream_), name_);
    return SecondsSince(start);
  }
  Tensor Result() const override { return result_; }
  std::string Describe() const override {
    std::string text = how_threads_ + "; " + implementation_;
    if (steps_.size() > 1) text += ", and " + std::to_string(steps_.size() - 1) + " reorders";
    return text;
  }

 private:
  struct Step {
    void* primitive = nullptr;
    std::vector<OneDnnArgument> arguments;
  };

  // OpenMP keeps the number by the calling thread.
  void UseThreads() {
    switch (api_->dnnl_version()->cpu_runtime) {
      case kOneDnnSequential:
        how_threads_ = "one thread";
        return;
      case kOneDnnOpenMp:
        if (const auto set = api_->library.FindFunction<void (*)(int)>("omp_set_num_threads");
            set.ok()) {
          (*set)(threads_);
          how_threads_ =
              "OpenMP, " + std::to_string(threads_) + (threads_ == 1 ? " thread" : " threads");
          return;
        }
        break;
      case kOneDnnTbb:
        how_threads_ = "TBB, threads of its own choice";
        return;
    }
    how_threads_ = "threads of its own choice";
  }

  void* Memory(const void* layout, const void* data) {
    void* memory = nullptr;
    // The library writes only to what is a result.
    Check(api_->dnnl_memory_create(&memory, layout, engine_, const_cast<void*>(data)), "memory");
    memories_.push_back(memory);
    return memory;
  }
  void* InputMemory(size_t i, const Layout& layout) {
    return Memory(layout.get(), inputs_[i].bytes.data());
  }
  void* ResultMemory(const std::vector<int64_t>& dims, const Layout& layout) {
    result_.dims = dims;
    result_.bytes.resize(api_->dnnl_memory_desc_get_size(layout.get()));
    return Memory(layout.get(), result_.bytes.data());
  }

  // Takes `desc` and gives it back to the library.
  void AddStep(void* desc, std::vector<OneDnnArgument> arguments) {
    Step step;
    step.arguments = std::move(arguments);
    const int status = api_->dnnl_primitive_create(&step.primitive, desc);
    api_->dnnl_primitive_desc_destroy(desc);
    Check(status, name_);
    steps_.push_back(std::move(step));
  }
  void SetImplementation(const void* desc) {
    const char* name = nullptr;
    if (api_->dnnl_primitive_desc_query(desc, kOneDnnNameOfImplementation, 0, &name) == 0 && name)
      implementation_ = name;
  }
  // What release 2 makes of an op that `init` has filled in.
  template <typename Init>
  int Create2(void** desc, Init init) {
    std::vector<uint64_t> op(kOneDnn2OpBytes / sizeof(uint64_t));
    const int status = init(op.data());
    if (status != 0) return status;
    return api_->dnnl_primitive_desc_create(desc, op.data(), nullptr, engine_, nullptr);
  }

  void MatMul(const std::vector<int64_t>& d, int dtype) {
    const std::vector<int64_t> batch(d.begin(), d.end() - 3);
    const int64_t m = d[batch.size()], n = d[batch.size() + 1], k = d[batch.size() + 2];
    const auto of = [&](int64_t rows, int64_t columns) {
      std::vector<int64_t> dims = batch;
      dims.insert(dims.end(), {rows, columns});
      return dims;
    };
    const Layout a(*api_, of(m, k), dtype), b(*api_, of(k, n), dtype), c(*api_, of(m, n), dtype);
    void* desc = nullptr;
    Check(api_->is_release_2() ? Create2(&desc,
                                         [&](void* op) {
                                           return api_->dnnl_matmul_desc_init(op, a.get(), b.get(),
                                                                              nullptr, c.get());
                                         })
                               : api_->dnnl_matmul_primitive_desc_create(
                                     &desc, engine_, a.get(), b.get(), nullptr, c.get(), nullptr),
          name_);
    SetImplementation(desc);
    AddStep(desc, {{kOneDnnSource, InputMemory(0, a)},
                   {kOneDnnWeights, InputMemory(1, b)},
                   {kOneDnnResult, ResultMemory(of(m, n), c)}});
  }

  void Conv(const std::vector<int64_t>& d, int dtype) {  // n, c, h, w, m, r
    const std::vector<int64_t> x_dims = {d[0], d[1], d[2], d[3]}, w_dims = {d[4], d[1], d[5], d[5]};
    const std::vector<int64_t> y_dims = {d[0], d[4], d[2], d[3]};
    const std::vector<int64_t> ones(12, 1), zeros(12, 0), low(12, (d[5] - 1) / 2),
        high(12, d[5] / 2);
    const Layout any_x = Layout::Any(*api_, x_dims, dtype),
                 any_w = Layout::Any(*api_, w_dims, dtype),
                 any_y = Layout::Any(*api_, y_dims, dtype);
    void* desc = nullptr;
    Check(api_->is_release_2() ? Create2(&desc,
                                         [&](void* op) {
                                           return api_->dnnl_convolution_forward_desc_init(
                                               op, kOneDnnInference, kOneDnnConvolutionAuto,
                                               any_x.get(), any_w.get(), nullptr, any_y.get(),
                                               ones.data(), low.data(), high.data());
                                         })
                               : api_->dnnl_convolution_forward_primitive_desc_create(
                                     &desc, engine_, kOneDnnInference, kOneDnnConvolutionAuto,
                                     any_x.get(), any_w.get(), nullptr, any_y.get(), ones.data(),
                                     zeros.data(), low.data(), high.data(), nullptr),
          name_);
    SetImplementation(desc);
    const Layout x(*api_, x_dims, dtype), w(*api_, w_dims, dtype), y(*api_, y_dims, dtype);
    const void* x_wanted = api_->dnnl_primitive_desc_query_md(desc, kOneDnnSourceLayout, 0);
    const void* w_wanted = api_->dnnl_primitive_desc_query_md(desc, kOneDnnWeightsLayout, 0);
    const void* y_wanted = api_->dnnl_primitive_desc_query_md(desc, kOneDnnResultLayout, 0);
    // Before the op: the layouts that it wants belong to `desc`, which AddStep gives back.
    void* from_x = Reordered(InputMemory(0, x), x.get(), x_wanted);
    void* from_w = Reordered(InputMemory(1, w), w.get(), w_wanted);
    void* to_y = ResultMemory(y_dims, y);
    const bool same_y = api_->dnnl_memory_desc_equal(y.get(), y_wanted) != 0;
    void* computed = same_y ? to_y : Own(y_wanted);
    void* back = nullptr;
    if (!same_y) {
      Check(api_->dnnl_reorder_primitive_desc_create(&back, y_wanted, engine_, y.get(), engine_,
                                                     nullptr),
            "reorder");
    }
    AddStep(desc, {{kOneDnnSource, from_x}, {kOneDnnWeights, from_w}, {kOneDnnResult, computed}});
    if (back != nullptr) AddStep(back, {{kOneDnnSource, computed}, {kOneDnnResult, to_y}});
  }
  // The memory itself where it lies as wanted, else another that a step before the op fills.
  void* Reordered(void* memory, const void* layout, const void* wanted) {
    if (api_->dnnl_memory_desc_equal(layout, wanted) != 0) return memory;
    void* desc = nullptr;
    Check(
        api_->dnnl_reorder_primitive_desc_create(&desc, layout, engine_, wanted, engine_, nullptr),
        "reorder");
    void* other = Own(wanted);
    AddStep(desc, {{kOneDnnSource, memory}, {kOneDnnResult, other}});
    return other;
  }
  void* Own(const void* layout) {
    rooms_.emplace_back(api_->dnnl_memory_desc_get_size(layout) + 64);
    const auto address = reinterpret_cast<uintptr_t>(rooms_.back().data());
    return Memory(layout, reinterpret_cast<void*>((address + 63) / 64 * 64));
  }

  void Softmax(const std::vector<int64_t>& dims, int dtype) {
    const Layout x(*api_, dims, dtype);
    const int axis = static_cast<int>(dims.size()) - 1;
    void* desc = nullptr;
    Check(api_->is_release_2()
              ? Create2(&desc,
                        [&](void* op) {
                          return api_->dnnl_softmax_v2_forward_desc_init(
                              op, kOneDnnInference, kOneDnnSoftmax, x.get(), x.get(), axis);
                        })
              : api_->dnnl_softmax_forward_primitive_desc_create(&desc, engine_, kOneDnnInference,
                                                                 kOneDnnSoftmax, x.get(), x.get(),
                                                                 axis, nullptr),
          name_);
    SetImplementation(desc);
    AddStep(desc, {{kOneDnnSource, InputMemory(0, x)}, {kOneDnnResult, ResultMemory(dims, x)}});
  }

  void LayerNorm(const std::vector<int64_t>& dims, int dtype) {
    if (dtype != kOneDnnF32)
      throw CommandError(kWrongUsage, "its layernorm takes gain and bias in f32 only");
    const Layout x(*api_, dims, dtype), row(*api_, {dims.back()}, kOneDnnF32);
    const Layout statistics(*api_, {dims.begin(), dims.end() - 1}, kOneDnnF32);
    constexpr float kEpsilon = 1e-5F;  // as in bench_op.cc
    void* desc = nullptr;
    Check(api_->is_release_2() ? Create2(&desc,
                                         [&](void* op) {
                                           return api_->dnnl_layer_normalization_forward_desc_init(
                                               op, kOneDnnInference, x.get(), statistics.get(),
                                               kEpsilon, kOneDnn2ScaleAndShift);
                                         })
                               : api_->dnnl_layer_normalization_forward_primitive_desc_create(
                                     &desc, engine_, kOneDnnInference, x.get(), x.get(),
                                     statistics.get(), kEpsilon, kOneDnn3ScaleAndShift, nullptr),
          name_);
    SetImplementation(desc);
    AddStep(desc, {{kOneDnnSource, InputMemory(0, x)},
                   {kOneDnnScale, InputMemory(1, row)},
                   {kOneDnnShift, InputMemory(2, row)},
                   {kOneDnnResult, ResultMemory(dims, x)}});
  }

  const std::shared_ptr<const OneDnnApi> api_;
  const std::string name_;
  const std::vector<Tensor>& inputs_;
  const int threads_;
  void *engine_ = nullptr, *stream_ = nullptr;
  std::vector<Step> steps_;
  std::vector<void*> memories_;
  std::vector<std::vector<uint8_t>> rooms_;
  Tensor result_;
  std::string how_threads_, implementation_;
};

}  // namespace

RivalOffer OfferOneDnn(const OpCase& op, const std::vector<Tensor>& inputs, int threads) {
  RivalOffer offer{"oneDNN", nullptr, ""};
  auto api = OneDnnApi::Load();
  if (!api.ok()) {
    offer.why_not = api.status().message();
    return offer;
  }
  offer.library = (*api)->Name();
  bool is_known = false;
  for (const char* known : {"matmul", "conv", "softmax", "layernorm"}) is_known |= op.op == known;
  if (!is_known) {
    offer.why_not = "Halyard asks it for matmul, conv, softmax and layernorm only.";
    return offer;
  }
  try {
    auto rival = std::make_unique<OneDnnRival>(std::move(*api), op, inputs, threads);
    rival->Prepare(op);
    offer.rival = std::move(rival);
  } catch (const CommandError& error) {
    offer.why_not = std::string(error.what()) + ".";
  }
  return offer;
}

}  // namespace halyard::tools
