// passes: narrow-floats
graph main(%x: f32[n, 3, 8]) -> (%y, %statistic, %rest) {
  %w = constant @w f32[8, 2]{0.5, 1, 0.25, -1, 2, 0.125, -0.5, 0.75, 1, 1, 0.5, -2, 0.25, 0.5, -1, 1}
  %product = matmul %x, %w
  %bias = constant f32[2]{0.1, -0.2}
  %biases = broadcast %bias {shape = [n, 3, 2]}
  %sum = add %product, %biases
  %square = mul %sum, %sum
  %statistic = reduce_sum %square {axes = [2], keep_dims = 1}
  %one = constant f32[1]{1}
  %ones = broadcast %one {shape = [n, 3, 1]}
  %size = add %statistic, %ones
  %spread = broadcast %size {shape = [n, 3, 2]}
  %normal = div %sum, %spread
  %w2 = constant @w2 f32[2, 2]{1, 0.5, -0.5, 0.25}
  %second = matmul %normal, %w2
  %y = add %second, %normal
  %huge = constant f32[2]{100000, -100000}
  %limits = broadcast %huge {shape = [n, 3, 2]}
  %rest = min %second, %limits
}
// expected
graph main(%x: f32[n, 3, 8]) -> ("y" = %cast_5, %statistic, %rest) {
  %cast = cast %x {dtype = f16} : f16[n, 3, 8]
  %w_2 = constant @w f16[8, 2]{0.5, 1, 0.25, -1, 2, 0.125, -0.5, 0.75, 1, 1, 0.5, -2, 0.25, 0.5, -1, 1}
  %matmul = matmul %cast, %w_2 : f16[n, 3, 2]
  %constant = constant f16[2]{0.1, -0.2}
  %broadcast = broadcast %constant {shape = [n, 3, 2]} : f16[n, 3, 2]
  %add = add %matmul, %broadcast : f16[n, 3, 2]
  %cast_2 = cast %add {dtype = f32} : f32[n, 3, 2]
  %square = mul %cast_2, %cast_2 : f32[n, 3, 2]
  %statistic = reduce_sum %square {axes = [2], keep_dims = 1} : f32[n, 3, 1]
  %one = constant f32[1]{1}
  %ones = broadcast %one {shape = [n, 3, 1]} : f32[n, 3, 1]
  %size = add %statistic, %ones : f32[n, 3, 1]
  %spread = broadcast %size {shape = [n, 3, 2]} : f32[n, 3, 2]
  %normal = div %cast_2, %spread : f32[n, 3, 2]
  %cast_3 = cast %normal {dtype = f16} : f16[n, 3, 2]
  %w2_2 = constant @w2 f16[2, 2]{1, 0.5, -0.5, 0.25}
  %matmul_2 = matmul %cast_3, %w2_2 : f16[n, 3, 2]
  %add_2 = add %matmul_2, %cast_3 : f16[n, 3, 2]
  %huge = constant f32[2]{100000, -100000}
  %limits = broadcast %huge {shape = [n, 3, 2]} : f32[n, 3, 2]
  %cast_4 = cast %matmul_2 {dtype = f32} : f32[n, 3, 2]
  %rest = min %cast_4, %limits : f32[n, 3, 2]
  %cast_5 = cast %add_2 {dtype = f32} : f32[n, 3, 2]
}
