// passes: merge-matmuls remove-dead
graph main(%x: f32[2, 3]) -> (%y) {
  %wa = constant f32[2, 3]{1, 2, 3, 4, 5, 6}
  %wb = constant f32[4, 3]{1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12}
  %pa = matmul %x, %wa {transpose_b = 1} "a"
  %b = matmul %x, %wb {transpose_b = 1} "b"
  %ab = reshape %b {shape = [2, 4]}
  %y = matmul %pa, %ab
}
// expected
graph main(%x: f32[2, 3]) -> (%y) {
  %constant = constant f32[6, 3]#4fec7fa94126a3da "a"
  %a = matmul %x, %constant {transpose_b = 1} : f32[2, 6] "a"
  %a_2 = slice %a {sizes = [2, 2], starts = [0, 0], steps = [1, 1]} : f32[2, 2] "a"
  %b_2 = slice %a {sizes = [2, 4], starts = [0, 2], steps = [1, 1]} : f32[2, 4] "b"
  %ab = reshape %b_2 {shape = [2, 4]} : f32[2, 4]
  %y = matmul %a_2, %ab : f32[2, 4]
}
