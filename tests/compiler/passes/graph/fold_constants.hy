// passes: fold-constants remove-dead
graph main(%x: f32[2, 2]) -> (%y, %spread, %scale) {
  %a = constant @a f32[2, 2]{1, 2, 3, 4}
  %b = constant @b f32[2, 2]{5, 6, 7, 8}
  %sum = add %a, %b
  %t = transpose %sum {perm = [1, 0]}
  %y = matmul %x, %t
  %one = constant f32[]{1}
  %variance = constant f32[70]{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}
  %ones = broadcast %one {shape = [70]}
  %shifted = add %variance, %ones
  %scale = rsqrt %shifted
  %spread = broadcast %one {shape = [100]}
}
// expected
graph main(%x: f32[2, 2]) -> (%y, %spread, "scale" = %constant_4) {
  %constant_2 = constant f32[2, 2]{6, 10, 8, 12}
  %y = matmul %x, %constant_2 : f32[2, 2]
  %one = constant f32[]{1}
  %constant_4 = constant f32[70]#5674ad51b13c6676
  %spread = broadcast %one {shape = [100]} : f32[100]
}
