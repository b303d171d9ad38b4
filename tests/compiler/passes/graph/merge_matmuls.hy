// passes: merge-matmuls remove-dead
graph main(%x: f32[n, 4, 3]) -> (%y, %z) {
  %wq = constant f32[3, 4]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %wk = constant f32[3, 4]{-1, 2, -3, 4, -5, 6, -7, 8, -9, 10, -11, 12}
  %wv = constant f32[3, 2]{1, 0, 0, 1, 1, 1}
  %bq = constant f32[4]{1, 2, 3, 4}
  %bk = constant f32[4]{5, 6, 7, 8}
  %bv = constant f32[2]{9, 10}
  %pq = matmul %x, %wq "query"
  %cq = broadcast %bq {shape = [n, 4, 4]}
  %q = add %pq, %cq
  %pk = matmul %x, %wk "key"
  %ck = broadcast %bk {shape = [n, 4, 4]}
  %k = add %ck, %pk
  %pv = matmul %x, %wv "value"
  %cv = broadcast %bv {shape = [n, 4, 2]}
  %v = add %pv, %cv
  %kt = transpose %k {perm = [0, 2, 1]}
  %s = matmul %q, %kt "scores"
  %y = matmul %s, %v
  %u = matmul %x, %wq "kept apart: an elementwise user"
  %z = exp %u
}
// expected
graph main(%x: f32[n, 4, 3]) -> (%y, %z) {
  %wq = constant f32[3, 4]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
  %constant = constant f32[3, 10]#8b0826e5517cd082 "query"
  %query = matmul %x, %constant : f32[n, 4, 10] "query"
  %constant_2 = constant f32[10]{1, 2, 3, 4, 5, 6, 7, 8, 9, 10} "query"
  %query_2 = broadcast %constant_2 {shape = [n, 4, 10]} : f32[n, 4, 10] "query"
  %query_3 = add %query, %query_2 : f32[n, 4, 10] "query"
  %query_4 = slice %query_3 {sizes = [n, 4, 4], starts = [0, 0, 0], steps = [1, 1, 1]} : f32[n, 4, 4] "query"
  %key = slice %query_3 {sizes = [n, 4, 4], starts = [0, 0, 4], steps = [1, 1, 1]} : f32[n, 4, 4] "key"
  %value = slice %query_3 {sizes = [n, 4, 2], starts = [0, 0, 8], steps = [1, 1, 1]} : f32[n, 4, 2] "value"
  %kt = transpose %key {perm = [0, 2, 1]} : f32[n, 4, 4]
  %s = matmul %query_4, %kt : f32[n, 4, 4] "scores"
  %y = matmul %s, %value : f32[n, 4, 2]
  %u = matmul %x, %wq : f32[n, 4, 4] "kept apart: an elementwise user"
  %z = exp %u : f32[n, 4, 4]
}
