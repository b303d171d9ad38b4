// level: graph
graph main(%x: f32[n, 8], %y: f32[n, 4]) -> (%z) {
  %a = slice %x {starts = [0, 2], sizes = [n, 4], steps = [1, 1]} : f32[n, 4] "cut"
  %b = neg %y : f32[n, 4] "negate"
  %c = concat %a, %b {axis = 1} : f32[n, 8] "join"
  %z = transpose %c {perm = [1, 0]} : f32[8, n] "turn"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer x: f32[8*n] input
  buffer y: f32[4*n] input
  buffer z: f32[8*n] output
  kernel turn nodes("turn", "join", "negate", "cut") {
    parallel i < 8 {
      parallel i1 < n {
        %0 = const.i64 4
        %1 = index.i64 [i]
        %2 = le %0, %1
        %3 = const.f32 0
        %4 = load y[i + 4*i1 - 4] mask %2 else %3
        %5 = neg %4
        %6 = lt %1, %0
        %7 = load x[i + 8*i1 + 2] mask %6 else %3
        %8 = select %6, %7, %5
        store z[i1 + n*i], %8
      }
    }
  }
}
