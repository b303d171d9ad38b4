// level: graph
graph main(%x: f32[n, 256], %r: f32[n, 256], %g: f32[256]) -> (%y, %s) {
  %s = add %x, %r : f32[n, 256] "residual"
  %k = constant f32[1, 1]{0.00390625} "norm"
  %kb = broadcast %k {shape = [n, 1]} : f32[n, 1] "norm"
  %sum = reduce_sum %s {axes = [1], keep_dims = 1} : f32[n, 1] "norm"
  %mean = mul %sum, %kb : f32[n, 1] "norm"
  %meanb = broadcast %mean {shape = [n, 256]} : f32[n, 256] "norm"
  %d = sub %s, %meanb : f32[n, 256] "norm"
  %q = mul %d, %d : f32[n, 256] "norm"
  %sum2 = reduce_sum %q {axes = [1], keep_dims = 1} : f32[n, 1] "norm"
  %var = mul %sum2, %kb : f32[n, 1] "norm"
  %eps = constant f32[1, 1]{1e-05} "norm"
  %epsb = broadcast %eps {shape = [n, 1]} : f32[n, 1] "norm"
  %v = add %var, %epsb : f32[n, 1] "norm"
  %root = rsqrt %v : f32[n, 1] "norm"
  %rootb = broadcast %root {shape = [n, 256]} : f32[n, 256] "norm"
  %u = mul %d, %rootb : f32[n, 256] "norm"
  %gb = broadcast %g {shape = [n, 256]} : f32[n, 256] "gain"
  %y = mul %u, %gb : f32[n, 256] "gain"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer x: f32[256*n] input
  buffer r: f32[256*n] input
  buffer g: f32[256] input
  buffer s: f32[256*n] output
  buffer y: f32[256*n] output
  kernel residual nodes("residual", "norm", "gain") {
    parallel i < n {
      %0 = reduce sum i1 < 256 {
        %1 = load x[256*i + i1]
        %2 = load r[256*i + i1]
        %3 = add %1, %2
        store s[256*i + i1], %3
        yield %3
      }
      %4 = const.f32 0.00390625
      %5 = mul %0, %4
      %6 = reduce sum r1 < 256 {
        %7 = load s[256*i + r1]
        %8 = sub %7, %5
        %9 = mul %8, %8
        yield %9
      }
      %10 = mul %6, %4
      %11 = const.f32 9.999999747378752e-06
      %12 = add %10, %11
      %13 = rsqrt %12
      parallel i11 < 256 {
        %14 = load s[256*i + i11]
        %15 = sub %14, %5
        %16 = mul %15, %13
        %17 = load g[i11]
        %18 = mul %16, %17
        store y[256*i + i11], %18
      }
    }
  }
}
