// passes: narrow-floats narrow-io
graph main(%x: f32[n, 3, 8], %shift: f32[n, 3, 2], %ids: i64[n], %wide: f64[n]) -> (%y, %statistic, %shift, %ids, %wide, %y) {
  %w = constant @w f32[8, 2]{0.5, 1, 0.25, -1, 2, 0.125, -0.5, 0.75, 1, 1, 0.5, -2, 0.25, 0.5, -1, 1}
  %product = matmul %x, %w
  %y = add %product, %shift
  %statistic = reduce_sum %y {axes = [2], keep_dims = 1}
}
// expected
graph main(%x: f16[n, 3, 8], %shift: f16[n, 3, 2], %ids: i64[n], %wide: f64[n]) -> ("y" = %cast_5, "statistic" = %cast_6, %shift, %ids, %wide, "y" = %cast_5) {
  %cast_4 = cast %shift {dtype = f32} : f32[n, 3, 2]
  %w_2 = constant @w f16[8, 2]{0.5, 1, 0.25, -1, 2, 0.125, -0.5, 0.75, 1, 1, 0.5, -2, 0.25, 0.5, -1, 1}
  %matmul = matmul %x, %w_2 : f16[n, 3, 2]
  %cast_2 = cast %matmul {dtype = f32} : f32[n, 3, 2]
  %y = add %cast_2, %cast_4 : f32[n, 3, 2]
  %statistic = reduce_sum %y {axes = [2], keep_dims = 1} : f32[n, 3, 1]
  %cast_5 = cast %y {dtype = f16} : f16[n, 3, 2]
  %cast_6 = cast %statistic {dtype = f16} : f16[n, 3, 1]
}
