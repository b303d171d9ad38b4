// level: graph
graph main(%x: f32[n, 128], %mask: f32[128]) -> (%y) {
  %c = constant f32[]{0.125} "scale"
  %cb = broadcast %c {shape = [n, 128]} : f32[n, 128] "scale"
  %s = mul %x, %cb : f32[n, 128] "scale"
  %mb = broadcast %mask {shape = [n, 128]} : f32[n, 128] "mask"
  %m = add %s, %mb : f32[n, 128] "mask"
  %top = reduce_max %m {axes = [1], keep_dims = 1} : f32[n, 1] "softmax"
  %topb = broadcast %top {shape = [n, 128]} : f32[n, 128] "softmax"
  %d = sub %m, %topb : f32[n, 128] "softmax"
  %e = exp %d : f32[n, 128] "softmax"
  %sum = reduce_sum %e {axes = [1], keep_dims = 1} : f32[n, 1] "softmax"
  %sumb = broadcast %sum {shape = [n, 128]} : f32[n, 128] "softmax"
  %y = div %e, %sumb : f32[n, 128] "softmax"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer x: f32[128*n] input
  buffer mask: f32[128] input
  buffer y: f32[128*n] output
  kernel softmax nodes("softmax", "mask", "scale") {
    local e: f32[128]
    parallel i < n {
      %0 = reduce max r < 128 {
        %1 = load x[128*i + r]
        %2 = const.f32 0.125
        %3 = mul %1, %2
        %4 = load mask[r]
        %5 = add %3, %4
        yield %5
      }
      %6 = reduce sum i1 < 128 {
        %7 = load x[128*i + i1]
        %8 = const.f32 0.125
        %9 = mul %7, %8
        %10 = load mask[i1]
        %11 = add %9, %10
        %12 = sub %11, %0
        %13 = exp %12
        store e[i1], %13
        yield %13
      }
      parallel i11 < 128 {
        %14 = load e[i11]
        %15 = div %14, %6
        store y[128*i + i11], %15
      }
    }
  }
}
