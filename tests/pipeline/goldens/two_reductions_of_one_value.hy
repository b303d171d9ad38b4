// level: graph
graph main(%x: f32[n, 64]) -> (%s, %m) {
  %e = exp %x : f32[n, 64] "exp"
  %s = reduce_sum %e {axes = [1], keep_dims = 0} : f32[n] "sum"
  %m = reduce_max %e {axes = [1], keep_dims = 0} : f32[n] "max"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer x: f32[64*n] input
  buffer s: f32[n] output
  buffer m: f32[n] output
  kernel exp nodes("exp", "sum", "max") {
    local e: f32[64]
    parallel i < n {
      %0 = reduce sum i1 < 64 {
        %1 = load x[64*i + i1]
        %2 = exp %1
        store e[i1], %2
        yield %2
      }
      store s[i], %0
      %3 = reduce max r1 < 64 {
        %4 = load e[r1]
        yield %4
      }
      store m[i], %3
    }
  }
}
