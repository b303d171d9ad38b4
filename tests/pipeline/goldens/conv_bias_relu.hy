// level: graph
graph main(%x: f32[1, 16, 12, 12]) -> (%y) {
  %w = constant f32[2, 16, 1, 1]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32} "w"
  %c = conv %x, %w {dilations = [1, 1], groups = 1, pads_high = [0, 0], pads_low = [0, 0], strides = [2, 2]} : f32[1, 2, 6, 6] "conv"
  %z = constant f32[]{0} "relu"
  %zb = broadcast %z {shape = [1, 2, 6, 6]} : f32[1, 2, 6, 6] "relu"
  %y = max %c, %zb : f32[1, 2, 6, 6] "relu"
}
=== fuse
// level: loop
function {
  buffer x: f32[2304] input
  buffer y: f32[72] output
  buffer w: f32[32] constant 0
  kernel conv nodes("conv", "relu") contraction(m: i; n: i1, i2; k: r; product: %1, %2; sum: %0) {
    parallel i < 2 {
      parallel i1 < 6 {
        parallel i2 < 6 {
          %0 = reduce sum r < 16 {
            %1 = load w[16*i + r]
            %2 = load x[24*i1 + 2*i2 + 144*r]
            %3 = mul %1, %2
            yield %3
          }
          %4 = const.f32 0
          %5 = max %0, %4
          store y[36*i + 6*i1 + i2], %5
        }
      }
    }
  }
}
