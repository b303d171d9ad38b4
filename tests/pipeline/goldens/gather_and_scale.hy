// level: graph
graph main(%table: f32[1000, 32], %ids: i64[n]) -> (%y) {
  %e = gather %table, %ids {axis = 0} : f32[n, 32] "embed"
  %c = constant f32[]{2} "scale"
  %cb = broadcast %c {shape = [n, 32]} : f32[n, 32] "scale"
  %y = mul %e, %cb : f32[n, 32] "scale"
}
=== fuse
// level: loop
function {
  symbol n in [0, 2147483647]
  buffer table: f32[32000] input
  buffer ids: i64[n] input
  buffer y: f32[32*n] output
  kernel scale nodes("scale", "embed") {
    site "embed" "index of gather"
    parallel i < n {
      parallel i1 < 32 {
        %0 = load ids[i]
        indirect x = %0 < 1000 site 0
        %1 = load table[i1 + 32*x]
        %2 = const.f32 2
        %3 = mul %1, %2
        store y[32*i + i1], %3
      }
    }
  }
}
