// passes: hoist-constants remove-dead
graph main(%x: f32[17], %go: bool[]) -> (%y) {
  %y = if %go, %x [left, right]
}
graph left(%a: f32[17]) -> (%s) {
  %w = constant f32[17]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
  %k = constant f32[]{2}
  %kb = broadcast %k {shape = [17]}
  %p = mul %a, %w
  %s = mul %p, %kb
}
graph right(%b: f32[17]) -> (%z) {
  %again = constant f32[]{0}
  %stop = lt %again, %again
  %z = if %stop, %b [inner, other]
}
graph inner(%c: f32[17]) -> (%d) {
  %w2 = constant f32[17]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}
  %d = add %c, %w2
}
graph other(%e: f32[17]) -> (%e) {
}
// expected
graph main(%x: f32[17], %go: bool[]) -> (%y) {
  %constant_4 = constant f32[17]#a5e651c5e406c64c
  %y = if %go, %x, %constant_4 [left, right] : f32[17]
}
graph left(%a: f32[17], %constant_4_2: f32[17]) -> (%s) {
  %k = constant f32[]{2}
  %kb = broadcast %k {shape = [17]} : f32[17]
  %p = mul %a, %constant_4_2 : f32[17]
  %s = mul %p, %kb : f32[17]
}
graph right(%b: f32[17], %constant_4_3: f32[17]) -> (%z) {
  %again = constant f32[]{0}
  %stop = lt %again, %again : bool[]
  %z = if %stop, %b, %constant_4_3 [inner, other] : f32[17]
}
graph inner(%c: f32[17], %constant_2: f32[17]) -> (%d) {
  %d = add %c, %constant_2 : f32[17]
}
graph other(%e: f32[17], %constant_3: f32[17]) -> (%e) {
}
