// passes: canonicalize remove-dead
graph main(%x: f32[n, 6], %h: f16[n], %i: i32[n], %m: f32[5, 6]) -> (%same, %r2, %t2, %kept, %c2, %c4, %z4, %product) {
  %r = reshape %x {shape = [n, 6]}
  %one = constant f32[]{1}
  %ones = broadcast %one {shape = [n, 6]}
  %scaled = mul %r, %ones
  %half = neg %scaled
  %same = neg %half
  %r1 = reshape %x {shape = [6, n]}
  %r2 = reshape %r1 {shape = [n, 2, 3]}
  %t1 = transpose %r2 {perm = [1, 2, 0]}
  %t2 = transpose %t1 {perm = [2, 0, 1]}
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [n, 6]}
  %kept = add %x, %zeros
  %c1 = cast %h {dtype = f32}
  %c2 = cast %c1 {dtype = f16}
  %c3 = cast %i {dtype = f32}
  %c4 = cast %c3 {dtype = i32}
  %z1 = constant i32[]{0}
  %z2 = broadcast %z1 {shape = [n]}
  %z4 = add %z2, %i
  %mt = transpose %m {perm = [1, 0]}
  %product = matmul %x, %mt
}
// expected
graph main(%x: f32[n, 6], %h: f16[n], %i: i32[n], %m: f32[5, 6]) -> ("same" = %x, "r2" = %reshape, "t2" = %reshape, %kept, "c2" = %h, %c4, "z4" = %i, "product" = %matmul) {
  %reshape = reshape %x {shape = [n, 2, 3]} : f32[n, 2, 3]
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [n, 6]} : f32[n, 6]
  %kept = add %x, %zeros : f32[n, 6]
  %c3 = cast %i {dtype = f32} : f32[n]
  %c4 = cast %c3 {dtype = i32} : i32[n]
  %matmul = matmul %x, %m {transpose_b = 1} : f32[n, 5]
}
