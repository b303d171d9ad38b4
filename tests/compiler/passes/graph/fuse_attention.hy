// passes: fuse-attention remove-dead
graph main(%q: f32[n, 2, s, 8], %k: f32[n, 2, 5, 8], %v: f32[n, 2, 5, 3], %mask: f32[n, 1, 1, 5]) -> (%y) {
  %kt = transpose %k {perm = [0, 1, 3, 2]}
  %product = matmul %q, %kt
  %scale = constant f32[]{2.5}
  %scales = broadcast %scale {shape = [n, 2, s, 5]}
  %scaled = div %product, %scales
  %masks = broadcast %mask {shape = [n, 2, s, 5]}
  %scores = add %scaled, %masks
  %top = reduce_max %scores {axes = [3], keep_dims = 1}
  %tops = broadcast %top {shape = [n, 2, s, 5]}
  %shifted = sub %scores, %tops
  %e = exp %shifted
  %sum = reduce_sum %e {axes = [3], keep_dims = 1}
  %sums = broadcast %sum {shape = [n, 2, s, 5]}
  %p = div %e, %sums
  %y = matmul %p, %v "attend"
}
// expected
graph main(%q: f32[n, 2, s, 8], %k: f32[n, 2, 5, 8], %v: f32[n, 2, 5, 3], %mask: f32[n, 1, 1, 5]) -> ("y" = %attend_2) {
  %kt = transpose %k {perm = [0, 1, 3, 2]} : f32[n, 2, 8, 5]
  %attend = transpose %kt {perm = [0, 1, 3, 2]} : f32[n, 2, 5, 8] "attend"
  %attend_2 = attention %q, %attend, %v, %mask {scale = 0.4} : f32[n, 2, s, 3] "attend"
}
