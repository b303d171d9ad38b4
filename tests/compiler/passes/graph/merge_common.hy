// passes: merge-common remove-dead
graph main(%x: f32[3], %y: f32[3]) -> (%a, %b, "c" = %d) {
  %a = add %x, %y
  %b = add %x, %y
  %e1 = exp %a
  %e2 = exp %b
  %d = mul %e1, %e2
}
// expected
graph main(%x: f32[3], %y: f32[3]) -> (%a, "b" = %a, "c" = %d) {
  %a = add %x, %y : f32[3]
  %e1 = exp %a : f32[3]
  %d = mul %e1, %e1 : f32[3]
}
