// passes: fold-affine remove-dead
graph main(%x: f32[n, 2, 3, 3]) -> (%y, %tapped, %c2) {
  %w = constant @w f32[2, 2, 1, 1]{1, 2, 3, 4}
  %c = conv %x, %w {strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], dilations = [1, 1]} "conv1"
  %mean = constant f32[2, 1, 1]{0.5, -1}
  %means = broadcast %mean {shape = [n, 2, 3, 3]}
  %centred = sub %c, %means
  %gain = constant f32[1, 2, 1, 1]{2, 4}
  %gains = broadcast %gain {shape = [n, 2, 3, 3]}
  %scaled = mul %gains, %centred
  %bias = constant f32[2, 1, 1]{1, 2}
  %biases = broadcast %bias {shape = [n, 2, 3, 3]}
  %y = add %scaled, %biases
  %c2 = conv %x, %w {strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], dilations = [1, 1]} "conv2"
  %tapped = mul %c2, %gains
}
// expected
graph main(%x: f32[n, 2, 3, 3]) -> ("y" = %conv1_3, %tapped, %c2) {
  %w = constant @w f32[2, 2, 1, 1]{1, 2, 3, 4}
  %w_2 = constant @w f32[2, 2, 1, 1]{2, 4, 12, 16} "conv1"
  %conv1 = conv %x, %w_2 {dilations = [1, 1], pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]} : f32[n, 2, 3, 3] "conv1"
  %constant = constant f32[2, 1, 1]{0, 6} "conv1"
  %conv1_2 = broadcast %constant {shape = [n, 2, 3, 3]} : f32[n, 2, 3, 3] "conv1"
  %conv1_3 = add %conv1, %conv1_2 : f32[n, 2, 3, 3] "conv1"
  %gain = constant f32[1, 2, 1, 1]{2, 4}
  %gains = broadcast %gain {shape = [n, 2, 3, 3]} : f32[n, 2, 3, 3]
  %c2 = conv %x, %w {dilations = [1, 1], pads_high = [0, 0], pads_low = [0, 0], strides = [1, 1]} : f32[n, 2, 3, 3] "conv2"
  %tapped = mul %c2, %gains : f32[n, 2, 3, 3]
}
