// passes: remove-dead
graph main(%x: f32[3], %go: bool[]) -> (%y) {
  %unused = exp %x
  %also = if %go, %unused [left, right]
  %y = neg %x
}
graph left(%a: f32[3]) -> (%a) {
}
graph right(%b: f32[3]) -> (%b) {
}
// expected
graph main(%x: f32[3], %go: bool[]) -> (%y) {
  %y = neg %x : f32[3]
}
