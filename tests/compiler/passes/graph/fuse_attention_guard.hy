// passes: fuse-attention remove-dead
graph main(%q: f32[n, 2, s, 8], %k: f32[n, 2, 8, 5], %v: f32[n, 2, 5, 3], %sees: bool[n, 1, s, 5]) -> (%y) {
  %scale = constant f32[]{0.5}
  %scales = broadcast %scale {shape = [n, 2, s, 8]}
  %qs = mul %q, %scales
  %product = matmul %qs, %k
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [n, 1, s, 5]}
  %hidden = constant f32[]{-inf}
  %hiddens = broadcast %hidden {shape = [n, 1, s, 5]}
  %mask = select %sees, %zeros, %hiddens
  %masks = broadcast %mask {shape = [n, 2, s, 5]}
  %scores = add %product, %masks
  %top = reduce_max %scores {axes = [3], keep_dims = 1}
  %tops = broadcast %top {shape = [n, 2, s, 5]}
  %shifted = sub %scores, %tops
  %e = exp %shifted
  %sum = reduce_sum %e {axes = [3], keep_dims = 1}
  %sums = broadcast %sum {shape = [n, 2, s, 5]}
  %p = div %e, %sums
  %isnan = ne %p, %p
  %none = broadcast %zero {shape = [n, 2, s, 5]}
  %w = select %isnan, %none, %p
  %y = matmul %w, %v "attend"
}
// expected
graph main(%q: f32[n, 2, s, 8], %k: f32[n, 2, 8, 5], %v: f32[n, 2, 5, 3], %sees: bool[n, 1, s, 5]) -> ("y" = %attend_2) {
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [n, 1, s, 5]} : f32[n, 1, s, 5]
  %hidden = constant f32[]{-inf}
  %hiddens = broadcast %hidden {shape = [n, 1, s, 5]} : f32[n, 1, s, 5]
  %mask = select %sees, %zeros, %hiddens : f32[n, 1, s, 5]
  %attend = transpose %k {perm = [0, 1, 3, 2]} : f32[n, 2, 5, 8] "attend"
  %attend_2 = attention %q, %attend, %v, %mask {nan_to_zero = 1, scale = 0.5} : f32[n, 2, s, 3] "attend"
}
