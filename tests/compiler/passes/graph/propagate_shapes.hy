// passes: propagate-shapes remove-dead
graph main(%x: f32[n, s, 24]) -> (%shape_out, %y) {
  %shape = shape_of %x
  %zero = constant i64[1]{0}
  %one = constant i64[1]{1}
  %n = gather %shape, %zero {axis = 0}
  %s = gather %shape, %one {axis = 0}
  %heads = constant i64[1]{3}
  %minus = constant i64[1]{-1}
  %shape_out = concat %n, %s, %heads, %minus {axis = 0}
  %y = reshape %x {shape = [n, s, 3, 8]}
}
// expected
graph main(%x: f32[n, s, 24]) -> ("shape_out" = %symbolic_4, %y) {
  %symbolic_4 = symbolic {dtype = i64, shape = [4], values = [n, s, 3, -1]} : i64[4]
  %y = reshape %x {shape = [n, s, 3, 8]} : f32[n, s, 3, 8]
}
