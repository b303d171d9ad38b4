// passes: layout
graph main(%x: f32[1, 3, 6, 6]) -> (%y, %few) {
  %stem = constant @stem f32[16, 3, 1, 1]{0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}
  %depthwise = constant @depthwise f32[16, 1, 2, 2]{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8}
  %narrow = constant @narrow f32[2, 16, 1, 1]{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}
  %a = conv %x, %stem {dilations = [1, 1], groups = 1, pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]}
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [1, 16, 6, 6]}
  %b = max %a, %zeros
  %c = conv %b, %depthwise {dilations = [1, 1], groups = 16, pads_high = [0, 0], pads_low = [1, 1], strides = [1, 1]}
  %y = add %c, %b
  %d = max_pool %b {dilations = [1, 1], pads_high = [0, 0], pads_low = [0, 0], strides = [2, 2], window = [2, 2]}
  %e = conv %d, %narrow {dilations = [1, 1], groups = 1, pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]}
  %few = neg %e
}
// expected
graph main(%x: f32[1, 3, 6, 6]) -> (%y, %few) {
  %stem = constant @stem f32[16, 3, 1, 1]#779b2623f0d40d50
  %depthwise = constant @depthwise f32[16, 1, 2, 2]#b3341d6b6906159d
  %narrow = constant @narrow f32[2, 16, 1, 1]#33597b2e40134bd4
  %a = conv %x, %stem {dilations = [1, 1], groups = 1, pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]} : f32[1, 16, 6, 6] order(0, 2, 3, 1)
  %zero = constant f32[]{0}
  %zeros = broadcast %zero {shape = [1, 16, 6, 6]} : f32[1, 16, 6, 6]
  %b = max %a, %zeros : f32[1, 16, 6, 6] order(0, 2, 3, 1)
  %depthwise.channels_innermost = constant @depthwise.channels_innermost f32[2, 2, 1, 16]#3da7a931e81ade56
  %transpose = transpose %depthwise.channels_innermost {perm = [3, 2, 0, 1]} : f32[16, 1, 2, 2]
  %c = conv %b, %transpose {dilations = [1, 1], groups = 16, pads_high = [0, 0], pads_low = [1, 1], strides = [1, 1]} : f32[1, 16, 6, 6] order(0, 2, 3, 1)
  %y = add %c, %b : f32[1, 16, 6, 6]
  %d = max_pool %b {dilations = [1, 1], pads_high = [0, 0], pads_low = [0, 0], strides = [2, 2], window = [2, 2]} : f32[1, 16, 3, 3] order(0, 2, 3, 1)
  %e = conv %d, %narrow {dilations = [1, 1], groups = 1, pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]} : f32[1, 2, 3, 3]
  %few = neg %e : f32[1, 2, 3, 3]
}
