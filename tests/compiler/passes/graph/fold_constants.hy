// passes: fold-constants remove-dead
graph main(%x: f32[2, 2]) -> (%y, %spread) {
  %a = constant @a f32[2, 2]{1, 2, 3, 4}
  %b = constant @b f32[2, 2]{5, 6, 7, 8}
  %sum = add %a, %b
  %t = transpose %sum {perm = [1, 0]}
  %y = matmul %x, %t
  %one = constant f32[]{1}
  %spread = broadcast %one {shape = [100]}
}
// expected
graph main(%x: f32[2, 2]) -> (%y, %spread) {
  %constant_2 = constant f32[2, 2]{6, 10, 8, 12}
  %y = matmul %x, %constant_2 : f32[2, 2]
  %one = constant f32[]{1}
  %spread = broadcast %one {shape = [100]} : f32[100]
}
