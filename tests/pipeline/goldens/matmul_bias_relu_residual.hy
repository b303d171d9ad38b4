// level: graph
graph main(%x: f32[n, 64], %w: f32[64, 48], %b: f32[48], %r: f32[n, 48]) -> (%y) {
  %p = matmul %x, %w {transpose_a = 0, transpose_b = 0} : f32[n, 48] "product"
  %bb = broadcast %b {shape = [n, 48]} : f32[n, 48] "bias"
  %s = add %p, %bb : f32[n, 48] "bias"
  %t = add %s, %r : f32[n, 48] "residual"
  %z = constant f32[]{0} "relu"
  %zb = broadcast %z {shape = [n, 48]} : f32[n, 48] "relu"
  %y = max %t, %zb : f32[n, 48] "relu"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer x: f32[64*n] input
  buffer w: f32[3072] input
  buffer b: f32[48] input
  buffer r: f32[48*n] input
  buffer y: f32[48*n] output
  kernel product nodes("product", "relu", "residual", "bias") contraction(m: i; n: i1; k: r; product: %1, %2; sum: %0) {
    parallel i < n {
      parallel i1 < 48 {
        %0 = reduce sum r < 64 {
          %1 = load x[64*i + r]
          %2 = load w[i1 + 48*r]
          %3 = mul %1, %2
          yield %3
        }
        %4 = load b[i1]
        %5 = add %0, %4
        %6 = load r[48*i + i1]
        %7 = add %5, %6
        %8 = const.f32 0
        %9 = max %7, %8
        store y[48*i + i1], %9
      }
    }
  }
}
