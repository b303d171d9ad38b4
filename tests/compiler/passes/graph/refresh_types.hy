// passes: refresh-types
graph main(%x: f32[n, 3], %y: f32[m, 3]) -> (%z) {
  %z = add %x, %y
}
// expected
graph main(%x: f32[n, 3], %y: f32[m, 3]) -> (%z) {
  %z = add %x, %y : f32[n, 3]
}
