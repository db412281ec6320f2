B
Identity:0J S”=[²¾£o½F*½Ü>¾¦E>