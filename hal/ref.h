// SPDX-License-Identifier: Apache-2.0
// RefCounted and Ref<T>: intrusive shared ownership for every HAL object. Not for plain data.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace halyard {

// Born with a count of one, which MakeRef hands to the first Ref. Retain and Release may be called
// from any thread; the thread that drops the last reference runs the destructor.
class RefCounted {
 public:
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void Retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void Release() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy();
  }
  // For tests and reports only: other threads may change it at any moment.
  int32_t ref_count() const { return count_.load(std::memory_order_relaxed); }

 protected:
  RefCounted() = default;
  virtual ~RefCounted() = default;
  // Called when the last reference goes. A type that is recycled overrides it.
  virtual void Destroy() const { delete this; }

 private:
  mutable std::atomic<int32_t> count_{1};
};

// An owning pointer to a RefCounted object; may be null. Copying retains.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT: implicit on purpose
  Ref(const Ref& other) : pointer_(other.pointer_) {
    if (pointer_) pointer_->Retain();
  }
  Ref(Ref&& other) noexcept : pointer_(other.release()) {}
  template <typename U, typename = std::enable_if_t<std::is_convertible_v<U*, T*>>>
  Ref(Ref<U> other) : pointer_(other.release()) {}  // NOLINT: implicit on purpose
  ~Ref() {
    if (pointer_) pointer_->Release();
  }
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }

  // Takes over a reference that the caller holds.
  static Ref Adopt(T* pointer) {
    Ref ref;
    ref.pointer_ = pointer;
    return ref;
  }
  // Adds a reference to an object that somebody else keeps.
  static Ref Share(T* pointer) {
    if (pointer) pointer->Retain();
    return Adopt(pointer);
  }

  T* get() const { return pointer_; }
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }
  // Gives the reference up without releasing it.
  [[nodiscard]] T* release() { return std::exchange(pointer_, nullptr); }
  void reset() { *this = Ref(); }

  friend bool operator==(const Ref& a, const Ref& b) { return a.pointer_ == b.pointer_; }

 private:
  T* pointer_ = nullptr;
};

template <typename T, typename... Args>
Ref<T> MakeRef(Args&&... args) {
  return Ref<T>::Adopt(new T(std::forward<Args>(args)...));
}

}  // namespace halyard
